/* conv_fused.c - convolutions followed by a norm, a residual and ReLU, as one operator, against plain loops in double:
 * on every ISA, and with kernels for CPUs that are hard to come by, whose special instructions are replaced by plain C
 * (tests/standin/). These are watched: what the engine leaves to the kernel that multiplies pixels in place. */
#include "base/cpus.h"
#include "kernels/gemm.h"
#include "operands.h"

#include <stdatomic.h>

typedef struct fused_case {
    int64_t n, c, o, h, w, kernel, stride, padding, groups;
    bool training, bias, residual, relu;
} fused_case;

static const fused_case cases[] = {
    {5, 64, 64, 11, 7, 1, 1, 0, 1, false, false, true, true}, /* whole panels, points that end inside a tile */
    {2, 32, 40, 13, 12, 3, 1, 1, 1, false, true, false, true},
    {3, 32, 70, 12, 9, 3, 2, 1, 1, false, true, true, false},
    {2, 64, 96, 9, 9, 3, 1, 1, 2, false, false, true, true},   /* groups */
    {2, 3, 32, 25, 22, 3, 2, 1, 1, false, false, false, true}, /* kernel rows as lines */
    {3, 32, 40, 17, 19, 3, 1, 1, 1, true, false, true, true},
    {3, 32, 40, 17, 19, 3, 1, 1, 1, true, true, false, false},
    {2, 64, 96, 13, 12, 3, 1, 1, 2, true, false, true, true},
    {5, 64, 96, 11, 13, 1, 1, 0, 1, true, false, true, true}, /* widens */
    {4, 32, 90, 17, 10, 1, 2, 0, 1, true, true, false, true}, /* widens, with gaps and a panel in part */
    {2, 32, 33, 3, 4, 1, 1, 0, 1, true, false, false, false},
    {1, 128, 70, 9, 8, 3, 1, 1, 1, false, true, true, true},  /* deep: panels of weights one after the other */
    {3, 32, 70, 12, 11, 3, 2, 1, 1, false, true, true, true}, /* strided, in f32 by products of terms: even sizes */
    {2, 64, 96, 12, 8, 3, 2, 1, 2, false, false, false, true},
    {3, 32, 40, 16, 25, 3, 2, 1, 1, true, true, true, true}, /* and an odd one */
    {2, 64, 96, 12, 11, 3, 2, 1, 2, true, false, true, false},
};

enum { X, W, BIAS, WEIGHT, SHIFT, MEAN, VAR, RESIDUAL, Y, RUNNING_MEAN, RUNNING_VAR, OPERANDS };
static const double epsilon = 0.01, momentum = 0.25;

typedef struct fused {
    const fused_case *what;
    int64_t out[2];
    operand operand[OPERANDS];
} fused;

static const int nhwc[] = {0, 2, 3, 1}, line[] = {0};

static fused fused_new(const fused_case *what, ls_dtype dtype)
{
    fused f = {.what = what};
    for (int d = 0; d < 2; d++)
        f.out[d] = ((d ? what->w : what->h) + 2 * what->padding - what->kernel) / what->stride + 1;
    f.operand[X] = operand_coarse(dtype, LS_SHAPE(what->n, what->c, what->h, what->w), nhwc, 1);
    f.operand[W] =
        operand_coarse(dtype, LS_SHAPE(what->o, what->c / what->groups, what->kernel, what->kernel), nhwc, 1);
    for (int i = BIAS; i < OPERANDS; i++)
        f.operand[i] = operand_coarse(i < RUNNING_MEAN ? LS_F32 : LS_F64, LS_SHAPE(what->o), line, 1);
    for (int64_t o = 0; o < what->o; o++) set(&f.operand[VAR], o, 1 + fabs(get(&f.operand[VAR], o)));
    operand_free(&f.operand[Y]);
    operand_free(&f.operand[RESIDUAL]);
    f.operand[Y] = operand_coarse(dtype, LS_SHAPE(what->n, what->o, f.out[0], f.out[1]), nhwc, 1);
    f.operand[RESIDUAL] = operand_coarse(dtype, shape_of(&f.operand[Y]), nhwc, 1);
    return f;
}

static void fused_free(fused *f)
{
    for (int i = 0; i < OPERANDS; i++) operand_free(&f->operand[i]);
}

static void fused_run(fused *f)
{
    const fused_case *k = f->what;
    ls_call call = {.op = LS_OP_conv2d_norm, .n_in = 8, .n_out = 3};
    for (int i = X; i < Y; i++) call.in[i] = &f->operand[i].view;
    for (int i = Y; i < OPERANDS; i++) call.out[i - Y] = k->training || i == Y ? &f->operand[i].view : NULL;
    if (!k->bias) call.in[BIAS] = NULL;
    if (!k->residual) call.in[RESIDUAL] = NULL;
    if (k->training) call.in[MEAN] = call.in[VAR] = NULL;
    call.attrs.conv.window =
        (ls_window){{k->kernel, k->kernel}, {k->stride, k->stride}, {k->padding, k->padding}, {1, 1}, k->groups};
    call.attrs.conv.epsilon = epsilon;
    call.attrs.conv.momentum = momentum;
    call.attrs.conv.training = k->training;
    call.attrs.conv.activation = k->relu ? LS_ACT_RELU : LS_ACT_NONE;
    run(&call);
}

/* The convolution without a norm, [n, o, out], with its bias. */
static double *convolution(const fused *f)
{
    const fused_case *k = f->what;
    int64_t points = f->out[0] * f->out[1], group_c = k->c / k->groups, group_o = k->o / k->groups;
    double *y = calloc((size_t)(k->n * k->o * points), sizeof *y);
    for (int64_t i = 0; i < k->n * k->o * points; i++) {
        int64_t n = i / (k->o * points), o = i / points % k->o, h = i % points / f->out[1], w = i % f->out[1];
        if (k->bias) y[i] = get(&f->operand[BIAS], o);
        for (int64_t tap = 0; tap < k->kernel * k->kernel; tap++) {
            int64_t row = h * k->stride - k->padding + tap / k->kernel;
            int64_t column = w * k->stride - k->padding + tap % k->kernel;
            if (row < 0 || row >= k->h || column < 0 || column >= k->w) continue;
            const ls_operand *x = &f->operand[X].view, *weight = &f->operand[W].view;
            int64_t at = offset_at(x, n, o / group_o * group_c, row, column);
            int64_t weight_at = offset_at(weight, o, 0, tap / k->kernel, tap % k->kernel);
            for (int64_t c = 0; c < group_c; c++) y[i] += get_at(x, at + c) * get_at(weight, weight_at + c);
        }
    }
    return y;
}

/* Run it and compare everything. Results are rounded once; with `stored` also before they are normalised, and maybe
 * before their moments are gathered. */
static void check_fused(fused *f, bool stored)
{
    const fused_case *k = f->what;
    int64_t points = f->out[0] * f->out[1], each = k->n * points;
    double *y = convolution(f),
           unit = f->operand[Y].view.dtype == LS_BF16 ? 0x1p-8 : 3e-5; /* f32: sums of hundreds of products */
    double *old = calloc((size_t)(2 * k->o), sizeof *old);
    for (int64_t i = 0; i < 2 * k->o; i++) old[i] = get(&f->operand[i < k->o ? RUNNING_MEAN : RUNNING_VAR], i % k->o);
    fused_run(f);
    for (int64_t o = 0; o < k->o; o++) {
        double mean = get(&f->operand[MEAN], o), var = get(&f->operand[VAR], o), m2 = 0;
        if (k->training) {
            mean = 0;
            for (int64_t i = 0; i < each; i++) mean += y[(i / points * k->o + o) * points + i % points] / (double)each;
            for (int64_t i = 0; i < each; i++) {
                double apart = y[(i / points * k->o + o) * points + i % points] - mean;
                m2 += apart * apart;
            }
            var = m2 / (double)each;
            double off = stored ? 2 * unit : 1e-5, unbiased = m2 / (double)(each - 1);
            double moved[] = {(1 - momentum) * old[o] + momentum * mean,
                              (1 - momentum) * old[k->o + o] + momentum * unbiased};
            CHECK_NEAR(get(&f->operand[RUNNING_MEAN], o), moved[0], off * (1 + sqrt(var)));
            CHECK_NEAR(get(&f->operand[RUNNING_VAR], o), moved[1], off);
        }
        double gain = get(&f->operand[WEIGHT], o) / sqrt(var + epsilon);
        for (int64_t i = 0; i < each; i++) {
            int64_t at = (i / points * k->o + o) * points + i % points;
            double want = (y[at] - mean) * gain + get(&f->operand[SHIFT], o);
            double size = fabs(want) + 1e-3 * (fabs(y[at]) + fabs(mean)) * fabs(gain) + 0.1;
            if (stored) size += (fabs(y[at]) + hypot(mean, sqrt(var))) * fabs(gain); /* the mean, too, may be off */
            if (k->residual) want += get(&f->operand[RESIDUAL], at), size += fabs(get(&f->operand[RESIDUAL], at));
            if (k->relu && want < 0) want = 0;
            double got = get(&f->operand[Y], at);
            CHECK_MSG(fabs(got - want) <= unit * size, "case %d: element %d is %g, not %g", (int)(k - cases), (int)at,
                      got, want);
        }
    }
    free(y);
    free(old);
}

static void every_case(void)
{
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int half = 0; half < 2; half++) {
            fused f = fused_new(&cases[c], half ? LS_BF16 : LS_F32);
            check_fused(&f, true);
            fused_free(&f);
        }
}

/* A plain convolution that also gives mean and variance of its channels, before or after they are rounded: where the
 * running statistics are otherwise. */
static void moments_run(const fused *f)
{
    const fused_case *k = f->what;
    ls_call call = {.op = LS_OP_conv2d,
                    .n_in = 3,
                    .n_out = 3,
                    .in = {&f->operand[X].view, &f->operand[W].view, k->bias ? &f->operand[BIAS].view : NULL},
                    .out = {&f->operand[Y].view, &f->operand[RUNNING_MEAN].view, &f->operand[RUNNING_VAR].view}};
    call.attrs.conv.window =
        (ls_window){{k->kernel, k->kernel}, {k->stride, k->stride}, {k->padding, k->padding}, {1, 1}, k->groups};
    run(&call);
}

static void check_moments(const fused_case *k, ls_dtype dtype)
{
    fused f = fused_new(k, dtype);
    int64_t points = f.out[0] * f.out[1], each = k->n * points;
    double *y = convolution(&f), unit = dtype == LS_BF16 ? 0x1p-8 : 3e-5;
    moments_run(&f);
    for (int64_t o = 0; o < k->o; o++) {
        double mean = 0, var = 0;
        for (int64_t i = 0; i < each; i++) mean += y[(i / points * k->o + o) * points + i % points] / (double)each;
        for (int64_t i = 0; i < each; i++) {
            int64_t at = (i / points * k->o + o) * points + i % points;
            var += (y[at] - mean) * (y[at] - mean) / (double)each;
            CHECK_NEAR(get(&f.operand[Y], at), y[at], unit * (fabs(y[at]) + 0.1));
        }
        CHECK_NEAR(get(&f.operand[RUNNING_MEAN], o), mean, 2 * unit * (1 + sqrt(var)));
        CHECK_NEAR(get(&f.operand[RUNNING_VAR], o), var, 2 * unit * (1 + var));
    }
    free(y);
    fused_free(&f);
}

static void convolutions_give_their_moments(void)
{
    static const fused_case depthwise = {2, 8, 8, 9, 7, 3, 1, 1, 8, true, true, false, false};
    for (int half = 0; half < 2; half++) {
        check_moments(&depthwise, half ? LS_BF16 : LS_F32);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) check_moments(&cases[c], half ? LS_BF16 : LS_F32);
    }
}

/* All points of a channel are rounded alike: a norm must find no difference between them and their mean. */
static void moments_of_constants_are_those_of_what_is_stored(void)
{
    static const fused_case flat[] = {{3, 64, 40, 17, 19, 1, 1, 0, 1, false, false, false, false},
                                      {2, 64, 70, 9, 8, 1, 1, 0, 1, false, true, false, false}};
    for (int i = 0; i < 4; i++) {
        fused f = fused_new(&flat[i % 2], i < 2 ? LS_BF16 : LS_F32);
        for (int64_t at = 0; at < numel(&f.operand[X].view); at++) set(&f.operand[X], at, 1);
        moments_run(&f);
        for (int64_t o = 0; o < flat[i % 2].o; o++) {
            double y = get(&f.operand[Y], o * f.out[0] * f.out[1]);
            CHECK_NEAR(get(&f.operand[RUNNING_MEAN], o), y, 1e-9 + 1e-7 * fabs(y));
            CHECK_NEAR(get(&f.operand[RUNNING_VAR], o), 0, 1e-12 * (1 + y * y));
        }
        fused_free(&f);
    }
}

/* In f32, by products of terms. */
static void moments_do_not_depend_on_workers_or_caches(void)
{
    static const fused_case some[] = {{9, 32, 72, 32, 32, 3, 1, 1, 1, true, true, false, false},
                                      {9, 32, 72, 32, 32, 3, 2, 1, 1, true, true, false, false},
                                      {1, 1024, 64, 25, 27, 1, 1, 0, 1, true, true, false, false}};
    for (size_t c = 0; c < sizeof some / sizeof *some; c++) {
        fused one = fused_new(&some[c], LS_F32);
        for (int64_t i = 0; i < numel(&one.operand[X].view); i++) set(&one.operand[X], i, noise(c, i)); /* sums round */
        fused more = one;
        ls_parallel_set_width(1);
        ls_cpus_pretend_l1(48 << 10);
        moments_run(&one);
        for (int i = Y; i < OPERANDS; i++)
            more.operand[i] =
                operand_coarse(one.operand[i].view.dtype, shape_of(&one.operand[i]), i == Y ? nhwc : line, 1);
        for (int workers = 2; workers <= 4; workers++) {
            ls_parallel_set_width(workers);
            ls_cpus_pretend_l1(16 * workers << 10);
            moments_run(&more);
            for (int i = Y; i < OPERANDS; i++) CHECK(same_bits(&one.operand[i], &more.operand[i]));
        }
        for (int i = Y; i < OPERANDS; i++) operand_free(&more.operand[i]);
        fused_free(&one);
    }
    ls_cpus_pretend_l1(-1);
    ls_parallel_set_width(0);
}

/* ---- a watched kernel in the engine ------------------------------------------------------------------------------ */

static ls_gemm_kernel watched;
static ls_gemm_blocks watched_blocks;
static ls_gemm_table watched_table;
static void (*in_place)(int64_t count, const ls_gemm_rows *a, const ls_gemm_panels *b, const ls_gemm_targets *to);
static atomic_int finished, gathered, gathered_only, left_in_f32, streamed;

static void watching(int64_t count, const ls_gemm_rows *a, const ls_gemm_panels *b, const ls_gemm_targets *to)
{
    if (to->bias && to->dtype == LS_BF16) finished++;
    if (to->moments && to->dtype != LS_DTYPE_NONE) gathered++;
    if (to->moments && to->dtype == LS_DTYPE_NONE) gathered_only++;
    if (to->dtype == LS_F32) left_in_f32++;
    if (to->stream) streamed++;
    in_place(count, a, b, to);
}

/* From now on the engine computes in bf16 with this kernel. */
static void watch(const ls_gemm_kernel *kernel)
{
    watched = *kernel;
    if (kernel->blocks) watched_blocks = *kernel->blocks, watched.blocks = &watched_blocks;
    in_place = kernel->in_place;
    watched.in_place = watching;
    watched_table = (ls_gemm_table){.bf16 = {&watched, &watched}};
    offer_kernels(&ls_family_gemm, &watched_table);
    finished = gathered = gathered_only = left_in_f32 = streamed = 0;
}

static const ls_gemm_kernel *const *standins(void)
{
    static const ls_gemm_kernel *all[3];
    all[0] = ls_gemm_amx.bf16[0];
    all[1] = ls_gemm_avx512_bf16.bf16[0];
    all[2] = ls_gemm_avx512_bf16.bf16[1];
    return all;
}

/* All cases, with each of the kernels. */
static void check_standins(bool training, bool stored)
{
    for (int i = 0; i < 3; i++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            if (cases[c].training != training) continue;
            watch(standins()[i]);
            fused f = fused_new(&cases[c], LS_BF16);
            check_fused(&f, stored);
            fused_free(&f);
        }
}

static void kernels_finish_rows(void)
{
    check_standins(false, false);
    for (int i = 0; i < 3; i++) {
        fused f = fused_new(&cases[0], LS_BF16);
        watch(standins()[i]);
        check_fused(&f, false);
        CHECK(finished > 0 && left_in_f32 == 0);
        watched.in_place_finishes = false;
        finished = 0;
        check_fused(&f, false);
        CHECK(finished == 0 && left_in_f32 > 0);
        fused_free(&f);
    }
}

static void kernels_gather_moments(void)
{
    check_standins(true, true);
    for (int i = 0; i < 3; i++) {
        fused f = fused_new(&cases[5], LS_BF16); /* 3x3: to convolve twice would take too long */
        watch(standins()[i]);
        check_fused(&f, true);
        CHECK(gathered > 0 && gathered_only == 0 && finished == 0);
        watched.in_place_finishes = false;
        gathered = 0;
        check_fused(&f, true);
        CHECK(gathered == 0);
        fused_free(&f);
    }
}

static void kernels_gather_moments_of_plain_convolutions(void)
{
    for (int i = 0; i < 3; i++)
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            watch(standins()[i]);
            check_moments(&cases[c], LS_BF16);
            CHECK(gathered > 0 && gathered_only == 0);
        }
}

static void results_wider_than_their_input_are_written_once(void)
{
    for (int c = 8; c < 10; c++) {
        fused f = fused_new(&cases[c], LS_BF16);
        watch(ls_gemm_amx.bf16[0]);
        check_fused(&f, false); /* rounded once */
        CHECK(gathered_only > 0 && gathered == 0 && finished > 0);
        watched_blocks.products_per_byte = 0; /* as if products took too long */
        gathered_only = 0;
        check_fused(&f, true);
        CHECK(gathered_only == 0 && gathered > 0);
        fused_free(&f);
    }
}

/* Past the caches, where rows begin on cache lines. */
static void finished_rows_may_be_streamed(void)
{
    fused f = fused_new(&cases[0], LS_BF16);
    operand *y = &f.operand[Y];
    void *own = y->view.data, *aligned = aligned_alloc(64, (size_t)(numel(&y->view) * 2 + 63) / 64 * 64);
    watch(ls_gemm_amx.bf16[0]);
    watched_blocks.in_place_stream_bytes = 1;
    y->view.data = aligned;
    check_fused(&f, false);
    CHECK(streamed > 0 && finished == streamed);
    y->view.data = own;
    free(aligned);
    fused_free(&f);
}

static void results_do_not_depend_on_the_number_of_workers(void)
{
    static const fused_case many = {9, 32, 40, 17, 19, 3, 1, 1, 1, true, false, true, true};
    for (int variant = 0; variant < 3; variant++) {
        fused f[2];
        for (int i = 0; i < 2; i++) {
            watch(ls_gemm_amx.bf16[0]);
            if (variant == 1) watched_blocks.products_per_byte = INT32_MAX; /* convolved twice */
            f[i] = fused_new(&many, LS_BF16);
            for (int j = 0; i && j < OPERANDS; j++)
                for (int64_t at = 0; at < numel(&f[0].operand[j].view); at++)
                    if (j < Y) set(&f[1].operand[j], at, get(&f[0].operand[j], at));
            for (int j = RUNNING_MEAN; j < OPERANDS; j++)
                for (int64_t o = 0; o < many.o; o++) set(&f[i].operand[j], o, 0);
        }
        for (int i = 0; i < 2; i++) {
            ls_parallel_set_width(1 + 3 * i);
            if (variant == 2) moments_run(&f[i]);
            else fused_run(&f[i]);
        }
        for (int j = Y; j < OPERANDS; j++) CHECK(same_bits(&f[0].operand[j], &f[1].operand[j]));
        for (int i = 0; i < 2; i++) fused_free(&f[i]);
    }
    ls_parallel_set_width(0);
}

/* Sums of 4096 and more, which differ by a few units. */
static void a_large_mean_does_not_cancel(void)
{
    static const fused_case flat = {3, 64, 40, 17, 19, 1, 1, 0, 1, true, false, false, false};
    for (int i = 0; i < 3; i++) {
        fused f = fused_new(&flat, LS_BF16);
        for (int64_t at = 0; at < numel(&f.operand[X].view); at++)
            set(&f.operand[X], at, 64 + 0.5 * (get(&f.operand[X], at) > 0));
        for (int64_t at = 0; at < numel(&f.operand[W].view); at++) set(&f.operand[W], at, 1);
        watch(standins()[i]);
        double *y = convolution(&f), mean = 0, m2 = 0;
        int64_t each = flat.n * flat.h * flat.w, points = flat.h * flat.w;
        for (int64_t o = 0; o < flat.o; o++) set(&f.operand[RUNNING_VAR], o, 0);
        fused_run(&f);
        for (int64_t p = 0; p < each; p++) mean += y[p / points * flat.o * points + p % points] / (double)each;
        for (int64_t p = 0; p < each; p++) {
            double apart = y[p / points * flat.o * points + p % points] - mean;
            m2 += apart * apart;
        }
        for (int64_t o = 0; o < flat.o; o++)
            CHECK_NEAR(get(&f.operand[RUNNING_VAR], o), momentum * m2 / (double)(each - 1), 1e-5);
        free(y);
        fused_free(&f);
    }
}

/* One NaN in x: ReLU lets it through, and moments that saw it are none. */
static void nans_are_not_lost(void)
{
    static const int of[] = {0, 5, 8}; /* finished by the kernel, gathered, convolved twice */
    for (int i = 0; i < 9; i++) {
        const fused_case *k = &cases[of[i % 3]];
        fused f = fused_new(k, LS_BF16);
        int64_t points = f.out[0] * f.out[1];
        set(&f.operand[X], 0, NAN);
        watch(standins()[i / 3]);
        fused_run(&f);
        for (int64_t at = 0; at < k->n * k->o * points; at++) {
            bool sees_it = k->training || (at / points < k->o && at % points == 0); /* 1x1: one point of one image */
            CHECK_MSG(!!isnan(get(&f.operand[Y], at)) == sees_it, "case %d, element %d", of[i % 3], (int)at);
        }
        for (int64_t o = 0; k->training && o < k->o; o++)
            CHECK(isnan(get(&f.operand[RUNNING_MEAN], o)) && isnan(get(&f.operand[RUNNING_VAR], o)));
        for (int64_t o = 0; o < k->o; o++)
            for (int j = RUNNING_MEAN; j <= RUNNING_VAR; j++) set(&f.operand[j], o, 0);
        moments_run(&f);
        for (int64_t o = 0; o < k->o; o++)
            CHECK(isnan(get(&f.operand[RUNNING_MEAN], o)) && isnan(get(&f.operand[RUNNING_VAR], o)));
        fused_free(&f);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
#if defined(__x86_64__)
    if (!ls_isa_usable(LS_ISA_AVX2)) strcpy(check_skip_all, "the CPU lacks AVX2");
#endif
    CHECK_RUN_ISAS(every_case);
    CHECK_RUN_ISAS(convolutions_give_their_moments);
    CHECK_RUN_ISAS(moments_of_constants_are_those_of_what_is_stored);
    CHECK_RUN_ISAS(moments_do_not_depend_on_workers_or_caches);
    CHECK_RUN(kernels_finish_rows);
    CHECK_RUN(kernels_gather_moments);
    CHECK_RUN(kernels_gather_moments_of_plain_convolutions);
    CHECK_RUN(results_wider_than_their_input_are_written_once);
    CHECK_RUN(finished_rows_may_be_streamed);
    CHECK_RUN(results_do_not_depend_on_the_number_of_workers);
    CHECK_RUN(a_large_mean_does_not_cancel);
    CHECK_RUN(nans_are_not_lost);
    return check_done();
}
