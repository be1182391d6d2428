/* context.h - definition of ls_run, as far as tensors, tape and operators need it, and of ls_tensor and its storage.
 *
 * Ownership: a handle (ls_tensor) belongs to the scope it was made in or, if made for the tape, to a tape node; either
 * holds one reference. A handle holds a reference to its storage and one to the tape node that made it. When the last
 * reference is released, the handle dies and releases its storage and node. Its address is not reused (ring.h), so
 * later use is detected. */
#ifndef LOCKSTEP_TENSOR_CONTEXT_H
#define LOCKSTEP_TENSOR_CONTEXT_H

#include <lockstep/tensor.h>

#include "base/status.h"
#include "comm/comm.h"
#include "device/device.h"
#include "tensor/object.h"
#include "tensor/ring.h"
#include "tensor/site.h"
#include "tensor/slab.h"

typedef struct ls_node ls_node;
typedef struct ls_replay ls_replay;
typedef struct ls_training_step ls_training_step;

/* Segments of the tape that are recomputed in backward (autograd/replay.h). */
typedef struct ls_replays {
    ls_replay *now; /* the innermost that is being recorded or rerun; NULL: none */
    ls_replay *alive, *spare;
    int32_t again; /* how many are being rerun */
} ls_replays;

/* Called with `user` when the last tensor over foreign memory is freed. */
typedef void ls_memory_release_fn(void *user);

/* Device memory shared by tensors that are views of it. */
typedef struct ls_storage {
    int32_t refs;
    ls_device *device;
    ls_pool_block *block;          /* NULL for empty storage, foreign memory and parts */
    struct ls_storage *whole;      /* the storage this is a part of; NULL: none */
    uint64_t version;              /* grows with every write in place; the tape compares it */
    ls_derived *derived;           /* of all leaves that have this memory */
    ls_tensor *handles;            /* that show it, newest first */
    void *link;                    /* while free in the slab */
    ls_memory_release_fn *release; /* of foreign memory; may be NULL */
    void *user;
} ls_storage;

/* All but the last two are dead, and say how they ended. */
typedef enum ls_life {
    LS_LIFE_FORGOTTEN = 0, /* so long ago that its memory was reused */
    LS_LIFE_RELEASED,      /* with the list, module or tape that held it */
    LS_LIFE_ENDED,         /* with its scope */
    LS_LIFE_DROPPED,       /* by ls_drop() */
    LS_LIFE_LIVE = 0x4c495645,
    LS_LIFE_POISON = 0x504f4953,
} ls_life;

struct ls_tensor {
    ls_operand view; /* first member: passed to devices */
    ls_run *run;
    ls_storage *storage;
    ls_node *node;        /* the tape node that made it, or its leaf; NULL without gradient */
    ls_node *frozen_leaf; /* the leaf of a tensor that no longer collects gradients: keeps the device's forms of it */
    int32_t output;       /* which output of the node */
    int32_t refs;
    ls_life life;
    bool is_leaf;
    bool is_gradient; /* of ls_grad(), or computed from such: has no history, although a loss may expect one */
    const char *name;
    uint64_t scope;                         /* serial of the scope it belongs to; 0: none */
    ls_tensor *next, *previous;             /* in that scope's list */
    ls_tensor *next_shown, *previous_shown; /* in its storage's list */
};

typedef struct ls_scope {
    ls_tensor *first;
    uint64_t serial;
    const char *label; /* what closes it, for messages: "batch", "module"; NULL: the user */
} ls_scope;

/* Live values of this step, on a device that wants them (live.h). */
typedef struct ls_live {
    ls_tensor *drawn; /* owned, u64 [2]: seed and base of the offset of random numbers; NULL: none were drawn */
    uint64_t seed, offset;
    ls_tensor *numbers; /* owned, f64: those of the last call that had some; NULL: none */
    double number[LS_LIVE_MOST];
    int count;
} ls_live;

/* What is still to be done to gradients in memory, before anything reads them or adds to them. */
typedef struct ls_debt {
    void (*pay)(void *debtor); /* NULL: nothing */
    void *debtor;
} ls_debt;

struct ls_run {
    /* ---- What operators need ---- */

    ls_errors errors;
    const char *site; /* the running module, or the one whose gradients are computed; NULL: none (site.h) */
    ls_site *sites;
    ls_device *device;     /* where tensors are made */
    ls_device *devices;    /* all open devices */
    const ls_peers *peers; /* while all processes open their devices together; else NULL */
    ls_ring tensors;
    ls_slab storages, nodes, leaves;
    ls_tensor poison;

    ls_scope *scopes; /* [0] is the run's own lifetime */
    int32_t scope_count, scope_capacity;
    uint64_t scope_serial;

    ls_rng_state random;
    ls_live live;
    int32_t no_grad;
    bool walking;   /* backward is running */
    bool gave_grad; /* the program has called ls_grad(): some tensors are gradients */
    ls_replays replays;
    ls_debt debt;
    uint64_t node_serial, walk_serial;
    ls_dtype *autocast; /* stack of types; the innermost is last */
    int32_t autocast_count, autocast_capacity;
    bool check_finite; /* check every result, and fail at the first that is not finite (not_finite.h) */

    /* ---- The processes of the job ---- */

    ls_comm *comm;    /* all of them; of one process without a job */
    ls_comm **groups; /* communicators of the program, by number; NULL: freed */
    int32_t group_count;
    bool tolerates_out_of_memory; /* out of memory is not reported to the others: something smaller will be tried */

    /* ---- State of higher layers; opaque here ---- */

    ls_training_step *step;     /* shared by loaders, tape and optimisers: src/step */
    struct ls_session *session; /* ranks, prepared objects, epochs: src/run */

    /* ---- The life of the run ---- */

    ls_object *objects; /* modules, optimisers, ...: freed with the run, newest first */
    ls_run *earlier;    /* made by the same thread before this one */
    const char *thread; /* &ls_thread_here of the thread that called an operator last */
    int thread_changes; /* how often that thread has changed */
};

/* ---- Errors ---- */

/* Record a failure (the first wins) and return the poison tensor. */
#define LS_POISON(run, code, ...) (ls_fail(&(run)->errors, (code), __VA_ARGS__), &(run)->poison)

static inline bool ls_failed(const ls_run *run)
{
    return run->errors.code != LS_OK;
}

void ls_run_begun(ls_run *run);
void ls_run_ended(ls_run *run);
int ls_runs_alive(void); /* of all threads of this process */
/* Its address tells threads apart, in two instructions where pthread_self() is a call. */
extern _Thread_local char ls_thread_here __attribute__((tls_model("initial-exec")));
/* Another thread calls operators: warn, once, if this happens too often to be a hand-over. */
void ls_run_changes_thread(ls_run *run);

/* True if the handle can be used; else records why not (unless it is this run's poison, which has a cause already). */
bool ls_check_live(ls_run *run, const ls_tensor *t, const char *who);
/* The same for a handle whose elements are about to be written: each needs a place of its own. */
bool ls_check_writable(ls_run *run, const ls_tensor *t, const char *who);

/* "[2,3] f32" into a buffer, for messages; returns it. */
enum { LS_TEXT = 160 };
char *ls_shape_text(ls_shape shape, char text[LS_TEXT]);
char *ls_operand_text(const ls_operand *x, char text[LS_TEXT]);

/* ---- Scopes that need not close in order ----
 *
 * A loader's batch lives until the loader's next call, whatever other loaders do in between. Such a scope is identified
 * by its serial. Closing it also closes the scopes above it, unless another such scope is above it:
 * then only its own tensors are freed. */
void ls_scopes_close(ls_run *run);                      /* all but the run's own */
uint64_t ls_scope_open(ls_run *run, const char *label); /* 0 after a failure */
void ls_scope_close(ls_run *run, uint64_t serial);      /* one that is already closed is accepted */

/* ls_scope_end() with up to 32 tensors that escape; they may repeat or be NULL. */
void ls_scope_end_n(ls_run *run, ls_mark mark, int n, ls_tensor *const *escape);

/* ---- Handles and storage ---- */

/* Where the handles of a new run come from. */
ls_ring ls_handles_ring(void);

/* A handle with one reference, in the innermost scope; the caller fills in view, storage and node. NULL (and an error)
 * when out of memory. */
ls_tensor *ls_handle_new(ls_run *run);
/* The same, owned by the caller: no scope. */
ls_tensor *ls_handle_new_owned(ls_run *run);
/* Move the caller's reference to the innermost scope. */
void ls_handle_to_scope(ls_run *run, ls_tensor *owned);
static inline ls_tensor *ls_retain(ls_tensor *t)
{
    t->refs++;
    return t;
}
void ls_release(ls_tensor *t); /* NULL is accepted */

ls_storage *ls_storage_new(ls_run *run, ls_device *device, size_t bytes);
/* Storage over memory allocated elsewhere: a mapped file, a segment shared between processes. It must be of this device
 * (any host memory, for the CPU), aligned to the elements of its tensors, writable, and valid until `release` is
 * called. NULL (and an error; release is not called) when out of memory. */
ls_storage *ls_storage_wrap(ls_run *run, ls_device *device, ls_memory_release_fn *release, void *user);
/* A part of a storage that overlaps no other part: writes to it change only its own version. */
ls_storage *ls_storage_part(ls_run *run, ls_storage *whole);
void ls_storage_release(ls_run *run, ls_storage *storage);
/* Let a handle that shows nothing yet show a storage; it takes over a reference of the caller's. */
void ls_storage_show(ls_storage *storage, ls_tensor *t);
void ls_storage_hide(ls_tensor *t); /* the reverse: the handle shows nothing, and its reference is released */
/* A row-major tensor at an address within a storage, of which it takes its own reference. */
ls_tensor *ls_tensor_over(ls_run *run, ls_storage *storage, void *address, ls_dtype dtype, ls_shape shape);
/* A device of the run by its name, opened if necessary; NULL (and an error) if there is none. */
ls_device *ls_device_named(ls_run *run, const char *name);

/* A tensor with fresh memory, row-major, or laid out like another of the same shape (dense, e.g. channels last), or
 * like the first of two that is dense: one that is expanded has no order of its own. */
ls_tensor *ls_tensor_new(ls_run *run, ls_device *device, ls_dtype dtype, ls_shape shape);
ls_tensor *ls_tensor_new_like_either(const ls_tensor *like, const ls_tensor *other, ls_dtype dtype);
static inline ls_tensor *ls_tensor_new_like(const ls_tensor *like, ls_dtype dtype)
{
    return ls_tensor_new_like_either(like, like, dtype);
}
/* Another handle on the same memory without history: in the innermost scope, or owned by the caller (for the tape). */
ls_tensor *ls_alias(ls_tensor *t);
ls_tensor *ls_alias_owned(ls_tensor *t);
/* Give a handle the memory, type and shape of another; it keeps its gradient and name. */
void ls_adopt(ls_tensor *t, const ls_tensor *from);

/* Does another handle show memory beside t's elements, as the tensor that t is a slice of does? */
bool ls_is_part(const ls_tensor *t);
/* Give t the memory of `home`, laid out like its own and with the same numbers, and with it all handles that show
 * elements of t alone: a view stays one. */
void ls_move(ls_tensor *t, const ls_tensor *home);

/* A leaf gets, or loses, this memory: forms derived from it are stale after a write by any handle. Did it have it? */
void ls_storage_enter(ls_storage *storage, ls_derived *derived);
bool ls_storage_leave(ls_storage *storage, ls_derived *derived);

/* Its elements were written in place: forms derived from them are stale. */
static inline void ls_written(ls_tensor *t)
{
    t->storage->version++;
    for (ls_derived *d = t->storage->derived; d; d = d->next) d->version++;
    if (t->view.derived) t->view.derived->version++; /* perhaps of a leaf whose handle is dead, which is not listed */
}

/* ---- Views ---- */

static inline ls_shape ls_view_shape(const ls_operand *x)
{
    ls_shape shape = {.ndim = x->ndim};
    for (int d = 0; d < x->ndim; d++) shape.dim[d] = x->dim[d];
    return shape;
}

static inline int64_t ls_view_numel(const ls_operand *x)
{
    int64_t n = 1;
    for (int d = 0; d < x->ndim; d++) n *= x->dim[d];
    return n;
}

bool ls_view_contiguous(const ls_operand *x);
/* No gaps and no overlaps: some order of its dimensions is contiguous. */
bool ls_view_dense(const ls_operand *x);
/* Dense, of one shape and with the same order of elements in memory. */
bool ls_views_match(const ls_operand *a, const ls_operand *b);
void ls_view_set_contiguous(ls_operand *x, ls_shape shape);

/* ---- Work on tensors below the operators: no checks, no history ---- */

/* Submit a call to the device of `where`; on failure records it with the operator's name and returns false. */
bool ls_submit(ls_run *run, ls_device *device, ls_call *call);
bool ls_raw_copy(ls_tensor *to, const ls_tensor *from);
bool ls_raw_fill(ls_tensor *t, double value);
bool ls_raw_add(ls_tensor *out, const ls_tensor *a, const ls_tensor *b); /* out may be a or b */
/* A row-major tensor with the same elements: t itself if it is row-major. */
ls_tensor *ls_raw_contiguous(ls_tensor *t);

/* ---- Tape, as the handles see it (src/autograd) ---- */
void ls_node_release(ls_run *run, ls_node *node);
void ls_leaf_forget(ls_node *leaf); /* the leaf's handle dies */
/* The last backward walk that reached a leaf; 0 if there was none, and for other tensors. */
uint64_t ls_leaf_walk(const ls_tensor *t);
uint64_t ls_leaf_since(const ls_tensor *t); /* the first walk that contributed to its gradient; 0: no gradient */
/* Do to gradients what is still to be done. */
static inline void ls_debt_pay(ls_run *run)
{
    ls_debt debt = run->debt;
    run->debt = (ls_debt){0};
    if (debt.pay) debt.pay(debt.debtor);
}
bool ls_leaf_multiplied(const ls_tensor *t); /* a product has read it in its own type */
bool ls_leaf_watched(const ls_tensor *leaf); /* its gradients are reduced over processes */

#endif
