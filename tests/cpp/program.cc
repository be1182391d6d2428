// program.cc - a user's program in C++20: options by name, shapes, lists, flags, a dataset of one's own, a few steps. What
// C++ takes for defaults is what C takes.
#include <lockstep.h>

#include <cmath>
#include <cstdio>
#include <cstring>

extern "C" {
#define TYPE(type) extern const type type##_in_c;
#include "option_types.def"
#undef TYPE
}

static int failures;

static void expect(bool holds, const char *what)
{
    if (holds) return;
    std::fprintf(stderr, "does not hold: %s\n", what);
    failures++;
}
#define EXPECT(condition) expect((condition), #condition)

static void defaults_are_those_of_c()
{
#define TYPE(type)                                                                                                     \
    {                                                                                                                  \
        static const type here{};                                                                                      \
        expect(std::memcmp(&here, &type##_in_c, LS_OPTS_SIZE(type)) == 0, "defaults of " #type);                       \
    }
#include "option_types.def"
#undef TYPE
}

static bool get(int64_t index, ls_sample *sample, void *)
{
    auto *x = static_cast<float *>(ls_sample_field(sample, 0));
    x[0] = static_cast<float>(index % 7) - 3;
    x[1] = 1;
    *static_cast<int64_t *>(ls_sample_field(sample, 1)) = index % 7 > 3;
    return true;
}

static ls_dataset *points(ls_run *run)
{
    return ls_dataset_new(run, .count = 70, .get = get,
                          .fields = {{.name = "x", .dtype = LS_F32, .shape = {2}}, {.name = "label", .dtype = LS_I64}});
}

static void zero_is_zero(ls_run *run, ls_module *net)
{
    ls_optim *adam = ls_adamw_new(run, net, .lr = 0, .weight_decay = 0);
    EXPECT(ls_optim_lr(adam) == 0 && ls_optim_group(adam, 0).weight_decay == 0 && ls_optim_group(adam, 0).beta1 == 0.9);
    int group = ls_optim_add_group(adam, ls_state_matching(ls_parameters(net), "*.bias"), .lr = 0.5);
    EXPECT(ls_optim_group(adam, group).lr == 0.5 && ls_optim_group(adam, group).weight_decay == 0);
    ls_optim_free(adam);
}

static void lists_and_shapes(ls_run *run)
{
    ls_tensor *x = ls_reshape(ls_arange(run, LS_F32, 6, 0, 1), 2, -1);
    EXPECT(ls_shape_equal(ls_shape_of(x), LS_SHAPE(2, 3)) && ls_item(ls_sum_dims(x, LS_DIMS(0, 1), false)) == 15);
    ls_tensor *y = ls_max_pool2d(ls_ones(run, LS_F32, 1, 1, 4, 4), 2, .stride_hw = {1, 2});
    EXPECT(ls_shape_equal(ls_shape_of(y), LS_SHAPE(1, 1, 3, 2)));
    float both[2] = {1, 2};
    EXPECT(ls_collective(ls_comm_of(run), LS_COMM_ALL_REDUCE, .dtype = LS_F32, .count = 2, .in = both, .out = both));
    EXPECT(both[1] == 2 && ls_collective(ls_comm_of(run), LS_COMM_BARRIER));
    ls_transform crop = ls_compose(ls_resize_shorter(256), ls_center_crop(224), ls_random_flip(), ls_normalize_image());
    EXPECT(crop.count == 3 && crop.problem[0] == '\0');
}

static ls_outputs halves(ls_module *, ls_tensor *const *x, int64_t, void *)
{
    return LS_OUTPUTS(ls_slice(x[0], 0, 0, 2, 1), ls_slice(x[0], 0, 2, 4, 1));
}

static void several_outputs(ls_run *run)
{
    ls_outputs out = ls_forward_all(ls_module_new_all(run, "Halves", halves, nullptr), ls_arange(run, LS_F32, 4, 0, 1));
    EXPECT(out.count == 2 && ls_item(ls_sum(out.item[0])) == 1 && ls_item(ls_sum(out.item[1])) == 5);
}

int main(int argc, char **argv)
{
    ls_run *run = ls_init(&argc, &argv, .seed = 1, .gradient_accumulation_steps = 1);
    double lr = 0.1, weight_decay = 0.01;
    const char *name = "none";
    int64_t batch = 10;
    ls_flag flags[] = {LS_FLAG("lr", &lr, "learning rate"), LS_FLAG("weight_decay", &weight_decay, "its decay"),
                       LS_FLAG("name", &name, "of the run"), LS_FLAG("batch_size", &batch, "samples per step")};
    if (!ls_flags_read(run, &argc, &argv, flags, .about = "fit a line")) return ls_finish(run);

    ls_module *net = ls_sequential_new(run, ls_linear_new(run, 2, 8, .activation = LS_ACT_RELU), ls_dropout_new(run, 0),
                                       ls_linear_new(run, 8, 2));
    ls_optim *adam = ls_adamw_new(run, net, .lr = lr, .weight_decay = weight_decay);
    EXPECT(ls_optim_group(adam, 0).weight_decay == weight_decay);
    ls_schedule *cycle = ls_one_cycle_schedule_new(adam, .max_lr = 0.05, .epochs = 20, .steps_per_epoch = 7);
    ls_loader *train = ls_loader_new(run, points(run), .batch = batch, .shuffle = true, .workers = 0);
    ls_prepare(run, net, adam, cycle, train);
    double first = -1, last = -1;
    for (int epoch; ls_epoch(run, 20, &epoch);) {
        double sum = 0;
        for (ls_batch b; ls_next(train, &b);) {
            ls_tensor *loss = ls_cross_entropy(ls_forward(net, b.tensor[0]), b.tensor[1], .label_smoothing = 0);
            ls_backward(run, loss);
            ls_step(adam);
            ls_schedule_step(cycle);
            ls_zero_grad(adam);
            sum += ls_item(loss);
        }
        if (epoch == 0) first = sum;
        last = sum;
    }
    EXPECT(last < first / 4);
    zero_is_zero(run, net);
    lists_and_shapes(run);
    several_outputs(run);
    defaults_are_those_of_c();
    ls_debug(run, "loss %g to %g", first, last);
    EXPECT(ls_error(run) == LS_OK);
    return ls_finish(run) || failures;
}
