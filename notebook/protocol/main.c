/* main.c - lockstep-kernel: the kernel "C (Lockstep)" of Jupyter. Jupyter starts it, by the file that `lockstep kernel
 * install` writes.
 *
 * Two processes: this one speaks with Jupyter and compiles; lockstep-session holds the values. A cell that crashes ends
 * the second only. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "kernel.h"

/* The installation that this program belongs to: the folder above bin/, or, in a build, the program's own. */
static bool find_files(kernel *k, ls_message *why)
{
    char path[512];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0) {
        ls_message_set(why, "/proc/self/exe cannot be read");
        return false;
    }
    path[length] = '\0';
    *strrchr(path, '/') = '\0';
    char *folder = strrchr(path, '/');
    if (folder && strcmp(folder, "/bin") == 0) *folder = '\0';
    snprintf(k->session_program, sizeof k->session_program, "%s/" LOCKSTEP_LIBDIR "/lockstep/lockstep-session", path);
    snprintf(k->include, sizeof k->include, "%s/include", path);
    return true;
}

static bool begin(kernel *k, const char *connection_file, ls_message *why)
{
    return find_files(k, why) && channels_open(&k->channels, connection_file, why) &&
           compiler_open(&k->compiler, k->include, why) && link_start(&k->link, k->session_program, why);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("usage: lockstep-kernel CONNECTION_FILE\n"
              "Jupyter starts it: run \"lockstep kernel install --user\", and choose \"C (Lockstep)\" in Jupyter.\n",
              stderr);
        return 2;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* a session that was copied comes to this process when the copy ends */
    signal(SIGINT, SIG_IGN);          /* Jupyter interrupts by message; a terminal would reach this process, too */
    signal(SIGPIPE, SIG_IGN);
    static kernel k;
    ls_message why;
    if (!begin(&k, argv[1], &why)) {
        fprintf(stderr, "lockstep-kernel: %s\n", why.text);
        return 1;
    }
    int code = kernel_serve(&k);
    link_end(&k.link);
    compiler_close(&k.compiler);
    channels_close(&k.channels);
    return code;
}
