/* launch_options.c - parse the command line of `lockstep launch` by its table. */
#include "launch_options.h"

#include "command.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef enum kind { COUNT, POSITIVE, NUMBER, TEXT, SWITCH, CHOICE, IDLE, REFUSED } kind;

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

/* Dash and underscore are equivalent; the name has `length` characters. */
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

static void report_unknown(const char *given, size_t length, char *why, size_t size)
{
    const char *names[OPTION_COUNT];
    size_t count = 0;
    for (option i = 0; i < OPTION_COUNT; i++)
        if (rows[i].kind != REFUSED) names[count++] = rows[i].name;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)length, given);
    const char *meant = nearest(name, names, count);
    snprintf(why, size, "unknown option \"%s\"; %s%s%s", name, meant ? "did you mean \"" : "see lockstep help launch",
             meant ? meant : "", meant ? "\"?" : "");
}

/* ---- Values --------------------------------------------------------------------------------------------------- */

bool is_count(const char *text)
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

/* `source`: where the value comes from, an option or a variable. */
static bool accept(launch_options *to, option which, const char *source, const char *value, char *why, size_t size)
{
    const struct row *row = &rows[which];
    const char *wanted = NULL;
    if (row->kind == COUNT && !is_count(value)) wanted = "a whole number, not negative";
    if (row->kind == POSITIVE && (!is_count(value) || atoi(value) < 1)) wanted = "a whole number, at least 1";
    if (row->kind == NUMBER && !is_number(value)) wanted = "a number, not negative";
    if (row->kind == CHOICE && !is_choice(row->argument, value)) wanted = row->argument;
    if (wanted) snprintf(why, size, "%s %s: must be %s", source, value, wanted);
    else to->value[which] = value;
    return !wanted;
}

/* torchrun parses bool(int(text)); a Kubernetes operator writes an empty text for yes. */
static bool means_yes(const char *text)
{
    return !*text || (strcmp(text, "0") != 0 && strcasecmp(text, "false") != 0);
}

/* Two of torchrun's variables have a second name. */
static bool is_variable_of(option which, const char *name)
{
    if (which == OPTION_PREFIX_TEMPLATE && strcmp(name, "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE") == 0) return true;
    if (which == OPTION_SHUTDOWN_TIMEOUT && strcmp(name, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT") == 0) return true;
    return *name && strcmp(rows[which].pet, name) == 0;
}

static void warn_no_effect(const char *source, option which)
{
    fprintf(stderr, "lockstep launch: %s has no effect: %s\n", source, rows[which].help);
}

static bool read_variables(launch_options *to, const char *const *environment, char *why, size_t size)
{
    for (; environment && *environment; environment++) {
        size_t length = strcspn(*environment, "=");
        const char *value = *environment + length + ((*environment)[length] == '=');
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)length, *environment);
        for (option i = 0; i < OPTION_COUNT; i++) {
            if (!is_variable_of(i, name) || to->value[i]) continue;
            if (rows[i].kind == IDLE && *value && (rows[i].argument[0] || means_yes(value))) warn_no_effect(name, i);
            if (rows[i].kind == SWITCH) to->value[i] = means_yes(value) ? "1" : NULL;
            else if (rows[i].kind == REFUSED && *value && (rows[i].argument[0] || means_yes(value))) {
                snprintf(why, size, "%s=%s cannot be used: %s", name, value, rows[i].help);
                return false;
            } else if (rows[i].kind != REFUSED && *value && !accept(to, i, name, value, why, size)) return false;
        }
    }
    return true;
}

/* ---- The command line ----------------------------------------------------------------------------------------- */

/* Parse one option at argv[*at]; moves past it and its value. */
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
        report_unknown(given, length, why, size);
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
    if (row->kind == IDLE) warn_no_effect(row->name, which);
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

/* ---- The configuration file ----------------------------------------------------------------------------------- */

/* Options that decide the same: a file's value of the first is used only if none of them is given. */
static const option same_as[][2] = {
    {OPTION_NUM_PROCESSES, OPTION_NPROC_PER_NODE},
    {OPTION_NUM_MACHINES, OPTION_NNODES},
    {OPTION_MACHINE_RANK, OPTION_NODE_RANK},
    {OPTION_MAIN_PROCESS_IP, OPTION_MASTER_ADDR},
    {OPTION_MAIN_PROCESS_IP, OPTION_RDZV_ENDPOINT},
    {OPTION_MAIN_PROCESS_PORT, OPTION_MASTER_PORT},
    {OPTION_MAIN_PROCESS_PORT, OPTION_RDZV_ENDPOINT},
    {OPTION_NUM_PROCESSES, OPTION_HOSTFILE},
    {OPTION_NUM_MACHINES, OPTION_HOSTFILE},
    {OPTION_MACHINE_RANK, OPTION_HOSTFILE},
    {OPTION_NUM_PROCESSES, OPTION_NNODES},
    {OPTION_CPU, OPTION_MULTI_GPU},
    {OPTION_CPU, OPTION_GPU_IDS},
    {OPTION_CPU, OPTION_TPU},
};

static option open_option(const launch_options *options, const char *key)
{
    char name[64];
    snprintf(name, sizeof name, "--%s", strcmp(key, "use_cpu") == 0 ? "cpu" : key);
    option which = find_long(name, strlen(name));
    if (which == OPTION_COUNT || options->value[which] || rows[which].kind == IDLE) return OPTION_COUNT;
    for (size_t i = 0; i < sizeof same_as / sizeof *same_as; i++) {
        option other = same_as[i][1];
        if (same_as[i][0] == which && options->value[other] && !options->from_file[other]) return OPTION_COUNT;
    }
    return which;
}

static void take(launch_options *to, option which, const char *text)
{
    to->value[which] = text;
    to->from_file[which] = true;
}

static void take_text(launch_options *to, const char *key, const char *text)
{
    option which = open_option(to, key);
    if (which != OPTION_COUNT && *text) take(to, which, text);
}

static void take_count(launch_options *to, const char *key, int number)
{
    option which = open_option(to, key);
    if (which == OPTION_COUNT || !number) return;
    snprintf(to->numbers[which], sizeof to->numbers[which], "%d", number);
    take(to, which, to->numbers[which]);
}

static void take_switch(launch_options *to, const char *key, bool on)
{
    option which = open_option(to, key);
    if (which != OPTION_COUNT && on) take(to, which, "1");
}

bool launch_options_configure(launch_options *options, char *why, size_t size)
{
    char found[4096];
    const char *path = options->value[OPTION_CONFIG_FILE];
    bool foreign = false;
    if (!path && ls_launch_config_find(found, sizeof found, &foreign)) path = found;
    if (!path) return true;
    bool usable = ls_launch_config_read(path, &options->config, why, size) == LS_OK;
    if (foreign && !usable) { /* the user did not ask for it */
        fprintf(stderr, "lockstep launch: accelerate's file is not used: %s\n", why);
        return true;
    }
    if (!usable) return false;
    if (foreign) {
        fprintf(stderr, "lockstep launch: using defaults from accelerate's %s; lockstep config creates its own file\n",
                path);
    }
    const ls_launch_config *config = &options->config;
    if (*config->ineffective)
        fprintf(stderr, "lockstep launch: %s: these keys have no effect here: %s\n", path, config->ineffective);
#define TAKE_TEXT(key, fallback) take_text(options, #key, config->key);
#define TAKE_COUNT(key, fallback) take_count(options, #key, config->key);
#define TAKE_SWITCH(key, fallback) take_switch(options, #key, config->key);
    LS_LAUNCH_CONFIG_LIST(TAKE_TEXT, TAKE_COUNT, TAKE_SWITCH)
    return true;
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
    /* Choices are case-insensitive, but programs expect lower case. */
    for (char *c = text + strlen(variable); rows[which].kind == CHOICE && *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return true;
}

static void list(FILE *to, bool idle)
{
    for (option i = 0; i < OPTION_COUNT; i++) {
        if (rows[i].kind == REFUSED || (rows[i].kind == IDLE) != idle) continue;
        char left[80];
        snprintf(left, sizeof left, "%s %s", rows[i].name, rows[i].argument);
        if (rows[i].letter) snprintf(left, sizeof left, "-%c, %s %s", rows[i].letter, rows[i].name, rows[i].argument);
        fprintf(to, "  %-38s %s\n", left, rows[i].help);
    }
}

void launch_options_list(FILE *to)
{
    list(to, false);
    fputs("\nAccepted without effect:\n\n", to);
    list(to, true);
}
