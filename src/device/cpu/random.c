/* random.c - operators that draw random numbers. Element i of an output, counted in row-major order, uses lane i % 4 of
 * the Philox block at offset + i / 4, whatever the layout, the ISA and the number of threads. */
#include "kernels/random.h"

#include "base/half.h"
#include "base/rng.h"
#include "device/cpu/cpu.h"
#include "device/cpu/iterate.h"
#include "device/cpu/rows.h"
#include "kernels/elementwise.h"

#include <math.h>
#include <string.h>

#define WORDS 256 /* drawn at a time */

typedef struct random_run {
    ls_words_fn *words;
    uint64_t seed, offset;
    bool is_normal, is_wide; /* else uniform; output in f64, else in f32 */
    double shift, scale;     /* result = shift + scale * number */
    double limit;            /* upper limit of the result */
    uint32_t threshold;      /* bernoulli: 1 if the upper 24 bits of the word are below this */
} random_run;

static random_run random_begin(const ls_call *call)
{
    return (random_run){.words = ls_elementwise_kernels()->words,
                        .seed = call->attrs.random.seed,
                        .offset = call->attrs.random.offset,
                        .is_wide = call->out[0]->dtype == LS_F64};
}

/* Draw the words for elements [index, ...); returns how many of the WORDS to skip because blocks start before index. */
static int64_t draw(const random_run *run, int64_t index, uint32_t *word)
{
    run->words(WORDS / 4, run->seed, run->offset + (uint64_t)index / 4, word);
    return index % 4;
}

static void run_real(void *arg, int64_t first, int64_t n, void *const *p)
{
    const random_run *run = arg;
    uint32_t word[WORDS];
    float number[WORDS];
    for (int64_t done = 0; done < n;) {
        int64_t skip = draw(run, first + done, word), take = n - done < WORDS - skip ? n - done : WORDS - skip;
        if (run->is_normal) ls_random_normal(WORDS, number, word);
        else
            for (int i = 0; i < WORDS; i++) number[i] = ls_uniform_from_bits(word[i]);
        if (run->is_wide) {
            double *out = (double *)p[0] + done;
            for (int64_t i = 0; i < take; i++)
                out[i] = fmin(run->shift + run->scale * (double)number[skip + i], run->limit);
        } else { /* all of them: a constant trip count vectorises */
            float shift = (float)run->shift, scale = (float)run->scale, limit = (float)run->limit;
            for (int i = 0; i < WORDS; i++) {
                float value = shift + scale * number[i];
                number[i] = value < limit ? value : limit;
            }
            memcpy((float *)p[0] + done, number + skip, (size_t)take * sizeof *number);
        }
        done += take;
    }
}

static void run_bernoulli(void *arg, int64_t first, int64_t n, void *const *p)
{
    const random_run *run = arg;
    uint32_t word[WORDS];
    uint8_t *out = p[0];
    for (int64_t done = 0; done < n;) {
        int64_t skip = draw(run, first + done, word), take = n - done < WORDS - skip ? n - done : WORDS - skip;
        for (int64_t i = 0; i < take; i++) out[done + i] = word[skip + i] >> 8 < run->threshold;
        done += take;
    }
}

static void draw_all(const ls_operand *out, ls_dtype as, ls_iteration_body *body, random_run *run)
{
    ls_iteration walk = {
        .count = 1, .outputs = 1, .operand = {out}, .as = {as}, .in_order = true, .grain = ls_grain(2000)};
    ls_iterate(&walk, body, run);
}

/* The next smaller value that a half type can represent. */
static uint16_t next_below(uint16_t half)
{
    if (half & 0x8000u) return (uint16_t)(half + 1u);
    return half ? (uint16_t)(half - 1u) : 0x8001u;
}

/* The largest value of the type below `high`: rounding must not reach the open end of an interval. */
static double largest_below(ls_dtype dtype, double high)
{
    float single = (float)high;
    uint16_t half;
    switch (dtype) {
    case LS_BF16:
        half = ls_bf16_from_f32(single);
        return (double)ls_bf16_to_f32((double)ls_bf16_to_f32(half) < high ? half : next_below(half));
    case LS_F16:
        half = ls_f16_from_f32(single);
        return (double)ls_f16_to_f32((double)ls_f16_to_f32(half) < high ? half : next_below(half));
    case LS_F32: return (double)((double)single < high ? single : nextafterf(single, -INFINITY));
    default: return nextafter(high, -INFINITY);
    }
}

/* in: none  out: y, floating; uniform in [attrs.random.a, attrs.random.b) with 24 random bits */
ls_status ls_cpu_uniform(const ls_call *call, ls_message *why)
{
    const ls_operand *out = call->out[0];
    if (!ls_dtype_is_float(out->dtype))
        return ls_explain(why, LS_ERR_DTYPE, "uniform does not support %s", ls_dtype_name(out->dtype));
    random_run run = random_begin(call);
    double low = call->attrs.random.a, high = call->attrs.random.b;
    run.shift = low;
    run.scale = high - low;
    run.limit = low < high ? largest_below(out->dtype, high) : high;
    draw_all(out, run.is_wide ? LS_F64 : LS_F32, run_real, &run);
    return LS_OK;
}

/* in: none  out: y, floating; normal with mean attrs.random.a and std attrs.random.b */
ls_status ls_cpu_normal(const ls_call *call, ls_message *why)
{
    const ls_operand *out = call->out[0];
    if (!ls_dtype_is_float(out->dtype))
        return ls_explain(why, LS_ERR_DTYPE, "normal does not support %s", ls_dtype_name(out->dtype));
    random_run run = random_begin(call);
    run.is_normal = true;
    run.shift = call->attrs.random.a;
    run.scale = call->attrs.random.b;
    run.limit = INFINITY;
    draw_all(out, run.is_wide ? LS_F64 : LS_F32, run_real, &run);
    return LS_OK;
}

/* in: none  out: y, any type; 1 with probability attrs.random.a, else 0 */
ls_status ls_cpu_bernoulli(const ls_call *call, ls_message *why)
{
    (void)why;
    random_run run = random_begin(call);
    run.threshold = ls_dropout_threshold(call->attrs.random.a);
    draw_all(call->out[0], LS_U8, run_bernoulli, &run);
    return LS_OK;
}

/* in: none  out: y [n], i64; 0 .. n-1 in random order. Word i chooses the element of place i among those not placed
 * yet. */
ls_status ls_cpu_randperm(const ls_call *call, ls_message *why)
{
    const ls_operand *out = call->out[0];
    int64_t n = out->dim[0], stride = out->stride[0];
    if (out->dtype != LS_I64) return ls_explain(why, LS_ERR_DTYPE, "randperm supports i64 only");
    int64_t *to = out->data;
    ls_philox4 words = {{0}};
    for (int64_t i = 0; i < n; i++) to[i * stride] = i;
    for (int64_t i = 0; i < n; i++) {
        if (i % 4 == 0) words = ls_philox(call->attrs.random.seed, call->attrs.random.offset + (uint64_t)i / 4);
        int64_t chosen = i + (int64_t)((uint64_t)words.lane[i % 4] * (uint64_t)(n - i) >> 32);
        int64_t kept = to[i * stride];
        to[i * stride] = to[chosen * stride];
        to[chosen * stride] = kept;
    }
    return LS_OK;
}
