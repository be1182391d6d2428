/* lower_collective.c - operators over processes: each process is a replica of the program, numbered by its rank. How
 * many there are is in attrs.collective.group. */
#include "lower.h"

static void print_groups(xla_lowering *l, int size)
{
    shlo_print(&l->s, "replica_groups = dense<[[");
    for (int r = 0; r < size; r++) shlo_print(&l->s, "%s%d", r ? ", " : "", r);
    shlo_print(&l->s, "]]> : tensor<1x%dxi64>", size);
}

/* One collective, which gives an array of `dims`. `op`: how numbers are combined; NULL: they are not. `attribute`
 * precedes the groups. */
static shlo_value collective(xla_lowering *l, const char *name, const char *op, shlo_value x, shlo_dims dims,
                             const char *attribute)
{
    shlo_value y = {.type = x.type, .dims = dims};
    l->is_joint = true;
    shlo_begin(&l->s, name, &x, 1, &y, 1);
    if (op) shlo_print_region(&l->s, op, x.type);
    shlo_print(&l->s, " {%s", attribute);
    print_groups(l, l->call->attrs.collective.group);
    shlo_print(&l->s, "}");
    shlo_end(&l->s, &x, 1, &y, 1);
    return y;
}

static const char *name_of(ls_reduction reduction)
{
    switch (reduction) {
    case LS_REDUCE_MAX: return "maximum";
    case LS_REDUCE_MIN: return "minimum";
    case LS_REDUCE_PROD: return "multiply";
    default: return "add";
    }
}

/* In the type of arithmetic: half types are rounded once. */
static void combine(xla_lowering *l, const char *name, const char *attribute)
{
    int size = l->call->attrs.collective.group;
    ls_reduction how = (ls_reduction)l->call->attrs.collective.op;
    shlo_value y = collective(l, name, name_of(how), xla_in(l, 0), xla_dims(l->call->out[0]), attribute);
    xla_out(l, 0, how == LS_REDUCE_MEAN ? shlo_with(&l->s, "divide", y, size) : y);
}

void xla_all_reduce(xla_lowering *l, const ls_call *call)
{
    (void)call;
    combine(l, "all_reduce", "");
}

void xla_reduce_scatter(xla_lowering *l, const ls_call *call)
{
    (void)call;
    combine(l, "reduce_scatter", "scatter_dimension = 0 : i64, ");
}

void xla_all_gather(xla_lowering *l, const ls_call *call)
{
    xla_out(l, 0,
            collective(l, "all_gather", NULL, xla_in_raw(l, 0), xla_dims(call->out[0]), "all_gather_dim = 0 : i64, "));
}

/* The sum of it and of zeros: not all libraries have a broadcast. Bits are summed, not numbers, so that NaN and -0
 * arrive as they are. */
void xla_broadcast(xla_lowering *l, const ls_call *call)
{
    static const shlo_type bits[] = {[1] = SHLO_U8, [2] = SHLO_U8, [4] = SHLO_U32, [8] = SHLO_U64};
    shlo *s = &l->s;
    shlo_value x = xla_in_raw(l, 0), rank = {.type = SHLO_U32, .dims = SHLO_SCALAR};
    shlo_type type = x.type;
    shlo_begin(s, "replica_id", NULL, 0, &rank, 1);
    shlo_end(s, NULL, 0, &rank, 1);
    shlo_value own = shlo_compare(s, "EQ", rank, shlo_integer(s, SHLO_U32, call->attrs.collective.root, SHLO_SCALAR));
    x = shlo_bitcast(s, x, bits[shlo_size(type)]);
    x = shlo_select(s, own, x, shlo_integer(s, x.type, 0, SHLO_SCALAR));
    x = collective(l, "all_reduce", "add", x, x.dims, "");
    xla_out(l, 0, shlo_bitcast(s, x, type));
}
