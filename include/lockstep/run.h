/* run.h - the run: one program's training, and everything that lives for its duration.
 *
 *     ls_run *run = ls_init(&argc, &argv, .seed = 42, .mixed_precision = LS_BF16, .gradient_accumulation_steps = 4);
 *     ... model, adam, cycle, train, eval ...
 *     ls_prepare(run, model, adam, cycle, train, eval);
 *     for (int epoch; ls_epoch(run, 5, &epoch);) {
 *         for (ls_batch b; ls_next(train, &b);) { ... ls_backward(run, loss); ls_step(adam); ... }
 *         for (ls_batch b; ls_next(eval, &b);) { ... ls_gather(run, hit) ... }
 *         ls_print(run, "epoch %d: %.2f\n", epoch, accuracy);
 *     }
 *     return ls_finish(run);
 *
 * A run belongs to one thread. It owns the device, the random state, the first error and, through scopes, every tensor.
 * The program must not use any of it from another thread; if threads take turns, one warning says so.
 *
 * Errors are sticky. The call that detects a failure records it once; from then on operators return a poison tensor
 * (never NULL), loops end, and ls_finish() prints the first cause and returns the exit code. A program that handles
 * errors itself calls ls_error(). */
#ifndef LOCKSTEP_RUN_H
#define LOCKSTEP_RUN_H

#include <lockstep/call.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_run ls_run;
typedef struct ls_tensor ls_tensor;

/* A function of the program that the library calls: in checkpoints (checkpoint.h), around modules (nn.h). */
typedef struct ls_hook ls_hook;
LS_API void ls_hook_remove(ls_hook *hook); /* NULL is accepted */

/* A block between two calls: ls_main_first(run) { ... }. The line number keeps the names of nested blocks apart. */
#define LS_MARKED_(begin, end, line) LS_MARKED_AT_(begin, end, line)
#define LS_MARKED_AT_(begin, end, line) for (bool ls_turn_##line = begin; ls_turn_##line; ls_turn_##line = end)

/* How often ls_schedule_step() moves a schedule. */
typedef enum ls_schedule_policy {
    LS_SCHEDULE_PER_STEP = 0, /* once for every step an optimiser has taken, on any number of processes */
    LS_SCHEDULE_PER_PROCESS,  /* as Accelerate: for each step taken, once per process, up to its end */
    LS_SCHEDULE_PER_CALL,     /* at every call, whether a step was taken or not */
} ls_schedule_policy;

typedef struct ls_init_opts {
    uint64_t seed LS_DEFAULT(0); /* of all random numbers; 0 is a seed like any other */
    /* LS_BF16 or LS_F16: the type of the forward pass of prepared modules; LS_F32: no mixed precision, whatever the
     * environment says; LS_DTYPE_NONE: as the environment says. */
    ls_dtype mixed_precision LS_DEFAULT(LS_DTYPE_NONE);
    /* "cpu", or a plug-in's name or path, with ":index" for a certain one; NULL: this process's GPU if there is one. */
    const char *device LS_DEFAULT(NULL);
    bool abort_on_error LS_DEFAULT(false);             /* abort() at the first error, where it is detected */
    int64_t gradient_accumulation_steps LS_DEFAULT(1); /* batches whose gradients make one step of the optimiser */
    /* Groups of batches continue in the next pass; otherwise the last batch of a pass always ends in a step. */
    bool accumulate_across_epochs LS_DEFAULT(false);
    ls_schedule_policy schedule_policy LS_DEFAULT(LS_SCHEDULE_PER_STEP);
    const char *project_dir LS_DEFAULT(NULL);            /* NULL is ".": where checkpoints, logs and results go */
    const char *resume_from_checkpoint LS_DEFAULT(NULL); /* as the flag: a folder, or "latest" */
    int64_t total_limit LS_DEFAULT(LS_AUTO); /* automatic checkpoints to keep, the latest; LS_AUTO: all of them */
    bool async_save LS_DEFAULT(false);       /* checkpoints are written while training goes on */
    bool split_batches LS_DEFAULT(false);    /* a loader's batch size is for all processes together, not for each */
    /* Processes may get different numbers of batches at the end; otherwise samples are repeated. */
    bool uneven_batches LS_DEFAULT(false);
    /* LS_BF16 or LS_F16: how f32 gradients travel between processes; LS_DTYPE_NONE: as they are. */
    ls_dtype gradient_compression LS_DEFAULT(LS_DTYPE_NONE);
    /* Gradients are sent to the other processes when so many megabytes of them are complete; larger: less overlap with
     * the backward pass, smaller: more messages. */
    int64_t bucket_cap_mb LS_DEFAULT(25);
    bool dispatch_batches LS_DEFAULT(false); /* the main process reads all batches and distributes them; not streams */
    /* Each process keeps the optimiser state of its part of the parameters, and updates only that part. */
    bool shard_optimizer LS_DEFAULT(false);
    /* Fail at the first result or gradient that is NaN or infinite, and name it: slow. */
    bool check_finite LS_DEFAULT(false);
    /* ls_set_flush_denormals(true) until ls_finish(); also LOCKSTEP_FLUSH_DENORMALS=1 */
    bool flush_denormals LS_DEFAULT(false);
    ls_options_end _ LS_DEFAULT({});
} ls_init_opts;
#define ls_init_opts_defaults .gradient_accumulation_steps = 1, .total_limit = LS_AUTO, .bucket_cap_mb = 25

/* Start a run. argc and argv may be NULL; flags that the run understands are taken out of them:
 *
 *     --mixed_precision no|bf16|fp16   --gradient_accumulation_steps N   --seed N   --num_threads N   --device NAME
 *     --project_dir (or --output_dir) FOLDER   --resume_from_checkpoint FOLDER|latest   --save_total_limit N
 *     --bf16   --fp16   --use_cpu (or --no_cuda): other words for --mixed_precision and --device
 *
 * with `-` or `_` and with `=` or a space before the value. Others, and all after `--`, stay for the program (flags.h).
 * A flag overrides an option given here, an option the environment (docs/env.md). One exception, as in Accelerate:
 * ACCELERATE_GRADIENT_ACCUMULATION_STEPS (or LOCKSTEP_GRADIENT_ACCUMULATION_STEPS) overrides the option.
 * Always returns a run; ls_error() tells whether it is usable. */
#define ls_init(argc, ...) LS_CALL_2(ls_init, ls_init_opts, argc, __VA_ARGS__, )
LS_API ls_run *ls_init_sized(int *argc, char ***argv, const ls_init_opts *opts, size_t opts_size);

/* End it: wait for checkpoints being written, print the first error, free everything the run owns. Returns the exit
 * code: 0, 1 after an error, or 128 + signal if ls_should_stop() reported one. */
LS_API int ls_finish(ls_run *run);

/* Treat numbers too small for full precision (below 1.2e-38 in f32 and bf16) as zero, or keep them, the default as in
 * PyTorch. Keeping them is exact, but on x86-64 arithmetic with many of them is up to two hundred times slower. Applies
 * to the calling thread and the kernels it runs, on all their threads. Matrix products of bf16 in hardware (AMX,
 * AVX512-BF16, BFMMLA) never keep them. False if the CPU cannot do it. */
LS_API bool ls_set_flush_denormals(bool flush);

/* ---- Preparing ---- */

/* Pass in the modules, optimisers, schedules and loaders of the training, in any order and number, in one call or in
 * several; an object that is already prepared is skipped. They are saved and restored by ls_save_state() and
 * ls_load_state() in this order, the batches of loaders are divided among the processes, modules run in
 * .mixed_precision, and with --resume_from_checkpoint the first ls_epoch() restores them. Anything else (a tensor,
 * NULL, an object of another run) is an error that names its position. */
#define ls_prepare(run, ...) ls_prepare_n((run), LS_ITEMS(void *, __VA_ARGS__))
LS_API void ls_prepare_n(ls_run *run, void *const *objects, int64_t count);

/* The next of n epochs: 0 .. n-1, or from that of the restored checkpoint. False after the last one, or after an error.
 * Tensors made in an epoch are freed at its end. The first call creates the project folder if one was named, to fail
 * now, not after hours of training, if it cannot be written.
 *
 * An epoch is over when every prepared loader has been read to its end. A checkpoint saved then resumes with the next
 * epoch. One saved earlier resumes in the middle: loaders continue with the batch that was next, and the loop over one
 * that was already read to the end in this epoch ends at once. */
LS_API bool ls_epoch(ls_run *run, int n, int *epoch);

/* The training so far is over: forget what was prepared and the checkpoint hooks, and return cached memory to the
 * system. */
LS_API void ls_free_memory(ls_run *run);

/* ---- Gradient accumulation ----
 *
 * With .gradient_accumulation_steps = k the loop does not change: only the last of k batches ends in a step. Before it
 * ls_step(), ls_schedule_step() and clipping do nothing, and ls_zero_grad(), at either end of the loop's body, keeps an
 * optimiser's gradients until they are complete or its step has used them. The last batch of a pass ends in a step as
 * well, and its shorter group is weighted correctly: gradients are means over the batches of the group.
 *
 * The first backward pass after ls_next() counts the batch. A loop without a loader, or with several backward passes
 * per batch, marks the batch itself:
 *
 *     ls_accumulate(run) { ls_backward(run, loss_of(x)); ls_step(adam); ls_zero_grad(adam); }
 *
 * Leave the block with `continue`, not with `break` or `return`. */
#define ls_accumulate(run) LS_MARKED_(ls_accumulate_begin(run), ls_accumulate_end(run), __LINE__)
LS_API bool ls_accumulate_begin(ls_run *run); /* true */
LS_API bool ls_accumulate_end(ls_run *run);   /* false */

/* Does the current batch end in a step? Setting it to false lets gradients accumulate, each divided by
 * gradient_accumulation_steps, until it is set to true again. */
LS_API bool ls_sync_gradients(const ls_run *run);
LS_API void ls_set_sync_gradients(ls_run *run, bool on);
LS_API int64_t ls_gradient_accumulation_steps(const ls_run *run);
LS_API void ls_set_gradient_accumulation_steps(ls_run *run, int64_t steps); /* from the next group on */

/* Several processes whose loaders give different numbers of batches (.uneven_batches): one that has finished takes part
 * in the others' steps with gradients of zero until all are done.  ls_join_uneven_inputs(run) { for (...;
 * ls_next(...);) ... } Leave the block with `continue`, not with `break` or `return`. Groups of batches end with
 * it: .accumulate_across_epochs is an error there. */
#define ls_join_uneven_inputs(run)                                                                                     \
    LS_MARKED_(ls_join_uneven_inputs_begin(run), ls_join_uneven_inputs_end(run), __LINE__)
LS_API bool ls_join_uneven_inputs_begin(ls_run *run); /* true */
LS_API bool ls_join_uneven_inputs_end(ls_run *run);   /* false */

/* ---- Processes: a program started alone is the main process of a world of one ---- */

LS_API int ls_rank(const ls_run *run);
LS_API int ls_world_size(const ls_run *run);
LS_API int ls_local_rank(const ls_run *run); /* among those of this host */
LS_API int ls_local_world_size(const ls_run *run);
LS_API bool ls_is_main(const ls_run *run);       /* rank 0 */
LS_API bool ls_is_local_main(const ls_run *run); /* local rank 0 */
LS_API bool ls_is_last(const ls_run *run);
/* printf on the first process of each host; nothing on the others. */
LS_PRINTF(2, 3) LS_API void ls_print(ls_run *run, const char *format, ...);
LS_API const char *ls_project_dir(const ls_run *run);

LS_API void ls_wait_for_everyone(ls_run *run);
/* The main process runs the block first, then the others:  ls_main_first(run) { prepare_the_files(); }
 * Leave the block with `continue`, not with `break` or `return`. */
#define ls_main_first(run) LS_MARKED_(ls_main_first_begin(run), ls_main_first_end(run), __LINE__)
LS_API bool ls_main_first_begin(ls_run *run);
LS_API bool ls_main_first_end(ls_run *run);
/* The same with one process of each host, for files that hosts do not share. */
#define ls_local_main_first(run) LS_MARKED_(ls_local_main_first_begin(run), ls_local_main_first_end(run), __LINE__)
LS_API bool ls_local_main_first_begin(ls_run *run);
LS_API bool ls_local_main_first_end(ls_run *run);

/* One process sets the trigger; the next check, which all processes must make, returns true on all and resets it. */
LS_API void ls_set_trigger(ls_run *run);
LS_API bool ls_check_trigger(ls_run *run);

/* Has this or any other process been told to end (SIGTERM, SIGINT, SIGUSR1)? The same answer on all; ask once a step:
 *
 *     if (ls_should_stop(run)) {
 *         ls_save_state(run, NULL);
 *         return ls_finish(run);
 *     }
 *
 * From the first call on such a signal does not end the process, unless it is repeated seconds later; signals that the
 * program handles itself are left to it. Launchers and schedulers give notice this way, and restart a program that
 * exits with 128 + signal. False after an error, also one of another process: the processes can then save nothing
 * together, and training resumes from the previous checkpoint. */
LS_API bool ls_should_stop(ls_run *run);

/* ---- Tensors of all processes ----
 *
 * All processes must call these, in the same order. Results are equal everywhere and not recorded for gradients. */

/* Concatenated along dimension 0, in the order of ranks; sizes there may differ. [] counts as [1]. No sample counts
 * twice: if a tensor has one row per sample of the current batch, rows of samples that were repeated to fill the last
 * batches are left out. Other tensors are gathered whole. */
LS_API ls_tensor *ls_gather(ls_run *run, ls_tensor *t);
/* The same, including the repeated samples. */
LS_API ls_tensor *ls_gather_with_repeats(ls_run *run, ls_tensor *t);

LS_API ls_tensor *ls_reduce(ls_run *run, ls_tensor *t, ls_reduction how);
/* The tensor of process `root`. The others pass one of the same shape and type, or NULL if they do not know them. */
LS_API ls_tensor *ls_broadcast(ls_run *run, ls_tensor *t, int root);

typedef struct ls_pad_across_processes_opts {
    int dim LS_DEFAULT(0); /* from the end when negative */
    double value LS_DEFAULT(0);
    bool first LS_DEFAULT(false); /* pad in front */
    ls_options_end _ LS_DEFAULT({});
} ls_pad_across_processes_opts;
#define ls_pad_across_processes_opts_defaults .dim = 0
/* Padded to the largest size of any process. Unchanged if the tensor does not have that dimension. */
#define ls_pad_across_processes(run, ...)                                                                              \
    LS_CALL_2(ls_pad_across_processes, ls_pad_across_processes_opts, run, __VA_ARGS__, )
LS_API ls_tensor *ls_pad_across_processes_sized(ls_run *run, ls_tensor *t, const ls_pad_across_processes_opts *opts,
                                                size_t opts_size);

/* This process's part of `count` items: consecutive; sizes differ by at most one, larger parts first. */
typedef struct ls_range {
    int64_t begin, end;
} ls_range;
LS_API ls_range ls_split_between_processes(ls_run *run, int64_t count);
/* The same for the rows of a tensor; with `pad` its last row is repeated to make all parts equally long. */
LS_API ls_tensor *ls_split_tensor_between_processes(ls_run *run, ls_tensor *t, bool pad);

/* Bytes of every process, in the order of ranks. Owned by the run, valid until the next call. */
typedef struct ls_gathered {
    int count; /* processes */
    const void *const *data;
    const size_t *size;
} ls_gathered;
LS_API ls_gathered ls_gather_object(ls_run *run, const void *data, size_t size);

/* ---- Modules of all processes ---- */

typedef struct ls_module ls_module; /* nn.h */
/* Every batch normalisation of the module, when training, normalises by the batches of all processes together, as
 * PyTorch's SyncBatchNorm.convert_sync_batchnorm(). All processes must call it, and run the module equally often. */
LS_API void ls_sync_batch_norm(ls_run *run, ls_module *module);
/* Set the parameters of the module to their mean over all processes. For local SGD: a module that was not prepared is
 * trained by each process separately (ls_optim_train_apart), and averaged now and then:
 *
 *     if (ls_step(sgd) && ls_optim_steps_taken(sgd) % 8 == 0) ls_average_parameters(run, model); */
LS_API void ls_average_parameters(ls_run *run, ls_module *module);

/* ---- Finding a batch size that fits ---- */

/* Call `train` with a batch size, starting with `start` (0: 128), until it does not run out of memory, each time with
 * nine tenths of the previous size. After a failed call the error is cleared and its memory freed. Returns the size
 * that worked, the same on all processes; 0 (and an error) if none did. Errors of other kinds end the search. */
typedef void ls_batch_size_fn(ls_run *run, int64_t batch_size, void *user);
LS_API int64_t ls_find_batch_size(ls_run *run, int64_t start, ls_batch_size_fn *train, void *user);

/* ---- Errors ---- */

LS_API ls_status ls_error(const ls_run *run);
LS_API const char *ls_error_message(const ls_run *run); /* "" while there is none */
LS_API void ls_clear_error(ls_run *run);                /* tensors that are already poison stay poison */
/* Record an error of the program's own, for instance in a hook: it is treated like any other. */
LS_PRINTF(3, 4) LS_API void ls_set_error(ls_run *run, ls_status status, const char *format, ...);

/* ---- Memory: three lifetimes, named run, scope, kept ----
 *
 * A tensor made by an operator lives until the innermost open scope closes. Scopes nest; modules and loops open them.
 * The tape keeps alive what backward still needs, whatever the scope. A closed scope's handles are dead: using one is
 * an error that says so, however many tensors have been made since. */

typedef int32_t ls_mark;
LS_API ls_mark ls_scope_begin(ls_run *run);
/* Close the scope of the mark and those opened since. `escape` (may be NULL) moves to the enclosing scope and is
 * returned. A mark can be used once: closing a scope twice is an error. */
LS_API ls_tensor *ls_scope_end(ls_run *run, ls_mark mark, ls_tensor *escape);
/* Let a tensor live as long as the run. Returns it. */
LS_API ls_tensor *ls_keep(ls_tensor *t);
/* The opposite: free a tensor now. Its handle is dead, unless a list or module holds it as well. */
LS_API void ls_drop(ls_tensor *t);

typedef struct ls_memory_stats {
    size_t in_use, cached, peak; /* bytes of device memory: held by tensors, cached, highest in_use */
    uint64_t device_requests;    /* times the device was asked for memory */
    uint64_t system_requests;    /* times the system was asked, by anything in the process */
} ls_memory_stats;
LS_API ls_memory_stats ls_memory(ls_run *run);

/* ---- Randomness ---- */

/* Numbers depend only on seed and order of calls: not on threads nor, but for attention's dropout, on the device. */
typedef struct ls_set_seed_opts {
    bool device_specific LS_DEFAULT(false); /* the rank is added: processes draw different numbers, for dropout */
    ls_options_end _ LS_DEFAULT({});
} ls_set_seed_opts;
#define ls_set_seed_opts_defaults .device_specific = false
#define ls_set_seed(run, ...) LS_CALL_2(ls_set_seed, ls_set_seed_opts, run, __VA_ARGS__, )
LS_API void ls_set_seed_sized(ls_run *run, uint64_t seed, const ls_set_seed_opts *opts, size_t opts_size);
typedef struct ls_rng_state {
    uint64_t seed, offset;
} ls_rng_state;
LS_API ls_rng_state ls_rng(const ls_run *run);
LS_API void ls_set_rng(ls_run *run, ls_rng_state state);

/* ---- Gradients ---- */

/* Nothing is recorded inside:  ls_no_grad(run) { ... }  They nest. Leave the block with `continue`, not with
 * `break` or `return`. */
#define ls_no_grad(run) LS_MARKED_(ls_no_grad_begin(run), ls_no_grad_end(run), __LINE__)
LS_API bool ls_no_grad_begin(ls_run *run); /* true */
LS_API bool ls_no_grad_end(ls_run *run);   /* false */
LS_API bool ls_is_grad_enabled(const ls_run *run);

/* Compute gradients of a loss of one element and add them to every leaf that requires one. Releases the tape as it
 * goes, so the same graph can be used once. Scales the loss if a loss scaler is active. */
LS_API void ls_backward(ls_run *run, ls_tensor *loss);
/* The same with a weight for the batch: the group's gradient is the sum of weight * gradient divided by the sum of the
 * weights, over all its batches on all processes. For a mean loss the weight is the number of its samples or tokens.
 * ls_backward() has weight 1. All losses of one batch must have the same weight (another is an error): to make one loss
 * count more, multiply it. Not allowed under ls_set_sync_gradients(false), where the sum of weights is unknown.
 */
LS_API void ls_backward_weighted(ls_run *run, ls_tensor *loss, double weight);

/* Is a forward function running for the second time, for backward (ls_set_recompute)? A function with state of its own,
 * such as an average in a buffer, must change it the first time only. */
LS_API bool ls_is_recomputing(const ls_run *run);

/* ---- Autocast ----
 *
 * With .mixed_precision, ls_forward() of a prepared module (ls_prepare) runs in an autocast scope of that type, and its
 * result is f32 again. All else is computed in the types it is given: losses, metrics, modules that were not prepared.
 * The functions below are for programs that need more. Inside a prepared module its own type is used.
 *
 * Within a scope, operators choose their type by the policy column of ops.def: matrix products and convolutions run in
 * `dtype` (LS_BF16 or LS_F16), losses in f32, the rest in what they are given. Parameters stay f32. Scopes nest;
 * LS_F32 switches autocast off inside:  ls_autocast(run, LS_BF16) { ... }  Leave the block with `continue`. */
#define ls_autocast(run, dtype) LS_MARKED_(ls_autocast_begin((run), (dtype)), ls_autocast_end(run), __LINE__)
LS_API bool ls_autocast_begin(ls_run *run, ls_dtype dtype); /* true */
LS_API bool ls_autocast_end(ls_run *run);                   /* false */
/* The mixed precision in force: LS_BF16, LS_F16, or LS_F32. */
LS_API ls_dtype ls_mixed_precision(const ls_run *run);

#ifdef __cplusplus
}
#endif
#endif
