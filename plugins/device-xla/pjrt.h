/* pjrt.h - a PJRT library that was loaded: its client, compiled programs, and arrays on its chips. Or, without chips,
 * the description of some that programs are compiled for. */
#ifndef LOCKSTEP_XLA_PJRT_H
#define LOCKSTEP_XLA_PJRT_H

#include <lockstep/plugin.h>

#include "pjrt_abi.h"

typedef struct pjrt {
    const pjrt_table *table;
    pjrt_client *client;           /* NULL: there is a topology instead */
    const pjrt_topology *topology; /* and none of the functions on programs and arrays may be called */
    pjrt_chip *const *chips;       /* of this process; NULL: those of the topology are not there */
    int *chip_ids;                 /* their numbers among those of all processes; NULL: 0, 1, ... */
    size_t chip_count;
    bool knows_others;   /* the client has chips of other processes, too */
    bool numbers_itself; /* its process is told which one it is by the environment */
    char platform[80];   /* "cpu", "tpu" */
    char version[200];   /* of the compiler, in the library's words */
    uint64_t identity;   /* stands for all that a compiled program depends on but its text */
} pjrt;

/* Set the reason, and return the status. */
ls_status xla_refuse(ls_message *why, ls_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Return the status from the calling function unless it is LS_OK. */
#define XLA_TRY(expression)                                                                                            \
    do {                                                                                                               \
        ls_status try_status = (expression);                                                                           \
        if (try_status != LS_OK) return try_status;                                                                    \
    } while (0)

/* ---- the library (find.c, load.c, identity.c) ---- */

/* The path of the library that would be loaded. False: there is none, and `why` lists the places. */
bool pjrt_find(char *path, size_t size, ls_message *why);
/* Load the library and make a client, once per process: later calls return the same. peers: NULL, or those that do so
 * together with this process. */
ls_status pjrt_start(const ls_peers *peers, const pjrt **started, ls_message *why);
/* What a client needs to become one with those of its peers (meet.c). */
ls_status pjrt_meet(const pjrt *p, const ls_peers *peers, pjrt_value options[2], pjrt_create_args *create,
                    ls_message *why);

/* Set `identity` of a client. */
ls_status pjrt_identify(pjrt *p, ls_message *why);

/* Call a function of the table with arguments of `bytes` bytes. `what` begins the message of an error. */
ls_status pjrt_call(const pjrt *p, pjrt_position function, void *args, size_t bytes, const char *what, ls_message *why);
#define PJRT_CALL(p, function, args, what, why) pjrt_call(p, PJRT_##function, args, sizeof *(args), what, why)
/* A text that a function returned, as far as it fits. */
void pjrt_copy_text(const pjrt_list_args *from, char *to, size_t size);

/* ---- chips that are not there (topology.c) ---- */

/* What a compiled program needs of each chip. */
typedef struct pjrt_needs {
    int64_t code, arguments, results, aliased, temporaries, peak; /* bytes */
    double operations;                                            /* of floating-point numbers */
} pjrt_needs;

/* Describe chips in the words of the library ("v5e:2x2"; empty would mean a TPU v2), in place of a client. */
ls_status pjrt_describe(pjrt *p, const char *name, ls_message *why);
/* Their kind ("TPU v5 lite"), and the bytes of memory that each has; 0: the library does not say. */
ls_status pjrt_kind(const pjrt *p, char *kind, size_t size, int64_t *memory, ls_message *why);
ls_status pjrt_measure(const pjrt *p, const pjrt_executable *executable, pjrt_needs *needs, ls_message *why);

/* ---- programs and arrays (pjrt.c) ---- */

/* Chips of this process that execute programs together, each its part of them. */
enum { PJRT_MOST_CHIPS = 8, PJRT_MOST_JOINT = 2048 };

typedef struct pjrt_team {
    int first, count; /* of pjrt.chips */
} pjrt_team;

/* An array: row-major, without gaps. */
typedef struct pjrt_shape {
    pjrt_type type;
    int ndim;
    const int64_t *dim;
} pjrt_shape;

/* Teams of several processes that execute a program together: replicas of it, numbered by rank. */
typedef struct pjrt_joint {
    int rank, count; /* 0: this process executes programs alone */
    int *ids;        /* [count][PJRT_MOST_CHIPS]: numbers of their chips */
} pjrt_joint;

/* Shardings in the text say what each chip of the team has of an array. joint: NULL, or the other teams. */
ls_status pjrt_compile(const pjrt *p, pjrt_team team, const pjrt_joint *joint, const char *text, size_t length,
                       pjrt_loaded **loaded, ls_message *why);
/* Compile for the topology, to see what the program needs there. */
ls_status pjrt_compile_ahead(const pjrt *p, pjrt_team team, const char *text, size_t length, pjrt_needs *needs,
                             ls_message *why);
void pjrt_unload(const pjrt *p, pjrt_loaded *loaded);
/* The compiled program as bytes, which `free` releases. */
ls_status pjrt_save(const pjrt *p, const pjrt_loaded *loaded, void **bytes, size_t *count, ls_message *why);
ls_status pjrt_restore(const pjrt *p, const void *bytes, size_t count, pjrt_loaded **loaded, ls_message *why);
/* Enqueue. in: [chips][n_in], out: [chips][n_out]. done[chip], which the caller awaits, says when it has ended on that
 * chip and whether it failed. */
ls_status pjrt_execute(const pjrt *p, pjrt_team team, pjrt_loaded *loaded, pjrt_buffer *const *in, size_t n_in,
                       pjrt_buffer **out, size_t n_out, bool is_joint, pjrt_event **done, ls_message *why);

/* The host memory may be reused when it returns. */
ls_status pjrt_upload(const pjrt *p, int chip, const void *from, pjrt_shape shape, pjrt_buffer **buffer,
                      ls_message *why);
/* Waits for the array. */
ls_status pjrt_download(const pjrt *p, pjrt_buffer *buffer, int ndim, void *to, size_t bytes, ls_message *why);
void pjrt_drop(const pjrt *p, pjrt_buffer *buffer);
/* Wait for the event and destroy it. */
ls_status pjrt_await(const pjrt *p, pjrt_event *event, const char *what, ls_message *why);

/* ---- arrays of a team (array.c) ---- */

/* Each chip has a copy of the array, or, of one that is divided, as many of its rows. */
typedef struct pjrt_array {
    pjrt_buffer *on[PJRT_MOST_CHIPS]; /* NULL: the array is not there */
} pjrt_array;

ls_status pjrt_array_upload(const pjrt *p, pjrt_team team, const void *from, pjrt_shape shape, size_t bytes,
                            bool is_divided, pjrt_array *array, ls_message *why);
ls_status pjrt_array_download(const pjrt *p, pjrt_team team, const pjrt_array *array, int ndim, void *to, size_t bytes,
                              bool is_divided, ls_message *why);
/* It is not there any more. */
void pjrt_array_drop(const pjrt *p, pjrt_array *array);

#endif
