/* options.c - parse the options of a command by a table. */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool same_name(const char *name, const char *given, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (name[i] != given[i] && (name[i] != '_' || given[i] != '-')) return false;
    return name[length] == '\0';
}

static const option_row *find(const option_row *rows, int count, const char *given, size_t length)
{
    for (int i = 0; i < count; i++)
        if (same_name(rows[i].name, given, length)) return &rows[i];
    return NULL;
}

static bool set(const command *of, const option_row *row, const char *value)
{
    if (row->text && value && *value) return *row->text = value, true;
    char *end = NULL;
    double number = value ? strtod(value, &end) : 0;
    bool is_number = row->number && end != value && !*end;
    if (is_number) *row->number = number;
    else fprintf(stderr, "lockstep %s: %s needs a %s\n", of->name, row->name, row->number ? "number" : "value");
    return is_number;
}

int options_read(const command *of, int argc, char **argv, const option_row *rows, int count)
{
    int left = 0;
    for (int i = 1; i < argc; i++) {
        size_t length = strcspn(argv[i], "=");
        const option_row *row = find(rows, count, argv[i], length);
        bool joined = argv[i][length] == '=';
        if (argv[i][0] != '-') argv[++left] = argv[i];
        else if (!row || (row->on && joined)) return no_such_option(of, argv[i]), -1;
        else if (row->on) *row->on = true;
        else if (!set(of, row, joined ? argv[i] + length + 1 : ++i < argc ? argv[i] : NULL)) return -1;
    }
    return left;
}

int options_read_before_program(const command *of, int argc, char **argv, const option_row *rows, int count)
{
    int end = 1; /* of the command's own options */
    while (end < argc && argv[end][0] == '-' && strcmp(argv[end], "--") != 0) {
        size_t length = strcspn(argv[end], "=");
        const option_row *row = find(rows, count, argv[end], length);
        end += row && !row->on && !argv[end][length] ? 2 : 1;
    }
    if (end > argc) end = argc;
    if (options_read(of, end, argv, rows, count) != 0) return -1;
    if (end < argc && strcmp(argv[end], "--") == 0) end++;
    if (end < argc) return end;
    fprintf(stderr, "lockstep %s: give a program; see lockstep help %s\n", of->name, of->name);
    return -1;
}
