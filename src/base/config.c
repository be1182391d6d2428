/* config.c - read the table of settings from the environment, once. */
#include "base/config.h"

#include "base/log.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define PREFIX "LOCKSTEP_"

static const ls_setting_row rows[LS_SETTING_COUNT_OF] = {
#define LS_SETTING(symbol, kind, fallback, help)                                                                       \
    [LS_SETTING_##symbol] = {PREFIX #symbol, LS_SETTING_KIND_##kind, fallback, help},
    LS_SETTING_LIST(LS_SETTING)
#undef LS_SETTING
};

static const struct alias {
    const char *name;
    ls_setting setting;
} aliases[] = {
#define LS_SETTING_ALIAS(name, symbol) {name, LS_SETTING_##symbol},
    LS_SETTING_ALIAS_LIST(LS_SETTING_ALIAS)
#undef LS_SETTING_ALIAS
};

/* The environment may change under us (setenv), so values are copied. */
typedef struct value {
    char text[4096];
    uint64_t number;
    const char *name;    /* of the variable that set it; NULL: none did */
    bool refused;        /* the environment has an invalid value */
    atomic_bool unknown; /* the same in the eyes of its reader; text is still that of the environment */
} value;

static value values[LS_SETTING_COUNT_OF];

/* A whole number, up to the end of the text or to `stop`. */
static bool parse_count(const char *text, char stop, uint64_t *number)
{
    if (!isdigit((unsigned char)*text)) return false;
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return (*end == '\0' || *end == stop) && errno == 0;
}

static bool parse_switch(const char *text, uint64_t *number)
{
    static const char *const words[] = {"0", "1", "no", "yes", "off", "on", "false", "true", "n", "y", "f", "t"};
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *number = i % 2;
            return true;
        }
    }
    return false;
}

static bool take(value *to, ls_setting_kind kind, const char *text, bool ours)
{
    if (strlen(text) >= sizeof to->text) return false;
    if (kind == LS_SETTING_KIND_COUNT && !parse_count(text, ours ? '\0' : ',', &to->number)) return false;
    if (kind == LS_SETTING_KIND_SWITCH && !parse_switch(text, &to->number)) return false;
    strcpy(to->text, text);
    return true;
}

static const char *given_as(const char *name)
{
    const char *text = getenv(name);
    return text && *text ? text : NULL;
}

static void read_environment(void)
{
    for (int i = 0; i < LS_SETTING_COUNT_OF; i++) values[i].name = given_as(rows[i].name) ? rows[i].name : NULL;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
        value *v = &values[aliases[i].setting];
        if (!v->name && given_as(aliases[i].name)) v->name = aliases[i].name;
    }
    for (int i = 0; i < LS_SETTING_COUNT_OF; i++) {
        value *v = &values[i];
        atomic_store(&v->unknown, false);
        v->refused = v->name && !take(v, rows[i].kind, given_as(v->name), v->name == rows[i].name);
        if (!v->name || v->refused) take(v, rows[i].kind, rows[i].fallback, true);
    }
}

static bool is_known(const char *entry, size_t name_length)
{
    for (int i = 0; i < LS_SETTING_COUNT_OF; i++) {
        if (strlen(rows[i].name) == name_length && memcmp(rows[i].name, entry, name_length) == 0) return true;
    }
    return false;
}

static void report_mistakes(void)
{
    static const char *const wanted[] = {
        [LS_SETTING_KIND_COUNT] = "a whole number",
        [LS_SETTING_KIND_SWITCH] = "0 or 1",
        [LS_SETTING_KIND_TEXT] = "a shorter text",
    };
    for (int i = 0; i < LS_SETTING_COUNT_OF; i++) {
        if (!values[i].refused) continue;
        const char *name = values[i].name, *what = wanted[rows[i].kind], *given = given_as(name);
        if (rows[i].kind == LS_SETTING_KIND_TEXT) /* too long to be shown, and it may be a secret */
            ls_log_of_job(LS_LOG_WARN, "%s must be %s; the default is used", name, what);
        else
            ls_log_of_job(LS_LOG_WARN, "%s must be %s, not \"%.40s\"; the default, %s, is used", name, what,
                          given ? given : "", rows[i].fallback);
    }
    for (char **entry = environ; entry && *entry; entry++) {
        size_t name_length = strcspn(*entry, "=");
        if (strncmp(*entry, PREFIX, strlen(PREFIX)) == 0 && !is_known(*entry, name_length)) {
            ls_log_of_job(LS_LOG_WARN, "unknown environment variable %.*s has no effect", (int)name_length, *entry);
        }
    }
}

static const value *value_of(ls_setting setting)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static atomic_bool reported;
    pthread_once(&once, read_environment);
    /* Reporting needs the log level, which is a setting: so it comes after reading, not during it. */
    if (!atomic_load_explicit(&reported, memory_order_relaxed) && !atomic_exchange(&reported, true)) report_mistakes();
    return &values[setting];
}

void ls_config_reload(void)
{
    value_of(LS_SETTING_LOG); /* so that the first query does not read again */
    read_environment();
}

const ls_setting_row *ls_config_row(ls_setting setting)
{
    return &rows[setting];
}

const char *ls_config_text(ls_setting setting)
{
    const value *v = value_of(setting);
    return atomic_load(&v->unknown) ? rows[setting].fallback : v->text;
}

uint64_t ls_config_count(ls_setting setting)
{
    return value_of(setting)->number;
}

void ls_config_refuse(ls_setting setting)
{
    atomic_store(&values[setting].unknown, true);
}

const char *ls_config_source(ls_setting setting)
{
    const value *v = value_of(setting);
    return v->refused || atomic_load(&v->unknown) ? NULL : v->name;
}

bool ls_config_switch(ls_setting setting)
{
    return value_of(setting)->number != 0;
}
