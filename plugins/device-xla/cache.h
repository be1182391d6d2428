/* cache.h - compiled programs, by the key of the recording they were made from. */
#ifndef LOCKSTEP_XLA_CACHE_H
#define LOCKSTEP_XLA_CACHE_H

#include "xla.h"

typedef struct xla_argument {
    size_t mention;
    bool is_donated; /* the program may use its memory for results */
} xla_argument;

typedef struct xla_outline xla_outline;

struct xla_program {
    uint64_t hash[2], text[2]; /* of the recording, and of what was compiled */
    pjrt_team team;            /* that it was compiled for */
    pjrt_loaded *loaded;       /* programs with the same text share it */
    xla_argument *in;
    size_t *out; /* mentions */
    size_t n_in, n_out;
    bool is_joint;        /* all processes execute it together */
    bool is_divided;      /* each chip has a part of an argument */
    bool can_fail;        /* one more result: see xla_lowering.fault */
    xla_outline *outline; /* what it does, for xla_explain(); may be NULL */
    xla_program *next;
};

/* The program of this recording, from the cache or compiled now. Programs belong to the cache. */
ls_status xla_program_get(xla_device *d, const xla_program **program, ls_message *why);

/* Write the text of a recording's program, and fill in arguments and results; both are valid after failures too. */
ls_status xla_program_write(const xla_device *d, xla_program *program, shlo *text, ls_message *why);

/* ---- why a program is new (explain.c) ---- */

/* The calls of the recording; NULL: out of memory. */
xla_outline *xla_outline_new(const xla_device *d);
/* Log what tells it from the most similar of the programs executed last. */
void xla_explain(const xla_device *d, const xla_outline *now);

/* ---- programs in files (file.c) ---- */

/* NULL: there is none, or it cannot be used. */
pjrt_loaded *xla_file_load(const xla_device *d, const shlo *text);
ls_status xla_file_save(const xla_device *d, const shlo *text, const pjrt_loaded *loaded, ls_message *why);

#endif
