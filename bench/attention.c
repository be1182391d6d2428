/* attention.c - attention forward and backward against the machine's peak: attention [batch heads sequence depth dropout
 * dtype mask].
 *
 * Counted are two products forward and five backward, each 2 S S D per head. Peaks are those of one core, in GFLOP/s,
 * times the number of threads: bf16 332.8, f32 83.2 (Neoverse-V1 at 2.6 GHz); set others with PEAK_BF16 and PEAK_F32. */
#include "base/half.h"
#include "base/parallel.h"
#include "device/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { Q, K, V, O, D_O, DQ, DK, DV, TENSORS };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* [batch, heads, sequence, depth] in memory [batch][sequence][heads][depth], as projections leave it. */
static ls_operand make(ls_dtype dtype, int64_t batch, int64_t heads, int64_t sequence, int64_t depth)
{
    ls_operand x = {.dtype = dtype,
                    .ndim = 4,
                    .dim = {batch, heads, sequence, depth},
                    .stride = {sequence * heads * depth, depth, heads * depth, 1}};
    int64_t n = batch * sequence * heads * depth;
    x.data = malloc((size_t)n * ls_dtype_size(dtype));
    for (int64_t i = 0; i < n; i++) {
        float value = (float)rand() / (float)RAND_MAX * 2 - 1;
        if (dtype == LS_BF16) ((ls_bf16 *)x.data)[i] = ls_bf16_from_f32(value);
        else ((float *)x.data)[i] = value;
    }
    return x;
}

/* The shortest of many calls, for about a second. */
static double best_of(const ls_call *call)
{
    double best = 1e9, stop = now() + 1;
    do {
        double begin = now();
        if (ls_cpu_run(call, NULL) != LS_OK) return 0;
        double took = now() - begin;
        if (took < best) best = took;
    } while (now() < stop);
    return best;
}

static double peak_of(ls_dtype dtype)
{
    const char *given = getenv(dtype == LS_BF16 ? "PEAK_BF16" : "PEAK_F32");
    double core = given ? atof(given) : dtype == LS_BF16 ? 332.8 : 83.2;
    return core * ls_parallel_width();
}

/* mask: "keys" hides a quarter of the keys of all queries, "full" is a number for each score. */
static ls_operand make_mask(const char *kind, int64_t batch, int64_t heads, int64_t sequence)
{
    if (strcmp(kind, "full") == 0) return make(LS_F32, batch, heads, sequence, sequence);
    ls_operand x = {
        .dtype = LS_BOOL, .ndim = 4, .dim = {batch, heads, sequence, sequence}, .stride = {sequence, 0, 0, 1}};
    x.data = calloc((size_t)(batch * sequence), 1);
    for (int64_t i = 0; i < batch * sequence; i++) ((uint8_t *)x.data)[i] = i % sequence < sequence * 3 / 4;
    return x;
}

static void run(ls_dtype dtype, int64_t batch, int64_t heads, int64_t sequence, int64_t depth, double dropout,
                const char *mask_kind)
{
    ls_operand x[TENSORS];
    for (int i = 0; i < TENSORS; i++) x[i] = make(dtype, batch, heads, sequence, depth);
    ls_operand lse = make(LS_F32, batch, heads, sequence, 1);
    lse.ndim = 3;
    ls_operand mask = make_mask(mask_kind, batch, heads, sequence);
    const ls_operand *given = *mask_kind ? &mask : NULL;
    ls_attrs attrs = {.attention = {0.125, dropout, 1, 0, 0}};
    ls_call forward = {.op = LS_OP_attention,
                       .n_in = 4,
                       .n_out = 2,
                       .in = {&x[Q], &x[K], &x[V], given},
                       .out = {&x[O], &lse},
                       .attrs = attrs};
    ls_call backward = {.op = LS_OP_attention_grad,
                        .n_in = 7,
                        .n_out = 3,
                        .in = {&x[D_O], &x[Q], &x[K], &x[V], &x[O], &lse, given},
                        .out = {&x[DQ], &x[DK], &x[DV]},
                        .attrs = attrs};
    double product = 2e-9 * (double)(batch * heads * sequence * sequence * depth), peak = peak_of(dtype);
    double f = best_of(&forward), b = best_of(&backward);
    printf("%-4s %dx%dx%dx%d dropout %g: forward %.2f ms %.0f GFLOP/s (%.1f %%), backward %.2f ms %.0f (%.1f %%), "
           "both %.2f ms %.0f (%.1f %%)\n",
           ls_dtype_name(dtype), (int)batch, (int)heads, (int)sequence, (int)depth, dropout, 1e3 * f, 2 * product / f,
           200 * product / f / peak, 1e3 * b, 5 * product / b, 500 * product / b / peak, 1e3 * (f + b),
           7 * product / (f + b), 700 * product / (f + b) / peak);
    for (int i = 0; i < TENSORS; i++) free(x[i].data);
    free(lse.data);
    free(mask.data);
}

int main(int argc, char **argv)
{
    int64_t batch = argc > 1 ? atoll(argv[1]) : 12, heads = argc > 2 ? atoll(argv[2]) : 12;
    int64_t sequence = argc > 3 ? atoll(argv[3]) : 384, depth = argc > 4 ? atoll(argv[4]) : 64;
    double dropout = argc > 5 ? atof(argv[5]) : 0.1;
    const char *only = argc > 6 ? argv[6] : "", *mask = argc > 7 ? argv[7] : "";
    if (!*only || strcmp(only, "bf16") == 0) run(LS_BF16, batch, heads, sequence, depth, dropout, mask);
    if (!*only || strcmp(only, "f32") == 0) run(LS_F32, batch, heads, sequence, depth, dropout, mask);
    return 0;
}
