/* run.h - the run: one program's training, and everything that lives for its duration.
 *
 * A run belongs to one thread. It owns the device, the random state, the first error and, through scopes, every tensor.
 *
 * Errors are sticky. The call that detects a failure records it once; from then on operators return a poison tensor
 * (never NULL), loops end, and ls_finish() prints the first cause and returns the exit code. Who wants to handle errors
 * asks ls_error(). */
#ifndef LOCKSTEP_RUN_H
#define LOCKSTEP_RUN_H

#include <lockstep/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_run ls_run;
typedef struct ls_tensor ls_tensor;

/* Options of a constructor are given by name: f(run, .lr = 0.1). Zero means the default. The dummy first member makes the
 * call without options legal, the size lets a newer library serve an older caller. */
#define LS_OPTS(type, ...) &(const type){__VA_ARGS__}, sizeof(type)
/* The number zero where it is meant and not the default: f(run, .beta1 = LS_ZERO). */
#define LS_ZERO (-0.0)

typedef struct ls_init_opts {
    int _;
    uint64_t seed;            /* of all random numbers; 0 is a seed like any other */
    ls_dtype mixed_precision; /* LS_BF16 or LS_F16: forward passes run under ls_autocast with this type */
    const char *device;       /* "cpu" (default), a plug-in's name or path, with ":index" for the second and later */
    bool abort_on_error;      /* stop with a core dump at the first error, where it is detected */
} ls_init_opts;

/* Start a run. argc and argv may be NULL. Always returns a run; ask ls_error() whether it can be used. */
#define ls_init(argc, ...) LS_INIT_(argc, __VA_ARGS__, ._ = 0)
#define LS_INIT_(argc, argv, ...) ls_init_sized((argc), (argv), LS_OPTS(ls_init_opts, __VA_ARGS__))
LS_API ls_run *ls_init_sized(int *argc, char ***argv, const ls_init_opts *opts, size_t opts_size);

/* End it: print the first error, free everything the run owns, return the exit code (0 or 1). */
LS_API int ls_finish(ls_run *run);

/* ---- Errors ---- */

LS_API ls_status ls_error(const ls_run *run);
LS_API const char *ls_error_message(const ls_run *run); /* "" while there is none */
LS_API void ls_error_clear(ls_run *run);                /* go on: tensors that are already poison stay poison */

/* ---- Memory: three lifetimes, named run, scope, kept ----
 *
 * A tensor made by an operator lives until the innermost open scope closes. Scopes nest; modules and loops open them.
 * What backward still needs is kept alive by the tape, whatever the scope. A closed scope's handles are dead: using one is
 * an error that says so, as long as fewer than 512 newer tensors have been made. */

typedef int32_t ls_mark;
LS_API ls_mark ls_scope_begin(ls_run *run);
/* Close every scope above the mark. `escape` (may be NULL) moves to the enclosing scope and is returned. */
LS_API ls_tensor *ls_scope_end(ls_run *run, ls_mark mark, ls_tensor *escape);
/* Let a tensor live as long as the run. Returns it. */
LS_API ls_tensor *ls_keep(ls_tensor *t);
/* The opposite: give a tensor back now. Its handle is dead, unless a list or module holds it as well. */
LS_API void ls_drop(ls_tensor *t);

typedef struct ls_memory_stats {
    size_t in_use, cached, peak; /* bytes of device memory: held by tensors, held in reserve, highest in_use */
    uint64_t device_requests;    /* times the device was asked for memory */
    uint64_t system_requests;    /* times the system was asked, by anything in the process */
} ls_memory_stats;
LS_API ls_memory_stats ls_memory(ls_run *run);

/* ---- Randomness ---- */

/* Numbers depend on the seed and the order of the calls alone: not on threads, instruction set or device. */
LS_API void ls_set_seed(ls_run *run, uint64_t seed);
typedef struct ls_random_state {
    uint64_t seed, offset;
} ls_random_state;
LS_API ls_random_state ls_random_get(const ls_run *run);
LS_API void ls_random_set(ls_run *run, ls_random_state state);

/* ---- Gradients ---- */

/* Between begin and end nothing is recorded. They nest. */
LS_API void ls_no_grad_begin(ls_run *run);
LS_API void ls_no_grad_end(ls_run *run);
LS_API bool ls_grad_enabled(const ls_run *run);

/* Walk back from a loss of one element and add to the gradient of every leaf that asked for one. What the tape held is
 * released on the way, so the same graph can be walked once. Scales the loss where a loss scaler runs. */
LS_API void ls_backward(ls_run *run, ls_tensor *loss);

/* ---- Autocast ----
 *
 * Within a scope, operators choose their type by the policy column of ops.def: matrix products and convolutions run in
 * `dtype` (LS_BF16 or LS_F16), losses in f32, the rest in what they are given. Parameters stay f32. Scopes nest;
 * LS_F32 switches autocast off inside. */
LS_API void ls_autocast_begin(ls_run *run, ls_dtype dtype);
LS_API void ls_autocast_end(ls_run *run);

#ifdef __cplusplus
}
#endif
#endif
