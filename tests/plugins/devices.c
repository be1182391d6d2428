/* devices.c - plug-ins as the library meets them: refused, opened, failing late. */
#include <lockstep.h>

#include <dlfcn.h>

#include "check.h"

static void says(ls_run *run, const char *words)
{
    CHECK_MSG(strstr(ls_error_message(run), words) != NULL, "\"%s\" does not say \"%s\"", ls_error_message(run), words);
}

static void another_list_of_operators_is_refused_by_name(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = OTHER_DEVICE);
    CHECK(ls_error(run) == LS_ERR_DEVICE);
    says(run, "another list of operators: its number 2 is \"lerp\", the library's is \"arange\"");
    CHECK(ls_finish(run) == 1);
}

/* ---- failures that are noticed after the call ---- */

static ls_tensor *lookup_forward(ls_module *net, ls_tensor *x, void *user)
{
    (void)user;
    return ls_forward(ls_child(net, "words"), x);
}

static void fails_late(const char *device)
{
    ls_run *run = ls_init(NULL, NULL, .device = device);
    ls_module *net = ls_module_new(run, "net", lookup_forward, NULL);
    ls_module_add(net, "words", ls_embedding_new(run, 5, 4));
    int64_t index[] = {1, 7};
    ls_tensor *y = ls_forward(net, ls_from(run, LS_I64, LS_SHAPE(2), index));
    CHECK(ls_error(run) == LS_OK);
    ls_item(ls_sum(y));
    CHECK(ls_error(run) == LS_ERR_VALUE);
    says(run, "net/words: embedding: ");
    CHECK(ls_finish(run) == 1);
}

static void late_failures_name_module_and_operator(void)
{
    fails_late(ASYNC_DEVICE);
    fails_late(RECORDING_DEVICE);
}

/* ---- weights as a device wants them ---- */

static ls_tensor *picture_forward(ls_module *net, ls_tensor *x, void *user)
{
    (void)user;
    x = ls_relu(ls_forward(ls_child(net, "conv"), x));
    return ls_forward(ls_child(net, "head"), ls_flatten(ls_max_pool2d(x, 2), 1, -1));
}

enum { STEPS = 6 };

/* Losses of a few steps of a small network with a convolution; the network goes into the file, where one is named. */
static void train_pictures(const char *device, ls_dtype precision, const char *file, double *loss)
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
    if (file) CHECK(ls_save_model(run, net, file));
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
    train_pictures("cpu", LS_F32, "devices_here.safetensors", here);
    train_pictures(ASYNC_DEVICE, LS_F32, "devices_there.safetensors", there);
    for (int i = 0; i < STEPS; i++) CHECK_MSG(here[i] == there[i], "step %d: %.9g and %.9g", i, here[i], there[i]);
    CHECK(same_bytes("devices_here.safetensors", "devices_there.safetensors"));
    remove("devices_here.safetensors");
    remove("devices_there.safetensors");
}

/* A CPU without products in bf16 does not round the weights: losses are near each other, no more. */
static void steps_write_the_copies_that_products_read(void)
{
    double here[STEPS], there[STEPS];
    void *library = dlopen(ASYNC_DEVICE, RTLD_NOW);
    int64_t (*used)(void) = NULL;
    void *symbol = library ? dlsym(library, "async_half_copies_used") : NULL;
    CHECK(symbol != NULL);
    if (!symbol) return;
    memcpy(&used, &symbol, sizeof symbol);
    int64_t before = used();
    train_pictures("cpu", LS_BF16, NULL, here);
    CHECK(used() == before);
    train_pictures(ASYNC_DEVICE, LS_BF16, NULL, there);
    for (int i = 0; i < STEPS; i++) CHECK_NEAR(there[i], here[i], 5e-3);
    /* after the first step: 2 weights forward, the head's once more on the way back */
    CHECK_MSG(used() - before == 3 * (STEPS - 1), "%lld copies were read", (long long)(used() - before));
    dlclose(library);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(another_list_of_operators_is_refused_by_name);
    CHECK_RUN(late_failures_name_module_and_operator);
    CHECK_RUN(weights_in_the_devices_order_are_the_same_weights);
    CHECK_RUN(steps_write_the_copies_that_products_read);
    return check_done();
}
