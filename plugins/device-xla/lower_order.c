/* lower_order.c - elements in order, and the first of them. Stable; NaN counts as the largest number. */
#include "lower.h"

/* Values and places along a dimension, in order. */
static void sort(shlo *s, shlo_value x, int dim, bool descending, shlo_value sorted[2])
{
    shlo_value in[] = {x, shlo_iota(s, SHLO_I64, x.dims, dim)};
    shlo_value one = {.type = x.type, .dims = SHLO_SCALAR}, place = {.type = SHLO_I64, .dims = SHLO_SCALAR};
    shlo_value bit = {.type = SHLO_I1, .dims = SHLO_SCALAR};
    const char *const names[] = {"%a", "%b", "%p", "%q"};
    const shlo_value types[] = {one, one, place, place};
    sorted[0] = in[0];
    sorted[1] = in[1];
    shlo_begin(s, "sort", in, 2, sorted, 2);
    shlo_print(s, " ({ ^bb0(");
    for (int i = 0; i < 4; i++) {
        shlo_print(s, "%s%s: ", i ? ", " : "", names[i]);
        shlo_print_type(s, types[i]);
    }
    shlo_print(s, "): ");
    /* a comes first if it is smaller, or if b alone is NaN; the other way around if the largest come first. */
    const struct {
        const char *to, *direction, *left, *right;
    } compare[] = {{"%c", descending ? "GT" : "LT", "%a", "%b"},
                   {"%d", "NE", descending ? "%a" : "%b", descending ? "%a" : "%b"},
                   {"%e", "EQ", descending ? "%b" : "%a", descending ? "%b" : "%a"}};
    for (int i = 0; i < 3; i++) {
        shlo_print(
            s, "%s = \"stablehlo.compare\"(%s, %s) {comparison_direction = #stablehlo<comparison_direction %s>} : (",
            compare[i].to, compare[i].left, compare[i].right, compare[i].direction);
        shlo_print_type(s, one);
        shlo_print(s, ", ");
        shlo_print_type(s, one);
        shlo_print(s, ") -> ");
        shlo_print_type(s, bit);
        shlo_print(s, " ");
    }
    shlo_print(s,
               "%%f = \"stablehlo.and\"(%%d, %%e) : (tensor<i1>, tensor<i1>) -> tensor<i1> "
               "%%g = \"stablehlo.or\"(%%c, %%f) : (tensor<i1>, tensor<i1>) -> tensor<i1> "
               "\"stablehlo.return\"(%%g) : (tensor<i1>) -> () }) {dimension = %d : i64, is_stable = true}",
               dim);
    shlo_end(s, in, 2, sorted, 2);
}

static void order(xla_lowering *l, const ls_call *call, bool descending, int64_t k)
{
    shlo *s = &l->s;
    shlo_value x = xla_in(l, 0), sorted[2] = {x, shlo_integer(s, SHLO_I64, 0, SHLO_SCALAR)};
    if (x.dims.n) {
        shlo_dims first = {.n = x.dims.n}, limit = x.dims, step = {.n = x.dims.n};
        for (int d = 0; d < x.dims.n; d++) step.at[d] = 1;
        limit.at[call->attrs.axis.dim] = k;
        sort(s, x, call->attrs.axis.dim, descending, sorted);
        for (int i = 0; i < 2; i++) sorted[i] = shlo_slice(s, sorted[i], first, limit, step);
    }
    xla_out(l, 0, sorted[0]);
    xla_out(l, 1, sorted[1]);
}

void xla_sort(xla_lowering *l, const ls_call *call)
{
    const ls_operand *x = call->in[0];
    order(l, call, call->attrs.axis.flag != 0, x->ndim ? x->dim[call->attrs.axis.dim] : 1);
}

void xla_topk(xla_lowering *l, const ls_call *call)
{
    order(l, call, call->attrs.axis.flag != 0, call->attrs.axis.k);
}
