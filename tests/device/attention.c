/* attention.c - attention and its gradient, checked against the definition in double, finite differences and
 * PyTorch. */
#include "device/cpu/cpu.h"

#include "base/memory.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "check.h"
#include "kernels/element.h"
#include "kernels/kernels.h"

#include <stdlib.h>

typedef enum mask_kind {
    NO_MASK,
    BOOL_KEYS,
    BOOL_PADDING,
    BOOL_HIDES_ALL,
    BOOL_FULL,
    BOOL_HIDES_ROW,
    FLOAT_KEYS,
    FLOAT_PER_HEAD
} mask_kind;

typedef struct setup {
    int64_t batch, heads, key_heads, queries, keys, depth, value_depth;
    ls_dtype dtype;
    mask_kind mask;
    bool causal;
    double dropout;
    bool by_steps; /* last dimensions are not contiguous */
    bool lengths;  /* sequences end early */
} setup;

enum { Q, K, V, O, LSE, MASK, D_O, DQ, DK, DV, KEPT, LENGTHS, TENSORS };

typedef struct tensors {
    ls_operand x[TENSORS];
    size_t numbers[TENSORS]; /* elements in the memory of each */
} tensors;

/* ---- Tensors ---------------------------------------------------------------------------------------------------- */

static double get(const ls_operand *x, int64_t a, int64_t b, int64_t c, int64_t d)
{
    int64_t i = a * x->stride[0] + b * x->stride[1] + c * x->stride[2] + d * x->stride[3];
    return ls_get(x->dtype, x->data, i);
}

static void set_flat(const ls_operand *x, size_t i, double value)
{
    ls_put(x->dtype, x->data, (int64_t)i, value);
}

/* Memory is [batch][row][head][column], as a projection leaves it; logical order is [batch, head, row, column]. */
static void make(tensors *t, int which, ls_dtype dtype, int64_t batch, int64_t heads, int64_t rows, int64_t columns,
                 int64_t step)
{
    ls_operand *x = &t->x[which];
    *x = (ls_operand){.dtype = dtype, .ndim = which == LSE ? 3 : 4, .dim = {batch, heads, rows, columns}};
    int64_t width = columns * step;
    x->stride[3] = step;
    x->stride[1] = width;
    x->stride[2] = heads * width;
    x->stride[0] = rows * heads * width;
    t->numbers[which] = (size_t)(batch * heads * rows * width);
    x->data = malloc(t->numbers[which] * ls_dtype_size(dtype) + 1);
    for (size_t i = 0; i < t->numbers[which]; i++) {
        double u = (double)ls_uniform_from_bits(ls_philox((uint64_t)which + 7, i).lane[0]);
        set_flat(x, i, dtype == LS_BOOL ? u < 0.7 : 2 * u - 1);
    }
}

/* The mask as an expanded view [batch, heads, queries, keys]. */
static void make_mask(tensors *t, const setup *s)
{
    ls_operand *x = &t->x[MASK];
    ls_dtype number = s->dtype == LS_F64 ? LS_F64 : LS_F32;
    switch (s->mask) {
    case NO_MASK: return;
    case BOOL_KEYS:
    case BOOL_PADDING:
    case BOOL_HIDES_ALL: make(t, MASK, LS_BOOL, s->batch, 1, 1, s->keys, 1); break;
    case BOOL_FULL:
    case BOOL_HIDES_ROW: make(t, MASK, LS_BOOL, s->batch, s->heads, s->queries, s->keys, 1); break;
    case FLOAT_KEYS: make(t, MASK, s->dtype, s->batch, 1, 1, s->keys, 1); break;
    case FLOAT_PER_HEAD: make(t, MASK, number, 1, s->heads, s->queries, s->keys, 2); break;
    }
    if (s->mask == BOOL_HIDES_ROW)
        for (int64_t j = 0; j < s->keys; j++)
            set_flat(x, (size_t)(s->queries / 2 * x->stride[2] + j * x->stride[3]), 0);
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t j = 0; j < s->keys; j++) {
            size_t at = (size_t)(b * x->stride[0] + j);
            if (s->mask == BOOL_HIDES_ALL) set_flat(x, at, b != 0);
            if (s->mask == BOOL_PADDING && j >= s->keys / (b + 2)) set_flat(x, at, 0);
        }
    int64_t whole[] = {s->batch, s->heads, s->queries, s->keys};
    for (int d = 0; d < 4; d++) {
        if (x->dim[d] == 1) x->stride[d] = 0;
        x->dim[d] = whole[d];
    }
}

/* The length of sequence b: from 0 to full. */
static int64_t length_of(const setup *s, int64_t b)
{
    return s->lengths && s->batch > 1 ? b * s->keys / (s->batch - 1) : s->keys;
}

/* Set lengths, and NaN in everything beyond them. */
static void make_lengths(tensors *t, const setup *s)
{
    static const int inputs[] = {Q, K, V, D_O};
    ls_operand *x = &t->x[LENGTHS];
    make(t, LENGTHS, LS_I64, s->batch, 1, 1, 1, 1);
    x->ndim = 1;
    for (int64_t b = 0; b < s->batch; b++) set_flat(x, (size_t)b, (double)length_of(s, b));
    for (int i = 0; i < 4; i++) {
        x = &t->x[inputs[i]];
        for (int64_t at = 0; at < (int64_t)t->numbers[inputs[i]]; at++)
            if (at % x->stride[0] / x->stride[2] >= length_of(s, at / x->stride[0])) set_flat(x, (size_t)at, NAN);
    }
}

static void make_all(tensors *t, const setup *s)
{
    memset(t, 0, sizeof *t);
    int64_t step = s->by_steps ? 3 : 1;
    ls_dtype sums = s->dtype == LS_F64 ? LS_F64 : LS_F32;
    make(t, Q, s->dtype, s->batch, s->heads, s->queries, s->depth, step);
    make(t, K, s->dtype, s->batch, s->key_heads, s->keys, s->depth, step);
    make(t, V, s->dtype, s->batch, s->key_heads, s->keys, s->value_depth, step);
    make(t, O, s->dtype, s->batch, s->heads, s->queries, s->value_depth, step);
    make(t, LSE, sums, s->batch, s->heads, s->queries, 1, 1);
    make(t, D_O, s->dtype, s->batch, s->heads, s->queries, s->value_depth, 1);
    make(t, DQ, s->dtype, s->batch, s->heads, s->queries, s->depth, 1);
    make(t, DK, s->dtype, s->batch, s->key_heads, s->keys, s->depth, step);
    make(t, DV, s->dtype, s->batch, s->key_heads, s->keys, s->value_depth, 1);
    make(t, KEPT, LS_U8, s->batch, s->heads, s->queries, (s->keys + 63) / 64 * 8, 1);
    make_mask(t, s);
    if (s->lengths) make_lengths(t, s);
}

static void drop_all(tensors *t)
{
    for (int i = 0; i < TENSORS; i++) free(t->x[i].data);
}

/* ---- The operators ----------------------------------------------------------------------------------------------- */

static double scale = 0.3;
static const uint64_t seed = 0x1234567812345678u, offset = 11;

static ls_attrs attrs_of(const setup *s)
{
    return (ls_attrs){.attention = {scale, s->dropout, seed, offset, s->causal}};
}

static const ls_operand *mask_of(const tensors *t, const setup *s)
{
    return s->mask == NO_MASK ? NULL : &t->x[MASK];
}

static const ls_operand *lengths_of(const tensors *t, const setup *s)
{
    return s->lengths ? &t->x[LENGTHS] : NULL;
}

static void forward(const tensors *t, const setup *s)
{
    ls_call call = {.op = LS_OP_attention,
                    .n_in = 5,
                    .n_out = 3,
                    .in = {&t->x[Q], &t->x[K], &t->x[V], mask_of(t, s), lengths_of(t, s)},
                    .out = {&t->x[O], &t->x[LSE], s->dropout > 0 ? &t->x[KEPT] : NULL},
                    .attrs = attrs_of(s)};
    CHECK(ls_cpu_attention(&call, NULL) == LS_OK);
}

static void backward(const tensors *t, const setup *s, bool dq, bool dk, bool dv)
{
    ls_call call = {.op = LS_OP_attention_grad,
                    .n_in = 9,
                    .n_out = 3,
                    .in = {&t->x[D_O], &t->x[Q], &t->x[K], &t->x[V], &t->x[O], &t->x[LSE], mask_of(t, s),
                           s->dropout > 0 ? &t->x[KEPT] : NULL, lengths_of(t, s)},
                    .out = {dq ? &t->x[DQ] : NULL, dk ? &t->x[DK] : NULL, dv ? &t->x[DV] : NULL},
                    .attrs = attrs_of(s)};
    CHECK(ls_cpu_attention_grad(&call, NULL) == LS_OK);
}

/* ---- The definition ---------------------------------------------------------------------------------------------- */

typedef struct truth {
    double *o, *lse, *dq, *dk, *dv; /* [batch][head][row][column] */
} truth;

static double *numbers(int64_t n)
{
    return calloc((size_t)n + 1, sizeof(double));
}

static double factor_of(const setup *s, int64_t b, int64_t h, int64_t i, int64_t j)
{
    uint64_t e = (uint64_t)(((b * s->heads + h) * s->queries + i) * s->keys + j);
    double u = (double)ls_uniform_from_bits(ls_philox(seed, offset + e / 4).lane[e % 4]);
    return u >= s->dropout ? 1 / (1 - s->dropout) : 0;
}

/* weights[j] of one query; returns its lse. */
static double weights_of(const tensors *t, const setup *s, int64_t b, int64_t h, int64_t i, double *weight)
{
    int64_t hk = h / (s->heads / s->key_heads);
    double sum = 0;
    memset(weight, 0, (size_t)s->keys * sizeof *weight);
    for (int64_t j = 0; j < length_of(s, b); j++) {
        double score = 0;
        for (int64_t d = 0; d < s->depth; d++) score += get(&t->x[Q], b, h, i, d) * get(&t->x[K], b, hk, j, d);
        score *= scale;
        if (s->mask != NO_MASK) {
            double m = get(&t->x[MASK], b, h, i, j);
            score += t->x[MASK].dtype != LS_BOOL ? m : m != 0 ? 0 : -INFINITY;
        }
        if (s->causal && j > i) score = -INFINITY;
        sum += weight[j] = exp(score);
    }
    for (int64_t j = 0; j < s->keys; j++) weight[j] = sum > 0 ? weight[j] / sum : 0;
    return log(sum);
}

static truth truth_of(const tensors *t, const setup *s)
{
    int64_t D = s->depth, Dv = s->value_depth, rows = s->batch * s->heads * s->queries;
    int64_t key_rows = s->batch * s->key_heads * s->keys;
    truth r = {numbers(rows * Dv), numbers(rows), numbers(rows * D), numbers(key_rows * D), numbers(key_rows * Dv)};
    double *weight = numbers(s->keys), *dw = numbers(s->keys);
    for (int64_t row = 0; row < rows; row++) {
        int64_t b = row / (s->heads * s->queries), h = row / s->queries % s->heads, i = row % s->queries;
        int64_t hk = h / (s->heads / s->key_heads), first_key = (b * s->key_heads + hk) * s->keys;
        int64_t keys = length_of(s, b);
        r.lse[row] = s->lengths && i >= keys ? -INFINITY : weights_of(t, s, b, h, i, weight);
        if (s->lengths && i >= keys) continue;
        double mean = 0;
        for (int64_t j = 0; j < keys; j++) {
            double factor = factor_of(s, b, h, i, j);
            dw[j] = 0;
            for (int64_t d = 0; d < Dv; d++) {
                double v = get(&t->x[V], b, hk, j, d), d_o = get(&t->x[D_O], b, h, i, d);
                r.o[row * Dv + d] += weight[j] * factor * v;
                r.dv[(first_key + j) * Dv + d] += weight[j] * factor * d_o;
                dw[j] += factor * d_o * v;
            }
            mean += weight[j] * dw[j];
        }
        for (int64_t j = 0; j < keys; j++)
            for (int64_t d = 0; d < D; d++) {
                double ds = weight[j] * (dw[j] - mean) * scale;
                r.dq[row * D + d] += ds * get(&t->x[K], b, hk, j, d);
                r.dk[(first_key + j) * D + d] += ds * get(&t->x[Q], b, h, i, d);
            }
    }
    free(weight);
    free(dw);
    return r;
}

static void drop_truth(truth *r)
{
    free(r->o);
    free(r->lse);
    free(r->dq);
    free(r->dk);
    free(r->dv);
}

/* The largest error must stay below `tolerance` times the largest number; NaN and infinities must agree. */
static void compare(const char *name, const ls_operand *x, const double *want, double tolerance, const setup *s)
{
    int64_t n = 0, columns = x->ndim == 4 ? x->dim[3] : 1;
    double worst = 0, largest = x->ndim == 3 ? 1 : 1e-3; /* logarithms need absolute accuracy */
    bool wild = false;
    for (int64_t a = 0; a < x->dim[0]; a++)
        for (int64_t b = 0; b < x->dim[1]; b++)
            for (int64_t c = 0; c < x->dim[2]; c++)
                for (int64_t d = 0; d < columns; d++, n++) {
                    double got = get(x, a, b, c, d);
                    if (got == want[n]) continue;
                    if (!isfinite(got) || !isfinite(want[n])) wild = true;
                    worst = fmax(worst, fabs(got - want[n]));
                    largest = fmax(largest, fabs(want[n]));
                }
    CHECK_MSG(!wild && worst <= tolerance * largest,
              "%s (%s, isa %s, B%d H%d/%d S%dx%d D%d/%d mask %d causal %d dropout %g lengths %d): error %.3g of %.3g%s",
              name, ls_dtype_name(x->dtype), ls_isa_name(ls_isa_in_use()), (int)s->batch, (int)s->heads,
              (int)s->key_heads, (int)s->queries, (int)s->keys, (int)s->depth, (int)s->value_depth, (int)s->mask,
              s->causal, s->dropout, s->lengths, worst, largest, wild ? ", not finite" : "");
}

static double tolerance_of(ls_dtype dtype)
{
    return dtype == LS_F64 ? 1e-12 : dtype == LS_F32 ? 4e-6 : dtype == LS_F16 ? 2e-3 : 1.5e-2;
}

static void check_results(const tensors *t, const setup *s, double tolerance)
{
    truth r = truth_of(t, s);
    forward(t, s);
    compare("o", &t->x[O], r.o, tolerance, s);
    compare("lse", &t->x[LSE], r.lse, s->dtype == LS_BF16 ? 2e-4 : s->dtype == LS_F64 ? tolerance : 4e-6, s);
    backward(t, s, true, true, true);
    compare("dq", &t->x[DQ], r.dq, tolerance, s);
    compare("dk", &t->x[DK], r.dk, tolerance, s);
    compare("dv", &t->x[DV], r.dv, tolerance, s);
    drop_truth(&r);
}

static void check_setup(setup s)
{
    static const ls_dtype dtypes[] = {LS_F64, LS_F32, LS_BF16, LS_F16};
    for (int d = 0; d < 4; d++) {
        s.dtype = dtypes[d];
        tensors t;
        make_all(&t, &s);
        check_results(&t, &s, tolerance_of(s.dtype));
        drop_all(&t);
    }
}

static void on_every_isa(setup s)
{
    for (int isa = LS_ISA_COUNT - 1; isa >= 0; isa--)
        if (ls_isa_usable((ls_isa)isa)) {
            ls_isa_cap((ls_isa)isa);
            check_setup(s);
        }
    ls_isa_cap(LS_ISA_COUNT - 1);
}

/* ---- Tests ------------------------------------------------------------------------------------------------------- */

static void equals_its_definition(void)
{
    on_every_isa((setup){2, 3, 3, 24, 24, 64, 64, .mask = NO_MASK});
    on_every_isa((setup){1, 2, 2, 100, 100, 32, 32, .mask = NO_MASK});
    on_every_isa((setup){1, 1, 1, 1, 1, 1, 1, .mask = NO_MASK});
    on_every_isa((setup){1, 2, 2, 13, 29, 7, 5, .mask = NO_MASK});
    on_every_isa((setup){2, 1, 1, 37, 4, 64, 72, .mask = NO_MASK});
    on_every_isa((setup){1, 2, 2, 3, 130, 20, 12, .by_steps = true});
}

static void long_rows_are_cut_into_blocks(void)
{
    on_every_isa((setup){1, 1, 1, 7, 1100, 8, 8, .mask = NO_MASK});
    on_every_isa((setup){1, 1, 1, 420, 210, 8, 16, .causal = true, .dropout = 0.2});
    on_every_isa((setup){1, 1, 1, 5, 2051, 8, 8, .mask = BOOL_FULL});
}

static void heads_share_keys(void)
{
    on_every_isa((setup){2, 6, 2, 30, 26, 16, 24, .mask = NO_MASK});
    on_every_isa((setup){1, 4, 1, 26, 33, 16, 16, .mask = FLOAT_PER_HEAD, .dropout = 0.3});
}

/* Whole tiles of queries and depths: AMX reads them where they are. */
static void rows_are_read_in_place(void)
{
    on_every_isa((setup){1, 4, 2, 64, 70, 32, 64, .mask = NO_MASK});
    on_every_isa((setup){2, 2, 1, 96, 96, 64, 32, .causal = true, .dropout = 0.2});
    on_every_isa((setup){3, 2, 1, 64, 64, 32, 32, .mask = FLOAT_PER_HEAD, .lengths = true});
}

static void masks_hide_keys(void)
{
    for (mask_kind mask = BOOL_KEYS; mask <= FLOAT_PER_HEAD; mask++) {
        on_every_isa((setup){2, 2, 2, 28, 36, 16, 16, .mask = mask});
        on_every_isa((setup){2, 2, 1, 15, 23, 9, 16, .mask = mask, .causal = true, .dropout = 0.1});
    }
}

/* Make scores of some queries large, and add to those of others what makes all of their weights huge or tiny. */
static void make_scores_wild(const tensors *t, const setup *s)
{
    const ls_operand *q = &t->x[Q], *mask = &t->x[MASK];
    for (int64_t i = 0; i < s->queries; i++) {
        for (int64_t h = 0; i % 7 == 3 && h < s->heads; h++)
            for (int64_t d = 0; d < s->depth; d++)
                set_flat(q, (size_t)(h * q->stride[1] + i * q->stride[2] + d), 64 * get(q, 0, h, i, d));
        for (int64_t h = 0; i % 11 == 5 && h < s->heads; h++)
            for (int64_t j = 0; j < s->keys; j++)
                set_flat(mask, (size_t)(h * mask->stride[1] + i * mask->stride[2] + j * mask->stride[3]),
                         (i % 2 ? 70 : -70) + get(mask, 0, h, i, j));
    }
}

static void scores_may_be_large(void)
{
    setup s = {1, 2, 2, 70, 410, 64, 32, LS_BF16, FLOAT_PER_HEAD, .dropout = 0.1};
    for (int isa = LS_ISA_COUNT - 1; isa >= 0; isa--)
        if (ls_isa_usable((ls_isa)isa)) {
            tensors t;
            ls_isa_cap((ls_isa)isa);
            make_all(&t, &s);
            make_scores_wild(&t, &s);
            check_results(&t, &s, tolerance_of(s.dtype));
            drop_all(&t);
        }
    ls_isa_cap(LS_ISA_COUNT - 1);
}

/* Products of such values with weights that are not divided by their sum yet exceed the range of numbers. */
static void check_large_values(setup s)
{
    for (double value = 1; value < 1e37; value *= 1e4) {
        tensors t;
        make_all(&t, &s);
        for (size_t i = 0; i < t.numbers[V]; i++)
            set_flat(&t.x[V], i, value * ls_get(s.dtype, t.x[V].data, (int64_t)i));
        for (size_t i = 0; i < t.numbers[K]; i++) set_flat(&t.x[K], i, i == 32 ? 90 : 0); /* scores of 27 with key 1 */
        for (size_t i = 0; i < t.numbers[Q]; i++) set_flat(&t.x[Q], i, i % 32 == 0);
        truth r = truth_of(&t, &s);
        forward(&t, &s);
        compare("o", &t.x[O], r.o, tolerance_of(s.dtype), &s);
        drop_truth(&r);
        drop_all(&t);
    }
}

static void values_may_be_large(void)
{
    for (int isa = LS_ISA_COUNT - 1; isa >= 0; isa--)
        for (int i = 0; i < 4 && ls_isa_usable((ls_isa)isa); i++) {
            ls_isa_cap((ls_isa)isa);
            check_large_values((setup){1, 1, 1, 40, 33, 32, 32, i < 2 ? LS_BF16 : LS_F32, .mask = NO_MASK,
                                       .dropout = i % 2 ? 0.3 : 0});
        }
    ls_isa_cap(LS_ISA_COUNT - 1);
}

/* Add `value` to all scores of query 3, and `beyond` to those of query 4 from key 10 on. */
static void mask_two_queries(const tensors *t, const setup *s, double value, double beyond)
{
    const ls_operand *mask = &t->x[MASK];
    for (int64_t h = 0; h < s->heads; h++)
        for (int64_t i = 3; i < 5; i++)
            for (int64_t j = 0; j < s->keys; j++)
                set_flat(mask, (size_t)(h * mask->stride[1] + i * mask->stride[2] + j * mask->stride[3]),
                         i == 3    ? value
                         : j >= 10 ? beyond
                                   : 0);
}

/* Masks hide keys by large numbers, too. A query that has only such keys sees them all, as without a mask. */
static void masks_of_large_numbers_are_no_trap(void)
{
    static const double hidden[] = {-1e9, -1e10, -1e30, -3.4028234e38};
    setup s = {1, 2, 2, 40, 70, 64, 32, .mask = FLOAT_PER_HEAD};
    for (int isa = LS_ISA_COUNT - 1; isa >= 0; isa--)
        for (int i = 0; i < 8 && ls_isa_usable((ls_isa)isa); i++) {
            tensors t;
            ls_isa_cap((ls_isa)isa);
            s.dtype = i < 4 ? LS_F32 : LS_BF16;
            make_all(&t, &s);
            mask_two_queries(&t, &s, 0, -INFINITY);
            truth r = truth_of(&t, &s);
            mask_two_queries(&t, &s, hidden[i % 4], hidden[i % 4]);
            double tolerance = tolerance_of(s.dtype) > 4e-3 ? tolerance_of(s.dtype) : 4e-3;
            forward(&t, &s);
            compare("o", &t.x[O], r.o, tolerance, &s);
            backward(&t, &s, true, true, true);
            compare("dq", &t.x[DQ], r.dq, tolerance, &s);
            compare("dk", &t.x[DK], r.dk, tolerance, &s);
            compare("dv", &t.x[DV], r.dv, tolerance, &s);
            drop_truth(&r);
            drop_all(&t);
        }
    ls_isa_cap(LS_ISA_COUNT - 1);
}

static void causal_queries_see_the_past(void)
{
    on_every_isa((setup){1, 2, 2, 50, 50, 16, 16, .causal = true});
    on_every_isa((setup){1, 2, 2, 50, 20, 16, 16, .causal = true});
    on_every_isa((setup){1, 2, 2, 20, 50, 16, 16, .causal = true});
}

static void dropout_draws_by_element(void)
{
    on_every_isa((setup){2, 2, 2, 40, 48, 32, 32, .dropout = 0.1});
    on_every_isa((setup){2, 2, 2, 17, 22, 8, 8, .dropout = 0.5});
    on_every_isa((setup){1, 3, 3, 9, 21, 8, 8, .dropout = 0.5});
    on_every_isa((setup){1, 2, 2, 40, 48, 32, 32, .dropout = 0.99999995}); /* beyond the largest number drawn */
}

/* Everything beyond the end of a sequence is NaN here and must not be read; its results are 0. */
static void sequences_end_at_their_length(void)
{
    on_every_isa((setup){3, 2, 2, 40, 40, 16, 16, .lengths = true});
    on_every_isa((setup){4, 2, 1, 29, 29, 9, 16, .lengths = true, .causal = true, .dropout = 0.3});
    on_every_isa((setup){3, 2, 2, 52, 52, 16, 8, .lengths = true, .dropout = 0.1, .by_steps = true});
    on_every_isa((setup){3, 2, 2, 33, 33, 16, 16, .lengths = true, .mask = FLOAT_PER_HEAD});
    on_every_isa((setup){3, 2, 2, 33, 33, 16, 16, .lengths = true, .mask = BOOL_KEYS, .dropout = 0.2});
    on_every_isa((setup){2, 1, 1, 250, 250, 8, 8, .lengths = true, .dropout = 0.2});
}

static void a_length_out_of_range_is_named(void)
{
    setup s = {2, 1, 1, 4, 4, 8, 8, LS_F32, .lengths = true};
    tensors t;
    make_all(&t, &s);
    for (int i = 0; i < 2; i++) {
        set_flat(&t.x[LENGTHS], 1, i ? -1 : 5);
        ls_message why = {""};
        ls_call call = {.op = LS_OP_attention,
                        .n_in = 5,
                        .n_out = 1,
                        .in = {&t.x[Q], &t.x[K], &t.x[V], NULL, &t.x[LENGTHS]},
                        .out = {&t.x[O]},
                        .attrs = attrs_of(&s)};
        CHECK(ls_cpu_attention(&call, &why) == LS_ERR_VALUE);
        CHECK_TEXT(why.text,
                   i ? "length -1 of sequence 1 is not in 0 .. 4" : "length 5 of sequence 1 is not in 0 .. 4");
    }
    drop_all(&t);
}

static void empty_tensors_are_fine(void)
{
    check_setup((setup){0, 2, 2, 4, 4, 8, 8, .mask = NO_MASK});
    check_setup((setup){2, 2, 2, 0, 4, 8, 8, .mask = NO_MASK});
    on_every_isa((setup){2, 2, 2, 4, 0, 8, 8, .mask = NO_MASK});
    on_every_isa((setup){2, 2, 2, 300, 0, 32, 32, .mask = BOOL_KEYS}); /* memory is not zero before */
    on_every_isa((setup){2, 2, 2, 4, 0, 8, 8, .mask = FLOAT_PER_HEAD});
    check_setup((setup){2, 2, 2, 4, 4, 8, 0, .mask = NO_MASK});
}

static bool is_same(const ls_operand *a, const ls_operand *b, size_t numbers)
{
    for (size_t i = 0; i < numbers; i++)
        if (ls_get(a->dtype, a->data, (int64_t)i) != ls_get(b->dtype, b->data, (int64_t)i)) return false;
    return true;
}

/* Each gradient, computed alone and on that many threads, is the same to the last bit. */
static void check_cutting(setup s, int width, bool wild)
{
    tensors whole, cut;
    make_all(&whole, &s);
    make_all(&cut, &s);
    if (wild) make_scores_wild(&whole, &s), make_scores_wild(&cut, &s);
    ls_parallel_set_width(1);
    forward(&whole, &s);
    backward(&whole, &s, true, true, true);
    ls_parallel_set_width(width);
    forward(&cut, &s);
    backward(&cut, &s, true, false, false);
    backward(&cut, &s, false, true, false);
    backward(&cut, &s, false, false, true);
    ls_parallel_set_width(0);
    static const int results[] = {O, LSE, DQ, DK, DV};
    for (int i = 0; i < 5; i++) {
        const ls_operand *a = &whole.x[results[i]], *b = &cut.x[results[i]];
        CHECK_MSG(is_same(a, b, whole.numbers[results[i]]), "result %d of %s on %d threads, %lld queries", i,
                  ls_dtype_name(s.dtype), width, (long long)s.queries);
    }
    drop_all(&whole);
    drop_all(&cut);
}

static void cutting_changes_nothing(void)
{
    static const ls_dtype dtypes[] = {LS_F64, LS_F32, LS_BF16, LS_BF16};
    for (int d = 0; d < 4; d++) {
        setup s = {1, 1, 1, 250, 330, 16, 16, dtypes[d], d < 3 ? BOOL_KEYS : FLOAT_PER_HEAD, .dropout = 0.1};
        check_cutting(s, 2, d == 3);
    }
}

/* Parts of 144 queries: the fourth ends where a block of keys begins that none of its queries sees. */
static void cutting_causal_heads_changes_nothing(void)
{
    for (int isa = LS_ISA_COUNT - 1; isa >= 0; isa--) {
        if (!ls_isa_usable((ls_isa)isa)) continue;
        ls_isa_cap((ls_isa)isa);
        check_cutting((setup){1, 4, 4, 620, 620, 16, 16, LS_F32, NO_MASK, .causal = true}, 5, false);
        check_cutting((setup){1, 4, 4, 620, 620, 16, 16, LS_BF16, NO_MASK, .causal = true}, 5, false);
        check_cutting((setup){1, 4, 2, 200, 620, 16, 16, LS_BF16, NO_MASK, .causal = true}, 3, false);
    }
    ls_isa_cap(LS_ISA_COUNT - 1);
}

/* Whichever workers get the tasks, after the first call no memory is requested from the system. */
static void memory_does_not_depend_on_which_worker_comes_first(void)
{
    setup s = {1, 3, 3, 300, 250, 16, 16, LS_BF16, NO_MASK, .by_steps = true};
    tensors t;
    make_all(&t, &s);
    ls_parallel_set_width(16);
    forward(&t, &s);
    backward(&t, &s, true, true, true);
    uint64_t before = ls_sys_calls();
    for (int i = 0; i < 50; i++) {
        forward(&t, &s);
        backward(&t, &s, true, true, true);
    }
    CHECK_MSG(ls_sys_calls() == before, "%llu requests", (unsigned long long)(ls_sys_calls() - before));
    ls_parallel_set_width(0);
    drop_all(&t);
}

static double loss_of(tensors *t, const setup *s)
{
    forward(t, s);
    double loss = 0;
    for (size_t i = 0; i < t->numbers[O]; i++) loss += ((double *)t->x[O].data)[i] * ((double *)t->x[D_O].data)[i];
    return loss;
}

static void gradient_is_the_slope(void)
{
    setup s = {1, 4, 2, 6, 9, 5, 3, LS_F64, FLOAT_PER_HEAD, .causal = true, .dropout = 0.2};
    tensors t;
    make_all(&t, &s);
    forward(&t, &s);
    backward(&t, &s, true, true, true);
    static const int pairs[][2] = {{Q, DQ}, {K, DK}, {V, DV}};
    for (int p = 0; p < 3; p++)
        for (size_t i = 0; i < t.numbers[pairs[p][0]]; i++) {
            double *x = (double *)t.x[pairs[p][0]].data + i, kept = *x;
            *x = kept + 1e-5;
            double above = loss_of(&t, &s);
            *x = kept - 1e-5;
            double below = loss_of(&t, &s);
            *x = kept;
            CHECK_NEAR(((double *)t.x[pairs[p][1]].data)[i], (above - below) / 2e-5, 1e-8);
        }
    drop_all(&t);
}

/* x[i] = 2 sin(0.7 i + phase), in logical order (memory is [batch][row][head][column]). */
static void fill_wave(const ls_operand *x, double phase)
{
    int64_t heads = x->dim[1], rows = x->dim[2], columns = x->dim[3];
    for (int64_t i = 0; i < x->dim[0] * heads * rows * columns; i++) {
        int64_t d = i % columns, r = i / columns % rows, h = i / columns / rows % heads, b = i / columns / rows / heads;
        size_t at = (size_t)(b * x->stride[0] + h * x->stride[1] + r * x->stride[2] + d);
        set_flat(x, at, 2 * sin(0.7 * (double)i + phase));
    }
}

/* scaled_dot_product_attention of PyTorch 2 in f64: of o, dq, dk, dv the element 5 and the sum of x[i] cos(i). */
static void equals_pytorch(void)
{
    static const double want[3][4][2] = {{{-1.111564456778, -0.340264539047},
                                          {-0.883301947402, -4.727617687298},
                                          {-0.233448543909, 1.396110156986},
                                          {-1.213588448744, 12.419706902370}},
                                         {{-1.634254710902, -5.815529295137},
                                          {-0.016571622338, 2.261989486841},
                                          {0.161531288503, 4.221759095866},
                                          {-2.108376260150, 9.676852318024}},
                                         {{-1.437855506251, 2.963962540670},
                                          {-0.850542810092, -5.450457148093},
                                          {0.036192009712, 3.448641833329},
                                          {-1.949625647987, 10.559585755093}}};
    double usual = scale;
    scale = 0.5; /* 1 / sqrt(4) */
    for (int way = 0; way < 3; way++) {
        setup s = {2, 2, 2, 5, 7, 4, 4, .dtype = LS_F64, .mask = way == 2 ? BOOL_KEYS : NO_MASK, .causal = way == 1};
        tensors t;
        make_all(&t, &s);
        static const int inputs[] = {Q, K, V, D_O}, outputs[] = {O, DQ, DK, DV};
        for (int i = 0; i < 4; i++) fill_wave(&t.x[inputs[i]], 0.3 * i);
        if (way == 2)
            for (size_t i = 0; i < 14; i++) set_flat(&t.x[MASK], i, i % 5 != 3);
        forward(&t, &s);
        backward(&t, &s, true, true, true);
        for (int i = 0; i < 4; i++) {
            const ls_operand *x = &t.x[outputs[i]];
            double sum = 0, n = 0;
            for (int64_t row = 0; row < x->dim[0] * x->dim[1] * x->dim[2]; row++)
                for (int64_t d = 0; d < 4; d++, n++)
                    sum += cos(n) * get(x, row / x->dim[2] / 2, row / x->dim[2] % 2, row % x->dim[2], d);
            CHECK_NEAR(get(x, 0, 0, 1, 1), want[way][i][0], 1e-11);
            CHECK_NEAR(sum, want[way][i][1], 1e-11);
        }
        drop_all(&t);
    }
    scale = usual;
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(equals_its_definition);
    CHECK_RUN(long_rows_are_cut_into_blocks);
    CHECK_RUN(heads_share_keys);
    CHECK_RUN(rows_are_read_in_place);
    CHECK_RUN(masks_hide_keys);
    CHECK_RUN(scores_may_be_large);
    CHECK_RUN(values_may_be_large);
    CHECK_RUN(masks_of_large_numbers_are_no_trap);
    CHECK_RUN(causal_queries_see_the_past);
    CHECK_RUN(dropout_draws_by_element);
    CHECK_RUN(sequences_end_at_their_length);
    CHECK_RUN(a_length_out_of_range_is_named);
    CHECK_RUN(empty_tensors_are_fine);
    CHECK_RUN(cutting_changes_nothing);
    CHECK_RUN(cutting_causal_heads_changes_nothing);
    CHECK_RUN(memory_does_not_depend_on_which_worker_comes_first);
    CHECK_RUN(gradient_is_the_slope);
    CHECK_RUN(equals_pytorch);
    return check_done();
}
