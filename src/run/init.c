/* init.c - determine the options of a run: flags take precedence over the program, the program over the environment. */
#include "run/init.h"

#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/parallel.h"
#include "run/flags.h"
#include "run/session.h"

#define PRECISIONS "no|bf16|fp16"

void ls_run_flags_table(ls_run_flags *to, ls_flag table[LS_RUN_FLAG_COUNT])
{
    const ls_flag rows[LS_RUN_FLAG_COUNT] = {
        LS_CHOICE("mixed_precision", &to->mixed_precision, PRECISIONS, "number type of matrix products"),
        LS_FLAG("bf16", &to->bf16, "--mixed_precision bf16"),
        LS_FLAG("fp16", &to->fp16, "--mixed_precision fp16"),
        LS_FLAG("gradient_accumulation_steps", &to->accumulation, "batches per optimiser step"),
        LS_FLAG("seed", &to->seed, "seed of all random numbers"),
        LS_FLAG("num_threads", &to->threads, "threads of CPU kernels"),
        LS_FLAG("device", &to->device, "cpu, or a plug-in's name or path"),
        LS_FLAG("use_cpu", &to->use_cpu, "--device cpu"),
        LS_FLAG("no_cuda", &to->use_cpu, "--device cpu"),
        LS_FLAG("project_dir", &to->project_dir, "folder for checkpoints, logs and results"),
        LS_FLAG("output_dir", &to->project_dir, "the same as --project_dir"),
        LS_FLAG("save_total_limit", &to->total_limit, "automatic checkpoints to keep, the latest"),
        LS_FLAG("resume_from_checkpoint", &to->resume, "checkpoint folder to resume from, or latest"),
    };
    memcpy(table, rows, sizeof rows);
}

static bool precision_named(const char *name, ls_dtype *to)
{
    if (strcmp(name, "no") == 0) *to = LS_F32;
    else if (strcmp(name, "bf16") == 0) *to = LS_BF16;
    else if (strcmp(name, "fp16") == 0) *to = LS_F16;
    else return false;
    return true;
}

static bool settle_precision(ls_run *run, const char *flag, ls_init_opts *opts)
{
    const char *environment = ls_config_text(LS_SETTING_MIXED_PRECISION);
    if (flag) return precision_named(flag, &opts->mixed_precision);
    if (!opts->mixed_precision && *environment && !precision_named(environment, &opts->mixed_precision)) {
        ls_fail(&run->errors, LS_ERR_VALUE,
                "LOCKSTEP_MIXED_PRECISION or ACCELERATE_MIXED_PRECISION is %s; it must be one of " PRECISIONS,
                environment);
        return false;
    }
    ls_dtype type = opts->mixed_precision;
    if (!type || type == LS_F32 || type == LS_BF16 || type == LS_F16) return true;
    ls_fail(&run->errors, LS_ERR_VALUE, "ls_init: mixed precision must be bf16 or f16, not %s", ls_dtype_name(type));
    return false;
}

/* The value in the environment; 0 if missing, or invalid (and an error). */
static int64_t accumulation_of_environment(ls_run *run)
{
    const char *text = ls_config_text(LS_SETTING_GRADIENT_ACCUMULATION_STEPS);
    char *end;
    int64_t steps = strtoll(text, &end, 10);
    if (*text && (*end || steps < 1 || steps == INT64_MAX))
        ls_fail(&run->errors, LS_ERR_VALUE,
                "LOCKSTEP_GRADIENT_ACCUMULATION_STEPS or ACCELERATE_GRADIENT_ACCUMULATION_STEPS is %s; it must be at "
                "least 1",
                text);
    return ls_failed(run) ? 0 : steps;
}

static bool settle_accumulation(ls_run *run, int64_t flag, ls_init_opts *opts)
{
    int64_t environment = accumulation_of_environment(run);
    int64_t steps = flag != LS_AUTO ? flag : environment ? environment : opts->gradient_accumulation_steps;
    run->step->accumulation.across_epochs = opts->accumulate_across_epochs;
    ls_set_gradient_accumulation_steps(run, steps);
    return !ls_failed(run);
}

/* Options that are used later, or only with several processes, are checked now. */
static bool options_sound(ls_run *run, const ls_init_opts *o)
{
    ls_dtype compress = o->gradient_compression;
    if (o->total_limit != LS_AUTO && o->total_limit < 1)
        ls_fail(&run->errors, LS_ERR_VALUE,
                "ls_init: .total_limit = %lld would keep no checkpoint; give at least 1, or LS_AUTO to keep all",
                (long long)o->total_limit);
    else if ((unsigned)o->schedule_policy > LS_SCHEDULE_PER_CALL)
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_init: .schedule_policy = %d is not one of LS_SCHEDULE_PER_...",
                (int)o->schedule_policy);
    else if (compress && compress != LS_BF16 && compress != LS_F16)
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_init: .gradient_compression = %s; it can be bf16 or f16",
                ls_dtype_name(compress));
    else if (o->bucket_cap_mb < 1 || o->bucket_cap_mb > 1 << 20)
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_init: .bucket_cap_mb = %lld; it must be at least 1, and 25 is usual",
                (long long)o->bucket_cap_mb);
    else if (o->resume_from_checkpoint && !*o->resume_from_checkpoint)
        ls_fail(&run->errors, LS_ERR_VALUE,
                "ls_init: .resume_from_checkpoint is empty; give a folder or \"latest\", or NULL to start from the "
                "beginning");
    return !ls_failed(run);
}

/* Translate the flags of Transformers' Trainer into ours. False (and an error) if two flags contradict each other. */
static bool settle_other_names(ls_run *run, ls_run_flags *given, const char *device)
{
    const char *precision = given->bf16 ? "bf16" : given->fp16 ? "fp16" : NULL;
    if ((given->bf16 && given->fp16) ||
        (precision && given->mixed_precision && strcmp(precision, given->mixed_precision) != 0))
        ls_fail(&run->errors, LS_ERR_VALUE, "--%s and --%s%s: give one of them", precision,
                given->bf16 && given->fp16 ? "fp16" : "mixed_precision ",
                given->bf16 && given->fp16 ? "" : given->mixed_precision);
    else if (given->use_cpu && given->device != device && strcmp(given->device, "cpu") != 0)
        ls_fail(&run->errors, LS_ERR_VALUE, "--use_cpu (or --no_cuda) and --device %s: give one of them",
                given->device);
    if (precision) given->mixed_precision = precision;
    if (given->use_cpu) given->device = "cpu";
    return !ls_failed(run);
}

bool ls_init_settle(ls_run *run, int *argc, char ***argv, ls_init_opts *opts)
{
    ls_run_flags given = {.seed = opts->seed,
                          .threads = LS_AUTO,
                          .accumulation = LS_AUTO,
                          .total_limit = LS_AUTO,
                          .device = opts->device,
                          .project_dir = opts->project_dir};
    ls_flag table[LS_RUN_FLAG_COUNT];
    ls_run_flags_table(&given, table);
    if (!ls_flags_take(run, argc, argv, table, LS_RUN_FLAG_COUNT)) return false;
    if (!settle_other_names(run, &given, opts->device)) return false;
    opts->seed = given.seed;
    opts->device = given.device;
    opts->project_dir = given.project_dir;
    opts->resume_from_checkpoint = given.resume ? given.resume : opts->resume_from_checkpoint;
    run->step->schedule_policy = opts->schedule_policy;
    if (given.total_limit != LS_AUTO && given.total_limit < 1) {
        ls_fail(&run->errors, LS_ERR_VALUE, "--save_total_limit is %lld; it must be at least 1",
                (long long)given.total_limit);
        return false;
    }
    if (given.total_limit != LS_AUTO) opts->total_limit = given.total_limit;
    if (!options_sound(run, opts)) return false;
    if (given.threads != LS_AUTO && given.threads < 1) {
        ls_fail(&run->errors, LS_ERR_VALUE, "--num_threads is %lld; it must be at least 1", (long long)given.threads);
        return false;
    }
    if (given.threads != LS_AUTO) ls_parallel_set_width((int)given.threads);
    return settle_precision(run, given.mixed_precision, opts) && settle_accumulation(run, given.accumulation, opts);
}
