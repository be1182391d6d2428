/* launch_options.c - reading the command line of `lockstep launch` by its table. */
#include "launch_options.h"

#include "command.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef enum kind { COUNT, NUMBER, TEXT, SWITCH, CHOICE, IDLE, REFUSED } kind;

static const struct row {
    const char *name;
    char letter;
    kind kind;
    const char *argument, *pet, *variable, *help;
} rows[OPTION_COUNT] = {
#define OPTION(symbol, name, letter, kind, argument, pet, variable, help)                                              \
    [OPTION_##symbol] = {"--" name, letter, kind, argument, pet, variable, help},
#include "launch_options.def"
#undef OPTION
};

const char *option_name(option which)
{
    return rows[which].name;
}

/* ---- Names ---------------------------------------------------------------------------------------------------- */

/* Dash and underscore are the same; the name ends where `length` says. */
static bool same_name(const char *name, const char *given, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (name[i] == '*') return true;
        char a = name[i] == '_' ? '-' : name[i], b = given[i] == '_' ? '-' : given[i];
        if (a != b) return false;
    }
    return name[length] == '\0' || name[length] == '*';
}

static option find_long(const char *given, size_t length)
{
    option which = 0;
    while (which < OPTION_COUNT && !same_name(rows[which].name, given, length)) which++;
    return which;
}

static option find_letter(char letter)
{
    option which = 0;
    while (which < OPTION_COUNT && rows[which].letter != letter) which++;
    return which;
}

static void complain_unknown(const char *given, size_t length, char *why, size_t size)
{
    const char *names[OPTION_COUNT];
    size_t count = 0;
    for (option i = 0; i < OPTION_COUNT; i++)
        if (rows[i].kind != REFUSED) names[count++] = rows[i].name;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)length, given);
    const char *meant = nearest(name, names, count);
    snprintf(why, size, "no option \"%s\"; %s%s%s", name, meant ? "did you mean \"" : "see lockstep help launch",
             meant ? meant : "", meant ? "\"?" : "");
}

/* ---- Values --------------------------------------------------------------------------------------------------- */

static bool is_count(const char *text)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    return end != text && *end == '\0' && errno == 0 && value >= 0 && value <= INT_MAX;
}

static bool is_number(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    return end != text && *end == '\0' && value >= 0 && value < 1e15;
}

static bool is_choice(const char *words, const char *text)
{
    size_t length = strlen(text);
    for (const char *word = words; word; word = strchr(word, '|'), word = word ? word + 1 : NULL)
        if (strcspn(word, "|") == length && strncasecmp(word, text, length) == 0) return true;
    return false;
}

/* `source` names where the value comes from: the option, or a variable. */
static bool accept(launch_options *to, option which, const char *source, const char *value, char *why, size_t size)
{
    const struct row *row = &rows[which];
    const char *wanted = NULL;
    if (row->kind == COUNT && !is_count(value)) wanted = "a whole number, not negative";
    if (row->kind == NUMBER && !is_number(value)) wanted = "a number, not negative";
    if (row->kind == CHOICE && !is_choice(row->argument, value)) wanted = row->argument;
    if (wanted) snprintf(why, size, "%s %s: must be %s", source, value, wanted);
    else to->value[which] = value;
    return !wanted;
}

/* torchrun reads bool(int(text)); an operator writes the empty text where it means yes. */
static bool means_yes(const char *text)
{
    return !*text || (strcmp(text, "0") != 0 && strcasecmp(text, "false") != 0);
}

static bool read_variables(launch_options *to, const char *const *environment, char *why, size_t size)
{
    for (; environment && *environment; environment++) {
        size_t length = strcspn(*environment, "=");
        const char *value = *environment + length + ((*environment)[length] == '=');
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)length, *environment);
        if (strncmp(name, "PET_", 4) != 0) continue;
        for (option i = 0; i < OPTION_COUNT; i++) {
            if (strcmp(rows[i].pet, name) != 0 || to->value[i]) continue;
            if (rows[i].kind == SWITCH) to->value[i] = means_yes(value) ? "1" : NULL;
            else if (*value && rows[i].kind == REFUSED) {
                snprintf(why, size, "%s=%s cannot be used: %s", name, value, rows[i].help);
                return false;
            } else if (*value && !accept(to, i, name, value, why, size)) return false;
        }
    }
    return true;
}

/* ---- The command line ----------------------------------------------------------------------------------------- */

/* One option at argv[*at]; moves past it and its value. */
static bool read_flag(launch_options *to, char **argv, int *at, char *why, size_t size)
{
    char *given = argv[(*at)++], *value = NULL;
    size_t length = strcspn(given, "=");
    option which;
    if (given[1] == '-') {
        which = find_long(given, length);
        if (given[length]) value = given + length + 1;
    } else {
        which = find_letter(given[1]);
        if (given[2]) value = given + 2 + (given[2] == '=');
    }
    if (which == OPTION_COUNT) {
        complain_unknown(given, length, why, size);
        return false;
    }
    const struct row *row = &rows[which];
    if (row->kind == REFUSED) {
        snprintf(why, size, "%.*s cannot be used: %s", (int)length, given, row->help);
        return false;
    }
    bool takes_value = row->argument[0];
    if (!takes_value && value) {
        snprintf(why, size, "%s takes no value", row->name);
        return false;
    }
    if (!takes_value) value = "1";
    if (!value) value = argv[*at] ? argv[(*at)++] : NULL;
    if (!value) {
        snprintf(why, size, "%s needs a value: %s", row->name, row->argument);
        return false;
    }
    if (row->kind == IDLE) fprintf(stderr, "lockstep launch: %s has no effect: %s\n", row->name, row->help);
    return accept(to, which, row->name, value, why, size);
}

bool launch_options_read(launch_options *to, int argc, char **argv, const char *const *environment, char *why,
                         size_t size)
{
    memset(to, 0, sizeof *to);
    int at = 1;
    while (at < argc && argv[at][0] == '-' && argv[at][1]) {
        if (strcmp(argv[at], "--") == 0) {
            at++;
            break;
        }
        if (!read_flag(to, argv, &at, why, size)) return false;
    }
    if (at < argc) to->program = argv + at;
    return read_variables(to, environment, why, size);
}

int option_count(const launch_options *options, option which, int fallback)
{
    return options->value[which] ? atoi(options->value[which]) : fallback;
}

double option_number(const launch_options *options, option which, double fallback)
{
    return options->value[which] ? strtod(options->value[which], NULL) : fallback;
}

option given_of(const launch_options *options, option one, option other)
{
    return options->value[other] ? other : one;
}

bool option_variable(const launch_options *options, option which, char *text, size_t size)
{
    const char *variable = rows[which].variable, *value = options->value[which];
    if (!*variable || !value) return false;
    bool complete = strchr(variable, '=') != NULL;
    snprintf(text, size, "%s%s%s", variable, complete ? "" : "=", complete ? "" : value);
    return true;
}

void launch_options_list(FILE *to)
{
    for (option i = 0; i < OPTION_COUNT; i++) {
        if (rows[i].kind == REFUSED || rows[i].kind == IDLE) continue;
        char left[80];
        snprintf(left, sizeof left, "%s %s", rows[i].name, rows[i].argument);
        if (rows[i].letter) snprintf(left, sizeof left, "-%c, %s %s", rows[i].letter, rows[i].name, rows[i].argument);
        fprintf(to, "  %-38s %s\n", left, rows[i].help);
    }
}
