/* devices.c - plug-ins as the library meets them: refused, opened, failing late. */
#include <lockstep.h>

#include <dlfcn.h>
#include <unistd.h>

#include "check.h"

static void says(ls_run *run, const char *words)
{
    CHECK_MSG(strstr(ls_error_message(run), words) != NULL, "\"%s\" does not say \"%s\"", ls_error_message(run), words);
}

/* A function of the asynchronous device. */
static int64_t (*device_counter(const char *name))(void)
{
    int64_t (*counter)(void) = NULL;
    void *library = dlopen(ASYNC_DEVICE, RTLD_NOW), *symbol = library ? dlsym(library, name) : NULL;
    CHECK(symbol != NULL);
    memcpy(&counter, &symbol, sizeof symbol);
    return counter;
}

static void another_list_of_operators_is_refused_by_name(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = OTHER_DEVICE);
    CHECK(ls_error(run) == LS_ERR_DEVICE);
    says(run, "another list of operators: its number 2 is \"lerp\", the library's is \"arange\"");
    CHECK(ls_finish(run) == 1);
}

static void what_a_plug_in_lacks_is_named(void)
{
    static const char *const cases[][2] = {
        {"no table", "ls_plugin_v2 of the plug-in returned NULL"},
        {"no list", "its number 0 is \"nothing\""},
        {"other calls", "begin the table with LS_DEVICE_TABLE"},
        {"no count", "its table has no count"},
        {"no run", "its table has no run"},
        {"a new trait", "asks for trait 1 << 30, which this library does not know"},
        {"half a stream", "its table has no stream_destroy"},
        {"a silent failure", "could not be opened, for an unknown reason"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("OTHER_DEVICE", cases[i][0], 1);
        ls_run *run = ls_init(NULL, NULL, .device = OTHER_DEVICE);
        CHECK(ls_error(run) == LS_ERR_DEVICE);
        says(run, cases[i][1]);
        CHECK(ls_finish(run) == 1);
    }
    unsetenv("OTHER_DEVICE");
}

static void memory_that_is_not_aligned_is_refused(void)
{
    setenv("OTHER_DEVICE", "odd memory", 1);
    ls_run *run = ls_init(NULL, NULL, .device = OTHER_DEVICE);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    CHECK(!ls_is_valid(ls_zeros(run, LS_F32, 4)) && ls_error(run) == LS_ERR_DEVICE);
    says(run, "not a multiple of 64 bytes: its plug-in must align what it allocates");
    CHECK(ls_finish(run) == 1);
    unsetenv("OTHER_DEVICE");
}

/* Loading it would end the program by SIGBUS. */
static void a_plug_in_that_is_cut_short_is_refused(void)
{
    static char bytes[1 << 22];
    FILE *whole = fopen(ASYNC_DEVICE, "rb"), *part = fopen("./cut.so", "wb");
    size_t size = fread(bytes, 1, sizeof bytes, whole);
    CHECK(size > 8192 && fwrite(bytes, 1, 4096, part) == 4096);
    fclose(whole);
    fclose(part);
    ls_run *run = ls_init(NULL, NULL, .device = "./cut.so");
    CHECK(ls_error(run) == LS_ERR_DEVICE);
    says(run, "device \"./cut.so\": the file is truncated: 4096 bytes of at least ");
    CHECK(ls_finish(run) == 1);
    remove("./cut.so");
}

/* ---- failures that are noticed after the call ---- */

static ls_tensor *lookup_forward(ls_module *net, ls_tensor *x, void *user)
{
    (void)user;
    return ls_forward(ls_child(net, "words"), x);
}

/* Found when a number is read, or in the end. */
static void fails_late(const char *device, bool reads)
{
    ls_run *run = ls_init(NULL, NULL, .device = device);
    ls_module *net = ls_module_new(run, "net", lookup_forward, NULL);
    ls_module_add(net, "words", ls_embedding_new(run, 5, 4));
    int64_t index[] = {1, 7};
    ls_tensor *y = ls_forward(net, ls_from(run, LS_I64, LS_SHAPE(2), index));
    CHECK(ls_error(run) == LS_OK);
    if (reads) {
        ls_item(ls_sum(y));
        CHECK(ls_error(run) == LS_ERR_VALUE);
        says(run, "net/words: embedding: ");
    }
    CHECK(ls_finish(run) == 1);
}

static void late_failures_name_module_and_operator(void)
{
    fails_late(ASYNC_DEVICE, true);
    fails_late(RECORDING_DEVICE, true);
}

static void a_run_whose_last_work_fails_ends_with_an_error(void)
{
    fails_late(ASYNC_DEVICE, false);
    fails_late(RECORDING_DEVICE, false);
}

/* ---- weights as a device wants them ---- */

static ls_tensor *picture_forward(ls_module *net, ls_tensor *x, void *user)
{
    (void)user;
    x = ls_relu(ls_forward(ls_child(net, "conv"), x));
    return ls_forward(ls_child(net, "head"), ls_flatten(ls_max_pool2d(x, 2), 1, -1));
}

enum { STEPS = 6 };

/* Losses of a few steps of a small network with a convolution; the network goes into the folder, where one is named. */
static void train_pictures(const char *device, ls_dtype precision, const char *folder, double *loss)
{
    ls_run *run = ls_init(NULL, NULL, .device = device, .seed = 3, .mixed_precision = precision);
    ls_module *net = ls_module_new(run, "net", picture_forward, NULL);
    ls_module_add(net, "conv", ls_conv2d_new(run, 3, 8, 3, .padding = 1));
    ls_module_add(net, "head", ls_linear_new(run, 8 * 4 * 4, 5));
    ls_optim *sgd = ls_sgd_new(run, net, .lr = 0.05, .momentum = 0.9);
    ls_prepare(run, net, sgd);
    ls_tensor *x = ls_randn(run, LS_F32, 4, 3, 8, 8);
    int64_t label[] = {0, 3, 1, 4};
    ls_tensor *t = ls_from(run, LS_I64, LS_SHAPE(4), label);
    for (int i = 0; i < STEPS; i++) {
        ls_mark mark = ls_scope_begin(run);
        ls_tensor *l = ls_cross_entropy(ls_forward(net, x), t);
        ls_backward(run, l);
        ls_step(sgd);
        ls_zero_grad(sgd);
        loss[i] = ls_item(l);
        ls_scope_end(run, mark, NULL);
    }
    if (folder) CHECK(ls_save_model(run, net, folder));
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    CHECK(ls_finish(run) == 0);
}

static bool same_bytes(const char *a, const char *b)
{
    FILE *f = fopen(a, "rb"), *g = fopen(b, "rb");
    bool same = f && g;
    for (int c = 0; same && c != EOF;) same = (c = getc(f)) == getc(g);
    if (f) fclose(f);
    if (g) fclose(g);
    return same;
}

/* The order in which a device likes its weights is nobody else's business: steps and files are the CPU's. */
static void weights_in_the_devices_order_are_the_same_weights(void)
{
    double here[STEPS], there[STEPS];
    train_pictures("cpu", LS_F32, "devices_here", here);
    train_pictures(ASYNC_DEVICE, LS_F32, "devices_there", there);
    for (int i = 0; i < STEPS; i++) CHECK_MSG(here[i] == there[i], "step %d: %.9g and %.9g", i, here[i], there[i]);
    CHECK(same_bytes("devices_here/model.safetensors", "devices_there/model.safetensors"));
    CHECK(system("rm -r devices_here devices_there") == 0);
}

/* A CPU without products in bf16 does not round the weights: losses are near each other, no more. */
static void steps_write_the_copies_that_products_read(void)
{
    double here[STEPS], there[STEPS];
    int64_t (*used)(void) = device_counter("async_half_copies_used");
    if (!used) return;
    int64_t before = used();
    train_pictures("cpu", LS_BF16, NULL, here);
    CHECK(used() == before);
    train_pictures(ASYNC_DEVICE, LS_BF16, NULL, there);
    for (int i = 0; i < STEPS; i++) CHECK_NEAR(there[i], here[i], 5e-3);
    /* after the first step: 2 weights forward, the head's once more on the way back */
    CHECK_MSG(used() - before == 3 * (STEPS - 1), "%lld copies were read", (long long)(used() - before));
}

/* The host asks for the flag of the loss scaler before the step is submitted, and waits for no more than that. */
static void the_host_does_not_wait_for_a_step_in_f16(void)
{
    int64_t (*waits)(void) = device_counter("async_waits_with_work_left");
    if (!waits) return;
    ls_run *run = ls_init(NULL, NULL, .device = ASYNC_DEVICE, .mixed_precision = LS_F16, .seed = 3);
    ls_module *net = ls_linear_new(run, 8, 4);
    ls_optim *sgd = ls_sgd_new(run, net, .lr = 0.1);
    ls_prepare(run, net, sgd);
    for (int i = 0; i < 4; i++) {
        bool overflows = i == 1;
        int64_t before = waits();
        ls_tensor *x = ls_mul_scalar(ls_ones(run, LS_F32, 2, 8), overflows ? 1e4 : 1);
        ls_backward(run, ls_mul_scalar(ls_mean(ls_forward(net, x)), overflows ? 1e4 : 1));
        CHECK(ls_step(sgd) == !overflows && ls_optim_step_was_skipped(sgd) == overflows);
        CHECK_MSG(waits() - before == 1, "step %d: %lld waits with work left", i, (long long)(waits() - before));
        ls_zero_grad(sgd);
    }
    CHECK(ls_optim_steps_taken(sgd) == 3 && ls_loss_scaler(run).scale == 32768);
    CHECK_MSG(ls_finish(run) == 0, "%s", ls_error_message(run));
}

/* ---- checkpoints ---- */

typedef struct training {
    ls_run *run;
    ls_module *net;
    ls_optim *adam;
} training;

static training start(const char *device)
{
    training t = {.run = ls_init(NULL, NULL, .device = device, .seed = 3, .async_save = true)};
    t.net = ls_module_new(t.run, "net", picture_forward, NULL);
    ls_module_add(t.net, "conv", ls_conv2d_new(t.run, 3, 8, 3, .padding = 1));
    ls_module_add(t.net, "head", ls_linear_new(t.run, 8 * 4 * 4, 5));
    t.adam = ls_adamw_new(t.run, t.net);
    ls_prepare(t.run, t.net, t.adam);
    return t;
}

static void finish(training t, const char *folder)
{
    CHECK(ls_save_model(t.run, t.net, folder));
    CHECK_MSG(ls_error(t.run) == LS_OK, "%s", ls_error_message(t.run));
    CHECK(ls_finish(t.run) == 0);
}

/* Its memory is copied in one go, and written while the training goes on. */
static void a_checkpoint_of_the_device_goes_on_on_the_cpu(void)
{
    training there = start(ASYNC_DEVICE);
    ls_backward(there.run, ls_mean(ls_square(ls_forward(there.net, ls_randn(there.run, LS_F32, 4, 3, 8, 8)))));
    ls_step(there.adam);
    CHECK(ls_save_state(there.run, "devices_state"));
    finish(there, "devices_there");
    training here = start("cpu");
    CHECK(ls_load_state(here.run, "devices_state"));
    CHECK(ls_optim_steps_taken(here.adam) == 1);
    finish(here, "devices_here");
    CHECK(same_bytes("devices_here/model.safetensors", "devices_there/model.safetensors"));
    CHECK(system("rm -r devices_state devices_here devices_there") == 0);
}

/* ---- batches that travel ahead ---- */

/* An epoch of three batches; how many have been sent when the second is worked on. The workers fill them in their own
 * time, and only full ones are sent. */
static int64_t count_sent(ls_loader *loader, int64_t (*copies)(void))
{
    int64_t before = copies(), sent = 0, seen = 0;
    double sum = 0;
    for (ls_batch b; ls_next(loader, &b); seen++) {
        sum += ls_item(ls_sum(b.tensor[0])) * (double)(seen + 1);
        usleep(20000);
        if (seen == 1) sent = copies() - before;
    }
    CHECK(seen == 3 && sum == 45 + 2 * 145 + 3 * 245);
    return sent;
}

static void the_next_batch_travels_while_this_one_is_worked_on(void)
{
    int64_t (*copies)(void) = device_counter("async_copies_beside");
    if (!copies) return;
    ls_run *run = ls_init(NULL, NULL, .device = ASYNC_DEVICE);
    float x[30];
    for (int i = 0; i < 30; i++) x[i] = (float)i;
    ls_dataset *set = ls_tensor_dataset_new(run, ls_keep(ls_from(run, LS_F32, LS_SHAPE(30), x)));
    ls_loader *loader = ls_loader_new(run, set, .batch = 10, .workers = 2, .prefetch = 3);
    int64_t sent = 0;
    for (int epoch = 0; epoch < 100 && sent < 3; epoch++) sent = count_sent(loader, copies);
    CHECK_MSG(sent == 3, "%lld batches were sent", (long long)sent);
    /* One that was sent ahead and is not wanted any more. */
    for (ls_batch b; ls_next(loader, &b);) break;
    usleep(20000);
    CHECK_MSG(ls_finish(run) == 0, "%s", ls_error_message(run));
}

/* ---- scratch memory ---- */

/* The device sorts a copy: one more block of the tensor's size while it is asked to, which the next one gets again. */
static void scratch_memory_is_counted_and_used_again(void)
{
    enum { N = 1 << 18, BYTES = 4 * N };
    ls_run *run = ls_init(NULL, NULL, .device = ASYNC_DEVICE, .seed = 5);
    ls_tensor *x = ls_keep(ls_randn(run, LS_F32, N));
    ls_tensor *order;
    ls_memory_stats first = {0};
    for (int i = 0; i < 4; i++) {
        ls_mark mark = ls_scope_begin(run);
        ls_sort(x, 0, false, &order);
        ls_memory_stats now = ls_memory(run);
        if (i == 0) first = now;
        CHECK_MSG(now.peak == now.in_use + BYTES, "in use %zu, at most %zu", now.in_use, now.peak);
        CHECK(now.peak == first.peak && now.device_requests == first.device_requests);
        ls_scope_end(run, mark, NULL);
    }
    ls_tensor *y = ls_sort(x, 0, false, &order);
    CHECK(ls_item(ls_sum(ls_abs(ls_sub(ls_take_along_dim(x, 0, order), y)))) == 0);
    CHECK_MSG(ls_finish(run) == 0, "%s", ls_error_message(run));
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(another_list_of_operators_is_refused_by_name);
    CHECK_RUN(what_a_plug_in_lacks_is_named);
    CHECK_RUN(memory_that_is_not_aligned_is_refused);
    CHECK_RUN(a_plug_in_that_is_cut_short_is_refused);
    CHECK_RUN(late_failures_name_module_and_operator);
    CHECK_RUN(a_run_whose_last_work_fails_ends_with_an_error);
    CHECK_RUN(weights_in_the_devices_order_are_the_same_weights);
    CHECK_RUN(a_checkpoint_of_the_device_goes_on_on_the_cpu);
    CHECK_RUN(the_next_batch_travels_while_this_one_is_worked_on);
    CHECK_RUN(scratch_memory_is_counted_and_used_again);
    CHECK_RUN(steps_write_the_copies_that_products_read);
    CHECK_RUN(the_host_does_not_wait_for_a_step_in_f16);
    return check_done();
}
