/* hosts.c - several hosts on one machine, for tests.
 *
 *     hosts COUNT COMMAND...       make hosts a, b, c, ..., run the command beside them, end with its exit code
 *     hosts on NAME COMMAND...     from there: run a command on a host
 *     hosts rsh NAME WORDS...      the same as rsh does: a shell on the host reads the words. Options are left out
 *
 * A host has network, mounts, name and IPC of its own: interface eth0 with 10.83.0.1 (a), 10.83.0.2 (b), ... on a
 * bridge that the command sees as "bridge" with 10.83.0.254 and ports host-a, host-b, ...; an /etc/hosts with the names
 * of all; and 64 MiB of /dev/shm, as containers have. Processes have numbers of their own, and all of them end with the
 * command: nothing can be left behind, neither a process nor an interface nor a mount.
 *
 * Needs the rights of root, or a system that lets users make namespaces; where there are neither it says so and ends
 * with 77. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MOST = 26,
    FIRST_HOLDER = 2, /* the holder of host i, a process that keeps it alive, has number 2 + i */
    NO_HOSTS = 77     /* exit code */
};

__attribute__((format(printf, 1, 2))) static _Noreturn void give_up(const char *format, ...)
{
    int error = errno;
    va_list args;
    va_start(args, format);
    fprintf(stderr, "hosts: cannot make hosts: ");
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "%s%s\nBe root, or let users make namespaces, and have iproute2\n", error ? ": " : "",
            error ? strerror(error) : "");
    exit(NO_HOSTS);
}

__attribute__((format(printf, 1, 2))) static void shell(const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    errno = 0;
    if (system(line) != 0) give_up("%s failed", line);
}

/* ---- Namespaces ----------------------------------------------------------------------------------------------- */

static void write_line(const char *path, const char *format, unsigned number)
{
    FILE *file = fopen(path, "w");
    if (!file || fprintf(file, format, number) < 0 || fclose(file) != 0) give_up("%s", path);
}

/* Users are root in a namespace of their own, where that is allowed. */
static void become_root(void)
{
    unsigned user = geteuid(), group = getegid();
    if (user == 0) return;
    if (unshare(CLONE_NEWUSER) != 0) give_up("no user namespace");
    write_line("/proc/self/setgroups", "deny", 0);
    write_line("/proc/self/uid_map", "0 %u 1", user);
    write_line("/proc/self/gid_map", "0 %u 1", group);
}

static void mount_file_system(const char *type, const char *where, const char *options)
{
    if (mount(type, where, type, MS_NOSUID | MS_NODEV, options) != 0) give_up("no %s at %s", type, where);
}

static void write_names(int count)
{
    FILE *file = fopen("/run/hosts", "w");
    if (!file) give_up("/run/hosts");
    fprintf(file, "127.0.0.1 localhost\n::1 localhost\n");
    for (int i = 0; i < count; i++) fprintf(file, "10.83.0.%d %c\n", i + 1, 'a' + i);
    if (fclose(file) != 0 || mount("/run/hosts", "/etc/hosts", NULL, MS_BIND, NULL) != 0) give_up("/etc/hosts");
}

/* UCX looks for interfaces in /sys/class/net, which shows those of whoever mounted it. Control groups stay as they
 * were. A system that does not allow it has to have an interface of the same name. */
static void show_interfaces(void)
{
    char groups[32];
    snprintf(groups, sizeof groups, "/proc/self/fd/%d", open("/sys/fs/cgroup", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0) return;
    (void)mount(groups, "/sys/fs/cgroup", NULL, MS_BIND | MS_REC, NULL);
}

/* The life of a holder. */
static _Noreturn void hold(int host, int count, const int go[2], int ready)
{
    char name = (char)('a' + host), done = 1;
    close(go[1]);
    if (read(go[0], &done, 1) != 0) exit(1); /* until all holders have their numbers */
    if (unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC) != 0) give_up("no namespaces for a host");
    if (sethostname(&name, 1) != 0) give_up("no name");
    mount_file_system("tmpfs", "/dev/shm", "size=64m,mode=1777");
    mount_file_system("tmpfs", "/run", "size=16m,mode=755");
    write_names(count);
    show_interfaces();
    shell("ip link set lo up");
    if (write(ready, &done, 1) != 1) give_up("no answer");
    for (;;) pause();
}

static void connect_host(int host)
{
    int holder = FIRST_HOLDER + host;
    char name = (char)('a' + host);
    shell("ip link add host-%c type veth peer name eth0 netns /proc/%d/ns/net && ip link set host-%c master bridge up",
          name, holder, name);
    shell("nsenter -t %d -n sh -c 'ip addr add 10.83.0.%d/24 dev eth0 && ip link set eth0 up'", holder, host + 1);
}

static void make_hosts(int count)
{
    int go[2], ready[2];
    char done;
    if (pipe(go) != 0 || pipe(ready) != 0) give_up("no pipe");
    for (int i = 0; i < count; i++) {
        pid_t pid = fork();
        if (pid == 0) hold(i, count, go, ready[1]);
        if (pid != FIRST_HOLDER + i) give_up("no process");
    }
    close(go[0]);
    close(go[1]);
    close(ready[1]);
    shell("ip link set lo up && ip link add bridge type bridge && ip addr add 10.83.0.254/24 dev bridge && "
          "ip link set bridge up");
    for (int i = 0; i < count; i++)
        if (read(ready[0], &done, 1) != 1) exit(NO_HOSTS); /* a holder has said why */
    close(ready[0]);
    for (int i = 0; i < count; i++) connect_host(i);
}

/* ---- Commands ------------------------------------------------------------------------------------------------- */

/* This process is the first of its namespace: all others end with it. */
static _Noreturn void begin(int count, char **command)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) give_up("no mounts of our own");
    mount_file_system("proc", "/proc", NULL);
    make_hosts(count);
    mount_file_system("tmpfs", "/run", "size=16m,mode=755");
    write_names(count);
    pid_t main_pid = fork();
    if (main_pid == 0) {
        execvp(command[0], command);
        perror(command[0]);
        _exit(127);
    }
    for (int status;;) {
        pid_t ended = wait(&status);
        if (ended == main_pid) _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
        if (ended < 0 && errno != EINTR) _exit(1);
    }
}

static int make(int count, char **command)
{
    become_root();
    if (unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC) != 0) give_up("no namespaces");
    int status;
    pid_t first = fork();
    if (first == 0) begin(count, command);
    while (waitpid(first, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void enter(const char *name)
{
    static const char *const kinds[] = {"ipc", "uts", "net", "mnt"}; /* the last changes what /proc is */
    char folder[4096];
    if (!getcwd(folder, sizeof folder)) strcpy(folder, "/");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/ns/%s", FIRST_HOLDER + name[0] - 'a', kinds[i]);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file < 0 || setns(file, 0) != 0) {
            fprintf(stderr, "hosts: no way to host %s: %s\n", name, strerror(errno));
            exit(255);
        }
        close(file);
    }
    if (chdir(folder) != 0) perror(folder);
}

static void run_words(char **words)
{
    static char line[1 << 17];
    size_t used = 0;
    for (; *words && used < sizeof line; words++)
        used += (size_t)snprintf(line + used, sizeof line - used, "%s ", *words);
    if (used < sizeof line) execl("/bin/sh", "sh", "-c", line, (char *)NULL);
}

int main(int argc, char **argv)
{
    if (argc > 2 && atoi(argv[1]) > 0 && atoi(argv[1]) <= MOST) return make(atoi(argv[1]), argv + 2);
    bool shell_reads = argc > 1 && strcmp(argv[1], "rsh") == 0;
    char **name = argv + 2;
    while (shell_reads && argc > 2 && *name && **name == '-') name++;
    if (argc < 4 || (!shell_reads && strcmp(argv[1], "on") != 0) || !*name || strlen(*name) != 1 || !name[1]) {
        fprintf(stderr, "usage: hosts COUNT COMMAND... | hosts on NAME COMMAND... | hosts rsh NAME WORDS...\n");
        return 255;
    }
    enter(*name);
    if (shell_reads) run_words(name + 1);
    else execvp(name[1], name + 1);
    perror(name[1]);
    return 127;
}
