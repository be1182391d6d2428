/* session.c - what a run is given and how far it is: preparing, epochs, finding a batch size. */
#include <lockstep.h>

#include <unistd.h>

#include "base/denormals.h"
#include "check.h"
#include "run/prepare.h"

static void prepared_in_any_order(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *a = ls_linear_new(run, 2, 2), *b = ls_linear_new(run, 2, 2);
    ls_optim *sgd = ls_sgd_new(run, a);
    ls_schedule *flat = ls_exponential_schedule_new(sgd, 1);
    ls_prepare(run, flat, b, sgd);
    ls_prepare(run, a, b, flat); /* what is there already stays as it is */
    CHECK(ls_error(run) == LS_OK && run->session->prepared_count == 4);
    int at = 0;
    CHECK(ls_prepared_next(run, LS_OBJECT_MODULE, &at) == (ls_object *)b);
    CHECK(ls_prepared_next(run, LS_OBJECT_MODULE, &at) == (ls_object *)a);
    CHECK(!ls_prepared_next(run, LS_OBJECT_MODULE, &at));
    ls_module_free(b); /* it is not prepared any more */
    at = 0;
    CHECK(ls_prepared_next(run, LS_OBJECT_MODULE, &at) == (ls_object *)a);
    ls_free_memory(run);
    at = 0;
    CHECK(!ls_prepared_next(run, LS_OBJECT_MODULE, &at));
    CHECK(ls_finish(run) == 0);
}

static void refused(ls_run *run, const char *message)
{
    CHECK(ls_error(run) == LS_ERR_VALUE && run->session->prepared_count == 0);
    CHECK_TEXT(ls_error_message(run), message);
    ls_clear_error(run);
}

#define EXPECTED "; expected modules, optimisers, schedules and loaders"

static void wrong_arguments_are_named(void)
{
    ls_run *run = ls_init(NULL, NULL), *other = ls_init(NULL, NULL);
    ls_module *net = ls_linear_new(run, 2, 2), *foreign = ls_linear_new(other, 2, 2);
    ls_prepare(run, net, NULL);
    refused(run, "ls_prepare: argument 2 of 2 is NULL" EXPECTED);
    ls_prepare(run, ls_ones(run, LS_F32, 2), net);
    refused(run, "ls_prepare: argument 1 of 2 is a tensor" EXPECTED);
    ls_prepare(run, net, net, foreign);
    refused(run, "ls_prepare: argument 3 of 3 belongs to another run" EXPECTED);
    ls_prepare(run, ls_parameters(net));
    refused(run, "ls_prepare: argument 1 of 1 cannot be prepared" EXPECTED);
    int number = 0;
    ls_prepare(run, &number);
    refused(run, "ls_prepare: argument 1 of 1 is not an object of this run" EXPECTED);
    CHECK(ls_finish(other) == 0 && ls_finish(run) == 0);
}

static void ended(ls_run *run, const char *message)
{
    CHECK(ls_failed(run));
    CHECK_TEXT(ls_error_message(run), message);
    ls_clear_error(run);
}

#define ENDED ": the run of this object has ended; no object outlives ls_finish()"

static void objects_end_with_their_run(void)
{
    ls_run *one = ls_init(NULL, NULL);
    ls_module *net = ls_sequential_new(one, ls_linear_new(one, 2, 2), ls_linear_new(one, 2, 2));
    ls_optim *sgd = ls_sgd_new(one, net);
    ls_schedule *flat = ls_exponential_schedule_new(sgd, 1);
    ls_dataset *set = ls_tensor_dataset_new(one, ls_ones(one, LS_F32, 4, 2));
    ls_loader *loader = ls_loader_new(one, set);
    CHECK(ls_finish(one) == 0);

    ls_run *two = ls_init(NULL, NULL);
    ls_module *own = ls_sequential_new(two, ls_linear_new(two, 2, 2));
    CHECK(!ls_sgd_new(two, net));
    ended(two, "ls_parameters" ENDED);
    CHECK(!ls_is_valid(ls_forward(net, ls_ones(two, LS_F32, 1, 2))));
    ended(two, "ls_forward" ENDED);
    ls_module_add(own, "more", net);
    ended(two, "ls_module_add" ENDED);
    CHECK(!ls_step(sgd));
    ended(two, "ls_step" ENDED);
    CHECK(!ls_exponential_schedule_new(sgd, 1));
    ended(two, "ls_exponential_schedule_new" ENDED);
    ls_batch batch;
    CHECK(!ls_next(loader, &batch));
    ended(two, "ls_next" ENDED);
    CHECK(ls_len(loader) == 0 && ls_steps_per_epoch(loader) == 0);
    ended(two, "ls_len" ENDED);
    CHECK(!ls_loader_new(two, set));
    ended(two, "ls_loader_new: the run of the dataset has ended");
    ls_prepare(two, net);
    refused(two, "ls_prepare: argument 1 of 1 is not an object of this run" EXPECTED);
    ls_schedule_step(flat); /* what gives or takes nothing does nothing */
    ls_zero_grad(sgd);
    ls_loader_free(loader);
    ls_dataset_free(set);
    ls_module_free(net);
    CHECK(ls_finish(two) == 0);
}

static void epochs_count(void)
{
    ls_run *run = ls_init(NULL, NULL);
    for (int again = 0; again < 2; again++) {
        int count = 0;
        for (int epoch; ls_epoch(run, 3, &epoch); count++) {
            CHECK(epoch == count);
            size_t before = ls_memory(run).in_use;
            ls_zeros(run, LS_F32, 1000);
            CHECK(ls_memory(run).in_use > before);
        }
        CHECK(count == 3 && ls_memory(run).in_use == 0); /* what an epoch made went with it */
    }
    int epoch, count = 0;
    while (ls_epoch(run, 3, &epoch)) {
        count++;
        ls_matmul(ls_ones(run, LS_F32, 2, 3), ls_ones(run, LS_F32, 2, 3));
    }
    CHECK(count == 1 && ls_error(run) == LS_ERR_SHAPE);
    CHECK(ls_finish(run) == 1);
}

/* ---- with loaders ---- */

/* Numbers 0 .. n-1 in batches. */
static ls_loader *numbers(ls_run *run, int64_t n, int64_t batch)
{
    return ls_loader_new(run, ls_tensor_dataset_new(run, ls_keep(ls_arange(run, LS_F32, n, 0, 1))), .batch = batch);
}

/* The program of every tutorial, with nine samples in batches of two and two batches to a step. */
static void loaders_drive_accumulation(void)
{
    ls_run *run = ls_init(NULL, NULL, .gradient_accumulation_steps = 2);
    ls_module *net = ls_linear_new(run, 1, 1);
    ls_optim *sgd = ls_sgd_new(run, net, .lr = 1e-3);
    ls_schedule *falling = ls_warmup_linear_schedule_new(sgd, 0, 6);
    ls_loader *train = numbers(run, 9, 2), *eval = numbers(run, 4, 4);
    ls_prepare(run, train, eval, net, sgd, falling);
    int batches = 0;
    for (int epoch; ls_epoch(run, 2, &epoch);) {
        for (ls_batch b; ls_next(train, &b); batches++) {
            for (ls_batch e; ls_next(eval, &e);) ls_forward(net, ls_reshape(e.image, -1, 1));
            CHECK(run->step->loop && run->step->loop->rows == b.size && run->step->loop->last == b.last);
            ls_backward(run, ls_mean(ls_forward(net, ls_reshape(b.image, -1, 1))));
            CHECK(ls_sync_gradients(run) == (batches % 5 == 1 || batches % 5 == 3 || b.last));
            CHECK(ls_step(sgd) == ls_sync_gradients(run));
            ls_schedule_step(falling);
            ls_zero_grad(sgd);
            CHECK(ls_dim(ls_gather(run, b.image), 0) == b.size);
        }
        CHECK(!run->step->loop && ls_optim_steps_taken(sgd) == 3 * (epoch + 1));
    }
    CHECK(batches == 10 && ls_optim_lr(sgd) == 0);
    CHECK(ls_finish(run) == 0);
}

static void a_loop_left_early_begins_anew_with_the_epoch(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_loader *train = numbers(run, 6, 1);
    ls_prepare(run, train);
    for (int epoch; ls_epoch(run, 3, &epoch);) {
        int64_t i = 0;
        for (ls_batch b; ls_next(train, &b); i++) {
            CHECK(ls_item(b.image) == (double)i);
            if (i == 2) break;
        }
        CHECK(run->step->loop != NULL);
    }
    CHECK(!run->step->loop);
    CHECK(ls_finish(run) == 0);
}

/* ---- autocast ---- */

static void autocast_scopes_nest(void)
{
    ls_run *run = ls_init(NULL, NULL, .mixed_precision = LS_F16);
    ls_tensor *x = ls_ones(run, LS_F32, 2, 2);
    CHECK(ls_dtype_of(ls_matmul(x, x)) == LS_F32); /* the run's is for prepared modules */
    ls_autocast_begin(run, ls_mixed_precision(run));
    CHECK(ls_dtype_of(ls_matmul(x, x)) == LS_F16);
    ls_autocast_begin(run, LS_F32);
    CHECK(ls_dtype_of(ls_matmul(x, x)) == LS_F32);
    ls_autocast_end(run);
    CHECK(ls_dtype_of(ls_matmul(x, x)) == LS_F16);
    ls_autocast_end(run);
    CHECK(ls_dtype_of(ls_matmul(x, x)) == LS_F32);
    CHECK(ls_finish(run) == 0);
}

/* As in PyTorch: 257 times 3 is no number of bf16. Means stay in half. */
static void sums_are_f32_under_autocast(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_tensor *x = ls_set_requires_grad(ls_cast(ls_full(run, LS_F32, 3, 257), LS_BF16), true);
    CHECK(ls_dtype_of(ls_sum(x)) == LS_BF16 && ls_item(ls_sum(x)) == 772);
    ls_autocast_begin(run, LS_BF16);
    ls_tensor *sum = ls_sum(x);
    CHECK(ls_dtype_of(sum) == LS_F32 && ls_item(sum) == 771);
    CHECK(ls_dtype_of(ls_sum_dim(x, 0, true)) == LS_F32 && ls_dtype_of(ls_mean(x)) == LS_BF16);
    ls_autocast_end(run);
    ls_backward(run, sum);
    CHECK(ls_dtype_of(ls_grad(x)) == LS_BF16 && ls_item(ls_sum(ls_cast(ls_grad(x), LS_F32))) == 257);
    CHECK(ls_finish(run) == 0);
}

static ls_dtype seen_inside; /* the type of a product inside of a forward pass */

static ls_tensor *look_inside(ls_module *module, ls_tensor *x, void *user)
{
    (void)module, (void)user;
    ls_tensor *y = ls_matmul(x, x);
    seen_inside = ls_dtype_of(y);
    return y;
}

/* As Accelerate: inside of what was prepared, and nowhere else. */
static void mixed_precision_is_for_prepared_modules(void)
{
    static const ls_dtype types[] = {LS_BF16, LS_F16};
    for (int i = 0; i < 2; i++) {
        ls_run *run = ls_init(NULL, NULL, .mixed_precision = types[i]);
        ls_module *net = ls_linear_new(run, 1, 1), *looking = ls_module_new(run, "looking", look_inside, NULL);
        ls_tensor *w = ls_module_tensor(net, "weight"), *x = ls_full(run, LS_F32, 3, 257, 1);
        ls_tensor *square = ls_ones(run, LS_F32, 2, 2);
        ls_init_constant(w, 1);
        ls_init_constant(ls_module_tensor(net, "bias"), 0);
        CHECK(ls_mixed_precision(run) == types[i]);
        CHECK(ls_dtype_of(ls_forward(looking, square)) == LS_F32 && seen_inside == LS_F32);
        ls_prepare(run, net, looking);
        CHECK(ls_dtype_of(ls_forward(looking, square)) == LS_F32 && seen_inside == types[i]);
        CHECK(ls_dtype_of(ls_forward(net, x)) == LS_F32);
        CHECK(ls_item(ls_sum(ls_forward(net, x))) == 771); /* in bf16 that would be 772 */
        ls_backward(run, ls_mean(ls_forward(net, x)));     /* through the cast */
        CHECK_NEAR(ls_item(ls_grad(w)), 3 * ls_loss_scaler(run).scale, 1e-2);
        ls_autocast_begin(run, LS_F32); /* inside of a module its own counts */
        CHECK(ls_dtype_of(ls_forward(looking, square)) == LS_F32 && seen_inside == types[i]);
        ls_autocast_end(run);
        CHECK_MSG(ls_finish(run) == 0, "%s", "a run in mixed precision");
    }
}

/* The loss is f32, so its gradient times the first scale is a number. */
static void the_first_step_in_f16_is_taken(void)
{
    ls_run *run = ls_init(NULL, NULL, .mixed_precision = LS_F16);
    ls_module *net = ls_linear_new(run, 5, 5);
    ls_optim *sgd = ls_sgd_new(run, net, .lr = 0.1);
    ls_prepare(run, net, sgd);
    ls_backward(run, ls_mean(ls_forward(net, ls_ones(run, LS_F32, 2, 5))));
    CHECK(ls_step(sgd) && !ls_optim_step_was_skipped(sgd));
    CHECK(ls_finish(run) == 0);
}

/* What a program says on stderr while a module is trained, prepared or not. */
static void train_module(bool prepared, bool frozen, char *said, size_t size)
{
    ls_run *run = ls_init(NULL, NULL, .mixed_precision = LS_BF16);
    ls_module *net = ls_linear_new(run, 2, 1), *head = ls_linear_new(run, 1, 1);
    if (frozen) ls_freeze(net);
    ls_optim *sgd = ls_sgd_new(run, head, .lr = 0.1);
    ls_prepare(run, head, sgd);
    if (prepared) ls_prepare(run, net);
    FILE *words = tmpfile();
    int before = dup(STDERR_FILENO);
    dup2(fileno(words), STDERR_FILENO);
    for (int i = 0; i < 3; i++)
        ls_backward(run, ls_mean(ls_forward(head, ls_forward(net, ls_ones(run, LS_F32, 4, 2)))));
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(words);
    said[fread(said, 1, size - 1, words)] = 0;
    fclose(words);
    CHECK(ls_finish(run) == 0);
}

static void training_in_f32_by_mistake_is_said_once(void)
{
    char said[1024];
    train_module(true, false, said, sizeof said);
    CHECK_TEXT(said, "");
    train_module(false, true, said, sizeof said);
    CHECK_TEXT(said, "");
    train_module(false, false, said, sizeof said);
    CHECK_TEXT(said, "lockstep: warning: mixed precision is bf16, but Linear is trained in f32: it was not passed to "
                     "ls_prepare()\n");
}

/* ---- denormals ---- */

/* The sum of a product and a sum whose every number is subnormal. */
static double sum_of_tiny(ls_run *run)
{
    ls_tensor *tiny = ls_full(run, LS_F32, 1e-39, 96, 96);
    ls_tensor *product = ls_matmul(tiny, ls_ones(run, LS_F32, 96, 96));
    return ls_item(ls_sum(ls_cast(product, LS_F64))) + ls_item(ls_sum(ls_cast(ls_add(tiny, tiny), LS_F64)));
}

static void denormals_are_kept_unless_the_run_flushes_them(void)
{
    double kept = 96 * 96 * 96 * 1e-39 + 96 * 96 * 2e-39;
    ls_run *run = ls_init(NULL, NULL);
    CHECK_NEAR(sum_of_tiny(run) / kept, 1, 1e-4); /* a subnormal of 1e-39 has 19 bits */
    CHECK(ls_set_flush_denormals(true));
    CHECK(sum_of_tiny(run) == 0);
    CHECK(ls_set_flush_denormals(false));
    CHECK_NEAR(sum_of_tiny(run) / kept, 1, 1e-4);
    CHECK(ls_finish(run) == 0);

    run = ls_init(NULL, NULL, .flush_denormals = true);
    CHECK(sum_of_tiny(run) == 0);
    ls_run *other = ls_init(NULL, NULL, .flush_denormals = true); /* one within the other */
    CHECK(ls_finish(other) == 0);
    CHECK(sum_of_tiny(run) == 0 && ls_denormals_flushed());
    CHECK(ls_finish(run) == 0);
    CHECK(!ls_denormals_flushed()); /* as before the run */
}

/* ---- batch sizes ---- */

typedef struct trial {
    int64_t sizes[64];
    int count;
    int64_t fits;
    ls_status error;
} trial;

static void try_size(ls_run *run, int64_t batch_size, void *user)
{
    trial *t = user;
    t->sizes[t->count++] = batch_size;
    ls_optim *sgd = ls_sgd_new(run, ls_linear_new(run, 64, 64));
    ls_prepare(run, sgd);
    ls_no_grad_begin(run);
    ls_scope_begin(run);
    if (batch_size > t->fits) ls_fail(&run->errors, t->error, "out of memory");
    else ls_no_grad_end(run);
}

static void batch_sizes_shrink_by_a_tenth(void)
{
    static const int64_t want[] = {128, 115, 103, 92, 82, 73, 65, 58, 52, 46, 41, 36,
                                   32,  28,  25,  22, 19, 17, 15, 13, 11, 9,  8};
    ls_run *run = ls_init(NULL, NULL);
    trial t = {.fits = 8, .error = LS_ERR_MEMORY};
    CHECK(ls_find_batch_size(run, 0, try_size, &t) == 8);
    CHECK(t.count == 23 && memcmp(t.sizes, want, sizeof want) == 0);
    int objects = 0;
    for (ls_object *o = run->objects; o; o = o->older) objects += o->kind == LS_OBJECT_OPTIM;
    CHECK(objects == 1 && ls_is_grad_enabled(run) && run->scope_count == 1); /* what failed left nothing behind */

    t = (trial){.fits = 4, .error = LS_ERR_VALUE};
    CHECK(ls_find_batch_size(run, 6, try_size, &t) == 0 && t.count == 1 && ls_error(run) == LS_ERR_VALUE);
    ls_clear_error(run);
    t = (trial){.fits = 0, .error = LS_ERR_MEMORY};
    CHECK(ls_find_batch_size(run, 3, try_size, &t) == 0 && t.count == 3 && ls_error(run) == LS_ERR_MEMORY);
    CHECK_TEXT(ls_error_message(run), "ls_find_batch_size: not even a batch of size 1 fits in memory");
    CHECK(ls_finish(run) == 1);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(prepared_in_any_order);
    CHECK_RUN(wrong_arguments_are_named);
    CHECK_RUN(objects_end_with_their_run);
    CHECK_RUN(epochs_count);
    CHECK_RUN(loaders_drive_accumulation);
    CHECK_RUN(a_loop_left_early_begins_anew_with_the_epoch);
    CHECK_RUN(autocast_scopes_nest);
    CHECK_RUN(sums_are_f32_under_autocast);
    CHECK_RUN(mixed_precision_is_for_prepared_modules);
    CHECK_RUN(the_first_step_in_f16_is_taken);
    CHECK_RUN(training_in_f32_by_mistake_is_said_once);
    CHECK_RUN(denormals_are_kept_unless_the_run_flushes_them);
    CHECK_RUN(batch_sizes_shrink_by_a_tenth);
    return check_done();
}
