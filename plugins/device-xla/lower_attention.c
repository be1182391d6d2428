/* lower_attention.c - attention and its gradient, with all scores of a call at once.
 *
 * Heads are seen as [B, Hk, G, S, D]: G query heads share a key head, and keys and values have G = 1. Products take
 * operands of the inputs' type; everything between them is f32, or f64. */
#include <math.h>

#include "lower_random.h"

/* The operands of a call, in five dimensions. */
typedef struct attention {
    xla_lowering *l;
    shlo_value q, k, v;
    shlo_type operand, wide; /* types of products: of operands, and of sums */
    const ls_operand *mask, *lengths;
    int mask_input, lengths_input;
    shlo_dims scores; /* [B, Hk, G, Sq, Skv] */
} attention;

static shlo_value heads(attention *a, int input, int64_t key_heads)
{
    shlo_value x = xla_in_as(a->l, input, a->operand);
    return shlo_reshape(&a->l->s, x,
                        SHLO_DIMS(x.dims.at[0], key_heads, x.dims.at[1] / key_heads, x.dims.at[2], x.dims.at[3]));
}

static attention begin(xla_lowering *l, const ls_call *call, int first, int mask, int lengths)
{
    ls_dtype dtype = call->in[first]->dtype;
    attention a = {.l = l, .operand = xla_type_of(dtype), .wide = xla_compute_type(dtype)};
    int64_t key_heads = call->in[first + 1]->dim[1];
    a.q = heads(&a, first, key_heads);
    a.k = heads(&a, first + 1, key_heads);
    a.v = heads(&a, first + 2, key_heads);
    a.mask = xla_has_in(call, mask) ? call->in[mask] : NULL;
    a.lengths = xla_has_in(call, lengths) ? call->in[lengths] : NULL;
    a.mask_input = mask;
    a.lengths_input = lengths;
    a.scores = a.q.dims;
    a.scores.at[4] = a.k.dims.at[3];
    return a;
}

/* x [B,Hk,G,M,K] times y [B,Hk,1,...] over one dimension of each: [B,Hk,G,M,N] */
static shlo_value times(attention *a, shlo_value x, shlo_value y, int along_y)
{
    shlo *s = &a->l->s;
    shlo_value flat = shlo_reshape(s, y, SHLO_DIMS(y.dims.at[0], y.dims.at[1], y.dims.at[3], y.dims.at[4]));
    shlo_dot_dims which = {
        .batch_a = SHLO_DIMS(0, 1), .batch_b = SHLO_DIMS(0, 1), .sum_a = SHLO_DIMS(4), .sum_b = SHLO_DIMS(along_y - 1)};
    return shlo_dot(s, shlo_convert(s, x, a->operand), flat, &which, a->wide);
}

/* The transpose of x [B,Hk,G,M,K] times y [B,Hk,G,M,N], summed over query heads: [B,Hk,1,K,N] */
static shlo_value transposed_times(attention *a, shlo_value x, shlo_value y)
{
    shlo *s = &a->l->s;
    shlo_dot_dims which = {
        .batch_a = SHLO_DIMS(0, 1), .batch_b = SHLO_DIMS(0, 1), .sum_a = SHLO_DIMS(2, 3), .sum_b = SHLO_DIMS(2, 3)};
    return shlo_dot(s, shlo_convert(s, x, a->operand), shlo_convert(s, y, a->operand), &which, a->wide);
}

/* Which keys each query sees; false: all of them, and *seen is not set. */
static bool visible(attention *a, shlo_value *seen)
{
    shlo *s = &a->l->s;
    bool any = false;
    shlo_value query = shlo_iota(s, SHLO_I64, a->scores, 3), key = shlo_iota(s, SHLO_I64, a->scores, 4), more;
    if (a->l->call->attrs.attention.causal) {
        *seen = shlo_compare(s, "LE", key, query);
        any = true;
    }
    if (a->lengths) {
        shlo_value length = xla_in_as(a->l, a->lengths_input, SHLO_I64);
        length = shlo_reshape(s, length, SHLO_DIMS(length.dims.at[0], 1, 1, 1, 1));
        more = shlo_binary(s, "and", shlo_compare(s, "LT", key, length), shlo_compare(s, "LT", query, length));
        *seen = any ? shlo_binary(s, "and", *seen, more) : more;
        any = true;
    }
    if (a->mask && a->mask->dtype == LS_BOOL) {
        more = shlo_reshape(s, xla_in_as(a->l, a->mask_input, SHLO_I1), a->scores);
        *seen = any ? shlo_binary(s, "and", *seen, more) : more;
        any = true;
    }
    return any;
}

/* What a mask of numbers adds to scores, with its finite numbers bounded. */
static shlo_value bias(attention *a)
{
    shlo *s = &a->l->s;
    shlo_value all = shlo_reshape(s, xla_in_as(a->l, a->mask_input, a->wide), a->scores);
    if (a->wide == SHLO_F64) return all;
    shlo_value bounded =
        shlo_with(s, "maximum", shlo_with(s, "minimum", all, LS_ATTENTION_MOST_BIAS), -LS_ATTENTION_MOST_BIAS);
    return shlo_select(s, shlo_compare_with(s, "EQ", shlo_unary(s, "abs", all), INFINITY), all, bounded);
}

/* [B,Hk,G,Sq,Skv]: scaled and masked; -infinity where a query does not see the key */
static shlo_value scores(attention *a)
{
    shlo *s = &a->l->s;
    shlo_value all = times(a, a->q, a->k, 4), seen;
    all = shlo_with(s, "multiply", all, a->l->call->attrs.attention.scale);
    if (a->mask && a->mask->dtype != LS_BOOL) all = shlo_add(s, all, bias(a));
    if (visible(a, &seen)) all = shlo_select(s, seen, all, shlo_number(s, a->wide, -INFINITY, SHLO_SCALAR));
    return all;
}

/* The scores that dropout keeps; element [b,h,i,j] as of a tensor [B,H,Sq,Skv]. */
static shlo_value kept(attention *a)
{
    const ls_call *call = a->l->call;
    xla_drawing d = xla_draw(a->l, call->attrs.attention.seed, call->attrs.attention.offset);
    return xla_is_kept(&d, a->scores, call->attrs.attention.dropout);
}

/* Rows beyond a sequence's length may hold anything: zeros instead. */
static shlo_value within_length(attention *a, shlo_value x)
{
    shlo *s = &a->l->s;
    if (!a->lengths) return x;
    shlo_value length = xla_in_as(a->l, a->lengths_input, SHLO_I64);
    length = shlo_reshape(s, length, SHLO_DIMS(length.dims.at[0], 1, 1, 1, 1));
    shlo_value inside = shlo_compare(s, "LT", shlo_iota(s, SHLO_I64, x.dims, 3), length);
    return shlo_select(s, inside, x, shlo_number(s, x.type, 0, SHLO_SCALAR));
}

/* in: q, k, v, mask?, lengths?  out: o, lse?, kept? (private: not used) */
void xla_attention(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    attention a = begin(l, call, 0, 3, 4);
    a.q = within_length(&a, a.q);
    a.k = within_length(&a, a.k);
    a.v = within_length(&a, a.v);
    shlo_value all = scores(&a), most = shlo_reduce(s, "maximum", all, xla_dim_mask(4));
    /* A query that sees no key: everything is 0, and the sum's logarithm -infinity. */
    shlo_value none = shlo_compare_with(s, "EQ", most, -INFINITY), zero = shlo_number(s, a.wide, 0, SHLO_SCALAR);
    shlo_value shift = shlo_select(s, none, zero, most);
    shlo_value p = shlo_unary(s, "exponential", shlo_sub(s, all, shift));
    shlo_value sum = shlo_sum(s, p, xla_dim_mask(4));
    shlo_value one = shlo_number(s, a.wide, 1, SHLO_SCALAR);
    shlo_value lse = shlo_add(s, shift, shlo_unary(s, "log", sum));
    p = shlo_div(s, p, shlo_select(s, none, one, sum));
    if (call->attrs.attention.dropout > 0) p = xla_dropped(s, p, kept(&a), call->attrs.attention.dropout);
    xla_out(l, 0, times(&a, p, a.v, 3));
    xla_out(l, 1, lse);
}

/* in: do, q, k, v, o, lse, mask?, kept?, lengths?  out: dq?, dk?, dv? */
void xla_attention_grad(xla_lowering *l, const ls_call *call)
{
    shlo *s = &l->s;
    attention a = begin(l, call, 1, 6, 8);
    int64_t key_heads = a.k.dims.at[1];
    double dropout = call->attrs.attention.dropout;
    a.q = within_length(&a, a.q);
    a.k = within_length(&a, a.k);
    a.v = within_length(&a, a.v);
    shlo_value d_o = within_length(&a, heads(&a, 0, key_heads)), o = within_length(&a, heads(&a, 4, key_heads));
    shlo_dims per_query = a.scores;
    per_query.at[4] = 1;
    shlo_value lse = shlo_reshape(s, xla_in_as(l, 5, a.wide), per_query), zero = shlo_number(s, a.wide, 0, SHLO_SCALAR);
    lse = shlo_select(s, shlo_compare_with(s, "EQ", lse, -INFINITY), zero, lse);
    shlo_value p = shlo_unary(s, "exponential", shlo_sub(s, scores(&a), lse)), used = p;
    shlo_value dp = times(&a, d_o, a.v, 4);
    if (dropout > 0) {
        shlo_value mask = kept(&a);
        used = xla_dropped(s, p, mask, dropout);
        dp = xla_dropped(s, dp, mask, dropout);
    }
    shlo_value both = shlo_mul(s, shlo_convert(s, d_o, a.wide), shlo_convert(s, o, a.wide));
    shlo_value ds = shlo_mul(s, p, shlo_sub(s, dp, shlo_sum(s, both, xla_dim_mask(4))));
    ds = shlo_with(s, "multiply", ds, call->attrs.attention.scale);
    shlo_value dq = times(&a, ds, a.k, 3), dk = transposed_times(&a, ds, a.q), dv = transposed_times(&a, used, d_o);
    xla_out(l, 0, dq);
    xla_out(l, 1, dk);
    xla_out(l, 2, dv);
}
