/* flags.h - command line flags of a program: one table gives parsing, defaults, checks and the help page.
 *
 *     const char *data_dir = "pets";
 *     int64_t batch_size = 64;
 *     double lr = 3e-2;
 *     bool freeze = true;
 *     ls_names predict = {0};
 *     ls_flag flags[] = {
 *         LS_FLAG("data_dir", &data_dir, "folder of photos"),
 *         LS_FLAG("batch_size", &batch_size, "photos per step"),
 *         LS_FLAG("lr", &lr, "highest learning rate"),
 *         LS_FLAG("freeze", &freeze, "train the classifier alone"),
 *         LS_FLAG("predict", &predict, "name what these photos show, train nothing"),
 *     };
 *     if (!ls_flags_read(run, &argc, &argv, flags, .about = "train a classifier of pets")) return ls_finish(run);
 *
 * Accepted: --name value, --name=value, with `-` or `_`; --name, --no-name and --name True (or false) for switches;
 * several values, up to the next flag, for a list of names; `--` before arguments that look like flags.
 * The value a variable has before the call is its default; if that is LS_AUTO, LS_AUTO_REAL or LS_AUTO_SEED, "auto" is
 * accepted as well. The names of the run's own flags (see ls_init) are reserved. */
#ifndef LOCKSTEP_FLAGS_H
#define LOCKSTEP_FLAGS_H

#include <lockstep/run.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A list of names, owned by the run. */
typedef struct ls_names {
    int64_t count;
    const char *const *name;
} ls_names;

typedef enum ls_flag_type {
    LS_FLAG_TEXT,   /* const char *: points into argv */
    LS_FLAG_INT,    /* int */
    LS_FLAG_INT64,  /* int64_t */
    LS_FLAG_UINT64, /* uint64_t */
    LS_FLAG_NUMBER, /* double */
    LS_FLAG_SWITCH, /* bool */
    LS_FLAG_NAMES,  /* ls_names */
} ls_flag_type;

typedef struct ls_flag {
    const char *name; /* with `_` */
    ls_flag_type type;
    void *to;
    const char *help;
    const char *choices; /* (optional) of a text: "no|bf16|fp16" */
} ls_flag;

/* A row of the table; the type follows from the variable. LS_CHOICE: a text that must be one of these. */
#define LS_FLAG(name, variable, help)                                                                                  \
    {                                                                                                                  \
        (name), LS_FLAG_TYPE(variable), (variable), (help), NULL                                                       \
    }
#define LS_CHOICE(name, variable, choices, help)                                                                       \
    {                                                                                                                  \
        (name), LS_FLAG_TEXT, (const char **)(variable), (help), (choices)                                             \
    }
#ifdef __cplusplus
#define LS_FLAG_TYPE(variable) ls_flag_type_of_(variable)
extern "C++" {
constexpr ls_flag_type ls_flag_type_of_(const char **)
{
    return LS_FLAG_TEXT;
}
constexpr ls_flag_type ls_flag_type_of_(int *)
{
    return LS_FLAG_INT;
}
constexpr ls_flag_type ls_flag_type_of_(int64_t *)
{
    return LS_FLAG_INT64;
}
constexpr ls_flag_type ls_flag_type_of_(uint64_t *)
{
    return LS_FLAG_UINT64;
}
constexpr ls_flag_type ls_flag_type_of_(double *)
{
    return LS_FLAG_NUMBER;
}
constexpr ls_flag_type ls_flag_type_of_(bool *)
{
    return LS_FLAG_SWITCH;
}
constexpr ls_flag_type ls_flag_type_of_(ls_names *)
{
    return LS_FLAG_NAMES;
}
}
#else
#define LS_FLAG_TYPE(variable)                                                                                         \
    _Generic((variable),                                                                                               \
        const char **: LS_FLAG_TEXT,                                                                                   \
        int *: LS_FLAG_INT,                                                                                            \
        int64_t *: LS_FLAG_INT64,                                                                                      \
        uint64_t *: LS_FLAG_UINT64,                                                                                    \
        double *: LS_FLAG_NUMBER,                                                                                      \
        bool *: LS_FLAG_SWITCH,                                                                                        \
        ls_names *: LS_FLAG_NAMES)
#endif

typedef struct ls_flags_read_opts {
    const char *about LS_DEFAULT(NULL);     /* a line for the help page */
    const char *arguments LS_DEFAULT(NULL); /* "FILE...": what arguments without a flag are; NULL: none allowed */
    ls_options_end _ LS_DEFAULT({});
} ls_flags_read_opts;
#define ls_flags_read_opts_defaults .about = NULL

/* Read a table's flags. argv keeps the program's name and the arguments without a flag. False when the program should
 * end: after --help, or after a mistake, which is an error of the run (an unknown flag names the nearest known one).
 * Without a command line (argc and argv NULL, as for ls_init) every variable keeps its value. */
#define ls_flags_read(run, argc, argv, ...) LS_FLAGS_READ_(run, argc, argv, __VA_ARGS__, )
#define LS_FLAGS_READ_(run, argc, argv, flags, ...)                                                                    \
    ls_flags_read_sized((run), (argc), (argv), (flags), (int64_t)(sizeof(flags) / sizeof(*(flags))),                   \
                        LS_OPTS(ls_flags_read_opts, __VA_ARGS__))
LS_API bool ls_flags_read_sized(ls_run *run, int *argc, char ***argv, const ls_flag *flags, int64_t count,
                                const ls_flags_read_opts *opts, size_t opts_size);

#ifdef __cplusplus
}
#endif
#endif
