/* alike.c - what one process was given differently is an error in all, which names it; never a training. */
#include <lockstep.h>

#include "by_hand.h"
#include "run/prepare.h"
#include "team.h"

/* ---- options of ls_init() ---- */

typedef struct option {
    const char *name, *first, *other; /* and its values, as the message has them */
    ls_init_opts opts;                /* of process 1 */
} option;

static const option options[] = {
    {"seed", "0", "18446744073709551615", {ls_init_opts_defaults, .seed = UINT64_MAX}},
    {"mixed_precision", "no", "bf16", {ls_init_opts_defaults, .mixed_precision = LS_BF16}},
    {"gradient_accumulation_steps",
     "1",
     "4",
     {.gradient_accumulation_steps = 4, .total_limit = LS_AUTO, .bucket_cap_mb = 25}},
    {"accumulate_across_epochs", "no", "yes", {ls_init_opts_defaults, .accumulate_across_epochs = true}},
    {"schedule_policy", "per step", "per call", {ls_init_opts_defaults, .schedule_policy = LS_SCHEDULE_PER_CALL}},
    {"split_batches", "no", "yes", {ls_init_opts_defaults, .split_batches = true}},
    {"uneven_batches", "no", "yes", {ls_init_opts_defaults, .uneven_batches = true}},
    {"dispatch_batches", "no", "yes", {ls_init_opts_defaults, .dispatch_batches = true}},
    {"shard_optimizer", "no", "yes", {ls_init_opts_defaults, .shard_optimizer = true}},
    {"gradient_compression", "no", "f16", {ls_init_opts_defaults, .gradient_compression = LS_F16}},
    {"bucket_cap_mb", "25", "3", {.gradient_accumulation_steps = 1, .total_limit = LS_AUTO, .bucket_cap_mb = 3}},
    {"flush_denormals", "no", "yes", {ls_init_opts_defaults, .flush_denormals = true}},
    {"resume_from_checkpoint", "no", "yes", {ls_init_opts_defaults, .resume_from_checkpoint = "latest"}},
};

/* Both ranks, `variable` set for the second one; `words` has what each was told. Returns how many failed. */
static int init_two_with(const char *variable, const char *value, const ls_init_opts opts[2], char words[2][1024])
{
    int port = find_port(), failed = 0;
    pid_t pids[2];
    fflush(NULL);
    for (int r = 0; r < 2; r++) {
        pids[r] = fork();
        if (pids[r]) continue;
        fclose(stderr);
        if (variable && r == 1) setenv(variable, value, 1);
        be_rank(r, "127.0.0.1", port);
        ls_run *run = ls_init_sized(NULL, NULL, &opts[r], sizeof *opts);
        ls_wait_for_everyone(run);
        snprintf(words[r], sizeof words[r], "%s", ls_error_message(run));
        _exit(ls_finish(run));
    }
    for (int r = 0; r < 2; r++) {
        int status = -1;
        waitpid(pids[r], &status, 0);
        failed += WIFEXITED(status) && WEXITSTATUS(status) == 1;
    }
    return failed;
}

static int init_two(const ls_init_opts opts[2], char words[2][1024])
{
    return init_two_with(NULL, NULL, opts, words);
}

static void options_that_differ_are_refused(void)
{
    char(*words)[1024] = mmap(NULL, 2 * sizeof *words, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const option *o = &options[i];
        char want[200];
        snprintf(want, sizeof want, "%s is %s in process 0, but %s in process 1", o->name, o->first, o->other);
        int failed = init_two((ls_init_opts[2]){{ls_init_opts_defaults}, o->opts}, words);
        CHECK_MSG(failed == 2 && strstr(words[0], want) && strstr(words[1], want), "%s: \"%s\" \"%s\"", want, words[0],
                  words[1]);
    }
    munmap(words, 2 * sizeof *words);
}

/* Processes with a profile agree on its folder: they would wait for those without. The others change numbers. */
static void variables_of_some_processes_are_refused(void)
{
    static const char *const variables[][3] = {
        {"LOCKSTEP_PROFILE", "alike", "LOCKSTEP_PROFILE is no in process 0, but yes in process 1"},
        {"LOCKSTEP_WINOGRAD", "0", "LOCKSTEP_WINOGRAD is yes in process 0, but no in process 1"},
        {"LOCKSTEP_CUDA_TF32", "1", "LOCKSTEP_CUDA_TF32 is no in process 0, but yes in process 1"}};
    char(*words)[1024] = mmap(NULL, 2 * sizeof *words, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ls_init_opts opts[2] = {{ls_init_opts_defaults}, {ls_init_opts_defaults}};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *want = variables[i][2];
        int failed = init_two_with(variables[i][0], variables[i][1], opts, words);
        CHECK_MSG(failed == 2 && strstr(words[0], want) && strstr(words[1], want), "\"%s\" \"%s\"", words[0], words[1]);
    }
    munmap(words, 2 * sizeof *words);
}

static void the_default_and_its_value_are_the_same(void)
{
    char(*words)[1024] = mmap(NULL, 2 * sizeof *words, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ls_init_opts opts[2] = {{ls_init_opts_defaults}, {ls_init_opts_defaults, .mixed_precision = LS_F32}};
    CHECK_MSG(init_two(opts, words) == 0, "\"%s\" \"%s\"", words[0], words[1]);
    munmap(words, 2 * sizeof *words);
}

/* ---- what is prepared ---- */

typedef enum oddity {
    NOTHING,
    RATE,
    RATE_SET_LATER,
    RULE,
    DECOUPLED,
    MOMENTUM,
    SHUFFLE,
    DROP_LAST,
    SPLIT_SEED,
    DROPOUT,
    SCHEDULE,
    MISSING_SCHEDULE,
    ACCUMULATION,
    ODDITIES,
} oddity;

static const char *const complaints[ODDITIES] = {
    [NOTHING] = "",
    [RATE] = "optimizer 0 group 0 lr: 0.1 in process 0, but 0.2 in process 1",
    [RATE_SET_LATER] = "optimizer 0 group 0 current lr: 0.1 in process 0, but 0.3 in process 1",
    [RULE] = "optimizer 0 rule: SGD for 2 parameters in process 0, but Adam for 2 parameters in process 1",
    [DECOUPLED] = "optimizer 0 rule: Adam for 2 parameters in process 0, but AdamW for 2 parameters in process 1",
    [MOMENTUM] = "optimizer 0 group 0 momentum: 0 in process 0, but 0.9 in process 1",
    [SHUFFLE] = "loader 0 order: as in the dataset in process 0, but shuffled in process 1",
    [DROP_LAST] = "loader 0 drop_last: no in process 0, but yes in process 1",
    [SPLIT_SEED] = "loader 0 choice of samples: ",
    [DROPOUT] = "model 0 1: Dropout 0.25 in process 0, but Dropout 0.5 in process 1",
    [SCHEDULE] = "schedule 0 formula: cosine over 10 steps in process 0, but cosine over 20 steps in process 1",
    [MISSING_SCHEDULE] = ("prepared objects: modules: 1, optimisers: 1, schedules: 1, loaders: 1 in process 0, but "
                          "modules: 1, optimisers: 1, schedules: 0, loaders: 1 in process 1"),
    [ACCUMULATION] = "gradient_accumulation_steps: 1 in process 0, but 3 in process 1",
};

static oddity tried;

static ls_optim *make_optim(ls_run *run, ls_module *model, bool odd)
{
    double rate = odd && tried == RATE ? 0.2 : 0.1;
    if (tried == DECOUPLED && odd) return ls_adamw_new(run, model, .lr = rate);
    if (tried == DECOUPLED || (tried == RULE && odd)) return ls_adam_new(run, model, .lr = rate);
    return ls_sgd_new(run, model, .lr = rate, .momentum = odd && tried == MOMENTUM ? 0.9 : 0);
}

static void prepare_oddly(ls_run *run)
{
    bool odd = ls_rank(run) == 1;
    ls_module *model =
        ls_sequential_new(run, ls_linear_new(run, 4, 2), ls_dropout_new(run, odd && tried == DROPOUT ? 0.5 : 0.25));
    ls_optim *optim = make_optim(run, model, odd);
    ls_schedule *schedule = ls_cosine_schedule_new(optim, odd && tried == SCHEDULE ? 20 : 10, 0);
    if (odd && tried == RATE_SET_LATER) ls_optim_set_lr(optim, 0.3);
    ls_dataset *set = ls_tensor_dataset_new_n(run, (ls_tensor *[]){ls_zeros(run, LS_F32, 8, 1)}, 1);
    if (odd && tried == SPLIT_SEED) ls_set_seed(run, 77);
    if (tried == SPLIT_SEED) ls_random_split(set, 0.5, &set, &(ls_dataset *){NULL});
    ls_loader *loader =
        ls_loader_new(run, set, .batch = 2, .shuffle = odd && tried == SHUFFLE, .drop_last = odd && tried == DROP_LAST);
    if (odd && tried == ACCUMULATION) ls_set_gradient_accumulation_steps(run, 3);
    if (odd && tried == MISSING_SCHEDULE) ls_prepare(run, model, optim, loader);
    else ls_prepare(run, model, optim, schedule, loader);
    CHECK_MSG(ls_error(run) == (tried == NOTHING ? LS_OK : LS_ERR_VALUE) &&
                  strstr(ls_error_message(run), complaints[tried]),
              "%d: %s", (int)tried, ls_error_message(run));
}

static void objects_that_differ_are_refused(void)
{
    for (tried = NOTHING; tried < ODDITIES; tried++) team_run(2, prepare_oddly);
}

/* One process may keep for longer what all are done with. */
static void free_early(ls_run *run)
{
    ls_dataset *set = ls_tensor_dataset_new_n(run, (ls_tensor *[]){ls_zeros(run, LS_F32, 8, 1)}, 1);
    ls_loader *first = ls_loader_new(run, set, .batch = 2);
    ls_prepare(run, first);
    if (ls_rank(run) == 1) ls_loader_free(first);
    ls_prepare(run, ls_loader_new(run, set, .batch = 4));
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
}

static void what_was_prepared_before_is_not_compared_again(void)
{
    team_run(2, free_early);
}

/* Its memory comes back for the next. */
static void a_freed_object_is_no_longer_prepared(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_dataset *set = ls_tensor_dataset_new_n(run, (ls_tensor *[]){ls_zeros(run, LS_F32, 8, 1)}, 1);
    for (int i = 0; i < 4; i++) {
        ls_loader *loader = ls_loader_new(run, set, .batch = 2);
        ls_prepare(run, loader);
        int at = 0, count = 0;
        while (ls_prepared_next(run, LS_OBJECT_LOADER, &at)) count++;
        CHECK_MSG(count == 1, "%d", count);
        ls_loader_free(loader);
    }
    CHECK(ls_finish(run) == 0);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN_FORK(options_that_differ_are_refused);
    CHECK_RUN_FORK(variables_of_some_processes_are_refused);
    CHECK_RUN_FORK(the_default_and_its_value_are_the_same);
    CHECK_RUN_FORK(objects_that_differ_are_refused);
    CHECK_RUN_FORK(what_was_prepared_before_is_not_compared_again);
    CHECK_RUN_FORK(a_freed_object_is_no_longer_prepared);
    return check_done();
}
