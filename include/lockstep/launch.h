/* launch.h - start the processes of a job, supervise them, end them together.
 *
 * A job is a group of workers. Each learns its rank from its environment, with torchrun's names (RANK, WORLD_SIZE,
 * LOCAL_RANK, MASTER_ADDR, ...), so that PyTorch scripts start under it as well. The first worker that fails ends the
 * group: the others get SIGTERM, and SIGKILL if they do not exit; then either all are restarted, within one budget, or
 * the first cause is printed. No orphan and no zombie is left behind.
 *
 *     int code = ls_launch_program(argv + 1, .num_processes = 4);             what `lockstep launch -n 4 ...` does
 *     int code = ls_launch(train, &settings, .num_processes = 2);             the same for a function of this program
 *
 * The return value is an exit code: 0 when every worker succeeded; else that of the first that failed, where 128 + n
 * stands for signal n; also 128 + n if this process itself was told to end by signal n. */
#ifndef LOCKSTEP_LAUNCH_H
#define LOCKSTEP_LAUNCH_H

#include <lockstep/call.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_run ls_run;
typedef struct ls_module ls_module;

/* Exit codes of a launch that could not begin. */
enum { LS_LAUNCH_REFUSED = 2, LS_LAUNCH_NOT_EXECUTABLE = 126, LS_LAUNCH_NOT_FOUND = 127 };

typedef struct ls_launch_opts {
    int num_processes LS_DEFAULT(LS_AUTO);  /* on this host; LS_AUTO: 1, or as the hostfile says */
    int max_restarts LS_DEFAULT(0);         /* of the whole group, after failures */
    int max_quick_restarts LS_DEFAULT(5);   /* in a row, each within 10 seconds of its start: then give up */
    double shutdown_timeout LS_DEFAULT(25); /* seconds from SIGTERM to SIGKILL: less than Kubernetes allows a pod */

    const char *master_addr LS_DEFAULT(NULL); /* what workers get as MASTER_ADDR; NULL is 127.0.0.1 */
    int master_port LS_DEFAULT(0);            /* and as MASTER_PORT; 0: a free one */
    const char *run_id LS_DEFAULT(NULL);      /* names the job in folders and messages; NULL is "none" */
    const char *role LS_DEFAULT(NULL);        /* NULL is "default" */

    /* Several hosts: each calls with the same numbers. The leader is the host with host_rank 0 or, in an elastic job,
     * the one the endpoint names. The others connect to it. When it learns of a failed worker or a silent host it tells
     * all hosts at once; restarts have one budget. */
    int num_hosts LS_DEFAULT(LS_AUTO); /* hosts that take part; LS_AUTO: 1 */
    int host_rank LS_DEFAULT(0);       /* which of them this is, from 0 */
    /* Instead of num_hosts, give both: the job runs with any number in between, elastic if they differ. */
    int min_hosts LS_DEFAULT(LS_AUTO), max_hosts LS_DEFAULT(LS_AUTO);
    bool elastic LS_DEFAULT(false);        /* hosts may come and go; ranks in the order of arrival */
    int leads LS_DEFAULT(LS_AUTO);         /* an elastic job: 1 yes, 0 no; LS_AUTO: if the endpoint is this host */
    const char *hostfile LS_DEFAULT(NULL); /* mpirun's: gives num_hosts, host_rank and num_processes */
    const char *endpoint LS_DEFAULT(NULL); /* "host:port" of the leader; NULL: master_addr, master_port + 1 */
    const char *token LS_DEFAULT(NULL);    /* needed to join; NULL: LOCKSTEP_JOB_TOKEN, else run_id */
    double join_timeout LS_DEFAULT(600);   /* seconds to wait for enough hosts, and for a lost leader */
    double last_call LS_DEFAULT(30);       /* elastic: seconds to wait for more hosts once there are enough */
    double heartbeat LS_DEFAULT(0.5);      /* seconds between signs of life */
    /* Seconds without a sign of life until a host or worker counts as lost; LS_AUTO_REAL: 2, at least 2 heartbeats. */
    double dead_after LS_DEFAULT(LS_AUTO_REAL);

    int num_threads LS_DEFAULT(LS_AUTO); /* of each worker; LS_AUTO: the CPUs this process may use, divided */
    /* Pin workers to CPUs of their own unless other processes use them; false: threads run on any. */
    bool pin LS_DEFAULT(true);

    /* "no", "fp16", "bf16" or "fp8": workers get it as ACCELERATE_MIXED_PRECISION. */
    const char *mixed_precision LS_DEFAULT(NULL);
    /* "NAME=value" for the workers' environment, on top of this process's; ends with NULL. */
    const char *const *environment LS_DEFAULT(NULL);

    /* Output of the workers. By default it goes where this process's goes, whole lines at a time; a stream that is a
     * terminal is inherited. For `tee` and `redirects`: which streams (0 none, 1 stdout, 2 stderr, 3 both), of all
     * workers ("3") or by local rank ("0:3,1:2"); redirects go to a file only, tee to a file and here. */
    /* For <run_id>_<random>/attempt_<n>/<local rank>/{stdout.log,stderr.log,error.json}. */
    const char *log_dir LS_DEFAULT(NULL);
    const char *tee LS_DEFAULT(NULL), *redirects LS_DEFAULT(NULL);
    /* Prefix each line with the worker's rank; tee uses the local rank, as torchrun does. */
    bool prefix LS_DEFAULT(false);
    bool prefix_main LS_DEFAULT(true); /* false: lines of rank 0, which reports on the job, have no prefix */
    /* May use ${role_name} ${rank} ${local_rank}; NULL is "[${role_name}${rank}]:". */
    const char *prefix_template LS_DEFAULT(NULL);
    const char *show_ranks LS_DEFAULT(NULL); /* local ranks whose output is shown here, "0,2"; NULL: all */

    ls_module *model LS_DEFAULT(NULL); /* for the workers of ls_launch(): see ls_launched_model() */

    bool quiet LS_DEFAULT(false); /* do not print the first cause */
    /* [num_processes] receives the exit codes of this host's workers; 0 for one that never started. */
    int *exit_codes LS_DEFAULT(NULL);
    ls_options_end _ LS_DEFAULT({});
} ls_launch_opts;
#define ls_launch_opts_defaults                                                                                        \
    .num_processes = LS_AUTO, .max_quick_restarts = 5, .shutdown_timeout = 25, .num_hosts = LS_AUTO,                   \
    .min_hosts = LS_AUTO, .max_hosts = LS_AUTO, .leads = LS_AUTO, .join_timeout = 600, .last_call = 30,                \
    .heartbeat = 0.5, .dead_after = LS_AUTO_REAL, .num_threads = LS_AUTO, .pin = true, .prefix_main = true

/* Run `argv` (ends with NULL; argv[0] is looked for along PATH) in each worker. "${local_rank}" is replaced in it. */
#define ls_launch_program(...) LS_CALL_1(ls_launch_program, ls_launch_opts, __VA_ARGS__, )
LS_API int ls_launch_program_sized(char *const *argv, const ls_launch_opts *opts, size_t opts_size);

/* Call `function` in each worker, a fork of this process; its result (0 to 127) is the worker's exit code. One process
 * on one host without restarts is not forked: the function runs in this process. num_processes must be given. If
 * ACCELERATE_DEBUG_MODE is true, workers that only start a run, on its device, and end it are launched first.
 *
 * Workers create their runs themselves, with ls_init() inside the function. It is an error to call this while a run of
 * this process exists (until ls_finish(); the exception is .model below), while the process has started threads, which
 * a fork would lose, and in a process that itself belongs to a launched job.
 *
 * While it waits, SIGTERM, SIGINT, SIGHUP and SIGQUIT do not end this program but go to the workers, which have time to
 * save. Signals that the program handles or ignores are left to the program. */
typedef int ls_worker_fn(void *user);
#define ls_launch(function, ...) LS_CALL_2(ls_launch, ls_launch_opts, function, __VA_ARGS__, )
LS_API int ls_launch_sized(ls_worker_fn *function, void *user, const ls_launch_opts *opts, size_t opts_size);

/* A model made before the launch, once, for all workers:
 *
 *     ls_run *outer = ls_init(NULL, NULL, .device = "cpu");
 *     ls_module *model = ls_resnet_new(outer, "resnet50d");
 *     ls_launch(train, &settings, .num_processes = 8, .model = model);
 *     ...
 *     static int train(void *settings) { ls_run *run = ls_init(NULL, NULL); ls_module *model = ls_launched_model(run);
 *
 * Workers share its memory until they write to it: eight of them need no more than one. The model's run must be the
 * only one of this process, on the CPU, with nothing prepared, and hold nothing but models. In a worker the first
 * ls_init() returns that run, with the options, flags and rank of the worker; if it uses another device the model
 * moves there. In this process run and model stay as they are. NULL (and an error) if the process was launched without
 * a model. */
LS_API ls_module *ls_launched_model(ls_run *run);

/* Did a launcher of any kind (this one, torchrun, mpirun, srun, a PyTorchJob) start this process as one of a job? For
 * programs that launch themselves.
 * Also true if the environment says so in a way that ls_init() will reject. */
LS_API bool ls_launch_is_worker(void);

/* CPUs available to a job on this host: those of the affinity mask, limited by the control group's quota. */
LS_API int ls_launch_cpus(void);

/* GPUs that processes of this host would use without naming a device: 0 if there are none or LOCKSTEP_USE_CPU is set.
 * They are counted without being started, so the program may fork afterwards. */
LS_API int ls_launch_gpus(void);
/* The same for chips of TPUs, which are used if there is no GPU. */
LS_API int ls_launch_tpus(void);

/* ---- Configuration files ----
 *
 * `lockstep config` writes them and `lockstep launch` takes its defaults from them: YAML, or JSON if the name ends in
 * .json, with the names of accelerate's default_config.yaml, which is read as well. */

/* TEXT(name, default), COUNT(name, default), SWITCH(name, default), in the order of the file. A text or number that is
 * empty or 0 is not written. In the file, dynamo_* are members of dynamo_config, mpirun_* of mpirun_config. */
#define LS_LAUNCH_CONFIG_LIST(TEXT, COUNT, SWITCH)                                                                     \
    TEXT(compute_environment, "LOCAL_MACHINE")                                                                         \
    SWITCH(debug, false)                                                                                               \
    TEXT(distributed_type, "NO") /* NO, MULTI_CPU, MULTI_GPU, TPU or XLA */                                            \
    SWITCH(downcast_bf16, false) /* for PyTorch on TPUs */                                                             \
    TEXT(dynamo_backend, "")                                                                                           \
    TEXT(dynamo_mode, "")                                                                                              \
    SWITCH(dynamo_use_dynamic, false)                                                                                  \
    SWITCH(dynamo_use_fullgraph, false)                                                                                \
    SWITCH(dynamo_use_regional_compilation, false)                                                                     \
    SWITCH(enable_cpu_affinity, false)                                                                                 \
    TEXT(gpu_ids, "")                                                                                                  \
    COUNT(gradient_accumulation_steps, 0)                                                                              \
    COUNT(machine_rank, 0)                                                                                             \
    TEXT(main_process_ip, "")                                                                                          \
    COUNT(main_process_port, 0)                                                                                        \
    COUNT(max_restarts, 0)                                                                                             \
    TEXT(mixed_precision, "no")                                                                                        \
    COUNT(mpirun_ccl, 0) /* CCL_WORKER_COUNT */                                                                        \
    TEXT(mpirun_hostfile, "")                                                                                          \
    COUNT(num_cpu_threads_per_process, 0)                                                                              \
    COUNT(num_machines, 1)                                                                                             \
    COUNT(num_processes, 1) /* over all machines */                                                                    \
    TEXT(rdzv_backend, "static")                                                                                       \
    SWITCH(same_network, true)                                                                                         \
    SWITCH(use_cpu, false)

#define LS_CONFIG_TEXT_(name, fallback) char name[256];
#define LS_CONFIG_COUNT_(name, fallback) int name;
#define LS_CONFIG_SWITCH_(name, fallback) bool name;
typedef struct ls_launch_config {
    LS_LAUNCH_CONFIG_LIST(LS_CONFIG_TEXT_, LS_CONFIG_COUNT_, LS_CONFIG_SWITCH_)
    char kept[4096];       /* accelerate's keys that have no counterpart, as a JSON object: written back unchanged */
    char ineffective[512]; /* those among them that ask for something Lockstep does not do: "a, b" */
} ls_launch_config;
#undef LS_CONFIG_TEXT_
#undef LS_CONFIG_COUNT_
#undef LS_CONFIG_SWITCH_

LS_API void ls_launch_config_default(ls_launch_config *config);

/* The default path: $LOCKSTEP_HOME/default_config.yaml, else that of the user's cache folder. */
LS_API void ls_launch_config_place(char *path, size_t size);
/* The file in force: that one, else accelerate's (*foreign is true); false if neither exists. */
LS_API bool ls_launch_config_find(char *path, size_t size, bool *foreign);

/* `why` (or NULL) gets the reason for a failure: unknown keys by name, settings that do not apply, a line that does not
 * parse. */
LS_API ls_status ls_launch_config_read(const char *path, ls_launch_config *config, char *why, size_t size);
/* Replaces a file atomically; creates missing folders. */
LS_API ls_status ls_launch_config_write(const char *path, const ls_launch_config *config, char *why, size_t size);
/* Accelerate's write_basic_config(): a file for this host's GPUs or CPUs, no questions. `path` NULL: the default
 * path; `mixed_precision`: "no" (or NULL), "fp16" or "bf16". LS_ERR_STATE if the file exists; it is left
 * unchanged. */
LS_API ls_status ls_launch_config_write_basic(const char *path, const char *mixed_precision, char *why, size_t size);

#ifdef __cplusplus
}
#endif
#endif
