/* gemm.c - matrix products and convolutions against the machine's peak and OpenBLAS.
 *
 *     gemm [seconds per measurement] [filter]
 *
 * Prints one line per shape: GFLOP/s and per cent of the peak, for f32 and bf16, on one worker and on all. Weights (NT, NN)
 * are packed anew in every repetition, as after an optimiser step. */
#include "kernels/gemm.h"
#include "base/half.h"
#include "base/parallel.h"
#include "device/cpu/cpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

typedef struct gemm_shape {
    const char *name;
    int64_t m, n, k;
    bool a_transposed, b_transposed; /* a is stored [K,M]; b is stored [N,K] */
    bool weights;                    /* b is a long-lived weight */
} gemm_shape;

static const gemm_shape gemm_shapes[] = {
    {"bert-base proj fwd NT", 4608, 768, 768, false, true, true},
    {"bert-base qkv fwd NT", 4608, 2304, 768, false, true, true},
    {"bert-base ffn1 fwd NT", 4608, 3072, 768, false, true, true},
    {"bert-base ffn2 fwd NT", 4608, 768, 3072, false, true, true},
    {"bert-base ffn1 dgrad NN", 4608, 768, 3072, false, false, true},
    {"bert-base ffn1 wgrad TN", 3072, 768, 4608, true, false, false},
    {"bert-base proj wgrad TN", 768, 768, 4608, true, false, false},
    {"bert-large proj fwd NT", 4608, 1024, 1024, false, true, true},
    {"bert-large ffn1 fwd NT", 4608, 4096, 1024, false, true, true},
    {"bert-large ffn2 fwd NT", 4608, 1024, 4096, false, true, true},
    {"bert-large ffn1 wgrad TN", 4096, 1024, 4608, true, false, false},
    {"attn QK^T one head", 384, 384, 64, false, true, false},
    {"attn PV one head", 384, 64, 384, false, false, false},
    {"r50 stem(7x7) 8img(1/4)", 25088, 64, 147, false, true, true},
    {"r50 s1 1x1 64-64", 25088, 64, 64, false, true, true},
    {"r50 s1 3x3 64", 25088, 64, 576, false, true, true},
    {"r50 s1 1x1 64-256", 25088, 256, 64, false, true, true},
    {"r50 s1 1x1 256-64", 25088, 64, 256, false, true, true},
    {"r50 s2 1x1 512-128", 6272, 128, 512, false, true, true},
    {"r50 s2 3x3 128", 6272, 128, 1152, false, true, true},
    {"r50 s2 1x1 128-512", 6272, 512, 128, false, true, true},
    {"r50 s3 1x1 1024-256", 1568, 256, 1024, false, true, true},
    {"r50 s3 3x3 256", 1568, 256, 2304, false, true, true},
    {"r50 s3 1x1 256-1024", 1568, 1024, 256, false, true, true},
    {"r50 s4 1x1 2048-512", 392, 512, 2048, false, true, true},
    {"r50 s4 3x3 512", 392, 512, 4608, false, true, true},
    {"r50 s4 1x1 512-2048", 392, 2048, 512, false, true, true},
    {"r50 s1 3x3 wgrad TN", 64, 576, 25088, true, false, false},
    {"r50 s3 3x3 wgrad TN", 256, 2304, 1568, true, false, false},
};

/* Convolutions of ResNet-50 with `images` images; the image is square. */
typedef struct conv_shape {
    const char *name;
    int64_t images, c, o, size, kernel, stride;
} conv_shape;

static const conv_shape conv_shapes[] = {
    {"r50 stem 7x7/2 3-64 224", 8, 3, 64, 224, 7, 2},   {"r50 s1 1x1 64-64 56", 8, 64, 64, 56, 1, 1},
    {"r50 s1 3x3 64-64 56", 8, 64, 64, 56, 3, 1},       {"r50 s1 1x1 64-256 56", 8, 64, 256, 56, 1, 1},
    {"r50 s1 1x1 256-64 56", 8, 256, 64, 56, 1, 1},     {"r50 s2 3x3/2 128-128 56", 8, 128, 128, 56, 3, 2},
    {"r50 s2 1x1/2 256-512 56", 8, 256, 512, 56, 1, 2}, {"r50 s2 1x1 512-128 28", 8, 512, 128, 28, 1, 1},
    {"r50 s2 3x3 128-128 28", 8, 128, 128, 28, 3, 1},   {"r50 s2 1x1 128-512 28", 8, 128, 512, 28, 1, 1},
    {"r50 s3 3x3/2 256-256 28", 8, 256, 256, 28, 3, 2}, {"r50 s3 1x1 1024-256 14", 8, 1024, 256, 14, 1, 1},
    {"r50 s3 3x3 256-256 14", 8, 256, 256, 14, 3, 1},   {"r50 s3 1x1 256-1024 14", 8, 256, 1024, 14, 1, 1},
    {"r50 s4 1x1 2048-512 7", 8, 2048, 512, 7, 1, 1},   {"r50 s4 3x3 512-512 7", 8, 512, 512, 7, 3, 1},
    {"r50 s4 1x1 512-2048 7", 8, 512, 2048, 7, 1, 1},
};

/* One worker is timed by its own clock, so that others on the machine disturb less. */
static clockid_t clock_in_use = CLOCK_MONOTONIC;

static double now(void)
{
    struct timespec t;
    clock_gettime(clock_in_use, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *huge_block(size_t bytes)
{
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(block, bytes, MADV_HUGEPAGE);
    return block;
}

/* Best time of `run` within a budget of seconds. */
static double best_time(void (*run)(void *), void *arg, double budget)
{
    double best = 1e30, end = now() + budget;
    run(arg);
    for (int i = 0; i < 3 || now() < end; i++) {
        double start = now();
        run(arg);
        double took = now() - start;
        if (took < best) best = took;
    }
    return best;
}

/* ---- the peak: one tile out of L1 -------------------------------------------------------------------------------- */

typedef struct peak_run {
    const ls_gemm_kernel *kernel;
    void *a, *b, *c;
} peak_run;

static void run_peak(void *arg)
{
    peak_run *p = arg;
    for (int i = 0; i < 200; i++) p->kernel->tile(1024, p->a, p->b, NULL, p->c, 0);
}

static double peak_of(ls_dtype dtype, char *memory)
{
    const ls_gemm_kernel *kernel = ls_gemm_kernels(dtype)[0];
    peak_run p = {kernel, memory, memory + (1 << 20), memory + (2 << 20)};
    if (kernel->begin) kernel->begin();
    double seconds = best_time(run_peak, &p, 0.05);
    if (kernel->end) kernel->end();
    return 200 * 2.0 * 1024 * kernel->a.width * kernel->b.width / seconds * 1e-9;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

typedef void cblas_sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                            const float *b, int ldb, float beta, float *c, int ldc);

typedef struct gemm_run {
    ls_call call;
    ls_derived *derived;
    cblas_sgemm_fn *sgemm;
    const gemm_shape *shape;
} gemm_run;

static void run_ours(void *arg)
{
    gemm_run *r = arg;
    ls_message why;
    if (r->derived) r->derived->version++;
    if (ls_cpu_run(&r->call, &why) != LS_OK) abort();
}

static void run_openblas(void *arg)
{
    gemm_run *r = arg;
    const gemm_shape *s = r->shape;
    r->sgemm(101, s->a_transposed ? 112 : 111, s->b_transposed ? 112 : 111, (int)s->m, (int)s->n, (int)s->k, 1,
             r->call.in[0]->data, (int)(s->a_transposed ? s->m : s->k), r->call.in[1]->data,
             (int)(s->b_transposed ? s->k : s->n), 0, r->call.out[0]->data, (int)s->n);
}

static ls_operand matrix(void *data, ls_dtype dtype, int64_t rows, int64_t columns, bool transposed)
{
    return (ls_operand){.data = data,
                        .dtype = dtype,
                        .ndim = 2,
                        .dim = {rows, columns},
                        .stride = {transposed ? 1 : columns, transposed ? rows : 1}};
}

static double gemm_gflops(const gemm_shape *s, ls_dtype dtype, ls_dtype out, char *const memory[3], double budget,
                          cblas_sgemm_fn *sgemm)
{
    ls_derived derived = {0};
    ls_operand a = matrix(memory[0], dtype, s->m, s->k, s->a_transposed);
    ls_operand b = matrix(memory[1], dtype, s->k, s->n, s->b_transposed), c = matrix(memory[2], out, s->m, s->n, false);
    if (s->weights) b.derived = &derived;
    gemm_run run = {.call = {.op = LS_OP_matmul, .n_in = 2, .n_out = 1, .in = {&a, &b}, .out = {&c}},
                    .derived = b.derived,
                    .sgemm = sgemm,
                    .shape = s};
    double seconds = best_time(sgemm ? run_openblas : run_ours, &run, budget);
    if (derived.form) derived.release(derived.form);
    return 2.0 * (double)s->m * (double)s->n * (double)s->k / seconds * 1e-9;
}

/* ---- convolutions ------------------------------------------------------------------------------------------------ */

static ls_operand image(void *data, ls_dtype dtype, int64_t n, int64_t c, int64_t size)
{
    return (ls_operand){.data = data,
                        .dtype = dtype,
                        .ndim = 4,
                        .dim = {n, c, size, size},
                        .stride = {c * size * size, 1, size * c, c}};
}

/* which: 0 forward, 1 gradient for the input, 2 for the weight. Weights are f32 [O,C,KH,KW] in the order of PyTorch. */
static double conv_gflops(const conv_shape *s, int which, ls_dtype dtype, char *const memory[3], double budget)
{
    static const ls_opcode ops[] = {LS_OP_conv2d, LS_OP_conv2d_dinput, LS_OP_conv2d_dweight};
    int64_t padding = s->kernel / 2, out = (s->size + 2 * padding - s->kernel) / s->stride + 1,
            taps = s->kernel * s->kernel;
    ls_derived derived = {0};
    ls_operand x = image(memory[0], dtype, s->images, s->c, s->size), y = image(memory[1], dtype, s->images, s->o, out);
    ls_operand w = {.data = memory[2],
                    .dtype = LS_F32,
                    .ndim = 4,
                    .dim = {s->o, s->c, s->kernel, s->kernel},
                    .stride = {s->c * taps, taps, s->kernel, 1},
                    .derived = &derived};
    gemm_run run = {.call = {.op = ops[which],
                             .n_in = 2,
                             .n_out = 1,
                             .in = {which == 0 ? &x : &y, which == 2 ? &x : &w},
                             .out = {which == 0   ? &y
                                     : which == 1 ? &x
                                                  : &w}},
                    .derived = &derived};
    run.call.attrs.conv.window =
        (ls_window){{s->kernel, s->kernel}, {s->stride, s->stride}, {padding, padding}, {1, 1}, 1};
    run.call.attrs.conv.compute = dtype;
    run.call.attrs.conv.accumulate = which == 2;
    double seconds = best_time(run_ours, &run, budget);
    if (derived.form) derived.release(derived.form);
    return 2.0 * (double)(s->images * out * out * s->o * s->c * taps) / seconds * 1e-9;
}

static void refill(char *const memory[3], size_t bytes)
{
    for (int i = 0; i < 3; i++)
        for (size_t j = 0; j < bytes / 2; j++)
            ((ls_bf16 *)memory[i])[j] = ls_bf16_from_f32((float)((int)(j % 97) - 48) / 64);
}

int main(int argc, char **argv)
{
    double budget = argc > 1 ? atof(argv[1]) : 0.3;
    size_t bytes = (size_t)128 << 20;
    char *memory[3];
    for (int i = 0; i < 3; i++) memory[i] = huge_block(bytes);
    refill(memory, bytes);
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    cblas_sgemm_fn *sgemm = NULL;
    void (*set_threads)(int) = NULL;
    if (library) {
        *(void **)&sgemm = dlsym(library, "cblas_sgemm");
        *(void **)&set_threads = dlsym(library, "openblas_set_num_threads");
    }
    double peak_f32 = peak_of(LS_F32, memory[0]), peak_bf16 = peak_of(LS_BF16, memory[0]);
    int width = ls_parallel_width();
    printf("peak of one core: f32 %.1f, bf16 %.1f GFLOP/s\n", peak_f32, peak_bf16);
    for (size_t i = 0; i < sizeof gemm_shapes / sizeof *gemm_shapes; i++) {
        const gemm_shape *s = &gemm_shapes[i];
        if (argc > 2 && !strstr(s->name, argv[2])) continue;
        printf("%-26s %5d x %4d x %5d ", s->name, (int)s->m, (int)s->n, (int)s->k);
        for (int workers = 1; workers <= width; workers += width > 1 ? width - 1 : 1) {
            ls_parallel_set_width(workers);
            clock_in_use = workers == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
            if (set_threads) set_threads(workers);
            double blas = sgemm ? gemm_gflops(s, LS_F32, LS_F32, memory, budget, sgemm) : 0;
            double f32 = gemm_gflops(s, LS_F32, LS_F32, memory, budget, NULL);
            double bf16 = gemm_gflops(s, LS_BF16, LS_F32, memory, budget, NULL);
            double half = gemm_gflops(s, LS_BF16, LS_BF16, memory, budget, NULL);
            printf(" | %dT blas %5.1f f32 %5.1f (%2.0f%%) bf16->f32 %5.1f (%2.0f%%) ->bf16 %5.1f (%2.0f%%)", workers,
                   blas, f32, 100 * f32 / peak_f32 / workers, bf16, 100 * bf16 / peak_bf16 / workers, half,
                   100 * half / peak_bf16 / workers);
            fflush(stdout);
        }
        printf("\n");
    }
    refill(memory, bytes);
    for (size_t i = 0; i < sizeof conv_shapes / sizeof *conv_shapes; i++) {
        const conv_shape *s = &conv_shapes[i];
        if (argc > 2 && !strstr(s->name, argv[2])) continue;
        printf("%-24s", s->name);
        for (int workers = 1; workers <= width; workers += width > 1 ? width - 1 : 1) {
            ls_parallel_set_width(workers);
            clock_in_use = workers == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
            for (int half = 0; half < 2; half++) {
                printf(" | %dT %s", workers, half ? "bf16" : "f32");
                for (int which = 0; which < 3; which++) {
                    double speed = conv_gflops(s, which, half ? LS_BF16 : LS_F32, memory, budget);
                    double peak = (half ? peak_bf16 : peak_f32) * workers;
                    printf(" %s %5.1f (%2.0f%%)", (const char *[]){"fwd", "dx", "dw"}[which], speed,
                           100 * speed / peak);
                    fflush(stdout);
                }
            }
        }
        printf("\n");
    }
    return 0;
}
