/* lower_norm.c - layer and group normalisation, with what is fused around them, and their gradients.
 *
 * Inputs are seen as [rows, n]: n numbers are normalised together. Variances are sums of squared distances from the
 * mean, so that a large mean costs no precision.
 *
 * A sum is computed in the dimensions that it is used in. XLA stores a sum that has several uses, but repeats a reshape
 * in each of them, with whatever leads to it: the code of a layer would contain that of all layers before it. */
#include "lower_random.h"

/* The mean and 1 / deviation of each row, [rows, 1]. */
typedef struct moments {
    shlo_value mean, rstd;
} moments;

static shlo_value mean_of(shlo *s, shlo_value x, uint32_t mask)
{
    double n = 1;
    for (int i = 0; i < x.dims.n; i++) n *= mask >> i & 1 ? (double)x.dims.at[i] : 1;
    return shlo_with(s, "divide", shlo_sum(s, x, mask), n);
}

static moments moments_of(shlo *s, shlo_value x, double epsilon)
{
    moments m = {.mean = mean_of(s, x, xla_dim_mask(1))};
    shlo_value away = shlo_sub(s, x, m.mean);
    shlo_value var = mean_of(s, shlo_mul(s, away, away), xla_dim_mask(1));
    m.rstd = shlo_rsqrt(s, shlo_with(s, "add", var, epsilon));
    return m;
}

static shlo_value normalised(shlo *s, shlo_value x, moments m)
{
    return shlo_mul(s, shlo_sub(s, x, m.mean), m.rstd);
}

/* The gradient of the input, given that of the normalised numbers. */
static shlo_value through_norm(shlo *s, shlo_value d, shlo_value hat, shlo_value rstd)
{
    shlo_value along = shlo_mul(s, hat, mean_of(s, shlo_mul(s, d, hat), xla_dim_mask(1)));
    return shlo_mul(s, rstd, shlo_sub(s, shlo_sub(s, d, mean_of(s, d, xla_dim_mask(1))), along));
}

static shlo_value rows_of(shlo *s, shlo_value x, int64_t n)
{
    return shlo_reshape(s, x, SHLO_DIMS(n ? shlo_numel(x.dims) / n : 0, n));
}

/* A vector for each row, as arithmetic in `type` uses it. */
static shlo_value vector_in(xla_lowering *l, int i, shlo_type type)
{
    shlo_value v = xla_in_as(l, i, type);
    return shlo_reshape(&l->s, v, SHLO_DIMS(1, shlo_numel(v.dims)));
}

static shlo_value times_in(xla_lowering *l, shlo_value x, int weight)
{
    return xla_has_in(l->call, weight) ? shlo_mul(&l->s, x, vector_in(l, weight, x.type)) : x;
}

static shlo_value plus_in(xla_lowering *l, shlo_value x, int bias)
{
    return xla_has_in(l->call, bias) ? shlo_add(&l->s, x, vector_in(l, bias, x.type)) : x;
}

/* As it would be after being stored. */
static shlo_value rounded(shlo *s, shlo_value x, ls_dtype dtype)
{
    return shlo_convert(s, shlo_convert(s, x, xla_type_of(dtype)), x.type);
}

/* ---- layer normalisation ---- */

/* in: x [..., D], weight?, bias?  out: y, mean?, rstd? */
void xla_layer_norm(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    shlo_value x = rows_of(s, xla_in(l, 0), call->attrs.norm.groups);
    moments m = moments_of(s, x, call->attrs.norm.epsilon);
    xla_out(l, 0, plus_in(l, times_in(l, normalised(s, x, m), 1), 2));
    xla_out(l, 1, m.mean);
    xla_out(l, 2, m.rstd);
}

/* in: x [..., D], residual, weight?, bias?  out: y, sum?, statistics [2, rows]?, kept? (private: not used) */
void xla_dropout_add_layer_norm(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    double p = call->attrs.norm.dropout;
    ls_dtype dtype = call->in[0]->dtype;
    shlo_value x = rows_of(s, xla_in(l, 0), call->attrs.norm.groups);
    if (p > 0) {
        xla_drawing d = xla_draw(l, call->attrs.norm.seed, call->attrs.norm.offset);
        x = rounded(s, xla_dropped(s, x, xla_is_kept(&d, x.dims, p), p), dtype);
    }
    shlo_value sum = rounded(s, shlo_add(s, shlo_reshape(s, xla_in(l, 1), x.dims), x), dtype);
    moments m = moments_of(s, sum, call->attrs.norm.epsilon);
    int64_t count = sum.dims.at[0];
    shlo_value both[2] = {shlo_reshape(s, m.mean, SHLO_DIMS(1, count)), shlo_reshape(s, m.rstd, SHLO_DIMS(1, count))};
    xla_out(l, 0, plus_in(l, times_in(l, normalised(s, sum, m), 2), 3));
    xla_out(l, 1, sum);
    xla_out(l, 2, shlo_concat(s, both, 2, 0));
}

/* The rows of the table, input i, that the input behind it names. */
static shlo_value rows_at(xla_lowering *l, int i)
{
    shlo_value table = xla_in(l, i), index = xla_in_raw(l, i + 1);
    xla_require(l, xla_in_range(&l->s, index, table.dims.at[0]));
    return shlo_take(&l->s, table, index, 0);
}

/* in: three pairs of table [V,D] and index [...], the last two may be absent, weight?, bias?
 * out: y [...,D], sum?, mean?, rstd? */
void xla_embedding_layer_norm(xla_lowering *l, const ls_call *call)
{
    enum { TABLES = 3 };
    shlo *s = &l->s;
    shlo_value sum = rows_at(l, 0);
    for (int i = 1; i < TABLES; i++) {
        if (!xla_has_in(call, 2 * i)) continue;
        shlo_value more = rows_at(l, 2 * i);
        sum = rounded(s, shlo_add(s, sum, more), call->in[0]->dtype);
    }
    shlo_value rows = rows_of(s, sum, call->attrs.norm.groups);
    moments m = moments_of(s, rows, call->attrs.norm.epsilon);
    xla_out(l, 0, plus_in(l, times_in(l, normalised(s, rows, m), 2 * TABLES), 2 * TABLES + 1));
    xla_out(l, 1, sum);
    xla_out(l, 2, m.mean);
    xla_out(l, 3, m.rstd);
}

/* What both gradients share: d of the normalised input, and the sums for weight and bias, outputs first and up. */
static shlo_value layer_gradient(xla_lowering *l, shlo_value dy, shlo_value x, moments m, int weight, int first)
{
    shlo *s = &l->s;
    int32_t accumulate = l->call->attrs.norm.accumulate;
    shlo_value hat = normalised(s, x, m);
    shlo_value dsum = through_norm(s, times_in(l, dy, weight), hat, m.rstd);
    shlo_value dweight = shlo_sum(s, shlo_mul(s, dy, hat), xla_dim_mask(0));
    shlo_value dbias = shlo_sum(s, dy, xla_dim_mask(0));
    xla_out_sum(l, first, dweight, accumulate);
    xla_out_sum(l, first + 1, dbias, accumulate);
    return dsum;
}

/* in: dy, x [..., D], mean, rstd, weight?  out: dx?, dweight?, dbias? */
void xla_layer_norm_grad(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    int64_t n = call->attrs.norm.groups;
    shlo_value dy = rows_of(s, xla_in(l, 0), n), x = rows_of(s, xla_in(l, 1), n);
    shlo_dims column = SHLO_DIMS(x.dims.at[0], 1);
    moments m = {shlo_reshape(s, xla_in(l, 2), column), shlo_reshape(s, xla_in(l, 3), column)};
    shlo_value old = call->attrs.norm.accumulate & 1 && xla_has_out(call, 0) ? xla_old(l, 0) : dy;
    shlo_value dx = layer_gradient(l, dy, x, m, 4, 1);
    if (call->attrs.norm.accumulate & 1) dx = shlo_add(s, shlo_reshape(s, old, dx.dims), dx);
    xla_out(l, 0, dx);
}

/* in: dy, sum [..., D], statistics [2, rows], weight?, kept?  out: dx?, dresidual?, dweight?, dbias? */
void xla_dropout_add_layer_norm_grad(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    int64_t n = call->attrs.norm.groups;
    double p = call->attrs.norm.dropout;
    shlo_value dy = rows_of(s, xla_in(l, 0), n), x = rows_of(s, xla_in(l, 1), n);
    int64_t rows = x.dims.at[0];
    shlo_value both = shlo_reshape(s, xla_in(l, 2), SHLO_DIMS(2, rows));
    shlo_dims column = SHLO_DIMS(rows, 1), one = SHLO_DIMS(1, 1);
    moments m = {shlo_reshape(s, shlo_slice(s, both, SHLO_DIMS(0, 0), SHLO_DIMS(1, rows), one), column),
                 shlo_reshape(s, shlo_slice(s, both, SHLO_DIMS(1, 0), SHLO_DIMS(2, rows), one), column)};
    bool adds = call->attrs.norm.accumulate & 2;
    shlo_value old = adds ? shlo_reshape(s, xla_old(l, 1), x.dims) : x;
    shlo_value dsum = layer_gradient(l, dy, x, m, 3, 2);
    if (adds) dsum = shlo_add(s, old, dsum);
    dsum = rounded(s, dsum, call->in[0]->dtype);
    if (xla_has_out(call, 0)) {
        shlo_value dx = dsum;
        if (p > 0) {
            xla_drawing d = xla_draw(l, call->attrs.norm.seed, call->attrs.norm.offset);
            dx = xla_dropped(s, dsum, xla_is_kept(&d, dsum.dims, p), p);
        }
        xla_out(l, 0, dx);
    }
    xla_out(l, 1, dsum);
}

/* ---- group normalisation ---- */

static int64_t group_size(const ls_call *call, shlo_value x)
{
    int64_t groups = x.dims.at[0] * call->attrs.norm.groups;
    return groups ? shlo_numel(x.dims) / groups : 0;
}

/* in: x [N,C,...], weight?, bias?  out: y, mean [N,G]?, rstd [N,G]? */
void xla_group_norm(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    shlo_value x = xla_in(l, 0), rows = rows_of(s, x, group_size(call, x));
    moments m = moments_of(s, rows, call->attrs.norm.epsilon);
    shlo_value y = shlo_reshape(s, normalised(s, rows, m), x.dims);
    if (xla_has_in(call, 1)) y = shlo_mul(s, y, xla_channels_in(l, 1, x));
    if (xla_has_in(call, 2)) y = shlo_add(s, y, xla_channels_in(l, 2, x));
    xla_out(l, 0, y);
    xla_out(l, 1, m.mean);
    xla_out(l, 2, m.rstd);
}

/* in: dy, x [N,C,...], mean [N,G], rstd [N,G], weight?  out: dx?, dweight?, dbias? */
void xla_group_norm_grad(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    shlo_value dy = xla_in(l, 0), x = xla_in(l, 1), d = dy;
    int64_t n = group_size(call, x);
    shlo_value rows = rows_of(s, x, n);
    shlo_dims column = SHLO_DIMS(rows.dims.at[0], 1);
    moments m = {shlo_reshape(s, xla_in(l, 2), column), shlo_reshape(s, xla_in(l, 3), column)};
    shlo_value hat = normalised(s, rows, m);
    if (xla_has_in(call, 4)) d = shlo_mul(s, dy, xla_channels_in(l, 4, x));
    uint32_t others = xla_dims_but_channels(x);
    shlo_value dweight = shlo_sum(s, shlo_mul(s, dy, shlo_reshape(s, hat, x.dims)), others);
    shlo_value dbias = shlo_sum(s, dy, others), dx = through_norm(s, rows_of(s, d, n), hat, m.rstd);
    xla_out(l, 0, dx);
    xla_out_sum(l, 1, dweight, call->attrs.norm.accumulate);
    xla_out_sum(l, 2, dbias, call->attrs.norm.accumulate);
}
