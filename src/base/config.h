/* config.h - every environment variable the library reads, in one table; the only place that calls getenv.
 *
 * Values are read once, at the first query. An invalid value is reported and its default used; a name LOCKSTEP_... that
 * is not in the table is reported too, since it is most likely a spelling mistake. Some have a second name that other
 * systems' launchers set. For the identity of this process, RANK to MASTER_PORT, every launcher has names of its own:
 * launch/identity.h reads those six together with the others' names. */
#ifndef LOCKSTEP_BASE_CONFIG_H
#define LOCKSTEP_BASE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

/* LS_SETTING(symbol, kind, "default", "help"): the variable is LOCKSTEP_<symbol>. */
#define LS_SETTING_LIST(LS_SETTING)                                                                                    \
    LS_SETTING(NUM_THREADS, COUNT, "0", "threads that CPU kernels use (0: this process's share of the CPUs)")          \
    LS_SETTING(PIN, TEXT, "auto",                                                                                      \
               "keep threads on CPUs of their own: yes, no, auto (while no other program uses them)")                  \
    LS_SETTING(ISA, TEXT, "", "highest instruction set CPU kernels may use, e.g. ref, neon, avx2 (empty: the best)")   \
    LS_SETTING(FLUSH_DENORMALS, SWITCH, "0", "treat numbers too small for full precision as zero: faster")             \
    LS_SETTING(WINOGRAD, SWITCH, "1",                                                                                  \
               "let 3x3 convolutions in f32 on CPUs take fewer products: faster; see docs/env.md")                     \
    LS_SETTING(LOG, TEXT, "", "least severe message shown: error, warn, info or debug (empty: warn, programs info)")   \
    LS_SETTING(LOG_TIME, SWITCH, "0", "put date and time in front of every message")                                   \
    LS_SETTING(FAIL_ALLOC, COUNT, "0", "make the n-th request for system memory fail (0: none)")                       \
    LS_SETTING(TEST_DATA, TEXT, "", "folder with data that the tests may use (empty: shared/data beside the sources)") \
    LS_SETTING(ABORT, SWITCH, "0", "print the first error and abort where it is detected, for debuggers")              \
    LS_SETTING(PLUGIN_PATH, TEXT, "", "folders to search for plug-ins, separated by ':'")                              \
    LS_SETTING(HOME, TEXT, "", "folder of the launcher's configuration (empty: lockstep in the user's cache folder)")  \
    LS_SETTING(JOB_TOKEN, TEXT, "", "secret shared by the hosts of a job (empty: the job's name)")                     \
    LS_SETTING(TERMINATION_LOG, TEXT, "/dev/termination-log", "file that gets the first cause of a failed job")        \
    LS_SETTING(RANK, TEXT, "", "number of this process in the job (empty: what the launcher says)")                    \
    LS_SETTING(WORLD_SIZE, TEXT, "", "processes of the job (empty: what the launcher says)")                           \
    LS_SETTING(LOCAL_RANK, TEXT, "", "number of this process on its host (empty: what the launcher says)")             \
    LS_SETTING(LOCAL_WORLD_SIZE, TEXT, "", "processes on this host (empty: what the launcher says)")                   \
    LS_SETTING(MASTER_ADDR, TEXT, "", "host of the process with rank 0 (empty: what the launcher says)")               \
    LS_SETTING(MASTER_PORT, TEXT, "", "port where processes meet (empty: what the launcher says)")                     \
    LS_SETTING(COMM_FILE, COUNT, "0",                                                                                  \
               "file of the memory that processes of a host share, set by the launcher (0: none)")                     \
    LS_SETTING(COMM_TOKEN, TEXT, "", "identifies the job for processes started without the launcher")                  \
    LS_SETTING(COMM_TRANSPORT, TEXT, "auto", "transport between hosts: auto, ucx, mpi or the name of a plug-in")       \
    LS_SETTING(COMM_TIMEOUT, COUNT, "600", "seconds to wait for another process in a collective (0: no limit)")        \
    LS_SETTING(COMM_WORKERS, COUNT, "1", "threads that reduce gradients while backward goes on (0: none)")             \
    LS_SETTING(COMM_AFFINITY, TEXT, "", "CPUs of the communication threads of each local rank (empty: any)")           \
    LS_SETTING(DEVICE, TEXT, "",                                                                                       \
               "device, unless the program names one (empty: a GPU or TPU if there is one, else cpu)")                 \
    LS_SETTING(USE_CPU, SWITCH, "0", "train on the CPU, even where there is a GPU or TPU")                             \
    LS_SETTING(SHARE_GPU, SWITCH, "0", "let processes of a host share GPUs, if there are more processes than GPUs")    \
    LS_SETTING(GPU_FILES, TEXT, "/dev/nvidiactl:/dev/dxg", "files that show there is a GPU; one of them is enough")    \
    LS_SETTING(TPU_FILES, TEXT, "/dev/accel0:/dev/vfio", "files that show there may be a TPU; one of them is enough")  \
    LS_SETTING(TPU_FOLDER, TEXT, "/sys/bus/pci/devices", "folder where the system lists PCI devices: TPUs among them") \
    LS_SETTING(CUDA_BLOCKING, SWITCH, "0", "wait after every operator on a GPU, so that a failure names it")           \
    LS_SETTING(CUDA_TF32, SWITCH, "0", "let f32 products on a GPU round their inputs to 10 bits: faster")              \
    LS_SETTING(CUDA_DETERMINISTIC, SWITCH, "0", "use only GPU algorithms that give the same result every time")        \
    LS_SETTING(CUDA_WAITS, SWITCH, "0", "log where the host waits for a GPU, and which operators run on the host")     \
    LS_SETTING(CUDA_PROFILE, SWITCH, "0", "print what each operator took on a GPU when the run ends")                  \
    LS_SETTING(PROFILE, TEXT, "", "folder that gets a profile of every process (empty: none is taken)")                \
    LS_SETTING(PJRT_LIBRARY, TEXT, "",                                                                                 \
               "library through which device xla reaches its chips (empty: a TPU's, or a CPU's)")                      \
    LS_SETTING(XLA_CHIPS, TEXT, "1", "chips of device xla that divide batches among them: a number, or all")           \
    LS_SETTING(XLA_CACHE, TEXT, "",                                                                                    \
               "folder of compiled programs (empty: lockstep/xla in the user's cache; off: none)")                     \
    LS_SETTING(XLA_TOPOLOGY, TEXT, "", "chips to compile for, on a host without them: v5e:2x2 (empty: none)")          \
    LS_SETTING(XLA_REPORT, TEXT, "", "file for what programs compiled for such chips need (empty: the log)")           \
    LS_SETTING(MIXED_PRECISION, TEXT, "", "no, bf16 or fp16, unless the program says")                                 \
    LS_SETTING(CHECK_FINITE, SWITCH, "0", "fail at the first result or gradient that is NaN or infinite, and name it") \
    LS_SETTING(GRADIENT_ACCUMULATION_STEPS, TEXT, "", "batches for one optimiser step (empty: as the program says)")

/* LS_SETTING_ALIAS("NAME", symbol): the name in other systems; LOCKSTEP_<symbol> has priority. A COUNT under an alias
 * may be a list, of which the first is used: OMP_NUM_THREADS has a number for each level of nesting. */
#define LS_SETTING_ALIAS_LIST(LS_SETTING_ALIAS)                                                                        \
    LS_SETTING_ALIAS("OMP_NUM_THREADS", NUM_THREADS)                                                                   \
    LS_SETTING_ALIAS("CCL_WORKER_COUNT", COMM_WORKERS)                                                                 \
    LS_SETTING_ALIAS("ACCELERATE_USE_CPU", USE_CPU)                                                                    \
    LS_SETTING_ALIAS("ACCELERATE_MIXED_PRECISION", MIXED_PRECISION)                                                    \
    LS_SETTING_ALIAS("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", GRADIENT_ACCUMULATION_STEPS)

typedef enum ls_setting {
#define LS_SETTING(symbol, kind, fallback, help) LS_SETTING_##symbol,
    LS_SETTING_LIST(LS_SETTING) LS_SETTING_COUNT_OF
#undef LS_SETTING
} ls_setting;

typedef enum ls_setting_kind {
    LS_SETTING_KIND_COUNT,  /* 0, 1, 2, ... */
    LS_SETTING_KIND_SWITCH, /* 0/1, no/yes, off/on, false/true, n/y, f/t */
    LS_SETTING_KIND_TEXT,
} ls_setting_kind;

typedef struct ls_setting_row {
    const char *name; /* "LOCKSTEP_NUM_THREADS" */
    ls_setting_kind kind;
    const char *fallback;
    const char *help;
} ls_setting_row;

const ls_setting_row *ls_config_row(ls_setting setting);

/* The value in force, as text, for any kind. Never NULL. */
const char *ls_config_text(ls_setting setting);
uint64_t ls_config_count(ls_setting setting); /* of a COUNT */
bool ls_config_switch(ls_setting setting);    /* of a SWITCH */

/* The text of the environment means nothing to the reader of this setting, who has said so: the default is in force. */
void ls_config_refuse(ls_setting setting);

/* The variable that gave the value; NULL: it is the default. */
const char *ls_config_source(ls_setting setting);

/* Read the environment again, in a process that was just forked with another one. No other thread may be running. */
void ls_config_reload(void);

#endif
