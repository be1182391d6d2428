/* lower_random.c - random numbers, the same as those of the CPU to the last bit.
 *
 * Element i of a tensor uses lane i % 4 of the Philox block at offset + i / 4 (src/base/rng.h). Distributions are
 * made of the additions and multiplications of src/kernels/random.c, each rounded on its own: a compiler that fused
 * them into one operation would round once. It cannot where the bits of a product pass through `or` with a zero that
 * only the running program knows.
 *
 * A block's four lanes become four neighbours by a tensor [blocks,4]. Memory of TPUs is divided into lines of 128
 * elements, of which it would use four: there, every element computes its whole block, which needs no memory at all. */
#include <math.h>

#include "lower_random.h"

/* ---- words ---- */

static shlo_value word(shlo *s, int64_t number)
{
    return shlo_integer(s, SHLO_U32, number, SHLO_SCALAR);
}

static shlo_value integer_with(shlo *s, const char *op, shlo_value x, int64_t number)
{
    return shlo_binary(s, op, x, shlo_integer(s, x.type, number, SHLO_SCALAR));
}

/* The lower or the upper 32 bits of 64. */
static shlo_value low_word(shlo *s, shlo_value x)
{
    return shlo_convert(s, shlo_binary(s, "and", x, shlo_integer(s, SHLO_U64, 0xffffffff, SHLO_SCALAR)), SHLO_U32);
}

static shlo_value high_word(shlo *s, shlo_value x)
{
    shlo_value by = shlo_integer(s, SHLO_U64, 32, SHLO_SCALAR);
    return shlo_convert(s, shlo_binary(s, "shift_right_logical", x, by), SHLO_U32);
}

/* The highest bit of a counter, which it never reaches: 0, which the compiler does not know. */
static shlo_value hidden_zero(shlo *s, shlo_value counter)
{
    return shlo_convert(s, integer_with(s, "shift_right_logical", counter, 63), SHLO_U32);
}

/* The offset, read from memory at a place that the compiler does not know: draws of the same size, which have nothing
 * else that tells them apart, then share one piece of code. A smaller table would become a choice between numbers. */
static shlo_value offset_in_memory(shlo *s, uint64_t offset, shlo_value zero)
{
    const double table[] = {(double)offset, -1, -1, -1, -1, -1, -1, -1}; /* it counts from a live one: it is small */
    shlo_value all = shlo_numbers(s, SHLO_I64, table, SHLO_DIMS(sizeof table / sizeof *table));
    return shlo_convert(s, shlo_take(s, all, zero, 0), SHLO_U64);
}

xla_drawing xla_draw(xla_lowering *l, uint64_t seed, uint64_t offset)
{
    shlo *s = &l->s;
    xla_drawing d = {.s = s, .by_element = l->pads_lines};
    d.seed = shlo_integer(s, SHLO_U64, (int64_t)seed, SHLO_SCALAR);
    d.counter = shlo_integer(s, SHLO_U64, (int64_t)offset, SHLO_SCALAR);
    if (l->call->live) {
        shlo_value live = shlo_bitcast(s, xla_live(l, 1), SHLO_U64);
        d.seed = shlo_bitcast(s, xla_live(l, 0), SHLO_U64);
        if (!d.by_element) d.counter = offset_in_memory(s, offset, hidden_zero(s, live));
        d.counter = shlo_add(s, d.counter, live);
    }
    d.zero = hidden_zero(s, d.counter);
    return d;
}

/* The lanes of the blocks at these numbers, counted from the drawing's first. */
static void philox(const xla_drawing *d, shlo_value block, shlo_value c[4])
{
    shlo *s = d->s;
    shlo_value counter = shlo_add(s, block, d->counter);
    shlo_value first = shlo_integer(s, SHLO_U64, 0xD2511F53, SHLO_SCALAR);
    shlo_value second = shlo_integer(s, SHLO_U64, 0xCD9E8D57, SHLO_SCALAR);
    shlo_value key[2] = {low_word(s, d->seed), high_word(s, d->seed)};
    c[0] = low_word(s, counter);
    c[1] = high_word(s, counter);
    c[2] = c[3] = shlo_integer(s, SHLO_U32, 0, block.dims);
    for (int round = 0; round < 10; round++) {
        shlo_value p0 = shlo_mul(s, shlo_convert(s, c[0], SHLO_U64), first);
        shlo_value p1 = shlo_mul(s, shlo_convert(s, c[2], SHLO_U64), second);
        c[0] = shlo_binary(s, "xor", shlo_binary(s, "xor", high_word(s, p1), c[1]), key[0]);
        c[2] = shlo_binary(s, "xor", shlo_binary(s, "xor", high_word(s, p0), c[3]), key[1]);
        c[1] = low_word(s, p1);
        c[3] = low_word(s, p0);
        key[0] = shlo_add(s, key[0], word(s, 0x9E3779B9));
        key[1] = shlo_add(s, key[1], word(s, 0xBB67AE85));
    }
}

/* 0, 1, ..., n - 1 */
static shlo_value indices(shlo *s, int64_t n)
{
    return shlo_iota(s, SHLO_U64, SHLO_DIMS(n), 0);
}

static shlo_value has_bit(shlo *s, shlo_value index, int bit)
{
    return shlo_compare(s, "NE", integer_with(s, "and", index, 1 << bit), shlo_integer(s, index.type, 0, SHLO_SCALAR));
}

/* [m] tensors, the first elements of all of them, then the second ones, ...: [n] */
static shlo_value interleaved(shlo *s, shlo_value *parts, int count, int64_t n)
{
    int64_t m = shlo_numel(parts[0].dims);
    for (int i = 0; i < count; i++) parts[i] = shlo_reshape(s, parts[i], SHLO_DIMS(m, 1));
    shlo_value all = shlo_reshape(s, shlo_concat(s, parts, count, 1), SHLO_DIMS(m * count));
    return shlo_slice(s, all, SHLO_DIMS(0), SHLO_DIMS(n), SHLO_DIMS(1));
}

shlo_value xla_words(const xla_drawing *d, int64_t n)
{
    shlo *s = d->s;
    shlo_value c[4];
    if (!d->by_element) {
        philox(d, indices(s, (n + 3) / 4), c);
        return interleaved(s, c, 4, n);
    }
    shlo_value index = indices(s, n), is_odd = has_bit(s, index, 0);
    philox(d, integer_with(s, "shift_right_logical", index, 2), c);
    return shlo_select(s, has_bit(s, index, 1), shlo_select(s, is_odd, c[3], c[2]), shlo_select(s, is_odd, c[1], c[0]));
}

/* The upper 24 bits, of which uniform numbers are made. */
static shlo_value upper_bits(shlo *s, shlo_value words)
{
    return shlo_binary(s, "shift_right_logical", words, word(s, 8));
}

/* Threshold t such that a number of 24 bits u satisfies u / 2^24 >= p exactly if u >= t. */
static int64_t threshold(double p)
{
    return (int64_t)ceil(p * 0x1p24);
}

shlo_value xla_is_kept(const xla_drawing *d, shlo_dims dims, double p)
{
    shlo_value bits = upper_bits(d->s, xla_words(d, shlo_numel(dims)));
    return shlo_reshape(d->s, shlo_compare(d->s, "GE", bits, word(d->s, threshold(p))), dims);
}

/* ---- arithmetic that is rounded step by step ---- */

static shlo_value times(const xla_drawing *d, shlo_value a, shlo_value b)
{
    shlo *s = d->s;
    shlo_value p = shlo_mul(s, a, b);
    if (p.type != SHLO_F32) return p;
    return shlo_bitcast(s, shlo_binary(s, "or", shlo_bitcast(s, p, SHLO_U32), d->zero), SHLO_F32);
}

static shlo_value times_number(const xla_drawing *d, shlo_value a, double b)
{
    return times(d, a, shlo_number(d->s, a.type, b, SHLO_SCALAR));
}

static shlo_value plus_number(const xla_drawing *d, shlo_value a, double b)
{
    return shlo_with(d->s, "add", a, b);
}

/* a * b + c */
static shlo_value then(const xla_drawing *d, shlo_value a, shlo_value b, double c)
{
    return plus_number(d, times(d, a, b), c);
}

/* ---- normal numbers: see src/kernels/random.c ---- */

static shlo_value log_of(const xla_drawing *d, shlo_value x)
{
    shlo *s = d->s;
    static const double coefficients[] = {-0.131287113f, 0.141811714f,  -0.166245565f,
                                          0.200022876f,  -0.250008106f, 0.333333164f};
    shlo_value bits = integer_with(s, "subtract", shlo_bitcast(s, x, SHLO_I32), 0x3f3504f3);
    shlo_value n = shlo_convert(s, integer_with(s, "shift_right_arithmetic", bits, 23), SHLO_F32);
    shlo_value rest = integer_with(s, "add", integer_with(s, "and", bits, 0x007fffff), 0x3f3504f3);
    shlo_value f = plus_number(d, shlo_bitcast(s, rest, SHLO_F32), -1);
    shlo_value p = plus_number(d, times_number(d, f, -0.0785984471f), 0.128817633f);
    for (size_t i = 0; i < sizeof coefficients / sizeof *coefficients; i++) p = then(d, p, f, coefficients[i]);
    shlo_value inner = times(d, times(d, f, f), then(d, f, p, -0.5));
    inner = shlo_add(s, f, shlo_add(s, inner, times_number(d, n, 0x1.7f7d1cp-20)));
    return shlo_add(s, times_number(d, n, 0x1.62e4p-1), inner);
}

/* x with the sign bit of `quarter`'s second bit. */
static shlo_value signed_by(shlo *s, shlo_value x, shlo_value quarter)
{
    shlo_value sign = integer_with(s, "shift_left", integer_with(s, "and", quarter, 2), 30);
    return shlo_bitcast(s, shlo_binary(s, "xor", shlo_bitcast(s, x, SHLO_I32), sign), SHLO_F32);
}

static void sine_cosine(const xla_drawing *d, shlo_value turn, shlo_value *sine, shlo_value *cosine)
{
    shlo *s = d->s;
    shlo_value four = times_number(d, turn, 4);
    shlo_value quarter = shlo_convert(s, plus_number(d, four, 0.5), SHLO_I32);
    shlo_value r = times_number(d, shlo_sub(s, four, shlo_convert(s, quarter, SHLO_F32)), 1.57079637f);
    shlo_value rr = times(d, r, r);
    shlo_value a = then(d, plus_number(d, times_number(d, rr, -0.000195175613f), 0.00833218079f), rr, -0.166666552f);
    a = shlo_add(s, times(d, times(d, a, rr), r), r);
    shlo_value b = then(d, plus_number(d, times_number(d, rr, 2.44394469e-05f), -0.00138873782f), rr, 0.0416666456f);
    shlo_value one = shlo_number(s, SHLO_F32, 1, SHLO_SCALAR);
    b = shlo_add(s, times(d, b, times(d, rr, rr)), shlo_sub(s, one, times_number(d, rr, 0.5)));
    shlo_value swapped = shlo_compare_with(s, "EQ", integer_with(s, "and", quarter, 1), 1);
    *sine = signed_by(s, shlo_select(s, swapped, b, a), quarter);
    *cosine = signed_by(s, shlo_select(s, swapped, a, b), integer_with(s, "add", quarter, 1));
}

static shlo_value unit(const xla_drawing *d, shlo_value bits)
{
    return times_number(d, shlo_convert(d->s, bits, SHLO_F32), 0x1p-24);
}

/* The words of which elements 2 i and 2 i + 1 are made: those of these elements. They are pairs of lanes of a block;
 * `even` and `odd` have an element for each pair, or for each element. */
static void paired_words(const xla_drawing *d, int64_t n, shlo_value *even, shlo_value *odd)
{
    shlo *s = d->s;
    shlo_value c[4];
    if (!d->by_element) {
        philox(d, indices(s, (n + 3) / 4), c);
        *even = interleaved(s, (shlo_value[]){c[0], c[2]}, 2, (n + 1) / 2);
        *odd = interleaved(s, (shlo_value[]){c[1], c[3]}, 2, (n + 1) / 2);
        return;
    }
    shlo_value index = indices(s, n), is_second = has_bit(s, index, 1);
    philox(d, integer_with(s, "shift_right_logical", index, 2), c);
    *even = shlo_select(s, is_second, c[2], c[0]);
    *odd = shlo_select(s, is_second, c[3], c[1]);
}

static shlo_value normal_numbers(const xla_drawing *d, int64_t n)
{
    shlo *s = d->s;
    shlo_value first, second, sine, cosine;
    paired_words(d, n, &first, &second);
    shlo_value log = log_of(d, unit(d, integer_with(s, "add", upper_bits(s, first), 1)));
    shlo_value radius = shlo_unary(s, "sqrt", times_number(d, log, -2));
    sine_cosine(d, unit(d, upper_bits(s, second)), &sine, &cosine);
    shlo_value z[] = {times(d, radius, cosine), times(d, radius, sine)};
    return d->by_element ? shlo_select(s, has_bit(s, indices(s, n), 0), z[1], z[0]) : interleaved(s, z, 2, n);
}

/* ---- the operators ---- */

/* The largest number of a type below `high`, which rounding must not reach. */
static double largest_below(ls_dtype dtype, double high)
{
    if (dtype == LS_F64) return nextafter(high, -INFINITY);
    float single = (float)high;
    if (dtype == LS_F32) return (double)((double)single < high ? single : nextafterf(single, -INFINITY));
    /* Half types: a step is so many steps of f32. The nearest below, counted in whole steps from 0. */
    int bits = dtype == LS_BF16 ? 8 : 11, exponent;
    frexp(high, &exponent);
    if (dtype == LS_F16 && exponent < -13) exponent = -13;
    double unit_step = ldexp(1, exponent - bits), below = (ceil(high / unit_step) - 1) * unit_step;
    if (fabs(high) == ldexp(1, exponent - 1) && high > 0 && !(dtype == LS_F16 && exponent == -13))
        below = high - unit_step / 2; /* steps are half as large below a power of two */
    return below;
}

/* shift + scale * number, at most `limit`, in f32 or f64 */
static void write_scaled(xla_lowering *l, const xla_drawing *d, shlo_value number, const double shift_scale_limit[3])
{
    shlo *s = &l->s;
    if (l->call->out[0]->dtype == LS_F64) number = shlo_convert(s, number, SHLO_F64);
    shlo_value v = plus_number(d, times_number(d, number, shift_scale_limit[1]), shift_scale_limit[0]);
    if (shift_scale_limit[2] < INFINITY) v = shlo_with(s, "minimum", v, shift_scale_limit[2]);
    xla_out(l, 0, v);
}

void xla_uniform(xla_lowering *l, const ls_call *call)
{
    const ls_operand *out = call->out[0];
    double low = call->attrs.random.a, high = call->attrs.random.b;
    xla_drawing d = xla_draw(l, call->attrs.random.seed, call->attrs.random.offset);
    shlo_value bits = upper_bits(&l->s, xla_words(&d, shlo_numel(xla_dims(out))));
    double limit = low < high ? largest_below(out->dtype, high) : high;
    write_scaled(l, &d, unit(&d, bits), (double[]){low, high - low, limit});
}

void xla_normal(xla_lowering *l, const ls_call *call)
{
    xla_drawing d = xla_draw(l, call->attrs.random.seed, call->attrs.random.offset);
    shlo_value number = normal_numbers(&d, shlo_numel(xla_dims(call->out[0])));
    write_scaled(l, &d, number, (double[]){call->attrs.random.a, call->attrs.random.b, INFINITY});
}

void xla_bernoulli(xla_lowering *l, const ls_call *call)
{
    xla_drawing d = xla_draw(l, call->attrs.random.seed, call->attrs.random.offset);
    shlo_value kept = xla_is_kept(&d, xla_dims(call->out[0]), call->attrs.random.a);
    xla_out(l, 0, shlo_unary(&l->s, "not", kept));
}

/* in: x, kept?  out: y, kept? (private: not used, since within a step the compiler draws once) */
void xla_dropout(xla_lowering *l, const ls_call *call)
{
    xla_drawing d = xla_draw(l, call->attrs.random.seed, call->attrs.random.offset);
    shlo_value x = xla_in(l, 0), kept = xla_is_kept(&d, x.dims, call->attrs.random.a);
    xla_out(l, 0, xla_dropped(&l->s, x, kept, call->attrs.random.a));
}

shlo_value xla_dropped(shlo *s, shlo_value x, shlo_value kept, double p)
{
    shlo_value scaled = shlo_with(s, "multiply", x, p < 1 ? 1 / (1 - p) : 0);
    return shlo_select(s, kept, scaled, shlo_number(s, x.type, 0, SHLO_SCALAR));
}
