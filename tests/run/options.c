/* options.c - options of calls: what is named counts, also when it is 0; what is not has its default, also for callers
 * that were built before an option existed. */
#include <lockstep.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "check.h"

#define FAILS(call, text)                                                                                              \
    do {                                                                                                               \
        (void)(call);                                                                                                  \
        CHECK(ls_error(run) == LS_ERR_VALUE);                                                                          \
        CHECK_MSG(strstr(ls_error_message(run), text), "%s", ls_error_message(run));                                   \
        ls_clear_error(run);                                                                                           \
    } while (0)

static void zero_is_zero_in_optimisers(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_linear_new(run, 2, 2);
    ls_group_numbers plain = ls_optim_group(ls_adamw_new(run, net), 0);
    CHECK(plain.lr == 1e-3 && plain.weight_decay == 0.01 && plain.beta1 == 0.9 && plain.beta2 == 0.999);
    ls_optim *adam = ls_adamw_new(run, net, .lr = 0, .weight_decay = 0, .beta1 = 0, .epsilon = 0);
    ls_group_numbers zeros = ls_optim_group(adam, 0);
    CHECK(zeros.lr == 0 && zeros.weight_decay == 0 && zeros.beta1 == 0 && zeros.epsilon == 0 && zeros.beta2 == 0.999);

    ls_optim *sgd = ls_sgd_new(run, net, .lr = 0.5, .momentum = 0.9, .weight_decay = 0.1);
    int group = ls_optim_add_group(sgd, ls_state_matching(ls_parameters(net), "bias"), .weight_decay = 0);
    CHECK(ls_optim_group(sgd, group).weight_decay == 0 && ls_optim_group(sgd, group).momentum == 0.9);
    ls_optim_set_group(sgd, group, .momentum = 0);
    CHECK(ls_optim_group(sgd, group).momentum == 0 && ls_optim_group(sgd, group).lr == 0.5);
    FAILS(ls_sgd_new(run, net, .lr = NAN), "lr");
    CHECK(ls_finish(run) == 0);
}

static void an_optimiser_of_some_parameters_leaves_the_others(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_linear_new(run, 2, 2);
    ls_optim *sgd = ls_sgd_new(run, NULL, .lr = 1, .parameters = ls_state_matching(ls_parameters(net), "bias"));
    double weight = ls_item(ls_sum(ls_module_tensor(net, "weight"))),
           bias = ls_item(ls_sum(ls_module_tensor(net, "bias")));
    ls_backward(run, ls_sum(ls_forward(net, ls_ones(run, LS_F32, 1, 2))));
    CHECK(ls_step(sgd));
    CHECK(ls_item(ls_sum(ls_module_tensor(net, "weight"))) == weight);
    CHECK_NEAR(ls_item(ls_sum(ls_module_tensor(net, "bias"))), bias - 2, 1e-6);
    FAILS(ls_adam_new(run, NULL), "no parameters");
    CHECK(ls_finish(run) == 0);
}

static void zero_is_zero_in_layers_and_operators(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 3);
    ls_tensor *x = ls_randn(run, LS_F32, 2, 5, 8);
    ls_module *quiet = ls_transformer_layer_new(run, 8, 2, .feedforward = 16, .dropout = 0);
    ls_tensor *once = ls_forward(quiet, x), *again = ls_forward(quiet, x);
    CHECK(ls_item(ls_sum(ls_abs(ls_sub(once, again)))) == 0);
    ls_module *usual = ls_transformer_layer_new(run, 8, 2, .feedforward = 16);
    CHECK(ls_item(ls_sum(ls_abs(ls_sub(ls_forward(usual, x), ls_forward(usual, x))))) > 0);
    FAILS(ls_transformer_layer_new(run, 8, 2, .feedforward = 0), ".feedforward = 0");

    /* A scale of 0 weighs all keys alike: the mean of the values. */
    ls_tensor *q = ls_randn(run, LS_F32, 1, 1, 3, 4), *v = ls_randn(run, LS_F32, 1, 1, 3, 4);
    ls_tensor *mean = ls_attention(q, q, v, .scale = 0);
    CHECK_NEAR(ls_item(ls_sum(ls_select(mean, 2, 0))), ls_item(ls_sum(v)) / 3, 1e-5);
    /* beta 0 is the L1 loss; the index that is ignored may be 0. */
    ls_tensor *half = ls_full(run, LS_F32, 0.5, 4), *none = ls_zeros(run, LS_F32, 4);
    CHECK_NEAR(ls_item(ls_smooth_l1_loss(half, none, .beta = 0)), 0.5, 1e-6);
    CHECK_NEAR(ls_item(ls_smooth_l1_loss(half, none)), 0.125, 1e-6);
    ls_tensor *classes = ls_from(run, LS_I64, LS_SHAPE(2), (const int64_t[]){0, 1});
    ls_tensor *logits = ls_from(run, LS_F32, LS_SHAPE(2, 2), (const float[]){5, 0, 0, 0});
    CHECK_NEAR(ls_item(ls_cross_entropy(logits, classes, .ignore_index = 0)), log(2), 1e-6);

    /* A pair of 0 wins over the single number, and what makes no sense as 0 is refused. */
    ls_tensor *picture = ls_ones(run, LS_F32, 1, 1, 5, 5), *weight = ls_ones(run, LS_F32, 1, 1, 3, 3);
    ls_tensor *y = ls_conv2d(picture, weight, NULL, .padding = 1, .padding_hw = {0, 0});
    CHECK(ls_shape_equal(ls_shape_of(y), LS_SHAPE(1, 1, 3, 3)));
    FAILS(ls_conv2d(picture, weight, NULL, .stride = 0), "stride 0");
    FAILS(ls_max_pool2d(picture, 2, .stride = 0), "stride 0");
    FAILS(ls_conv2d_new(run, 1, 1, 3, .groups = 0), "0 groups");
    FAILS(ls_resnet_new(run, "resnet18", .classes = 0), "0 classes");
    CHECK(ls_finish(run) == 0);
}

static bool get(int64_t index, ls_sample *sample, void *user)
{
    (void)user;
    *(int64_t *)ls_sample_field(sample, 0) = index;
    return true;
}

static ls_dataset *numbers(ls_run *run)
{
    return ls_dataset_new(run, .count = 9, .get = get, .fields = {{.name = "n", .dtype = LS_I64}});
}

static int64_t first_of(ls_loader *loader)
{
    ls_batch b;
    CHECK(ls_next(loader, &b));
    int64_t first = b.index[0] * 1000 + b.index[1] * 100 + b.index[2];
    ls_loader_free(loader);
    return first;
}

static void zero_is_zero_in_loaders(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 5);
    ls_dataset *set = numbers(run);
    int64_t own = first_of(ls_loader_new(run, set, .batch = 3, .shuffle = true));
    CHECK(own == first_of(ls_loader_new(run, set, .batch = 3, .shuffle = true, .seed = 5)));
    int64_t zero = first_of(ls_loader_new(run, set, .batch = 3, .shuffle = true, .seed = 0));
    ls_set_seed(run, 0);
    CHECK(zero == first_of(ls_loader_new(run, set, .batch = 3, .shuffle = true)) && zero != own);
    CHECK(ls_loader_new(run, set, .workers = 0) != NULL);
    FAILS(ls_loader_new(run, set, .batch = 0), ".batch = 0");
    FAILS(ls_loader_new(run, set, .prefetch = 0), ".prefetch = 0");
    FAILS(ls_loader_new(run, set, .pad_multiple = 0), ".pad_multiple = 0");
    FAILS(ls_random_sampler_new(run, .draws = 0), ".draws = 0");
    CHECK(ls_len(ls_loader_new(run, set, .sampler = ls_distributed_sampler_new(run))) == 9);
    FAILS(ls_dataset_new(run, .get = get), ".count");
    CHECK(ls_finish(run) == 0);
}

static void zero_is_zero_in_transforms(void)
{
    ls_transform never = ls_random_flip(.probability = 0);
    CHECK(never.count == 1 && never.step[0].value[0] == 0);
    CHECK(ls_random_rotation(30, .min_degrees = 0).step[0].value[0] == 0);
    CHECK(ls_random_rotation(30).step[0].value[0] == -30);
    ls_transform centred = ls_normalize_image(.mean = {0, 0, 0});
    CHECK(centred.mean[1] == 0 && centred.std[1] == 0.224f);
    CHECK(strstr(ls_resize(32, .width = 0).problem, "32 x 0") != NULL);
    CHECK(strstr(ls_random_resized_crop(32, .min_scale = 0).problem, "scale 0") != NULL);
    CHECK(strstr(ls_decode(.max_pixels = 0).problem, "max_pixels 0") != NULL);
}

#define REFUSES(text, ...)                                                                                             \
    do {                                                                                                               \
        ls_run *refused = ls_init(__VA_ARGS__);                                                                        \
        CHECK(ls_error(refused) == LS_ERR_VALUE && strstr(ls_error_message(refused), text));                           \
        CHECK(ls_finish(refused) == 1);                                                                                \
    } while (0)

/* A user may type -1: it is a number below 0, not the sign of what was not given. */
static void minus_one_is_a_number(void)
{
    static const char *const flags[] = {"--num_threads", "--gradient_accumulation_steps"};
    for (int i = 0; i < 2; i++) {
        char flag[64], *words[] = {"program", flag, "-1", NULL}, **argv = words;
        int argc = 3;
        snprintf(flag, sizeof flag, "%s", flags[i]);
        REFUSES("-1", &argc, &argv);
    }
    REFUSES("total_limit = -1", NULL, NULL, .total_limit = -1);
    ls_run *run = ls_init(NULL, NULL);
    ls_dataset *set = numbers(run);
    FAILS(ls_loader_new(run, set, .batch = -1), ".batch = -1");
    FAILS(ls_loader_new(run, set, .workers = -1), ".workers = -1");
    CHECK(ls_finish(run) == 0);
}

static void what_is_none_of_the_choices_is_refused(void)
{
    REFUSES(".schedule_policy = 7777", NULL, NULL, .schedule_policy = (ls_schedule_policy)7777);
    REFUSES(".schedule_policy = -1", NULL, NULL, .schedule_policy = (ls_schedule_policy)-1);
    REFUSES(".gradient_compression = i64", NULL, NULL, .gradient_compression = LS_I64);
    REFUSES(".resume_from_checkpoint is empty", NULL, NULL, .resume_from_checkpoint = "");
}

static void zero_is_refused_where_it_makes_no_sense(void)
{
    ls_run *run = ls_init(NULL, NULL, .total_limit = 0);
    CHECK(ls_error(run) == LS_ERR_VALUE && strstr(ls_error_message(run), "LS_AUTO to keep all"));
    CHECK(ls_finish(run) == 1);
    run = ls_init(NULL, NULL, .gradient_accumulation_steps = 0);
    CHECK(ls_error(run) == LS_ERR_VALUE);
    CHECK(ls_finish(run) == 1);
    char *words[] = {"program", "--num_threads", "0", NULL}, **argv = words;
    int argc = 3;
    run = ls_init(&argc, &argv);
    CHECK(ls_error(run) == LS_ERR_VALUE && strstr(ls_error_message(run), "--num_threads is 0"));
    CHECK(ls_finish(run) == 1);

    run = ls_init(NULL, NULL);
    ls_optim *sgd = ls_sgd_new(run, ls_linear_new(run, 1, 1));
    FAILS(ls_one_cycle_schedule_new(sgd, .max_lr = 0.1), "its length is missing");
    FAILS(ls_one_cycle_schedule_new(sgd, .max_lr = 0.1, .epochs = 0, .steps_per_epoch = 3), ".epochs is below 1");
    FAILS(ls_one_cycle_schedule_new(sgd, .max_lr = 0.1, .epochs = 3), ".steps_per_epoch is missing");
    FAILS(ls_one_cycle_schedule_new(sgd, .max_lr = 0.1, .total_steps = 0), ".total_steps is below 1");
    FAILS(ls_one_cycle_schedule_new(sgd, .total_steps = 5), ".max_lr is missing");
    FAILS(ls_one_cycle_schedule_new(sgd, .max_lr = 0.1, .total_steps = 5, .div_factor = 0), ".div_factor = 0");
    CHECK(ls_one_cycle_schedule_new(sgd, .max_lr = 0.1, .total_steps = 5, .pct_start = 0) != NULL);
    CHECK(ls_finish(run) == 0);
}

static void precision_that_is_named_wins_over_the_environment(void)
{
    setenv("ACCELERATE_MIXED_PRECISION", "bf16", 1);
    ls_config_reload();
    ls_run *run = ls_init(NULL, NULL);
    CHECK(ls_mixed_precision(run) == LS_BF16);
    CHECK(ls_finish(run) == 0);
    run = ls_init(NULL, NULL, .mixed_precision = LS_F32);
    CHECK(ls_mixed_precision(run) == LS_F32);
    CHECK(ls_finish(run) == 0);
    unsetenv("ACCELERATE_MIXED_PRECISION");
    ls_config_reload();
}

/* The struct of a caller that was built when it ended with weight_decay; what follows in its memory is not for us. */
static void an_older_caller_gets_the_defaults_of_newer_options(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_linear_new(run, 2, 2);
    struct {
        double lr, beta1;
        char garbage[128];
    } old = {.lr = 0, .beta1 = 0.5};
    memset(old.garbage, 0xff, sizeof old.garbage);
    ls_optim *adam = ls_adamw_new_sized(run, net, (const ls_adamw_opts *)(const void *)&old, 2 * sizeof(double));
    ls_group_numbers got = ls_optim_group(adam, 0);
    CHECK(got.lr == 0 && got.beta1 == 0.5 && got.beta2 == 0.999 && got.weight_decay == 0.01);
    got = ls_optim_group(ls_adamw_new_sized(run, net, NULL, 0), 0);
    CHECK(got.lr == 1e-3 && got.weight_decay == 0.01);
    ls_adamw_opts kept = LS_OPTIONS(ls_adamw_opts, .weight_decay = 0);
    kept.lr = 0.25;
    got = ls_optim_group(ls_adamw_new_sized(run, net, &kept, LS_OPTS_SIZE(ls_adamw_opts)), 0);
    CHECK(got.lr == 0.25 && got.weight_decay == 0 && got.beta1 == 0.9);
    CHECK(ls_finish(run) == 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(zero_is_zero_in_optimisers);
    CHECK_RUN(an_optimiser_of_some_parameters_leaves_the_others);
    CHECK_RUN(zero_is_zero_in_layers_and_operators);
    CHECK_RUN(zero_is_zero_in_loaders);
    CHECK_RUN(zero_is_zero_in_transforms);
    CHECK_RUN(zero_is_refused_where_it_makes_no_sense);
    CHECK_RUN(minus_one_is_a_number);
    CHECK_RUN(what_is_none_of_the_choices_is_refused);
    CHECK_RUN(precision_that_is_named_wins_over_the_environment);
    CHECK_RUN(an_older_caller_gets_the_defaults_of_newer_options);
    return check_done();
}
