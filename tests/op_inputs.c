/* op_inputs.c - makes the inputs of the table of operator calls. */
#include "op_inputs.h"

#include <stdlib.h>

#include "base/half.h"
#include "check.h"
#include "ops/op.h"

/* A cheap generator of its own: inputs must not change when the library's random numbers do. */
static double chance(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 40) / (double)(1 << 24);
}

static void input_values(const case_input *in, int index, double *values, int64_t n)
{
    uint64_t state = 88172645463325252u + (uint64_t)index * 977;
    for (int64_t i = 0; i < n; i++) {
        double u = chance(&state);
        switch (in->kind) {
        case INPUT_NORMAL: /* 0.1 .. 2 in size, either sign: no kink within a finite difference */
            values[i] = (u < 0.5 ? -1 : 1) * (0.1 + 1.9 * chance(&state));
            break;
        case INPUT_POSITIVE: values[i] = 0.5 + 1.5 * u; break;
        case INPUT_DISTINCT: values[i] = (double)((i * 37 + 11) % n) * 0.0625 - 1.03125; break;
        case INPUT_BOOL: values[i] = u < 0.6; break;
        case INPUT_INDEX: values[i] = (double)(int64_t)(u * (double)in->limit); break;
        case INPUT_NONE: break;
        }
        /* Exact in bf16, so that every type starts from the same numbers. */
        if (in->kind != INPUT_INDEX && in->kind != INPUT_DISTINCT)
            values[i] = (double)ls_bf16_to_f32(ls_bf16_from_f32((float)values[i]));
    }
    if (in->kind == INPUT_DISTINCT) /* 37 must not divide n, else values repeat */
        CHECK_MSG(n % 37 != 0, "case input of %lld elements cannot be distinct", (long long)n);
}

ls_tensor *make_input(ls_run *run, const case_input *in, ls_dtype dtype, layout how, const double *values)
{
    ls_shape shape = in->shape;
    int64_t n = ls_shape_numel(shape);
    ls_tensor *x = ls_from(run, LS_F64, shape, values);
    ls_dtype type = in->kind == INPUT_INDEX ? LS_I64 : dtype;
    x = ls_cast(x, type);
    if (n == 0 || shape.ndim == 0) return x;
    if (how == GAPS) {
        ls_shape wide = shape;
        wide.dim[shape.ndim - 1] *= 2;
        ls_tensor *room = ls_slice(ls_full_shape(run, type, 77, wide), -1, 0, INT64_MAX, 2);
        ls_assign(room, x);
        return room;
    }
    if (how == TURNED) {
        ls_shape order = {.ndim = shape.ndim};
        for (int d = 0; d < shape.ndim; d++) order.dim[d] = shape.ndim - 1 - d;
        return ls_permute_dims(ls_contiguous(ls_permute_dims(x, order)), order);
    }
    if (how == REPEATED && shape.dim[0] > 1) return ls_expand_shape(ls_slice(x, 0, 0, 1, 1), shape);
    return x;
}

inputs inputs_make(const op_case *c, layout how)
{
    inputs all = {0};
    for (; all.n < CASE_INPUTS && c->in[all.n].kind != INPUT_NONE; all.n++) {
        const case_input *in = &c->in[all.n];
        int64_t n = ls_shape_numel(in->shape);
        double *values = all.values[all.n] = calloc((size_t)(n ? n : 1), sizeof *values);
        input_values(in, all.n, values, n);
        if (how == REPEATED && in->shape.ndim && in->shape.dim[0] > 1) {
            int64_t slice = n / in->shape.dim[0];
            for (int64_t i = slice; i < n; i++) values[i] = values[i % slice];
        }
    }
    return all;
}

void inputs_free(inputs *all)
{
    for (int i = 0; i < all->n; i++) free(all->values[i]);
}

ls_tensor *weighted_sum(ls_run *run, ls_tensor *y)
{
    int64_t n = ls_numel(y);
    double *weights = malloc(sizeof(double) * (size_t)(n ? n : 1));
    for (int64_t i = 0; i < n; i++) weights[i] = 0.25 * (double)((i * 7) % 9 - 4) + 0.125;
    ls_tensor *w = ls_cast(ls_from(run, LS_F64, ls_shape_of(y), weights), ls_dtype_of(y));
    free(weights);
    return ls_sum(ls_mul(y, w));
}

bool is_differentiable(const op_case *c)
{
    static const char *const gradient[LS_OP_COUNT] = {
#define LS_OP(name, kind, policy, gradient, attributes, summary) #gradient,
#include <lockstep/ops.def>
#undef LS_OP
    };
    return strcmp(gradient[c->op], "none") != 0;
}
