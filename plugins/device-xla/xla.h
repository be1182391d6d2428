/* xla.h - internals of the XLA device, shared by its files.
 *
 * The path of a call: plugin.c (the table of plugin.h) -> record.c keeps it, together with those before it -> when a
 * step has ended or the host wants to see a number, step.c looks for the recording among the programs that are compiled
 * already (cache.c), has it written down (lower.c) and compiled if there is none, and executes it. A row of ops.def
 * without a lowering runs on the host's CPU (host.c). If LOCKSTEP_XLA_TOPOLOGY names chips that are not there, programs
 * are compiled for them and measured (rehearse.c), and everything is computed on the host.
 *
 * Memory is a list of storages. An address is the number of a storage and an offset in bytes. While the device
 * records, storages are numbered in the order in which they are mentioned: two steps that do the same give the same
 * recording. */
#ifndef LOCKSTEP_XLA_H
#define LOCKSTEP_XLA_H

#include <lockstep/device.h>
#include <lockstep/plugin.h>
#include <pthread.h>

#include "lower.h"
#include "pjrt.h"
#include "shlo.h"

/* Memory the library asked for. Its contents are on the host, on the chips, or on both; on neither: undefined. */
typedef struct xla_storage {
    size_t bytes;     /* 0: the number is unused, and there are no contents */
    size_t mention;   /* its number in the recording, from 1; 0: not mentioned */
    ls_dtype dtype;   /* of the array on the chips: that of the first operand seen. LS_DTYPE_NONE: not seen yet */
    bool is_batch;    /* rows that chips may divide among them: xla_is_divided() */
    bool is_exact;    /* numbers that change from step to step, which are never narrowed */
    bool is_released; /* by the library: gone when the recording is executed */
    char *host;
    pjrt_array chips;
    shlo_dims dims; /* of the array on the chips, which fills the storage in row-major order */
} xla_storage;

/* What was recorded since the last step: calls and the storages they mention, as numbers one after the other, which are
 * also the key that tells it from other recordings. Calls are read back from there to write a program (xla_read). */
typedef struct xla_recording {
    size_t calls;
    size_t *mentioned; /* [mention]: number of a storage */
    size_t mentions, mention_room;
    uint8_t *key;
    size_t key_bytes, key_room;
    const char **sites; /* [calls]: the modules that made them, which are no part of the key */
    size_t site_room;
    size_t hashed; /* bytes of the key that `state` stands for: see group.c */
    uint64_t state;
    bool is_joint; /* it has collectives */
    bool failed;   /* out of memory */
} xla_recording;

/* A recorded call; addresses of its operands are those of mentions. */
typedef struct xla_recorded {
    ls_call call;
    ls_operand operand[LS_MAX_INPUTS + LS_MAX_OUTPUTS + 1];
} xla_recorded;

/* How far a recording was read. */
typedef struct xla_reader {
    size_t calls, bytes;
} xla_reader;

typedef struct xla_program xla_program; /* compiled: cache.h */

enum { XLA_RECENT = 4 };

typedef struct xla_device {
    const ls_host *host;
    const pjrt *pjrt;
    pjrt_team team;
    pjrt_joint joint;
    bool has_peers; /* other processes train with this one */
    ls_peers peers;
    pthread_mutex_t lock;
    xla_storage *storages; /* [0] is unused */
    size_t storage_count, storage_room;
    size_t *spare; /* numbers of storages that are gone */
    size_t spares;
    xla_recording recording;
    const xla_program *recent[XLA_RECENT]; /* programs executed last, the latest first */
    bool ended;                            /* a step has, since the last began */
    size_t steps;                          /* that have ended, in a rehearsal */
    bool is_running;                       /* a step is being executed */
    pjrt_event *running[PJRT_MOST_CHIPS];  /* it, on each chip */
    pjrt_array fault;                      /* its result that says whether a condition was not met, if it has one */
    pjrt_array *donated;                   /* arrays that it consumes */
    size_t donated_count;
    ls_device_counts counts;      /* since it was opened */
    bool is_on_host[LS_OP_COUNT]; /* an operator that ran on the host, and was reported */
} xla_device;

/* ---- chips (count.c, chips.c) ---- */

/* How many devices, of LOCKSTEP_XLA_CHIPS chips each, a process of this host could open. */
int xla_count(void);
/* The numbers of the chips that this process may use, "0,3"; NULL: nothing limits it. */
const char *xla_visible_chips(void);
/* Chips of a device by LOCKSTEP_XLA_CHIPS, its *text; 0: all that there are; -1: it is neither a number nor "all". */
int xla_chips_asked(const char **text);
/* The chips of device `index`. */
ls_status xla_find_team(const pjrt *p, int index, pjrt_team *team, ls_message *why);
/* The teams of all processes, which execute programs together if their clients know each other: else joint->count is
 * 0. */
ls_status xla_find_joint(const pjrt *p, pjrt_team team, const ls_peers *peers, pjrt_joint *joint, ls_message *why);

/* ---- storages (storage.c) ---- */

static inline int64_t xla_numel(const ls_operand *x)
{
    int64_t n = 1;
    for (int i = 0; i < x->ndim; i++) n *= x->dim[i];
    return n;
}

/* Bytes from the first to the last element of an operand that is not empty. */
static inline size_t xla_extent(const xla_device *d, const ls_operand *x)
{
    int64_t last = 0;
    for (int i = 0; i < x->ndim; i++) last += (x->dim[i] - 1) * x->stride[i];
    return (size_t)(last + 1) * d->host->dtype_size(x->dtype);
}

/* The storage at an address, if `bytes` bytes are there; else NULL. */
static inline xla_storage *xla_behind(xla_device *d, const void *address, size_t bytes)
{
    size_t number = xla_number(address);
    if (number == 0 || number >= d->storage_count) return NULL;
    xla_storage *s = &d->storages[number];
    return s->bytes && xla_offset(address) + bytes <= s->bytes ? s : NULL;
}

/* A new storage; 0: out of memory. */
size_t xla_storage_new(xla_device *d, size_t bytes);
void xla_storage_free(xla_device *d, size_t number);
bool xla_has_contents(const xla_storage *s);
/* The number type of its array on the chips, and the bytes of it all. */
shlo_type xla_storage_memory(const xla_storage *s);
size_t xla_storage_size(const xla_storage *s);
/* Has each chip a part of its array, rather than a copy? The result of a program does not depend on it. */
bool xla_is_divided(const xla_device *d, const xla_storage *s);
/* Bring the contents to the host, or to the chips. */
ls_status xla_to_host(xla_device *d, xla_storage *s, ls_message *why);
ls_status xla_to_chips(xla_device *d, xla_storage *s, ls_message *why);
/* Contents are not there any more. */
void xla_drop_host(xla_storage *s);
void xla_drop_chips(xla_device *d, xla_storage *s);
/* The number type of its array becomes known, with the dimensions of an operand that fills it. */
void xla_storage_type(xla_device *d, xla_storage *s, const ls_operand *x);
/* Its contents are about to be replaced: what the recording read of it before stays as it is. */
ls_status xla_storage_renew(xla_device *d, size_t number, ls_message *why);

/* ---- recording (record.c) ---- */

/* The storage with this number in the recording. */
static inline xla_storage *xla_mentioned(const xla_device *d, size_t mention)
{
    return &d->storages[d->recording.mentioned[mention]];
}

ls_status xla_record(xla_device *d, const ls_call *call, ls_message *why);
/* Copy bytes between storages. */
ls_status xla_record_copy(xla_device *d, void *to, const void *from, size_t bytes, ls_message *why);
/* Complete the key: what becomes of the storages. */
void xla_recording_end(xla_device *d);
/* Forget everything; and give its memory back. */
void xla_recording_clear(xla_device *d);
void xla_recording_free(xla_device *d);
/* Read the next call; false: there are no more. A reader of zeros begins with the first. */
bool xla_read(const xla_device *d, xla_reader *reader, xla_recorded *to);

/* ---- execution (step.c, host.c) ---- */

/* Execute what was recorded. */
ls_status xla_flush(xla_device *d, ls_message *why);
/* Wait for the step being executed. */
ls_status xla_wait(xla_device *d, ls_message *why);
ls_status xla_run_on_host(xla_device *d, const ls_call *call, ls_message *why);
/* The same with all that was recorded. */
ls_status xla_run_recording_on_host(xla_device *d, ls_message *why);

/* ---- rehearsals: programs for chips that are not there (rehearse.c) ---- */

static inline bool xla_is_rehearsal(const xla_device *d)
{
    return d->pjrt->topology;
}

ls_status xla_rehearsal_begin(xla_device *d, ls_message *why);
/* A step has ended. */
void xla_rehearsal_step(xla_device *d);
/* Compile, and report what the program needs. */
void xla_compile_ahead(xla_device *d, const shlo *text);

#endif
