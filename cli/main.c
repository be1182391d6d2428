/* main.c - the command `lockstep`: a table of subcommands over the public API. */
#include <lockstep/env.h>
#include <lockstep/version.h>

#include <stdio.h>
#include <string.h>

typedef struct subcommand {
    const char *name, *summary;
    int (*run)(int argc, char **argv); /* argv[0] is the subcommand; returns the exit status */
} subcommand;

static int help(int argc, char **argv);

static int version(int argc, char **argv)
{
    (void)argc, (void)argv;
    printf("lockstep %s\n", ls_version());
    return 0;
}

static int env(int argc, char **argv)
{
    bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc > 1 && !json) {
        fprintf(stderr, "lockstep env: no option \"%s\"; there is --json\n", argv[argc - 1]);
        return 2;
    }
    ls_env_print(stdout, json);
    return 0;
}

static const subcommand subcommands[] = {
    {"env", "this machine, the settings in force, the kernels chosen (--json)", env},
    {"version", "the version of the library in use", version},
    {"help", "this list", help},
};

static const size_t subcommand_count = sizeof subcommands / sizeof *subcommands;

static int help(int argc, char **argv)
{
    (void)argc, (void)argv;
    puts("usage: lockstep <command> [options]\n");
    for (size_t i = 0; i < subcommand_count; i++) printf("  %-10s %s\n", subcommands[i].name, subcommands[i].summary);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0) return help(0, NULL);
    const char *wanted = strcmp(argv[1], "--version") == 0 ? "version" : argv[1];
    for (size_t i = 0; i < subcommand_count; i++) {
        if (strcmp(subcommands[i].name, wanted) == 0) return subcommands[i].run(argc - 1, argv + 1);
    }
    fprintf(stderr, "lockstep: no command \"%s\"; lockstep help lists them\n", argv[1]);
    return 2;
}
