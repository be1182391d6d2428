/* flags.c - parse a command line with a table of flags. */
#include "run/flags.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"
#include "base/nearest.h"
#include "base/opts.h"
#include "tensor/context.h"

typedef struct reader {
    ls_run *run;
    const ls_flag *flags;
    int count;
    bool keeps_unknown; /* unknown flags stay in argv */
    int argc;
    char **argv;
    int next; /* argument to read */
    int kept; /* arguments kept at the front of argv */
} reader;

/* ---- names ---- */

static char folded(char c)
{
    return c == '-' ? '_' : c;
}

/* Do `length` characters of a text spell this name, with dashes or underscores? */
static bool spells(const char *text, size_t length, const char *name)
{
    if (strlen(name) != length) return false;
    for (size_t i = 0; i < length; i++)
        if (folded(text[i]) != name[i]) return false;
    return true;
}

/* The matching flag; *negated for --no-name of a switch. */
static const ls_flag *find(const reader *r, const char *text, size_t length, bool *negated)
{
    for (int i = 0; i < r->count; i++) {
        const ls_flag *flag = &r->flags[i];
        *negated = flag->type == LS_FLAG_SWITCH && length > 3 && spells(text, 3, "no_") &&
                   spells(text + 3, length - 3, flag->name);
        if (*negated || spells(text, length, flag->name)) return flag;
    }
    return NULL;
}

static void fail_unknown(const reader *r, const char *text, size_t length)
{
    ls_nearest nearest = ls_nearest_to(text, length);
    for (int i = 0; i < r->count; i++) ls_nearest_try(&nearest, r->flags[i].name);
    ls_fail(&r->run->errors, LS_ERR_VALUE,
            nearest.name ? "unknown flag --%.*s; did you mean --%s?" : "unknown flag --%.*s; see --help", (int)length,
            text, nearest.name);
}

/* ---- values ---- */

static bool is_choice(const char *choices, const char *text)
{
    size_t length = strlen(text);
    for (const char *at = choices; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (strcspn(at, "|") == length && strncmp(at, text, length) == 0) return true;
    return false;
}

static const char *const wanted[] = {
    [LS_FLAG_TEXT] = "a text",
    [LS_FLAG_INT] = "a whole number",
    [LS_FLAG_INT64] = "a whole number",
    [LS_FLAG_UINT64] = "a whole number from 0",
    [LS_FLAG_NUMBER] = "a number",
    [LS_FLAG_SWITCH] = "yes or no",
    [LS_FLAG_NAMES] = "one or more names",
};

static bool parse_switch(const char *text, bool *to)
{
    static const char *const words[] = {"0", "1", "no", "yes", "off", "on", "false", "true"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i]) == 0) return *to = i % 2, true;
    return false;
}

/* Only these words are a switch's value in an argument of its own: others may be arguments without a flag. */
static bool is_true_or_false(const char *text)
{
    return strcasecmp(text, "true") == 0 || strcasecmp(text, "false") == 0;
}

static bool parse(const ls_flag *flag, const char *text)
{
    char *end = NULL;
    errno = 0;
    switch (flag->type) {
    case LS_FLAG_TEXT:
        if (flag->choices && !is_choice(flag->choices, text)) return false;
        *(const char **)flag->to = text;
        return true;
    case LS_FLAG_SWITCH: return parse_switch(text, flag->to);
    case LS_FLAG_NUMBER: {
        double value = strtod(text, &end);
        if (end == text || *end || errno || isnan(value)) return false;
        return *(double *)flag->to = value, true;
    }
    case LS_FLAG_UINT64: {
        unsigned long long value = strtoull(text, &end, 10);
        if (!isdigit((unsigned char)*text) || *end || errno) return false;
        return *(uint64_t *)flag->to = value, true;
    }
    case LS_FLAG_INT:
    case LS_FLAG_INT64: {
        long long value = strtoll(text, &end, 10);
        if (end == text || *end || errno) return false;
        if (flag->type == LS_FLAG_INT64) return *(int64_t *)flag->to = value, true;
        if (value != (int)value) return false;
        return *(int *)flag->to = (int)value, true;
    }
    case LS_FLAG_NAMES: break;
    }
    return false;
}

/* A variable without a value yet: LS_AUTO, LS_AUTO_REAL, LS_AUTO_SEED. */
static bool is_auto(const ls_flag *flag)
{
    switch (flag->type) {
    case LS_FLAG_INT: return *(int *)flag->to == LS_AUTO;
    case LS_FLAG_INT64: return *(int64_t *)flag->to == LS_AUTO;
    case LS_FLAG_UINT64: return *(uint64_t *)flag->to == LS_AUTO_SEED;
    case LS_FLAG_NUMBER: return *(double *)flag->to == LS_AUTO_REAL;
    default: return false;
    }
}

/* Parse the value of a flag. "auto" leaves a variable open whose default is open; the number that represents this is
 * not accepted. */
static bool take_value(const ls_flag *flag, const char *text)
{
    bool open = is_auto(flag);
    if (open && strcmp(text, "auto") == 0) return true;
    return parse(flag, text) && !(open && is_auto(flag));
}

static bool is_flag(const char *text)
{
    return text[0] == '-' && text[1] == '-';
}

/* The next flag's name is not taken for a forgotten value. */
static bool is_known_flag(const reader *r, const char *text)
{
    bool negated;
    return is_flag(text) && find(r, text + 2, strcspn(text + 2, "="), &negated);
}

/* All arguments up to the next flag, after `first` (may be NULL). */
static bool take_names(reader *r, const ls_flag *flag, const char *first)
{
    int end = r->next;
    while (end < r->argc && !is_flag(r->argv[end])) end++;
    int count = end - r->next + (first != NULL);
    if (count == 0) return false;
    ls_object *owner = ls_object_new(r->run, LS_OBJECT_NAMES, sizeof *owner + (size_t)count * sizeof(char *), NULL);
    if (!owner) return false;
    const char **names = (const char **)(void *)(owner + 1);
    *(ls_names *)flag->to = (ls_names){count, names};
    if (first) *names++ = first;
    while (r->next < end) *names++ = r->argv[r->next++];
    return true;
}

/* ---- one argument ---- */

static bool take_flag(reader *r, const char *argument)
{
    const char *text = argument + 2;
    size_t length = strcspn(text, "=");
    const char *value = text[length] ? text + length + 1 : NULL;
    bool negated;
    const ls_flag *flag = find(r, text, length, &negated);
    if (!flag && r->keeps_unknown) {
        r->argv[r->kept++] = r->argv[r->next - 1];
        return true;
    }
    if (!flag) return fail_unknown(r, text, length), false;
    bool ok;
    if (flag->type == LS_FLAG_NAMES) {
        ok = take_names(r, flag, value);
    } else if (flag->type == LS_FLAG_SWITCH && !value) {
        *(bool *)flag->to = !negated;
        if (!negated && r->next < r->argc && is_true_or_false(r->argv[r->next]))
            parse_switch(r->argv[r->next++], flag->to);
        return true;
    } else {
        if (!value && r->next < r->argc && !is_known_flag(r, r->argv[r->next])) value = r->argv[r->next++];
        ok = value && !negated && take_value(flag, value);
    }
    if (!ok && flag->choices)
        ls_fail(&r->run->errors, LS_ERR_VALUE, "--%s is %s; it must be one of %s", flag->name, value ? value : "empty",
                flag->choices);
    else if (!ok)
        ls_fail(&r->run->errors, LS_ERR_VALUE, "--%s is %s; it must be %s", flag->name, value ? value : "empty",
                wanted[flag->type]);
    return !ls_failed(r->run);
}

static bool read_all(reader *r, const char *arguments)
{
    r->kept = r->next = r->argc > 0;
    while (r->next < r->argc && !ls_failed(r->run)) {
        char *argument = r->argv[r->next++];
        if (strcmp(argument, "--") == 0) {
            if (r->keeps_unknown) r->next--;
            while (r->next < r->argc) r->argv[r->kept++] = r->argv[r->next++];
        } else if (is_flag(argument)) {
            if (!take_flag(r, argument)) return false;
        } else {
            r->argv[r->kept++] = argument;
        }
    }
    r->argv[r->kept] = NULL;
    if (!r->keeps_unknown && !arguments && r->kept > 1)
        ls_fail(&r->run->errors, LS_ERR_VALUE, "%s: arguments without a flag are not expected; see --help", r->argv[1]);
    return !ls_failed(r->run);
}

bool ls_flags_take(ls_run *run, int *argc, char ***argv, const ls_flag *flags, int count)
{
    if (!argc || !argv || !*argv) return true;
    reader r = {.run = run, .flags = flags, .count = count, .keeps_unknown = true, .argc = *argc, .argv = *argv};
    bool ok = read_all(&r, NULL);
    if (ok) *argc = r.kept;
    return ok;
}

/* ---- help ---- */

static void print_default(const ls_flag *flag)
{
    if (is_auto(flag)) {
        printf(" (auto)");
        return;
    }
    switch (flag->type) {
    case LS_FLAG_TEXT:
        if (*(const char **)flag->to) printf(" (%s)", *(const char **)flag->to);
        break;
    case LS_FLAG_INT: printf(" (%d)", *(int *)flag->to); break;
    case LS_FLAG_INT64: printf(" (%lld)", (long long)*(int64_t *)flag->to); break;
    case LS_FLAG_UINT64: printf(" (%llu)", (unsigned long long)*(uint64_t *)flag->to); break;
    case LS_FLAG_NUMBER: printf(" (%g)", *(double *)flag->to); break;
    case LS_FLAG_SWITCH: printf(" (%s)", *(bool *)flag->to ? "yes" : "no"); break;
    case LS_FLAG_NAMES: break;
    }
}

static void print_flag(const ls_flag *flag, bool with_default)
{
    static const char *const values[] = {
        [LS_FLAG_TEXT] = " TEXT", [LS_FLAG_INT] = " N",  [LS_FLAG_INT64] = " N",       [LS_FLAG_UINT64] = " N",
        [LS_FLAG_NUMBER] = " X",  [LS_FLAG_SWITCH] = "", [LS_FLAG_NAMES] = " NAME...",
    };
    char left[256];
    if (flag->choices) snprintf(left, sizeof left, "--%s %s", flag->name, flag->choices);
    else if (flag->type == LS_FLAG_SWITCH) snprintf(left, sizeof left, "--%s, --no-%s", flag->name, flag->name);
    else snprintf(left, sizeof left, "--%s%s", flag->name, values[flag->type]);
    printf("  %-38s %s", left, flag->help ? flag->help : "");
    if (with_default) print_default(flag);
    printf("\n");
}

static void print_help(const ls_run *run, const char *program, const ls_flag *flags, int count,
                       const ls_flags_read_opts *o)
{
    const char *base = program && strrchr(program, '/') ? strrchr(program, '/') + 1 : program;
    printf("usage: %s [flags]%s%s\n", base ? base : "program", o->arguments ? " " : "",
           o->arguments ? o->arguments : "");
    if (o->about) printf("%s\n", o->about);
    printf("\n");
    for (int i = 0; i < count; i++) print_flag(&flags[i], true);
    printf("\nflags of every run\n");
    ls_run_flags unset = {.project_dir = ls_project_dir(run)}; /* the only default that a user must know */
    ls_flag own[LS_RUN_FLAG_COUNT];
    ls_run_flags_table(&unset, own);
    for (int i = 0; i < LS_RUN_FLAG_COUNT; i++) print_flag(&own[i], own[i].to == &unset.project_dir);
    fflush(stdout);
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    return false;
}

/* Has every row of the table a name and a variable? */
static bool table_is_whole(ls_run *run, const ls_flag *flags, int64_t count)
{
    if (!flags && count > 0)
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_flags_read: the array of %lld flags is NULL", (long long)count);
    for (int64_t i = 0; !ls_failed(run) && i < count; i++)
        if (!flags[i].name || !flags[i].to)
            ls_fail(&run->errors, LS_ERR_VALUE, "ls_flags_read: the %s of flag %lld is NULL",
                    flags[i].name ? "variable" : "name", (long long)i);
    return !ls_failed(run);
}

/* ls_init() has read the run's own flags, so a program's variable for one of those would never change. */
static bool names_are_free(ls_run *run, const ls_flag *flags, int count)
{
    ls_run_flags unset = {0};
    ls_flag own[LS_RUN_FLAG_COUNT];
    ls_run_flags_table(&unset, own);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < LS_RUN_FLAG_COUNT; k++)
            if (strcmp(flags[i].name, own[k].name) == 0)
                ls_fail(&run->errors, LS_ERR_VALUE,
                        "--%s is a flag of every run, which ls_init() reads; the program's own needs another name",
                        own[k].name);
    return !ls_failed(run);
}

bool ls_flags_read_sized(ls_run *run, int *argc, char ***argv, const ls_flag *flags, int64_t count,
                         const ls_flags_read_opts *given, size_t opts_size)
{
    if (ls_failed(run)) return false;
    ls_flags_read_opts o = LS_OPTS_READ(ls_flags_read_opts, given, opts_size);
    if (!table_is_whole(run, flags, count) || !names_are_free(run, flags, (int)count)) return false;
    if (!argc || !argv || !*argv) return true; /* no command line: every variable keeps its default */
    if (wants_help(*argc, *argv)) {
        if (ls_is_main(run)) print_help(run, (*argv)[0], flags, (int)count, &o);
        return false;
    }
    reader r = {.run = run, .flags = flags, .count = (int)count, .argc = *argc, .argv = *argv};
    bool ok = read_all(&r, o.arguments);
    if (ok) *argc = r.kept;
    return ok;
}
