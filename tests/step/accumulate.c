/* accumulate.c - gradients of several batches for one step: which batch ends in a step, and how much each weighs. */
#include <lockstep.h>

#include <string.h>

#include "check.h"
#include "step/step.h"

/* Batch i of n, as a loader would hand it out; length unknown: a stream. */
static void next(ls_run *run, ls_loop *loop, int64_t i, int64_t n, bool length_known)
{
    loop->last = i == n - 1;
    loop->left = length_known ? n - 1 - i : -1;
    ls_loop_batch(run, loop);
}

typedef struct pair {
    int step, sync;
} pair;

static void check_pairs(ls_run *run, int batches, int passes, const pair *want)
{
    ls_loop loop = {0};
    for (int pass = 0; pass < passes; pass++) {
        for (int i = 0; i < batches; i++, want++) {
            next(run, &loop, i, batches, true);
            ls_accumulate(run)
            {
                CHECK(run->step->accumulation.step == want->step && ls_sync_gradients(run) == (want->sync != 0));
            }
        }
        ls_loop_end(run, &loop);
    }
}

static void groups_end_where_accelerate_ends_them(void)
{
    static const pair fives[] = {{1, 0}, {2, 1}, {3, 0}, {4, 1}, {0, 1}, {1, 0}, {2, 1}, {3, 0}, {4, 1}, {0, 1}};
    static const pair sixes[] = {{1, 0}, {2, 0}, {3, 0}, {4, 1}, {5, 0}, {0, 1},
                                 {1, 0}, {2, 0}, {3, 0}, {4, 1}, {5, 0}, {0, 1}};
    static const pair across[] = {{1, 0}, {2, 0}, {3, 0}, {4, 1},  {5, 0},  {6, 0},
                                  {7, 0}, {8, 1}, {9, 0}, {10, 0}, {11, 0}, {12, 1}};
    ls_run *run = ls_init(NULL, NULL, .gradient_accumulation_steps = 2);
    CHECK(ls_sync_gradients(run) && ls_gradient_accumulation_steps(run) == 2);
    check_pairs(run, 5, 2, fives);
    CHECK(ls_finish(run) == 0);
    run = ls_init(NULL, NULL, .gradient_accumulation_steps = 4);
    check_pairs(run, 6, 2, sixes);
    CHECK(ls_finish(run) == 0);
    run = ls_init(NULL, NULL, .gradient_accumulation_steps = 4, .accumulate_across_epochs = true);
    check_pairs(run, 6, 2, across);
    CHECK(ls_finish(run) == 0);
}

/* ---- numbers: y = w x, loss (w x - y)^2, one sample a batch ---- */

static const float xs[] = {1, -2, 3, 0.5f, 2, -1, 4}, ys[] = {2, 1, -1, 3, 0, 2, 1};
enum { SAMPLES = 7 };

static ls_tensor *loss_of(ls_run *run, ls_module *net, int first, int count)
{
    ls_tensor *x = ls_from(run, LS_F32, LS_SHAPE(count, 1), xs + first);
    ls_tensor *y = ls_from(run, LS_F32, LS_SHAPE(count, 1), ys + first);
    return ls_mean(ls_square(ls_sub(ls_forward(net, x), y)));
}

static double weight_of(ls_module *net)
{
    return ls_item(ls_module_tensor(net, "weight"));
}

/* Groups of k samples, each group's mean loss in one backward pass: what accumulation must come to. */
static double train_whole(int k)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 1);
    ls_module *net = ls_linear_new(run, 1, 1, .bias = false);
    ls_optim *sgd = ls_sgd_new(run, net, .lr = 0.05, .momentum = 0.9);
    for (int first = 0; first < SAMPLES; first += k) {
        ls_backward(run, loss_of(run, net, first, first + k < SAMPLES ? k : SAMPLES - first));
        CHECK(ls_step(sgd));
        ls_zero_grad(sgd);
    }
    double w = weight_of(net);
    CHECK(ls_finish(run) == 0);
    return w;
}

typedef enum place { AT_END, AT_BEGIN, SCOPED } place; /* where ls_zero_grad() stands */

static double train_accumulating(int k, bool length_known, place zero, ls_dtype precision)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 1, .gradient_accumulation_steps = k, .mixed_precision = precision);
    ls_module *net = ls_linear_new(run, 1, 1, .bias = false);
    ls_optim *sgd = ls_sgd_new(run, net, .lr = 0.05, .momentum = 0.9);
    ls_schedule *flat = ls_exponential_schedule_new(sgd, 1);
    ls_loop loop = {0}, inner = {0};
    for (int i = 0; i < SAMPLES; i++) {
        next(run, &loop, i, SAMPLES, length_known);
        next(run, &inner, 0, 1, true); /* evaluation in between counts nothing */
        ls_loop_end(run, &inner);
        if (zero == AT_BEGIN) ls_zero_grad(sgd);
        if (zero == SCOPED) ls_accumulate_begin(run);
        ls_backward(run, loss_of(run, net, i, 1));
        bool ends = (i + 1) % k == 0 || i == SAMPLES - 1;
        CHECK(ls_sync_gradients(run) == ends);
        CHECK(ls_step(sgd) == ends);
        ls_schedule_step(flat);
        if (zero != AT_BEGIN) ls_zero_grad(sgd);
        if (zero == SCOPED) ls_accumulate_end(run);
    }
    ls_loop_end(run, &loop);
    CHECK(ls_optim_steps_taken(sgd) == (SAMPLES + k - 1) / k &&
          ls_schedule_position(flat) == ls_optim_steps_taken(sgd));
    double w = weight_of(net);
    CHECK(ls_finish(run) == 0);
    return w;
}

static void short_groups_weigh_right(void)
{
    for (int k = 1; k <= 8; k++) {
        double want = train_whole(k);
        for (place zero = AT_END; zero <= SCOPED; zero++) {
            CHECK_NEAR(train_accumulating(k, true, zero, LS_DTYPE_NONE), want, 1e-6);
            CHECK_NEAR(train_accumulating(k, false, zero, LS_DTYPE_NONE), want, 1e-6);
            CHECK_NEAR(train_accumulating(k, false, zero, LS_F16), want, 1e-6);
        }
    }
}

/* Batches of 3, 3 and 1 samples weigh by their samples: like all seven at once. */
static void weights_count(void)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 1, .gradient_accumulation_steps = 3);
    ls_module *net = ls_linear_new(run, 1, 1, .bias = false);
    ls_optim *sgd = ls_sgd_new(run, net, .lr = 0.05, .momentum = 0.9);
    ls_backward_weighted(run, loss_of(run, net, 0, 3), 3);
    ls_backward_weighted(run, loss_of(run, net, 3, 3), 3);
    ls_backward_weighted(run, loss_of(run, net, 6, 1), 1);
    ls_clip_grad_norm(sgd, 1e9); /* puts the weights right; the step must not do it again */
    CHECK(ls_step(sgd));
    CHECK_NEAR(weight_of(net), train_whole(SAMPLES), 1e-6);
    CHECK(ls_finish(run) == 0);
    run = ls_init(NULL, NULL);
    ls_backward_weighted(run, loss_of(run, ls_linear_new(run, 1, 1, .bias = false), 0, 1), 0);
    CHECK(ls_error(run) == LS_ERR_VALUE);
    CHECK(ls_finish(run) == 1);
}

/* In a marked batch the weight counts as well, whatever the number of its backward passes. */
static void weights_of_marked_batches_count(void)
{
    static const double weights[] = {3, 5};
    ls_run *run = ls_init(NULL, NULL, .gradient_accumulation_steps = 3);
    ls_module *net = ls_linear_new(run, 1, 1, .bias = false);
    ls_optim *sgd = ls_sgd_new(run, net, .lr = 1);
    double before = weight_of(net);
    ls_accumulate(run) CHECK(!ls_step(sgd)); /* no pass: it weighs nothing */
    for (int i = 0; i < 2; i++) {
        ls_accumulate(run)
        {
            for (int pass = 0; pass < 2; pass++) /* gradients of 1 + 10, then 2 + 20 */
                ls_backward_weighted(
                    run, ls_sum(ls_mul_scalar(ls_module_tensor(net, "weight"), (i + 1) * (pass ? 10 : 1))), weights[i]);
            CHECK(ls_step(sgd) == (i == 1));
        }
    }
    CHECK_NEAR(before - weight_of(net), (3 * 11 + 5 * 22) / 8.0, 1e-4);
    CHECK(ls_finish(run) == 0);
}

/* Which loss the sum of the weights belongs to could not be known. */
static void losses_of_a_batch_have_one_weight(void)
{
    static const char *const said[] = {
        "ls_backward_weighted: the weight is 20, and an earlier backward pass of the same batch had 2;",
        "ls_backward: the weight is 1, and an earlier backward pass of the same batch had 2;",
        "ls_backward_weighted: the weight is 20, and an earlier backward pass of the same batch had 1;"};
    for (int way = 0; way < 3; way++) {
        ls_run *run = ls_init(NULL, NULL, .gradient_accumulation_steps = 2);
        ls_module *net = ls_linear_new(run, 1, 1);
        ls_loop loop = {0};
        next(run, &loop, 0, 4, true);
        if (way == 2) ls_backward(run, loss_of(run, net, 0, 1));
        else ls_backward_weighted(run, loss_of(run, net, 0, 1), 2);
        CHECK(ls_error(run) == LS_OK);
        if (way == 1) ls_backward(run, loss_of(run, net, 0, 1));
        else ls_backward_weighted(run, loss_of(run, net, 0, 1), 20);
        CHECK(ls_error(run) == LS_ERR_VALUE);
        CHECK(strstr(ls_error_message(run), said[way]));
        ls_clear_error(run);
        next(run, &loop, 1, 4, true);
        ls_backward_weighted(run, loss_of(run, net, 0, 1), 7); /* the next batch may weigh what it likes */
        CHECK(ls_error(run) == LS_OK);
        ls_loop_end(run, &loop);
        CHECK(ls_finish(run) == 0);
    }
}

static void held_gradients_are_not_weighted(void)
{
    for (int held = 0; held < 2; held++) {
        ls_run *run = ls_init(NULL, NULL);
        ls_module *net = ls_linear_new(run, 1, 1);
        ls_set_sync_gradients(run, false);
        if (!held) {
            ls_backward(run, loss_of(run, net, 0, 1));
            ls_set_sync_gradients(run, true);
        }
        CHECK(ls_error(run) == LS_OK);
        ls_backward_weighted(run, loss_of(run, net, 0, 1), 2);
        CHECK(ls_error(run) == LS_ERR_STATE);
        CHECK(strstr(ls_error_message(run), "gradients held by ls_set_sync_gradients() have no weights"));
        ls_clear_error(run);
        ls_set_sync_gradients(run, true);
        ls_backward(run, loss_of(run, net, 0, 1));
        ls_backward_weighted(run, loss_of(run, net, 0, 1), 2); /* a group of its own */
        CHECK(ls_error(run) == LS_OK);
        CHECK(ls_finish(run) == 0);
    }
}

/* Several losses of one batch count it once. */
static void a_batch_counts_once(void)
{
    ls_run *run = ls_init(NULL, NULL, .gradient_accumulation_steps = 2);
    ls_module *net = ls_linear_new(run, 1, 1);
    ls_loop loop = {0};
    for (int i = 0; i < 4; i++) {
        next(run, &loop, i, 100, true);
        for (int twice = 0; twice < 2; twice++) {
            ls_backward(run, loss_of(run, net, 0, 1));
            CHECK(ls_sync_gradients(run) == (i % 2 == 1));
        }
    }
    ls_loop_end(run, &loop);
    CHECK(ls_finish(run) == 0);
}

static void gradients_can_be_held(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_linear_new(run, 1, 1, .bias = false);
    ls_optim *sgd = ls_sgd_new(run, net, .lr = 1);
    double before = weight_of(net);
    ls_set_sync_gradients(run, false);
    ls_backward(run, ls_sum(ls_module_tensor(net, "weight")));
    ls_step(sgd);
    ls_zero_grad(sgd);
    CHECK(weight_of(net) == before && ls_item(ls_clip_grad_norm(sgd, 0.1)) == 0);
    ls_set_sync_gradients(run, true);
    ls_backward(run, ls_sum(ls_module_tensor(net, "weight")));
    CHECK(ls_step(sgd));
    CHECK_NEAR(weight_of(net), before - 2, 1e-6);
    CHECK(ls_finish(run) == 0);
}

/* ---- several optimisers, and where ls_zero_grad() stands ---- */

enum { MODELS = 2, BATCHES = 5 };
typedef enum order { ZERO_FIRST, ZERO_LAST, ZERO_ALL_FIRST, ORDERS } order;

/* y = w x with gradients x = 1, 10, 100, ...: shows which batches a gradient is of. */
static double gradient_of(ls_module *net)
{
    ls_tensor *gradient = ls_grad(ls_module_tensor(net, "weight"));
    return gradient ? ls_item(gradient) : 0;
}

static void check_group(ls_module *net, int batch)
{
    static const double want[BATCHES] = {0.5, 5.5, 50, 550, 10000}; /* groups of two, the last alone */
    CHECK_NEAR(gradient_of(net), want[batch], 1e-6);
}

/* Each model has a backward pass of its own in every batch. */
static void train_in_turn(order zero, bool marked, ls_dtype precision)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 1, .gradient_accumulation_steps = 2, .mixed_precision = precision);
    ls_autocast_begin(run, LS_F32);
    ls_loss_scaler_state scale = {.scale = 1}; /* so that gradients can be read before they are unscaled */
    if (precision) ls_set_loss_scaler(run, scale);
    ls_module *nets[MODELS];
    ls_optim *optims[MODELS];
    for (int m = 0; m < MODELS; m++) nets[m] = ls_linear_new(run, 1, 1, .bias = false);
    for (int m = 0; m < MODELS; m++) optims[m] = ls_sgd_new(run, nets[m]);
    ls_loop loop = {0};
    float x = 1;
    for (int i = 0; i < BATCHES; i++, x *= 10) {
        next(run, &loop, i, BATCHES, true);
        if (marked) ls_accumulate_begin(run);
        for (int m = 0; m < MODELS && zero == ZERO_ALL_FIRST; m++) ls_zero_grad(optims[m]);
        for (int m = 0; m < MODELS; m++) {
            if (zero == ZERO_FIRST) ls_zero_grad(optims[m]);
            ls_backward(run, ls_sum(ls_forward(nets[m], ls_from(run, LS_F32, LS_SHAPE(1, 1), &x))));
            check_group(nets[m], i);
            ls_step(optims[m]);
            if (zero == ZERO_LAST) ls_zero_grad(optims[m]);
        }
        if (marked) ls_accumulate_end(run);
    }
    for (int m = 0; m < MODELS; m++) CHECK(ls_optim_steps_taken(optims[m]) == 3);
    CHECK(ls_finish(run) == 0);
}

static void every_optimiser_keeps_what_still_adds_up(void)
{
    for (order zero = ZERO_FIRST; zero < ORDERS; zero++)
        for (int marked = 0; marked < 2; marked++) {
            train_in_turn(zero, marked, LS_DTYPE_NONE);
            train_in_turn(zero, marked, LS_F16);
        }
}

/* A step that the program leaves out, or one that is skipped, does not let gradients into the next group. */
static void complete_gradients_are_forgotten_without_a_step(void)
{
    for (int marked = 0; marked < 2; marked++) {
        ls_run *run = ls_init(NULL, NULL, .gradient_accumulation_steps = 2);
        ls_module *net = ls_linear_new(run, 1, 1, .bias = false);
        ls_optim *sgd = ls_sgd_new(run, net);
        ls_loop loop = {0};
        float x = 1;
        for (int i = 0; i < BATCHES; i++, x *= 10) {
            next(run, &loop, i, BATCHES, true);
            if (marked) ls_accumulate_begin(run);
            ls_backward(run, ls_sum(ls_forward(net, ls_from(run, LS_F32, LS_SHAPE(1, 1), &x))));
            check_group(net, i);
            ls_zero_grad(sgd);
            if (marked) ls_accumulate_end(run);
        }
        CHECK(gradient_of(net) == 0 && ls_finish(run) == 0);
    }
}

/* One optimiser overflows in the middle of the other's group: that one's gradients stay of one scale. */
static void gradients_that_add_up_have_one_scale(void)
{
    ls_run *run = ls_init(NULL, NULL, .gradient_accumulation_steps = 2, .mixed_precision = LS_F16);
    ls_module *a = ls_linear_new(run, 1, 1, .bias = false), *b = ls_linear_new(run, 1, 1, .bias = false);
    ls_optim *first = ls_sgd_new(run, a), *second = ls_sgd_new(run, b, .lr = 1);
    double before = weight_of(b);
    ls_loop loop = {0};
    for (int i = 0; i < 2; i++) {
        next(run, &loop, i, 2, true);
        ls_backward(run, ls_sum(ls_mul_scalar(ls_module_tensor(a, "weight"), i ? NAN : 1)));
        CHECK(!ls_step(first));
        ls_backward(run, ls_sum(ls_module_tensor(b, "weight")));
        CHECK(ls_step(second) == (i == 1));
    }
    CHECK_NEAR(weight_of(b), before - 1, 1e-6);
    CHECK(ls_loss_scaler(run).scale == 32768 && ls_finish(run) == 0);
}

/* Held by the program, with ls_zero_grad() first: as with a loader. */
static void held_gradients_are_kept(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_linear_new(run, 1, 1, .bias = false);
    ls_optim *sgd = ls_sgd_new(run, net);
    static const double want[] = {1, 2, 3, 1, 2, 3};
    for (int i = 0; i < 6; i++) {
        ls_set_sync_gradients(run, i % 3 == 2);
        ls_zero_grad(sgd);
        ls_backward(run, ls_sum(ls_module_tensor(net, "weight")));
        CHECK(gradient_of(net) == want[i]);
        CHECK(ls_step(sgd) == (i % 3 == 2));
    }
    CHECK(ls_finish(run) == 0);
}

/* Loops nest, and one that was left by `break` ends when the one around it goes on. */
static void loops_nest(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_loop outer = {0}, inner = {0}, third = {0};
    CHECK(!run->step->loop);
    for (int i = 0; i < 3; i++) {
        next(run, &outer, i, 3, true);
        CHECK(run->step->loop == &outer && !outer.outer);
        for (int j = 0; j < 4; j++) {
            next(run, &inner, j, 4, true);
            CHECK(run->step->loop == &inner && inner.outer == &outer && inner.last == (j == 3));
            if (i == 1 && j == 1) {
                next(run, &third, 0, 9, true);
                break;
            }
        }
        if (i != 1) ls_loop_end(run, &inner);
        CHECK(run->step->loop == (i == 1 ? &third : &outer));
    }
    CHECK(outer.last && !inner.running && !third.running);
    ls_loop_end(run, &outer);
    CHECK(!run->step->loop);
    CHECK(ls_finish(run) == 0);
}

/* Clipping sees gradients without the loss scale; a step that is skipped leaves schedule and weights alone. */
static void clipping_unscales_first(void)
{
    ls_run *run = ls_init(NULL, NULL, .mixed_precision = LS_F16);
    ls_module *net = ls_linear_new(run, 3, 1, .bias = false);
    ls_optim *sgd = ls_sgd_new(run, net, .lr = 1);
    ls_schedule *falling = ls_exponential_schedule_new(sgd, 0.5);
    ls_tensor *w = ls_module_tensor(net, "weight");
    ls_init_constant(w, 0);
    ls_backward(run, ls_sum(ls_mul_scalar(w, 4)));
    CHECK_NEAR(ls_item(ls_clip_grad_norm(sgd, 1)), 4 * sqrt(3), 1e-5);
    CHECK(ls_step(sgd));
    CHECK_NEAR(ls_item(ls_sum(w)), -sqrt(3), 1e-5);
    ls_schedule_step(falling);
    CHECK(ls_schedule_position(falling) == 1);
    ls_zero_grad(sgd);
    ls_backward(run, ls_sum(ls_mul_scalar(w, INFINITY)));
    CHECK(!ls_step(sgd) && ls_optim_step_was_skipped(sgd) && ls_loss_scaler(run).scale == 32768);
    ls_schedule_step(falling);
    CHECK(ls_schedule_position(falling) == 1);
    CHECK(ls_finish(run) == 0);
}

static void a_schedule_may_step_at_every_call(void)
{
    ls_run *run = ls_init(NULL, NULL, .schedule_policy = LS_SCHEDULE_PER_CALL, .gradient_accumulation_steps = 4);
    ls_optim *sgd = ls_sgd_new(run, ls_linear_new(run, 1, 1), .lr = 1);
    ls_schedule *falling = ls_warmup_linear_schedule_new(sgd, 0, 10);
    for (int i = 0; i < 2; i++) {
        ls_accumulate(run)
        {
            ls_schedule_step(falling);
        }
    }
    CHECK_NEAR(ls_optim_lr(sgd), 0.8, 1e-12);
    CHECK(ls_finish(run) == 0);
}

/* A step that the program leaves out, or forgets, moves no schedule; one call follows any number of steps. */
static void a_schedule_moves_after_steps_alone(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_linear_new(run, 1, 1, .bias = false);
    ls_optim *sgd = ls_sgd_new(run, net, .lr = 1);
    ls_schedule *falling = ls_exponential_schedule_new(sgd, 0.5);
    ls_schedule_step(falling);
    ls_backward(run, loss_of(run, net, 0, 1));
    ls_schedule_step(falling);
    CHECK(ls_schedule_position(falling) == 0 && ls_optim_lr(sgd) == 1);
    CHECK(ls_step(sgd) && ls_step(sgd));
    ls_schedule_step(falling);
    ls_schedule_step(falling);
    CHECK(ls_schedule_position(falling) == 1 && ls_optim_lr(sgd) == 0.5);
    ls_schedule_set_position(falling, 5);
    ls_schedule_step(falling);
    CHECK(ls_schedule_position(falling) == 5);
    CHECK(ls_finish(run) == 0);
}

/* A linear schedule over 20 steps from 10 reaches 0 after 20 k batches of k to a step. */
static void schedules_end_with_the_steps(void)
{
    for (int k = 1; k <= 4; k *= 2) {
        ls_run *run = ls_init(NULL, NULL, .gradient_accumulation_steps = k);
        ls_module *net = ls_linear_new(run, 1, 1, .bias = false);
        ls_optim *sgd = ls_sgd_new(run, net, .lr = 10);
        ls_schedule *falling = ls_warmup_linear_schedule_new(sgd, 0, 20);
        ls_loop loop = {0};
        for (int i = 0; i < 20 * k; i++) {
            next(run, &loop, i, 20 * k, true);
            CHECK(ls_optim_lr(sgd) > 0);
            ls_backward(run, loss_of(run, net, 0, 1));
            ls_step(sgd);
            ls_schedule_step(falling);
            ls_zero_grad(sgd);
        }
        CHECK(ls_optim_lr(sgd) == 0);
        ls_loop_end(run, &loop);
        CHECK(ls_finish(run) == 0);
    }
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(groups_end_where_accelerate_ends_them);
    CHECK_RUN(short_groups_weigh_right);
    CHECK_RUN(weights_count);
    CHECK_RUN(weights_of_marked_batches_count);
    CHECK_RUN(losses_of_a_batch_have_one_weight);
    CHECK_RUN(held_gradients_are_not_weighted);
    CHECK_RUN(a_batch_counts_once);
    CHECK_RUN(gradients_can_be_held);
    CHECK_RUN(every_optimiser_keeps_what_still_adds_up);
    CHECK_RUN(complete_gradients_are_forgotten_without_a_step);
    CHECK_RUN(gradients_that_add_up_have_one_scale);
    CHECK_RUN(held_gradients_are_kept);
    CHECK_RUN(loops_nest);
    CHECK_RUN(clipping_unscales_first);
    CHECK_RUN(a_schedule_may_step_at_every_call);
    CHECK_RUN(a_schedule_moves_after_steps_alone);
    CHECK_RUN(schedules_end_with_the_steps);
    return check_done();
}
