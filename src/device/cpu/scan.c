/* scan.c - operators that walk along one dimension in order: argmax, argmin, cumsum. */
#include "device/cpu/cpu.h"
#include "device/cpu/rows.h"
#include "kernels/reduce.h"

typedef struct search {
    ls_dtype dtype;
    int64_t length;
    ls_summary_run_fn *extreme;
} search;

/* The first element equal to the extreme of its row; if that is NaN, the first NaN. */
static void find_extremes(void *arg, const ls_block *block)
{
    const search *s = arg;
    size_t size = ls_dtype_size(s->dtype);
    bool is_float = ls_dtype_is_float(s->dtype);
    for (int64_t r = 0; r < block->rows; r++) {
        const char *x = (const char *)block->at[0].data + (size_t)(r * block->at[0].pitch) * size;
        int64_t *y = (int64_t *)block->at[1].data + r * block->at[1].pitch;
        double extreme, unused; /* or int64_t */
        int64_t whole, i = 0;
        if (is_float) {
            s->extreme(s->dtype, x, s->length, &extreme, &unused);
            for (; i + 1 < s->length; i++) {
                double v = ls_get(s->dtype, x, i);
                if (v == extreme || v != v) break;
            }
        } else {
            s->extreme(s->dtype, x, s->length, &whole, &unused);
            while (i + 1 < s->length && ls_get_int(s->dtype, x, i) != whole) i++;
        }
        *y = i;
    }
}

static ls_status arg_extreme(const ls_call *call, ls_summary fold, ls_message *why)
{
    const ls_operand *x = call->in[0], *y = call->out[0];
    uint32_t along = x->ndim ? 1u << call->attrs.axis.dim : 0;
    ls_rows rows[2] = {ls_rows_of(x, along), ls_rows_of(y, along)};
    search s = {x->dtype, rows[0].length, ls_reduce_table()->run[x->dtype][fold]};
    if (!rows[0].count) return LS_OK;
    if (!s.length) return ls_explain(why, LS_ERR_VALUE, "the extreme of zero elements is undefined");
    return ls_rows_walk(rows, 1, 1, 0, find_extremes, &s, why);
}

/* in: x  out: y i64, the shape of x with dimension attrs.axis.dim of size 1. The first of equal elements wins; NaN
 * counts as the extreme. LS_ERR_VALUE if the dimension has no elements. */
ls_status ls_cpu_argmax(const ls_call *call, ls_message *why)
{
    return arg_extreme(call, LS_SUMMARY_MAX, why);
}

ls_status ls_cpu_argmin(const ls_call *call, ls_message *why)
{
    return arg_extreme(call, LS_SUMMARY_MIN, why);
}

typedef struct running_sum {
    ls_dtype x, y;
    int64_t length;
    bool from_end;
} running_sum;

/* Inlined for the common type, where the switches disappear. */
static inline __attribute__((always_inline)) void sum_along(ls_dtype x_type, const void *x, ls_dtype y_type, void *y,
                                                            int64_t n, bool from_end)
{
    int64_t at = from_end ? n - 1 : 0, step = from_end ? -1 : 1;
    if (ls_dtype_is_float(x_type)) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++, at += step) ls_put(y_type, y, at, sum += ls_get(x_type, x, at));
    } else {
        uint64_t sum = 0; /* wraps around */
        for (int64_t i = 0; i < n; i++, at += step)
            ls_put_int(y_type, y, at, (int64_t)(sum += (uint64_t)ls_get_int(x_type, x, at)));
    }
}

static void sum_rows(void *arg, const ls_block *block)
{
    const running_sum *s = arg;
    for (int64_t r = 0; r < block->rows; r++) {
        const char *x = (const char *)block->at[0].data + (size_t)(r * block->at[0].pitch) * ls_dtype_size(s->x);
        char *y = (char *)block->at[1].data + (size_t)(r * block->at[1].pitch) * ls_dtype_size(s->y);
        if (s->x == LS_F32 && s->y == LS_F32) sum_along(LS_F32, x, LS_F32, y, s->length, s->from_end);
        else sum_along(s->x, x, s->y, y, s->length, s->from_end);
    }
}

/* in: x  out: y, same shape. Running sum along attrs.axis.dim, with attrs.axis.flag from its end,
 * kept in f64 (floating x) or i64. */
ls_status ls_cpu_cumsum(const ls_call *call, ls_message *why)
{
    const ls_operand *x = call->in[0], *y = call->out[0];
    uint32_t along = x->ndim ? 1u << call->attrs.axis.dim : 0;
    ls_rows rows[2] = {ls_rows_of(x, along), ls_rows_of(y, along)};
    running_sum s = {x->dtype, y->dtype, rows[0].length, call->attrs.axis.flag != 0};
    return ls_rows_walk(rows, 1, 1, 0, sum_rows, &s, why);
}
