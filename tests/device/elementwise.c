/* elementwise.c - each elementwise operator against a plain loop: every type, layout, broadcast and ISA, one and two
 * threads. */
#include "base/rng.h"
#include "operands.h"

#include <float.h>

/* ---- definition of each operator --------------------------------------------------------------------------------- */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double cdf(double x)
{
    return 0.5 * erfc(-x / sqrt(2));
}

static double gelu_slope(double x)
{
    return cdf(x) + x * exp(-x * x / 2) / sqrt(2 * M_PI);
}

static double tanh_gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double tanh_gelu_slope(double x)
{
    double h = 1e-5;
    return (tanh_gelu(x + h) - tanh_gelu(x - h)) / (2 * h);
}

/* LS_CASE(operator, inputs, numbers, bool result, truth in x, y and the numbers a = 0.75, b = 1.25) */
/* clang-format off */
#define LS_CASE_LIST(LS_CASE)                                                                                          \
    LS_CASE(add,             2, ALL,   0, x + y)                                                                       \
    LS_CASE(sub,             2, ALL,   0, x - y)                                                                       \
    LS_CASE(mul,             2, ALL,   0, x * y)                                                                       \
    LS_CASE(div,             2, FLOAT, 0, x / y)                                                                       \
    LS_CASE(pow,             2, FLOAT, 0, pow(x, y))                                                                   \
    LS_CASE(maximum,         2, ALL,   0, isnan(x) || isnan(y) ? NAN : fmax(x, y))                                     \
    LS_CASE(minimum,         2, ALL,   0, isnan(x) || isnan(y) ? NAN : fmin(x, y))                                     \
    LS_CASE(eq,              2, ALL,   1, x == y)                                                                      \
    LS_CASE(ne,              2, ALL,   1, x != y)                                                                      \
    LS_CASE(lt,              2, ALL,   1, x < y)                                                                       \
    LS_CASE(le,              2, ALL,   1, x <= y)                                                                      \
    LS_CASE(gt,              2, ALL,   1, x > y)                                                                       \
    LS_CASE(ge,              2, ALL,   1, x >= y)                                                                      \
    LS_CASE(logical_and,     2, ALL,   1, x != 0 && y != 0)                                                            \
    LS_CASE(logical_or,      2, ALL,   1, x != 0 || y != 0)                                                            \
    LS_CASE(affine,          1, FLOAT, 0, x * a + b)                                                                   \
    LS_CASE(pow_scalar,      1, FLOAT, 0, pow(x, a))                                                                   \
    LS_CASE(clamp,           1, FLOAT, 0, isnan(x) ? x : fmin(fmax(x, a), b))                                          \
    LS_CASE(neg,             1, ALL,   0, -x)                                                                          \
    LS_CASE(abs,             1, ALL,   0, fabs(x))                                                                     \
    LS_CASE(sign,            1, ALL,   0, (x > 0) - (x < 0))                                                           \
    LS_CASE(exp,             1, FLOAT, 0, exp(x))                                                                      \
    LS_CASE(log,             1, FLOAT, 0, log(x))                                                                      \
    LS_CASE(sqrt,            1, FLOAT, 0, sqrt(x))                                                                     \
    LS_CASE(rsqrt,           1, FLOAT, 0, 1 / sqrt(x))                                                                 \
    LS_CASE(square,          1, ALL,   0, x * x)                                                                       \
    LS_CASE(reciprocal,      1, FLOAT, 0, 1 / x)                                                                       \
    LS_CASE(sin,             1, FLOAT, 0, sin(x))                                                                      \
    LS_CASE(cos,             1, FLOAT, 0, cos(x))                                                                      \
    LS_CASE(erf,             1, FLOAT, 0, erf(x))                                                                      \
    LS_CASE(floor,           1, ALL,   0, floor(x))                                                                    \
    LS_CASE(ceil,            1, ALL,   0, ceil(x))                                                                     \
    LS_CASE(logical_not,     1, ALL,   1, x == 0)                                                                      \
    LS_CASE(isfinite,        1, ALL,   1, isfinite(x))                                                                 \
    LS_CASE(relu,            1, ALL,   0, isnan(x) ? x : fmax(x, 0))                                                   \
    LS_CASE(gelu,            1, FLOAT, 0, x * cdf(x))                                                                  \
    LS_CASE(silu,            1, FLOAT, 0, x * sigmoid(x))                                                              \
    LS_CASE(sigmoid,         1, FLOAT, 0, sigmoid(x))                                                                  \
    LS_CASE(tanh,            1, FLOAT, 0, tanh(x))                                                                     \
    LS_CASE(softplus,        1, FLOAT, 0, log1p(exp(a * x)) / a)                                                       \
    LS_CASE(elu,             1, FLOAT, 0, x > 0 ? x : a * expm1(x))                                                    \
    LS_CASE(leaky_relu,      1, FLOAT, 0, x > 0 ? x : a * x)                                                           \
    LS_CASE(relu_grad,       2, FLOAT, 0, y > 0 ? x : 0)                                                               \
    LS_CASE(gelu_grad,       2, FLOAT, 0, x * gelu_slope(y))                                                           \
    LS_CASE(silu_grad,       2, FLOAT, 0, x * (sigmoid(y) + y * sigmoid(y) * sigmoid(-y)))                             \
    LS_CASE(sigmoid_grad,    2, FLOAT, 0, x * y * (1 - y))                                                             \
    LS_CASE(tanh_grad,       2, FLOAT, 0, x * (1 - y * y))                                                             \
    LS_CASE(softplus_grad,   2, FLOAT, 0, x * sigmoid(a * y))                                                          \
    LS_CASE(elu_grad,        2, FLOAT, 0, y > 0 ? x : x * a * exp(y))                                                  \
    LS_CASE(leaky_relu_grad, 2, FLOAT, 0, y > 0 ? x : x * a)                                                           \
    LS_CASE(clamp_grad,      2, FLOAT, 0, y >= a && y <= b ? x : 0)
/* clang-format on */

#define LS_CASE(name, inputs, numbers, bool_result, truth)                                                             \
    static double truth_##name(double x, double y, double a, double b)                                                 \
    {                                                                                                                  \
        (void)y, (void)a, (void)b;                                                                                     \
        return truth;                                                                                                  \
    }
LS_CASE_LIST(LS_CASE)
#undef LS_CASE

typedef struct op_case {
    const char *name;
    ls_opcode op;
    int inputs;
    bool float_only, gives_bool;
    double (*truth)(double x, double y, double a, double b);
} op_case;

enum { ALL = 0, FLOAT = 1 };
static const op_case cases[] = {
#define LS_CASE(name, inputs, numbers, bool_result, truth)                                                             \
    {#name, LS_OP_##name, inputs, numbers, bool_result, truth_##name},
    LS_CASE_LIST(LS_CASE)
#undef LS_CASE
};
#define CASES (sizeof cases / sizeof *cases)
#define EACH_CASE(c) for (const op_case *c = cases; c < cases + CASES; c++)

/* Attributes of the two scalars of an operator. */
static ls_attrs attrs_of(ls_opcode op, double a, double b)
{
    ls_attrs attrs = {.scalar = {a}};
    if (op == LS_OP_affine) attrs.affine.scale = a, attrs.affine.shift = b;
    if (op == LS_OP_clamp || op == LS_OP_clamp_grad) attrs.range.low = a, attrs.range.high = b;
    if (op == LS_OP_gelu || op == LS_OP_gelu_grad) attrs.gelu.tanh = 0;
    return attrs;
}

/* ---- running one case -------------------------------------------------------------------------------------------- */

static bool is_float(ls_dtype dtype)
{
    return ls_dtype_is_float(dtype);
}

/* One unit of the type's last place, relative. */
static double epsilon(ls_dtype dtype)
{
    return dtype == LS_BF16 ? 0x1p-8 : dtype == LS_F16 ? 0x1p-11 : dtype == LS_F32 ? 0x1p-23 : 0x1p-46;
}

/* Values that hit every branch; small enough for sums and products of i8. */
static double sample(ls_dtype dtype, int64_t i)
{
    static const double special[] = {0, 1, -1, 0.75, 1.25, 2.5, -2.5, 6, -6, 11};
    uint32_t r = ls_philox(3, (uint64_t)i).lane[0];
    double v = i % 3 ? (r / 4294967296.0 - 0.5) * 12 : special[r % 10];
    if (is_float(dtype)) return v;
    v = trunc(v);
    return dtype == LS_BOOL ? v > 1 : dtype == LS_U8 ? fabs(v) : v;
}

static void fill(const operand *t, int64_t salt)
{
    int64_t n = numel(&t->view);
    for (int64_t i = 0; i < n; i++) set(t, i, sample(t->view.dtype, i * 7 + salt));
}

static double wrapped(ls_dtype dtype, double v)
{
    return dtype == LS_BOOL ? v != 0 : dtype == LS_U8 ? (uint8_t)(int64_t)v : v;
}

static void run_case(const op_case *c, ls_dtype dtype, ls_shape shape, ls_shape shape_b, placement out_layout,
                     placement a, placement b)
{
    operand y = operand_new(c->gives_bool ? LS_BOOL : dtype, shape, out_layout);
    operand in[2] = {operand_new(dtype, shape, a), operand_new(dtype, shape_b, b)};
    fill(&in[0], 1);
    fill(&in[1], 2);
    ls_message why = {""};
    ls_call call = {.op = c->op,
                    .n_in = c->inputs,
                    .n_out = 1,
                    .in = {&in[0].view, &in[1].view},
                    .out = {&y.view},
                    .attrs = attrs_of(c->op, 0.75, 1.25)};
    ls_status status = ls_cpu_run(&call, &why);
    CHECK_MSG(status == LS_OK, "%s %s: %s", c->name, ls_dtype_name(dtype), why.text);
    int64_t n = numel(&y.view);
    for (int64_t i = 0; i < n; i++) {
        double x0 = get(&in[0], i), x1 = get_at(&in[1].view, broadcast_offset(&in[1].view, &y.view, i));
        double want = c->truth(x0, x1, 0.75, 1.25), got = get(&y, i);
        if (!is_float(dtype) && !c->gives_bool) want = wrapped(dtype, want);
        double size = fmax(fabs(want), fmax(fabs(x0), fabs(x1)) * 0.5);
        double limit = is_float(dtype) && !c->gives_bool ? 4 * epsilon(dtype) * size : 0;
        bool near = fabs(got - want) <= limit || got == want || (isnan(got) && isnan(want));
        if (dtype == LS_F16 && fabs(want) > 65000) near = true; /* may round to infinity */
        CHECK_MSG(near, "%s %s on %s, layouts %d %d %d: element %lld of (%.9g, %.9g) is %.9g, expected %.9g", c->name,
                  ls_dtype_name(dtype), ls_isa_name(ls_isa_in_use()), (int)out_layout, (int)a, (int)b, (long long)i, x0,
                  x1, got, want);
        if (!near) break;
    }
    operand_free(&y);
    operand_free(&in[0]);
    operand_free(&in[1]);
}

static bool takes(const op_case *c, ls_dtype dtype)
{
    if (c->op == LS_OP_neg && (dtype == LS_BOOL || dtype == LS_U8)) return false; /* no truth to compare with */
    if (c->op == LS_OP_sub && (dtype == LS_BOOL || dtype == LS_U8)) return false;
    return is_float(dtype) || !c->float_only;
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void plain_arrays_of_all_sizes(void)
{
    EACH_ISA(isa) EACH_CASE(c) EACH_DTYPE(d)
    {
        if (!takes(c, d)) continue;
        for (int64_t n = 0; n < 40; n += n < 20 ? 1 : 7) run_case(c, d, LS_SHAPE(n), LS_SHAPE(n), PLAIN, PLAIN, PLAIN);
    }
    lift_caps();
}

static void all_layouts(void)
{
    EACH_ISA(isa) EACH_CASE(c)
    {
        for (int l = 0; l < LAYOUTS * LAYOUTS * LAYOUTS; l++) {
            placement y = (placement)(l % 4), a = (placement)(l / 4 % 4), b = (placement)(l / 16);
            run_case(c, LS_F32, LS_SHAPE(2, 3, 1, 5), LS_SHAPE(2, 3, 1, 5), y, a, b);
        }
    }
    lift_caps();
    EACH_CASE(c) EACH_DTYPE(d)
    {
        if (takes(c, d)) run_case(c, d, LS_SHAPE(3, 4, 5), LS_SHAPE(3, 4, 5), REVERSED, GAPS, CHANNELS_LAST);
    }
}

static void second_input_broadcasts(void)
{
    EACH_CASE(c)
    {
        if (c->inputs != 2) continue;
        EACH_DTYPE(d)
        {
            if (!takes(c, d)) continue;
            run_case(c, d, LS_SHAPE(7, 3), LS_SHAPE(3), PLAIN, PLAIN, PLAIN);
            run_case(c, d, LS_SHAPE(3, 700), LS_SHAPE(3, 1), PLAIN, PLAIN, PLAIN);
            run_case(c, d, LS_SHAPE(2, 1300), LS_SHAPE(1300), GAPS, PLAIN, GAPS);
            run_case(c, d, LS_SHAPE(5, 600), LS_SCALAR, PLAIN, PLAIN, PLAIN);
            run_case(c, d, LS_SHAPE(2, 4, 3, 5), LS_SHAPE(4, 1, 1), CHANNELS_LAST, CHANNELS_LAST, PLAIN);
            run_case(c, d, LS_SCALAR, LS_SCALAR, PLAIN, PLAIN, PLAIN);
            run_case(c, d, LS_SHAPE(4, 0, 3), LS_SHAPE(3), PLAIN, PLAIN, PLAIN);
        }
    }
}

static void threads_share_large_tensors(void)
{
    for (int width = 1; width <= 2; width++) {
        ls_parallel_set_width(width);
        EACH_CASE(c)
        {
            if (c->op != LS_OP_add && c->op != LS_OP_gelu && c->op != LS_OP_eq && c->op != LS_OP_exp) continue;
            run_case(c, LS_F32, LS_SHAPE(300001), LS_SHAPE(300001), PLAIN, PLAIN, PLAIN);
            run_case(c, LS_BF16, LS_SHAPE(1001, 301), LS_SHAPE(301), GAPS, REVERSED, PLAIN);
        }
    }
    lift_caps();
}

static void types_mix_and_convert(void)
{
    operand y = operand_new(LS_F32, LS_SHAPE(3, 300), PLAIN), a = operand_new(LS_BF16, LS_SHAPE(3, 300), REVERSED),
            b = operand_new(LS_I32, LS_SHAPE(300), PLAIN);
    fill(&a, 1);
    fill(&b, 2);
    ls_call call = {.op = LS_OP_add, .n_in = 2, .n_out = 1, .in = {&a.view, &b.view}, .out = {&y.view}};
    run(&call);
    for (int64_t i = 0; i < 900; i++) CHECK_NEAR(get(&y, i), get(&a, i) + get(&b, i % 300), 0x1p-7);
    operand_free(&y);
    operand_free(&a);
    operand_free(&b);
}

static void special_values_pass_through(void)
{
    const float inf = INFINITY, x[] = {NAN, inf, -inf, 0.0f, -0.0f, FLT_MAX, -FLT_MAX, 0x1p-149f};
    enum { N = sizeof x / sizeof *x };
    EACH_ISA(isa) EACH_CASE(c)
    {
        if (c->op == LS_OP_silu || c->op == LS_OP_gelu || c->op == LS_OP_silu_grad)
            continue; /* NaN or 0 for large
                                                                                               * inputs */
        if (c->op == LS_OP_gelu_grad || c->op == LS_OP_elu_grad || c->op == LS_OP_softplus) continue;
        float y[N] = {0};
        uint8_t truth[N] = {0};
        ls_operand in = {.data = (void *)x, .dtype = LS_F32, .ndim = 1, .dim = {N}, .stride = {1}}, out = in;
        out.data = c->gives_bool ? (void *)truth : (void *)y;
        if (c->gives_bool) out.dtype = LS_BOOL;
        ls_call call = {.op = c->op, .n_in = c->inputs, .n_out = 1, .in = {&in, &in}, .out = {&out}};
        call.attrs = attrs_of(c->op, 0.75, 1.25);
        run(&call);
        for (int i = 0; i < N; i++) {
            double want = c->truth((double)x[i], (double)x[i], 0.75, 1.25);
            double got = c->gives_bool ? truth[i] : (double)y[i];
            bool same = (isnan(got) && isnan(want)) || got == want || fabs(got - want) <= 3e-7 * fabs(want) ||
                        (float)got == (float)want;
            CHECK_MSG(same, "%s(%g) on %s is %g, expected %g", c->name, (double)x[i], ls_isa_name(isa), got, want);
        }
    }
    lift_caps();
}

static void gelu_has_a_tanh_form(void)
{
    EACH_ISA(isa) for (int gradient = 0; gradient < 2; gradient++)
    {
        operand y = operand_new(LS_F32, LS_SHAPE(1001), PLAIN), dy = operand_new(LS_F32, LS_SHAPE(1001), PLAIN),
                x = operand_new(LS_F32, LS_SHAPE(1001), PLAIN);
        for (int i = 0; i < 1001; i++) set(&x, i, (i - 500) / 60.0), set(&dy, i, 1);
        ls_call call = {.op = LS_OP_gelu, .n_in = 1, .n_out = 1, .in = {&x.view}, .out = {&y.view}};
        if (gradient) {
            call.op = LS_OP_gelu_grad;
            call.n_in = 2;
            call.in[0] = &dy.view;
            call.in[1] = &x.view;
        }
        call.attrs.gelu.tanh = 1;
        run(&call);
        for (int i = 0; i < 1001; i++)
            CHECK_NEAR(get(&y, i), gradient ? tanh_gelu_slope(get(&x, i)) : tanh_gelu(get(&x, i)), 1e-6);
        operand_free(&y);
        operand_free(&x);
        operand_free(&dy);
    }
    lift_caps();
}

static void common_exponents_are_exact(void)
{
    const double exponents[] = {2, 3, 0.5, -0.5, -1, 1, 0, 2.5};
    operand x = operand_new(LS_F32, LS_SHAPE(13), PLAIN), y = operand_new(LS_F32, LS_SHAPE(13), PLAIN);
    operand i = operand_new(LS_I64, LS_SHAPE(13), PLAIN), j = operand_new(LS_I64, LS_SHAPE(13), PLAIN);
    for (int e = 0; e < 8; e++) {
        for (int n = 0; n < 13; n++) set(&x, n, 0.3 + n), set(&i, n, n - 6);
        ls_call call = {.op = LS_OP_pow_scalar, .n_in = 1, .n_out = 1, .in = {&x.view}, .out = {&y.view}};
        call.attrs.scalar.value = exponents[e];
        run(&call);
        for (int n = 0; n < 13; n++) CHECK_NEAR(get(&y, n), pow(get(&x, n), exponents[e]), 3e-7);
        if (exponents[e] != floor(exponents[e]) || exponents[e] < 0) continue;
        call.in[0] = &i.view;
        call.out[0] = &j.view;
        run(&call);
        for (int n = 0; n < 13; n++) CHECK(get(&j, n) == pow(get(&i, n), exponents[e]));
    }
    operand_free(&x);
    operand_free(&y);
    operand_free(&i);
    operand_free(&j);
}

static void integers_scale_exactly(void)
{
    int64_t x[3] = {(1ll << 60) + 1, -5, 7}, y[3];
    ls_operand in = {.data = x, .dtype = LS_I64, .ndim = 1, .dim = {3}, .stride = {1}}, out = in;
    out.data = y;
    ls_call call = {.op = LS_OP_affine, .n_in = 1, .n_out = 1, .in = {&in}, .out = {&out}};
    call.attrs.affine.scale = 3, call.attrs.affine.shift = -1;
    CHECK(ls_cpu_run(&call, NULL) == LS_OK && y[0] == 3 * x[0] - 1 && y[1] == -16 && y[2] == 20);
    call.op = LS_OP_clamp;
    call.attrs.range.low = -4, call.attrs.range.high = INFINITY;
    CHECK(ls_cpu_run(&call, NULL) == LS_OK && y[0] == x[0] && y[1] == -4 && y[2] == 7);
}

static void where_chooses(void)
{
    EACH_ISA(isa) EACH_DTYPE(d)
    {
        for (int l = 0; l < LAYOUTS; l++) {
            operand c = operand_new(LS_BOOL, LS_SHAPE(3, 1, 37), (placement)l),
                    a = operand_new(d, LS_SHAPE(3, 5, 37), PLAIN), b = operand_new(d, LS_SHAPE(5, 1), PLAIN),
                    y = operand_new(d, LS_SHAPE(3, 5, 37), (placement)(3 - l));
            fill(&c, 0);
            fill(&a, 1);
            fill(&b, 2);
            ls_call call = {
                .op = LS_OP_where, .n_in = 3, .n_out = 1, .in = {&c.view, &a.view, &b.view}, .out = {&y.view}};
            run(&call);
            for (int64_t i = 0; i < numel(&y.view); i++) {
                bool chosen = get_at(&c.view, broadcast_offset(&c.view, &y.view, i)) != 0;
                CHECK(get(&y, i) == (chosen ? get(&a, i) : get_at(&b.view, broadcast_offset(&b.view, &y.view, i))));
            }
            operand_free(&c);
            operand_free(&a);
            operand_free(&b);
            operand_free(&y);
        }
    }
    lift_caps();
}

static void dropout_follows_the_counter(void)
{
    const double p[] = {0, 0.1, 0.5, 1};
    EACH_ISA(isa) for (int c = 0; c < 4 * 4 * LAYOUTS; c++)
    {
        ls_dtype d = float_types[c % 4];
        operand x = operand_new(d, LS_SHAPE(3, 5, 47), (placement)(c / 16)),
                y = operand_new(d, LS_SHAPE(3, 5, 47), PLAIN);
        fill(&x, 1);
        ls_call call = {.op = LS_OP_dropout, .n_in = 1, .n_out = 1, .in = {&x.view}, .out = {&y.view}};
        call.attrs.random.seed = 99, call.attrs.random.offset = 1000, call.attrs.random.a = p[c / 4 % 4];
        run(&call);
        for (int64_t i = 0; i < numel(&y.view); i++) {
            float u = ls_uniform_from_bits(ls_philox(99, 1000 + (uint64_t)i / 4).lane[i % 4]);
            bool kept = (double)u >= p[c / 4 % 4];
            CHECK_NEAR(get(&y, i), kept ? get(&x, i) / (1 - p[c / 4 % 4]) : 0, epsilon(d));
        }
        operand_free(&x);
        operand_free(&y);
    }
    lift_caps();
}

static void dropout_does_not_depend_on_threads(void)
{
    enum { N = 123457 };
    operand x = operand_new(LS_F32, LS_SHAPE(N), PLAIN), y[2];
    fill(&x, 1);
    for (int width = 1; width <= 2; width++) {
        operand *t = &y[width - 1];
        *t = operand_new(LS_F32, LS_SHAPE(N), PLAIN);
        ls_parallel_set_width(width);
        ls_isa_cap(width == 1 ? LS_ISA_REF : LS_ISA_COUNT - 1);
        ls_call call = {.op = LS_OP_dropout, .n_in = 1, .n_out = 1, .in = {&x.view}, .out = {&t->view}};
        call.attrs.random.seed = 5, call.attrs.random.a = 0.3;
        run(&call);
    }
    CHECK(same_bits(&y[0], &y[1]));
    operand_free(&x);
    operand_free(&y[0]);
    operand_free(&y[1]);
    lift_caps();
}

/* With another seed the second call would drop other elements, if it drew any. */
static void noted_dropout_is_not_drawn_again(void)
{
    enum { N = 70001 };
    const double p[] = {0.1, 1};
    EACH_ISA(isa) for (int c = 0; c < 2 * 4; c++)
    {
        ls_dtype d = float_types[c % 4];
        operand x = operand_new(d, LS_SHAPE(N), PLAIN), y = operand_new(d, LS_SHAPE(N), PLAIN);
        operand z = operand_new(d, LS_SHAPE(N), PLAIN),
                kept = operand_new(LS_U8, LS_SHAPE((N + 255) / 256 * 32), PLAIN);
        fill(&x, 1);
        ls_call call = {.op = LS_OP_dropout, .n_in = 1, .n_out = 2, .in = {&x.view}, .out = {&y.view, &kept.view}};
        call.attrs.random.seed = 99, call.attrs.random.a = p[c / 4];
        run(&call);
        call = (ls_call){.op = LS_OP_dropout, .n_in = 2, .n_out = 1, .in = {&x.view, &kept.view}, .out = {&z.view}};
        call.attrs.random.seed = 7, call.attrs.random.a = p[c / 4];
        run(&call);
        CHECK(same_bits(&y, &z));
        for (int64_t i = 0; i < N && c < 4; i += 101) {
            float u = ls_uniform_from_bits(ls_philox(99, (uint64_t)i / 4).lane[i % 4]);
            CHECK((get(&y, i) != 0) == ((double)u >= p[0] && get(&x, i) != 0));
        }
        operand_free(&x);
        operand_free(&y);
        operand_free(&z);
        operand_free(&kept);
    }
    lift_caps();
}

static void wrong_types_are_refused(void)
{
    ls_message why = {""};
    operand x = operand_new(LS_I32, LS_SHAPE(3), PLAIN);
    ls_call call = {.op = LS_OP_exp, .n_in = 1, .n_out = 1, .in = {&x.view}, .out = {&x.view}};
    CHECK(ls_cpu_run(&call, &why) == LS_ERR_DTYPE);
    CHECK_TEXT(why.text, "exp does not support i32");
    operand_free(&x);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(plain_arrays_of_all_sizes);
    CHECK_RUN(all_layouts);
    CHECK_RUN(second_input_broadcasts);
    CHECK_RUN(threads_share_large_tensors);
    CHECK_RUN(types_mix_and_convert);
    CHECK_RUN(special_values_pass_through);
    CHECK_RUN(gelu_has_a_tanh_form);
    CHECK_RUN(common_exponents_are_exact);
    CHECK_RUN(integers_scale_exactly);
    CHECK_RUN(where_chooses);
    CHECK_RUN(dropout_follows_the_counter);
    CHECK_RUN(dropout_does_not_depend_on_threads);
    CHECK_RUN(noted_dropout_is_not_drawn_again);
    CHECK_RUN(wrong_types_are_refused);
    return check_done();
}
