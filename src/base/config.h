/* config.h - every environment variable the library reads, in one table; the only place that calls getenv.
 *
 * Values are read once, at the first question. A value that cannot be understood is reported and its default used; a
 * name LOCKSTEP_... that is not in the table is reported too, since it is most likely a spelling mistake. */
#ifndef LOCKSTEP_BASE_CONFIG_H
#define LOCKSTEP_BASE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

/* LS_SETTING(symbol, kind, "default", "help"): the variable is LOCKSTEP_<symbol>. */
#define LS_SETTING_LIST(LS_SETTING)                                                                                    \
    LS_SETTING(NUM_THREADS, COUNT, "0", "threads that CPU kernels use (0: the CPUs this process may use)")             \
    LS_SETTING(ISA, TEXT, "", "highest instruction set CPU kernels may use, e.g. ref, neon, avx2 (empty: the best)")   \
    LS_SETTING(LOG, TEXT, "", "least severe message shown: error, warn, info or debug (empty: warn, programs info)")   \
    LS_SETTING(LOG_TIME, SWITCH, "0", "put date and time in front of every message")                                   \
    LS_SETTING(FAIL_ALLOC, COUNT, "0", "make the n-th request for system memory fail (0: none)")                       \
    LS_SETTING(ABORT, SWITCH, "0", "print the first error and abort where it is detected, for debuggers")              \
    LS_SETTING(PLUGIN_PATH, TEXT, "", "folders to search for plug-ins, separated by ':'")

typedef enum ls_setting {
#define LS_SETTING(symbol, kind, fallback, help) LS_SETTING_##symbol,
    LS_SETTING_LIST(LS_SETTING) LS_SETTING_COUNT_OF
#undef LS_SETTING
} ls_setting;

typedef enum ls_setting_kind {
    LS_SETTING_KIND_COUNT,  /* 0, 1, 2, ... */
    LS_SETTING_KIND_SWITCH, /* 0/1, no/yes, off/on, false/true */
    LS_SETTING_KIND_TEXT,
} ls_setting_kind;

typedef struct ls_setting_row {
    const char *name; /* "LOCKSTEP_NUM_THREADS" */
    ls_setting_kind kind;
    const char *fallback;
    const char *help;
} ls_setting_row;

const ls_setting_row *ls_config_row(ls_setting setting);

/* The value in force, as text for every kind. Never NULL. */
const char *ls_config_text(ls_setting setting);
uint64_t ls_config_count(ls_setting setting); /* of a COUNT */
bool ls_config_switch(ls_setting setting);    /* of a SWITCH */

#endif
