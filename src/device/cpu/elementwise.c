/* elementwise.c - operators that compute each element from the elements at the same position: arithmetic, comparison,
 * mathematics, activations and their gradients, selection, dropout. Inputs broadcast against the output.
 *
 * Inputs of one call normally have one type, which the result shares (comparisons give bool). Other types are converted
 * on the fly: inputs to their promoted type, the result to the type of the output. */
#include "kernels/elementwise.h"

#include "base/parallel.h"
#include "device/cpu/cpu.h"
#include "device/cpu/iterate.h"
#include "device/cpu/rows.h"

static const struct {
    const char *name;
    int inputs;
    bool gives_bool;
    int cost;
} maps[LS_MAP_COUNT] = {
#define SAME false
#define BOOL true
#define LS_MAP(name, inputs, result, numbers, cost) [LS_MAP_##name] = {#name, inputs, result, cost},
    LS_MAP_LIST(LS_MAP)
#undef LS_MAP
#undef SAME
#undef BOOL
};

typedef struct map_run {
    ls_map_fn *kernel;
    const double *k;
} map_run;

static void run_map(void *arg, int64_t first, int64_t n, void *const *p)
{
    const map_run *run = arg;
    (void)first;
    run->kernel(n, p, run->k);
}

static ls_status map(const ls_call *call, ls_map which, double k0, double k1, ls_message *why)
{
    const ls_operand *out = call->out[0], *a = call->in[0], *b = call->in[maps[which].inputs - 1];
    const double k[] = {k0, k1};
    ls_dtype dtype = a->dtype == b->dtype ? a->dtype : ls_dtype_promote(a->dtype, b->dtype);
    ls_dtype result = maps[which].gives_bool ? LS_BOOL : dtype;
    ls_map_fn *kernel = ls_elementwise_kernels()->map[which][dtype];
    if (!kernel) return ls_explain(why, LS_ERR_DTYPE, "%s does not support %s", maps[which].name, ls_dtype_name(dtype));

    ls_iteration walk = {.count = 1 + maps[which].inputs,
                         .outputs = 1,
                         .operand = {out, a, b},
                         .as = {result, dtype, dtype},
                         .grain = ls_grain(maps[which].cost)};
    /* Fast path for contiguous operands of one type: small calls are dominated by overhead. */
    if (out->dtype == result && a->dtype == b->dtype && ls_all_contiguous(walk.operand, walk.count)) {
        int64_t n = ls_operand_numel(out);
        if (n < 2 * walk.grain) {
            if (n) kernel(n, (void *[]){out->data, a->data, b->data}, k);
            return LS_OK;
        }
    }
    ls_iterate(&walk, run_map, &(map_run){kernel, k});
    return LS_OK;
}

/* LS_PLAIN(name): an operator that is a map with no arguments but tensors. */
#define LS_PLAIN(name)                                                                                                 \
    ls_status ls_cpu_##name(const ls_call *call, ls_message *why)                                                      \
    {                                                                                                                  \
        return map(call, LS_MAP_##name, 0, 0, why);                                                                    \
    }
/* LS_WITH(name, first, second): one that also takes scalars, from call->attrs. */
#define LS_WITH(name, first, second)                                                                                   \
    ls_status ls_cpu_##name(const ls_call *call, ls_message *why)                                                      \
    {                                                                                                                  \
        return map(call, LS_MAP_##name, call->attrs.first, call->attrs.second, why);                                   \
    }

/* in: a, b  out: y; shapes broadcast to that of y. div and pow of negative powers: floating types. */
LS_PLAIN(add)
LS_PLAIN(sub)
LS_PLAIN(mul)
LS_PLAIN(div)
LS_PLAIN(pow)
LS_PLAIN(maximum) /* NaN where either is */
LS_PLAIN(minimum)
LS_PLAIN(remainder) /* as in Python: the sign of b; of integers by 0 it is 0 */

/* in: a, b  out: y, bool */
LS_PLAIN(eq)
LS_PLAIN(ne)
LS_PLAIN(lt)
LS_PLAIN(le)
LS_PLAIN(gt)
LS_PLAIN(ge)
LS_PLAIN(logical_and)
LS_PLAIN(logical_or)

/* in: x  out: y */
LS_WITH(affine, affine.scale, affine.shift)
LS_WITH(clamp, range.low, range.high)
LS_PLAIN(neg)
LS_PLAIN(abs)
LS_PLAIN(sign)
LS_PLAIN(exp)
LS_PLAIN(log)
LS_PLAIN(sqrt)
LS_PLAIN(rsqrt)
LS_PLAIN(square)
LS_PLAIN(reciprocal)
LS_PLAIN(sin)
LS_PLAIN(cos)
LS_PLAIN(erf)
LS_PLAIN(floor)
LS_PLAIN(ceil)
LS_PLAIN(relu)
LS_PLAIN(silu)
LS_PLAIN(sigmoid)
LS_PLAIN(tanh)
LS_WITH(softplus, scalar.value, scalar.value)
LS_WITH(elu, scalar.value, scalar.value)
LS_WITH(leaky_relu, scalar.value, scalar.value)

/* in: x  out: y, bool */
LS_PLAIN(logical_not)
LS_PLAIN(isfinite)

/* in: dy, y (output of the forward)  out: dx */
LS_PLAIN(relu_grad)
LS_PLAIN(sigmoid_grad)
LS_PLAIN(tanh_grad)

/* in: dy, x (input of the forward)  out: dx */
LS_PLAIN(silu_grad)
LS_WITH(softplus_grad, scalar.value, scalar.value)
LS_WITH(elu_grad, scalar.value, scalar.value)
LS_WITH(leaky_relu_grad, scalar.value, scalar.value)
LS_WITH(clamp_grad, range.low, range.high)

/* in: x  out: y */
ls_status ls_cpu_gelu(const ls_call *call, ls_message *why)
{
    return map(call, call->attrs.gelu.tanh ? LS_MAP_gelu_tanh : LS_MAP_gelu, 0, 0, why);
}

/* in: dy, x  out: dx */
ls_status ls_cpu_gelu_grad(const ls_call *call, ls_message *why)
{
    return map(call, call->attrs.gelu.tanh ? LS_MAP_gelu_tanh_grad : LS_MAP_gelu_grad, 0, 0, why);
}

/* in: x  out: y. Common exponents have kernels a hundred times faster than the general one. */
ls_status ls_cpu_pow_scalar(const ls_call *call, ls_message *why)
{
    static const struct {
        double exponent;
        ls_map map;
        bool real_only;
    } usual[] = {
        {2, LS_MAP_square, false},     {3, LS_MAP_cube, false},    {0.5, LS_MAP_sqrt, true},
        {-1, LS_MAP_reciprocal, true}, {-0.5, LS_MAP_rsqrt, true},
    };
    double exponent = call->attrs.scalar.value;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        if (usual[i].exponent == exponent && (!usual[i].real_only || ls_dtype_is_float(call->in[0]->dtype)))
            return map(call, usual[i].map, 0, 0, why);
    }
    return map(call, LS_MAP_pow_scalar, exponent, 0, why);
}

/* in: condition (bool), a, b  out: y; shapes broadcast to that of y */
ls_status ls_cpu_where(const ls_call *call, ls_message *why)
{
    (void)why;
    const ls_operand *out = call->out[0];
    const double none[2] = {0};
    ls_iteration walk = {.count = 4,
                         .outputs = 1,
                         .operand = {out, call->in[0], call->in[1], call->in[2]},
                         .as = {out->dtype, LS_BOOL, out->dtype, out->dtype},
                         .grain = ls_grain(300)};
    ls_iterate(&walk, run_map, &(map_run){ls_elementwise_kernels()->where[out->dtype], none});
    return LS_OK;
}

typedef struct dropout_run {
    ls_dropout_fn *kernel;
    ls_dropout_rule how;
} dropout_run;

static void run_dropout(void *arg, int64_t first, int64_t n, void *const *p)
{
    const dropout_run *run = arg;
    run->kernel(n, first, p[0], p[1], &run->how);
}

/* The same for tensors without gaps, whose groups of elements have stored bits. */
typedef struct noted_run {
    dropout_run drop;
    char *out;
    const char *x;
    int64_t n, bytes;
} noted_run;

static void run_noted(void *arg, int64_t begin, int64_t end)
{
    const noted_run *run = arg;
    ls_dropout_rule how = run->drop.how;
    int64_t first = begin * LS_DROPOUT_GROUP, last = end * LS_DROPOUT_GROUP;
    if (last > run->n) last = run->n;
    if (how.note) how.note += first / 8;
    if (how.noted) how.noted += first / 8;
    run->drop.kernel(last - first, first, run->out + first * run->bytes, run->x + first * run->bytes, &how);
}

static bool has_gaps(const ls_operand *x)
{
    int64_t stride = 1;
    for (int d = x->ndim - 1; d >= 0; d--) {
        if (x->dim[d] != 1 && x->stride[d] != stride) return true;
        stride *= x->dim[d];
    }
    return false;
}

/* in: x, kept? out: y, same shape, kept? Element i is kept if its uniform number is at least p. The gradient is this
 * operator applied to dy with the same seed and offset; `kept`, bytes private to this device that forward has written,
 * saves it the drawing. Forward writes them only for x and y in row-major order without gaps. */
ls_status ls_cpu_dropout(const ls_call *call, ls_message *why)
{
    const ls_operand *out = call->out[0], *x = call->in[0], *note = call->n_out > 1 ? call->out[1] : NULL;
    const ls_operand *noted = call->n_in > 1 ? call->in[1] : NULL;
    ls_dropout_fn *kernel = ls_elementwise_kernels()->dropout[out->dtype];
    if (!kernel) return ls_explain(why, LS_ERR_DTYPE, "dropout does not support %s", ls_dtype_name(out->dtype));
    dropout_run run = {
        kernel, {.seed = call->attrs.random.seed, .offset = call->attrs.random.offset, .p = call->attrs.random.a}};
    bool gaps = has_gaps(out) || has_gaps(x) || x->dtype != out->dtype;
    if (note && gaps) return ls_explain(why, LS_ERR_SHAPE, "dropout cannot store bits of a tensor with gaps");
    if ((note || noted) && !gaps) {
        run.how.note = note ? note->data : NULL;
        run.how.noted = noted ? noted->data : NULL;
        int64_t n = 1;
        for (int d = 0; d < out->ndim; d++) n *= out->dim[d];
        noted_run all = {run, out->data, x->data, n, (int64_t)ls_dtype_size(out->dtype)};
        ls_parallel_for((n + LS_DROPOUT_GROUP - 1) / LS_DROPOUT_GROUP, 64, run_noted, &all);
        return LS_OK;
    }
    ls_iteration walk = {.count = 2,
                         .outputs = 1,
                         .operand = {out, x},
                         .as = {out->dtype, out->dtype},
                         .in_order = true,
                         .grain = ls_grain(1500)};
    ls_iterate(&walk, run_dropout, &run);
    return LS_OK;
}
