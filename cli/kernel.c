/* kernel.c - lockstep kernel: make Jupyter know the kernel "C (Lockstep)". */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "options.h"

enum { LONGEST_PATH = 4096 };

/* lockstep-kernel is beside this program. */
static bool find_program(char path[LONGEST_PATH])
{
    static const char name[] = "lockstep-kernel";
    ssize_t length = readlink("/proc/self/exe", path, LONGEST_PATH - sizeof name);
    if (length <= 0) return false;
    path[length] = '\0';
    strcpy(strrchr(path, '/') + 1, name);
    return access(path, X_OK) == 0;
}

/* Jupyter's folder for data: of the user, or below a prefix. */
static bool find_folder(const char *prefix, char path[LONGEST_PATH])
{
    const char *jupyter = getenv("JUPYTER_DATA_DIR"), *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int length = -1;
    if (prefix) length = snprintf(path, LONGEST_PATH, "%s/share/jupyter", prefix);
    else if (jupyter && *jupyter) length = snprintf(path, LONGEST_PATH, "%s", jupyter);
    else if (data && *data) length = snprintf(path, LONGEST_PATH, "%s/jupyter", data);
    else if (home && *home) length = snprintf(path, LONGEST_PATH, "%s/.local/share/jupyter", home);
    if (length < 0 || length > LONGEST_PATH - 64) return false;
    strcat(path, "/kernels/lockstep");
    return true;
}

static bool make_folders(const char *path)
{
    char part[LONGEST_PATH];
    for (size_t i = 1; i <= strlen(path); i++) {
        if (path[i] != '/' && path[i] != '\0') continue;
        snprintf(part, sizeof part, "%.*s", (int)i, path);
        if (mkdir(part, 0777) < 0 && errno != EEXIST) return false;
    }
    return true;
}

/* A path as a string of JSON. */
static void put_path(const char *path, FILE *to)
{
    fputc('"', to);
    for (; *path; path++) {
        if (*path == '"' || *path == '\\') fputc('\\', to);
        fputc(*path, to);
    }
    fputc('"', to);
}

static int write_file(const char *folder, const char *program)
{
    char path[LONGEST_PATH + 16];
    snprintf(path, sizeof path, "%s/kernel.json", folder);
    FILE *file = make_folders(folder) ? fopen(path, "w") : NULL;
    if (file) {
        fputs("{\n  \"argv\": [", file);
        put_path(program, file);
        fputs(", \"{connection_file}\"],\n"
              "  \"display_name\": \"C (Lockstep)\",\n"
              "  \"language\": \"c\",\n"
              "  \"interrupt_mode\": \"message\"\n}\n",
              file);
    }
    if (!file || fclose(file) != 0) {
        fprintf(stderr, "lockstep kernel: %s: %s\n", path, strerror(errno));
        return 1;
    }
    printf("%s\nChoose \"C (Lockstep)\" in Jupyter.\n", path);
    return 0;
}

static int run_kernel(int argc, char **argv)
{
    const char *prefix = NULL;
    bool user = false;
    const option_row rows[] = {{.name = "--user", .on = &user}, {.name = "--prefix", .text = &prefix}};
    int words = options_read(&command_kernel, argc, argv, rows, (int)(sizeof rows / sizeof *rows));
    if (words < 0) return EXIT_USAGE;
    if (words != 1 || strcmp(argv[1], "install") != 0 || (user && prefix)) {
        fputs("lockstep kernel: say \"lockstep kernel install\", with --user or --prefix DIR\n", stderr);
        return EXIT_USAGE;
    }
    char program[LONGEST_PATH], folder[LONGEST_PATH];
    if (!find_program(program)) {
        fputs("lockstep kernel: lockstep-kernel is not beside this program: Lockstep was built without ZeroMQ "
              "(Debian: libzmq3-dev)\n",
              stderr);
        return 1;
    }
    if (!find_folder(prefix, folder)) {
        fputs("lockstep kernel: your home folder is unknown: set HOME, or give --prefix DIR\n", stderr);
        return 1;
    }
    return write_file(folder, program);
}

const command command_kernel = {
    .name = "kernel",
    .summary = "run C in Jupyter notebooks",
    .usage = "usage: lockstep kernel install [--user | --prefix DIR]\n"
             "\n"
             "Makes Jupyter know the kernel \"C (Lockstep)\": writes share/jupyter/kernels/lockstep/kernel.json.\n"
             "\n"
             "  --user           for you alone, in your home folder (the default)\n"
             "  --prefix DIR     below DIR: /usr/local, or the folder of a Python environment\n",
    .run = run_kernel,
};
