/* launch.c - lockstep launch: run a job from a command line of torchrun or accelerate. */
#include "launch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "launch_hosts.h"
#include "launch_mpirun.h"

enum { LONGEST_VARIABLE = 4096, MOST_WORDS = 4 };

int refuse_options(const command *of, const char *why)
{
    fprintf(stderr, "lockstep %s: %s\n", of->name, why);
    return EXIT_USAGE;
}

static int refuse(const char *why)
{
    return refuse_options(&command_launch, why);
}

/* ---- GPUs ------------------------------------------------------------------------------------------------------- */

/* Is a word also earlier in the list? */
static bool is_repeated(const char *list, const char *word, size_t length)
{
    for (const char *at = list; at < word; at += strcspn(at, ", ") + 1)
        if (strncmp(at, word, length) == 0 && strcspn(at, ", ") == length) return true;
    return false;
}

/* CUDA sees no GPU from the first word on that it does not know: PyTorch would then train on the CPU, silently. */
static bool check_ids(const char *ids, char *why, size_t size)
{
    for (const char *at = ids;; at++) {
        at += strspn(at, " ");
        size_t length = strcspn(at, ", ");
        const char *end = at + length + strspn(at + length, " ");
        bool is_name = strncmp(at, "GPU-", 4) == 0 || strncmp(at, "MIG-", 4) == 0;
        bool is_number = length && strspn(at, "0123456789") == length;
        if ((!is_name && !is_number) || (*end && *end != ',')) {
            snprintf(why, size, "--gpu_ids %s: give numbers or names of GPUs (2,0 or GPU-8932f937,...), or all", ids);
            return false;
        }
        if (is_repeated(ids, at, length)) {
            snprintf(why, size, "--gpu_ids %s: GPU %.*s is there twice, but each process needs its own", ids,
                     (int)length, at);
            return false;
        }
        if (!*end) return true;
        at = end;
    }
}

/* ---- Number of processes --------------------------------------------------------------------------------------- */

/* Why there may be none: `lockstep env` shows GPUs, plug-in and variables. */
#define NO_GPU                                                                                                         \
    "no GPU is found: there is none, or no plug-in for it, or LOCKSTEP_USE_CPU or LOCKSTEP_DEVICE "                    \
    "keeps programs off it (lockstep env says which)"

/* accelerate's rules, with its messages. */
static bool check_gpus(const launch_options *options, int processes, char *why, size_t size)
{
    const char *ids = options->value[OPTION_GPU_IDS], *wrong = NULL;
    if (options->value[OPTION_CPU]) wrong = "You can only use one of `--cpu` and `--multi_gpu` at a time.";
    else if (processes == 1 && !gpus_for(options))
        wrong = "You need to use at least 2 processes to use `--multi_gpu`. Here " NO_GPU ".";
    else if (processes == 1) wrong = "You need to use at least 2 processes to use `--multi_gpu`.";
    else if (ids && strcmp(ids, "all") != 0 && !strchr(ids, ','))
        wrong =
            "Less than two GPU ids were configured and tried to run on multiple GPUs. Please ensure at least two are "
            "specified for `--gpu_ids`, or use `--gpu_ids='all'`.";
    if (wrong) snprintf(why, size, "%s", wrong);
    return !wrong;
}

typedef enum device_kind { ANY_DEVICE, ON_CPU, ON_GPUS, ON_TPUS } device_kind;

/* What the options ask for; where they do not say, what the file does. accelerate writes gpu_ids: all into files of
 * hosts without GPUs. */
static device_kind wanted_device(const launch_options *options)
{
    const char *ids = options->value[OPTION_GPU_IDS], *type = options->config.distributed_type;
    if (options->value[OPTION_CPU]) return ON_CPU;
    if (options->value[OPTION_TPU]) return ON_TPUS;
    if (options->value[OPTION_MULTI_GPU] || (ids && !options->from_file[OPTION_GPU_IDS])) return ON_GPUS;
    if (strcasecmp(type, "TPU") == 0 || strcasecmp(type, "XLA") == 0) return ON_TPUS;
    bool listed = ids && strcmp(ids, "all") != 0 && strcmp(type, "MULTI_CPU") != 0;
    return listed || strcasecmp(type, "MULTI_GPU") == 0 ? ON_GPUS : ANY_DEVICE;
}

int gpus_for(const launch_options *options)
{
    const char *ids = options->value[OPTION_GPU_IDS];
    int listed = ids && strcmp(ids, "all") != 0;
    for (const char *c = ids; listed && *c; c++) listed += *c == ',';
    device_kind on = wanted_device(options);
    if (on == ON_CPU || on == ON_TPUS) return 0;
    return listed ? listed : ls_launch_gpus();
}

int tpus_for(const launch_options *options)
{
    device_kind on = wanted_device(options);
    return on == ON_CPU || on == ON_GPUS ? 0 : ls_launch_tpus();
}

/* Processes on this host that --nproc-per-node asks for; 0: its value is wrong. */
static int count_per_host(const launch_options *options, const char *asked)
{
    bool is_auto = strcmp(asked, "auto") == 0;
    int chips = is_auto || strcmp(asked, "gpu") == 0 ? gpus_for(options) : 0;
    if (!chips && is_auto) chips = tpus_for(options);
    if (chips) return chips;
    if (is_auto || strcmp(asked, "cpu") == 0) return ls_launch_cpus();
    return is_count(asked) ? atoi(asked) : 0;
}

/* As accelerate: where nothing gives the number of processes, there is one for each GPU. */
static int count_by_gpus(const launch_options *options)
{
    bool has_file = *options->config.distributed_type;
    int gpus = has_file && !options->value[OPTION_MULTI_GPU] ? 0 : gpus_for(options);
    if (gpus > 1 && !options->value[OPTION_MULTI_GPU] && !options->value[OPTION_GPU_IDS])
        fprintf(stderr, "lockstep launch: %d processes, one for each GPU; for another number give %s\n", gpus,
                option_name(OPTION_NUM_PROCESSES));
    return gpus > 1 ? gpus : 1;
}

static bool check_tpus(const launch_options *options, char *why, size_t size)
{
    const char *wrong = NULL;
    if (options->value[OPTION_TPU] && (options->value[OPTION_CPU] || options->value[OPTION_MULTI_GPU]))
        wrong = "You can only use one of `--cpu`, `--multi_gpu` and `--tpu` at a time.";
    else if (wanted_device(options) == ON_TPUS && !ls_launch_tpus())
        wrong = "--tpu: there is no TPU here, or no plug-in for it (lockstep env says which)";
    if (wrong) snprintf(why, size, "%s", wrong);
    return !wrong;
}

static bool count_processes(const launch_options *options, int hosts, int *count, char *why, size_t size)
{
    const char *per_host = options->value[OPTION_NPROC_PER_NODE];
    int total = option_count(options, OPTION_NUM_PROCESSES, 0);
    bool is_given = options->value[OPTION_NUM_PROCESSES] || per_host || options->value[OPTION_HOSTFILE];
    *count = options->value[OPTION_HOSTFILE] ? LS_AUTO : 1; /* the file decides */
    if (!check_tpus(options, why, size)) return false;
    if (options->value[OPTION_NUM_PROCESSES] && !total) {
        snprintf(why, size, "%s 0: must be a number above 0", option_name(OPTION_NUM_PROCESSES));
        return false;
    }
    if (total && options->value[OPTION_HOSTFILE]) {
        snprintf(why, size, "--hostfile gives the number of processes: omit %s", option_name(OPTION_NUM_PROCESSES));
        return false;
    }
    if (total == 1 && options->from_file[OPTION_NUM_PROCESSES]) total = 0; /* it was not meant for several hosts */
    if (total % hosts) {
        snprintf(why, size, "--num_processes %d is for all hosts together and cannot be divided among %d", total,
                 hosts);
        return false;
    }
    if (total) *count = total / hosts;
    else if (per_host) *count = count_per_host(options, per_host);
    else if (!is_given) *count = wanted_device(options) == ON_TPUS ? ls_launch_tpus() : count_by_gpus(options);
    if (*count < 1 && per_host && strcmp(per_host, "gpu") == 0) {
        snprintf(why, size, "--nproc-per-node gpu: " NO_GPU);
        return false;
    }
    if (*count < 1 && (total || per_host)) {
        snprintf(why, size, "--nproc-per-node %s: must be a number above 0, auto, gpu or cpu",
                 per_host ? per_host : "");
        return false;
    }
    return !options->value[OPTION_MULTI_GPU] || check_gpus(options, *count * hosts, why, size);
}

/* ---- Command --------------------------------------------------------------------------------------------------- */

static bool is_python(const char *program)
{
    size_t length = strlen(program);
    return length > 3 && strcmp(program + length - 3, ".py") == 0;
}

/* The command line: the program and its arguments, with Python in front if needed. */
static char **compose(const launch_options *options, int argc)
{
    char **words = calloc((size_t)argc + MOST_WORDS, sizeof *words), **end = words;
    if (!words) return NULL;
    bool module = options->value[OPTION_MODULE];
    if (module || (is_python(options->program[0]) && !options->value[OPTION_NO_PYTHON])) {
        char *python = getenv("PYTHON_EXEC");
        *end++ = python && *python ? python : "python3";
        *end++ = "-u";
        if (module) *end++ = "-m";
    }
    for (char **word = options->program; *word; word++) *end++ = *word;
    return words;
}

/* accelerate's variables for the options given; terminated by NULL. */
static void set_variables(const launch_options *options, char texts[][LONGEST_VARIABLE], const char **list)
{
    size_t count = 0;
    for (option i = 0; i < OPTION_COUNT; i++) {
        if (!option_variable(options, i, texts[count], LONGEST_VARIABLE)) continue;
        list[count] = texts[count];
        count++;
    }
    const char *gpus = options->value[OPTION_GPU_IDS];
    if (gpus && strcmp(gpus, "all") != 0) {
        snprintf(texts[count], LONGEST_VARIABLE, "CUDA_VISIBLE_DEVICES=%s", gpus);
        list[count] = texts[count];
        count++;
    }
    device_kind on = wanted_device(options);
    if (on == ON_GPUS || on == ON_TPUS) { /* for Lockstep programs; PyTorch finds GPUs itself */
        list[count++] = on == ON_GPUS ? "LOCKSTEP_DEVICE=cuda" : "LOCKSTEP_DEVICE=xla";
        list[count++] = "LOCKSTEP_USE_CPU=0";
    }
    list[count] = NULL;
}

/* Checked here, a wrong name costs one line: Python would print it once per process, and again after each restart. */
static int look_for_script(const launch_options *options)
{
    const char *script = options->program[0];
    if (options->value[OPTION_MODULE] || options->value[OPTION_NO_PYTHON] || !is_python(script)) return 0;
    if (access(script, R_OK) == 0) return 0;
    bool missing = errno == ENOENT;
    fprintf(stderr, "lockstep launch: the script %s cannot be read: %s\n", script, strerror(errno));
    return missing ? LS_LAUNCH_NOT_FOUND : LS_LAUNCH_NOT_EXECUTABLE;
}

int launch_job(const command *by, const launch_options *options, char *const *words)
{
    char why[1200], texts[OPTION_COUNT + 1][LONGEST_VARIABLE];
    const char *variables[OPTION_COUNT + 4];
    ls_launch_opts opts = {ls_launch_opts_defaults};
    const char *ids = options->value[OPTION_GPU_IDS];
    bool listed = ids && strcmp(ids, "all") != 0 && wanted_device(options) == ON_GPUS;
    if (listed && !check_ids(ids, why, sizeof why)) return refuse_options(by, why);
    set_variables(options, texts, variables);
    if (options->value[OPTION_MPIRUN_HOSTFILE]) return launch_mpirun(by, options, variables, words);
    if (!launch_hosts(options, &opts, why, sizeof why) ||
        !count_processes(options, opts.max_hosts, &opts.num_processes, why, sizeof why))
        return refuse_options(by, why);

    opts.max_restarts = option_count(options, OPTION_MAX_RESTARTS, 0);
    opts.max_quick_restarts = option_count(options, OPTION_MAX_QUICK_RESTARTS, opts.max_quick_restarts);
    opts.shutdown_timeout = option_number(options, OPTION_SHUTDOWN_TIMEOUT, opts.shutdown_timeout);
    opts.run_id = options->value[OPTION_RDZV_ID];
    opts.role = options->value[OPTION_ROLE];
    opts.num_threads = option_count(options, OPTION_NUM_THREADS, LS_AUTO);
    opts.pin = options->value[OPTION_NO_PIN] == NULL;
    opts.environment = variables;
    opts.log_dir = options->value[OPTION_LOG_DIR];
    opts.tee = options->value[OPTION_TEE];
    opts.redirects = options->value[OPTION_REDIRECTS];
    opts.prefix = options->value[OPTION_PREFIX] != NULL;
    opts.prefix_template = options->value[OPTION_PREFIX_TEMPLATE];
    opts.show_ranks = options->value[OPTION_LOCAL_RANKS_FILTER];
    opts.quiet = options->value[OPTION_QUIET] != NULL;
    int code = ls_launch_program_sized(words, &opts, LS_OPTS_SIZE(ls_launch_opts));
    return code && options->value[OPTION_EXIT_CODE_COMPAT] ? EXIT_FAILURE : code;
}

static int run(int argc, char **argv)
{
    char why[1200];
    launch_options options;
    if (!launch_options_read(&options, argc, argv, (const char *const *)environ, why, sizeof why)) return refuse(why);
    if (options.value[OPTION_HELP]) return write_page(&command_launch, stdout), 0;
    if (!launch_options_configure(&options, why, sizeof why)) return refuse(why);
    if (!options.program) return refuse("give a program: lockstep launch [options] program [its arguments]");
    if (options.value[OPTION_MODULE] && options.value[OPTION_NO_PYTHON])
        return refuse("--module and --no_python cannot be used together");
    int code = look_for_script(&options);
    if (code) return code;
    char **words = compose(&options, argc);
    if (!words) return refuse("out of memory");
    code = launch_job(&command_launch, &options, words);
    free(words);
    return code;
}

static void more(FILE *to)
{
    fputs("\nOptions are those of torchrun and accelerate, with dashes or underscores:\n\n", to);
    launch_options_list(to);
}

const command command_launch = {
    .name = "launch",
    .summary = "run a program in several processes and supervise them",
    .usage = "usage: lockstep launch [options] program [its arguments]\n"
             "\n"
             "    lockstep launch -n 4 ./pets images/\n"
             "    lockstep launch --nproc-per-node auto --max-restarts 3 --tee 3 --log-dir logs train.py\n"
             "\n"
             "Starts the program in each process, with torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK, ...).\n"
             "A name that ends in .py is run by python3 -u. If a process fails, all others get SIGTERM, then SIGKILL\n"
             "if they do not exit. The exit code is that of the first process that failed, 128 + n for signal n.\n"
             "Options that are not given are taken from torchrun's PET_* variables. See docs/launch.md for details.\n",
    .more = more,
    .run = run,
};
