/* main.c - the `lockstep` command: a table of commands on top of the public API, help, and suggestions for typos. */
#include <stdio.h>
#include <string.h>

#include "options.h"
#include "page.h"

const command *const commands[] = {
    &command_launch,   &command_config,     &command_test,    &command_env,     &command_inspect,
    &command_tokenize, &command_watch,      &command_plot,    &command_profile, &command_compile,
    &command_kernel,   &command_completion, &command_version, &command_help,    NULL,
};

enum { MOST_COMMANDS = 32, LONGEST_WORD = 32 };

static const command *find(const char *name)
{
    for (size_t i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}

static int no_such_command(const char *name)
{
    const char *names[MOST_COMMANDS];
    size_t count = 0;
    while (commands[count] && count < MOST_COMMANDS) {
        names[count] = commands[count]->name;
        count++;
    }
    const char *meant = nearest(name, names, count);
    fprintf(stderr, "lockstep: unknown command \"%s\"; ", name);
    if (meant) fprintf(stderr, "did you mean \"%s\"?\n", meant);
    else fputs("lockstep help lists them\n", stderr);
    return EXIT_USAGE;
}

int no_such_option(const command *of, const char *option)
{
    fprintf(stderr, "lockstep %s: unknown option \"%s\"; see lockstep help %s\n", of->name, option, of->name);
    return EXIT_USAGE;
}

/* Edit distance: letters to insert, delete, replace or swap with their neighbour. */
static size_t distance(const char *a, const char *b)
{
    size_t cost[LONGEST_WORD + 1][LONGEST_WORD + 1], rows = strlen(a), columns = strlen(b);
    if (rows > LONGEST_WORD || columns > LONGEST_WORD) return LONGEST_WORD;
    for (size_t i = 0; i <= rows; i++) {
        for (size_t j = 0; j <= columns; j++) {
            size_t least = i + j;
            if (i > 0 && j > 0) {
                least = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
                if (cost[i - 1][j] + 1 < least) least = cost[i - 1][j] + 1;
                if (cost[i][j - 1] + 1 < least) least = cost[i][j - 1] + 1;
                bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                if (swapped && cost[i - 2][j - 2] + 1 < least) least = cost[i - 2][j - 2] + 1;
            }
            cost[i][j] = least;
        }
    }
    return cost[rows][columns];
}

const char *nearest(const char *wanted, const char *const *names, size_t count)
{
    const char *best = NULL;
    size_t least = strlen(wanted) / 3 + 1; /* one letter in three may be wrong */
    for (size_t i = 0; i < count; i++) {
        size_t d = distance(wanted, names[i]);
        if (d > least || (best && d == least)) continue;
        least = d;
        best = names[i];
    }
    return best;
}

/* ---- help ---- */

void write_page(const command *about, FILE *to)
{
    fputs(about->usage, to);
    if (about->more) about->more(to);
}

static int help(int argc, char **argv)
{
    bool manual = false;
    const option_row rows[] = {{.name = "--man", .on = &manual}};
    int count = argc ? options_read(&command_help, argc, argv, rows, 1) : 0;
    if (count < 0) return EXIT_USAGE;
    const command *about = count ? find(argv[1]) : NULL;
    if (count && !about) return no_such_command(argv[1]);
    if (manual) return print_manual(about);
    if (about) return write_page(about, stdout), 0;
    puts("usage: lockstep <command> [options]\n");
    for (size_t i = 0; commands[i]; i++) printf("  %-10s %s\n", commands[i]->name, commands[i]->summary);
    puts("\nRun lockstep help <command> for details.");
    return 0;
}

const command command_help = {
    .name = "help",
    .summary = "list the commands, or describe one",
    .usage = "usage: lockstep help [--man] [command]\n"
             "\n"
             "Lists the commands, or describes one.\n"
             "\n"
             "  --man    as a manual page: lockstep help --man launch | man -l -\n",
    .run = help,
};

static int run_command(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) return help(0, NULL);
    const command *wanted = find(strcmp(argv[1], "--version") == 0 ? "version" : argv[1]);
    if (!wanted) return no_such_command(argv[1]);
    if (argc > 2 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0))
        return write_page(wanted, stdout), 0;
    return wanted->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    int code = run_command(argc, argv);
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    fputs("lockstep: standard output cannot be written; is the disk full?\n", stderr);
    return code ? code : 1;
}
