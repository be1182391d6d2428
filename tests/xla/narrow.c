/* narrow.c - numbers that are stored narrower than the library knows them: each part in a process of its own, since the
 * environment is read once. */
#include <lockstep.h>

#include "base/capture.h"
#include "check.h"

static const double small_part = 0x1p-10, tiny_part = 0x1p-30;

/* 1 + a part of it, computed on the device and read back; -1: it failed. */
static double stored(ls_dtype dtype, double part)
{
    ls_run *run = ls_init(NULL, NULL, .device = XLA_DEVICE);
    double got = ls_item(ls_add_scalar(ls_full(run, dtype, 1 + part, 1), 0));
    if (ls_finish(run) != 0) return -1;
    return got - 1;
}

static int keeps_everything(void)
{
    bool right = stored(LS_F32, small_part) == small_part && stored(LS_F64, tiny_part) == tiny_part;
    return right ? 0 : 1;
}

static int stores_bf16(void)
{
    bool right = stored(LS_F32, small_part) == 0 && stored(LS_F64, small_part) == 0 && stored(LS_F32, 0.5) == 0.5;
    return right ? 0 : 1;
}

static int stores_f64_as_f32(void)
{
    bool right = stored(LS_F32, small_part) == 0 && stored(LS_F64, small_part) == small_part;
    return right && stored(LS_F64, tiny_part) == 0 ? 0 : 1;
}

static void check_with(char *environment, int (*body)(void))
{
    char text[2000];
    CHECK_MSG(run_captured(environment, body, text, sizeof text) == 0, "%s: %s", environment, text);
}

static void variables_choose_what_is_stored(void)
{
    check_with("XLA_USE_BF16=0", keeps_everything);
    check_with("XLA_USE_BF16=1", stores_bf16);
    check_with("XLA_DOWNCAST_BF16=1", stores_f64_as_f32);
    check_with("ACCELERATE_DOWNCAST_BF16=true", stores_f64_as_f32);
}

/* Parts of a tensor are found at their places, and its bytes are the library's. */
static int moves_parts(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = XLA_DEVICE);
    float in[12], out[12];
    for (int i = 0; i < 12; i++) in[i] = (float)i;
    ls_tensor *x = ls_mul_scalar(ls_from(run, LS_F32, LS_SHAPE(3, 4), in), 2);
    ls_assign(ls_slice(x, 1, 1, 3, 1), ls_from(run, LS_F32, LS_SHAPE(3, 2), in));
    bool right = ls_read(ls_contiguous(ls_permute(x, 1, 0)), out, sizeof out);
    const float want[] = {0, 8, 16, 0, 2, 4, 1, 3, 5, 6, 14, 22};
    for (int i = 0; i < 12; i++) right &= out[i] == want[i];
    return right && ls_finish(run) == 0 ? 0 : 1;
}

enum { STEPS = 8 };

static double train(const char *device)
{
    ls_run *run = ls_init(NULL, NULL, .seed = 5, .device = device);
    ls_module *net =
        ls_sequential_new(run, ls_linear_new(run, 8, 32), ls_dropout_new(run, 0.1), ls_linear_new(run, 32, 4));
    ls_optim *adam = ls_adamw_new(run, net, .lr = 1e-2);
    ls_tensor *x = ls_randn(run, LS_F32, 16, 8);
    int64_t number[16];
    for (int i = 0; i < 16; i++) number[i] = i % 4;
    ls_tensor *label = ls_from(run, LS_I64, LS_SHAPE(16), number);
    double loss = 0;
    for (int i = 0; i < STEPS; i++) {
        ls_tensor *now = ls_cross_entropy(ls_forward(net, x), label);
        ls_backward(run, now);
        ls_step(adam);
        ls_zero_grad(adam);
        loss = ls_item(now);
    }
    return ls_finish(run) == 0 ? loss : NAN;
}

/* Rates and seeds are not narrowed: the same numbers are drawn, and the loss comes close. */
static int trains(void)
{
    double cpu = train("cpu"), xla = train(XLA_DEVICE);
    if (fabs(cpu - xla) < 0.05) return 0;
    fprintf(stderr, "the loss is %g, on the CPU %g", xla, cpu);
    return 1;
}

static void tensors_in_parts_keep_their_places(void)
{
    check_with("XLA_USE_BF16=1", moves_parts);
    check_with("XLA_DOWNCAST_BF16=1", moves_parts);
}

static void training_comes_close(void)
{
    check_with("XLA_USE_BF16=1", trains);
    check_with("XLA_DOWNCAST_BF16=1", trains);
}

int main(void)
{
    CHECK_RUN_FORK(variables_choose_what_is_stored);
    CHECK_RUN_FORK(tensors_in_parts_keep_their_places);
    CHECK_RUN_FORK(training_comes_close);
    return check_done();
}
