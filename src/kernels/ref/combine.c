/* combine.c - rows combined element by element: the reference, for all types. f32 has its own specialisation, because
 * memory that is not channels-last is pooled here. */
#include "kernels/combine.h"

#include "kernels/element.h"

#include <math.h>

static void add_rows(ls_dtype from, ls_dtype to, void *y, const void *x, const int64_t *offset, int64_t count,
                     int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double sum = ls_get(to, y, i);
        for (int64_t r = 0; r < count; r++) sum += ls_get(from, x, offset[r] + i);
        ls_put(to, y, i, sum);
    }
}

/* FOLD_ROWS(name, element, result, computed, load, store, scaled): fold rows of one type into one of the same or
 * another. Types that are not scaled are computed unsigned, so that they wrap around. */
#define FOLD_ROWS(name, element, result, computed, load, store, scaled)                                                \
    static void name(ls_fold fold, double scale, void *const *y, int copies, const void *const *x, int count,          \
                     int64_t n)                                                                                        \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            computed value = load(((const element *)x[0])[i]);                                                         \
            for (int r = 1; r < count; r++) {                                                                          \
                computed next = load(((const element *)x[r])[i]);                                                      \
                switch (fold) {                                                                                        \
                case LS_FOLD_PROD: value = WRAPPED(computed, value, *, next); break;                                   \
                case LS_FOLD_MAX: value = next > value || next != next ? next : value; break;                          \
                case LS_FOLD_MIN: value = next < value || next != next ? next : value; break;                          \
                default: value = WRAPPED(computed, value, +, next); break;                                             \
                }                                                                                                      \
            }                                                                                                          \
            if (scaled) value = (computed)(value * (computed)scale);                                                   \
            for (int k = 0; k < copies; k++) ((result *)y[k])[i] = store(value);                                       \
        }                                                                                                              \
    }
#define WRAPPED(computed, a, operation, b)                                                                             \
    _Generic((a), int64_t : (computed)((uint64_t)(a)operation(uint64_t)(b)), default : (computed)((a)operation(b)))
#define AS_IT_IS(value) (value)
#define AS_TRUTH(value) ((uint8_t)((value) != 0))
FOLD_ROWS(fold_bool, uint8_t, uint8_t, int64_t, AS_IT_IS, AS_TRUTH, false)
FOLD_ROWS(fold_u8, uint8_t, uint8_t, int64_t, AS_IT_IS, (uint8_t), false)
FOLD_ROWS(fold_i8, int8_t, int8_t, int64_t, AS_IT_IS, (int8_t), false)
FOLD_ROWS(fold_i32, int32_t, int32_t, int64_t, AS_IT_IS, (int32_t), false)
FOLD_ROWS(fold_i64, int64_t, int64_t, int64_t, AS_IT_IS, AS_IT_IS, false)
FOLD_ROWS(fold_f16, ls_f16, ls_f16, float, ls_f16_to_f32, ls_f16_from_f32, true)
FOLD_ROWS(fold_bf16, ls_bf16, ls_bf16, float, ls_bf16_to_f32, ls_bf16_from_f32, true)
FOLD_ROWS(fold_f32, float, float, float, AS_IT_IS, AS_IT_IS, true)
FOLD_ROWS(fold_f64, double, double, double, AS_IT_IS, AS_IT_IS, true)
FOLD_ROWS(widen_f16, ls_f16, float, float, ls_f16_to_f32, AS_IT_IS, true)
FOLD_ROWS(widen_bf16, ls_bf16, float, float, ls_bf16_to_f32, AS_IT_IS, true)
FOLD_ROWS(round_f16, float, ls_f16, float, AS_IT_IS, ls_f16_from_f32, true)
FOLD_ROWS(round_bf16, float, ls_bf16, float, AS_IT_IS, ls_bf16_from_f32, true)
#undef AS_TRUTH
#undef AS_IT_IS
#undef WRAPPED
#undef FOLD_ROWS

static void fold_rows(ls_dtype from, ls_dtype to, ls_fold fold, double scale, void *const *y, int copies,
                      const void *const *x, int count, int64_t n)
{
    typedef void typed(ls_fold fold, double scale, void *const *y, int copies, const void *const *x, int count,
                       int64_t n);
    static typed *const same[LS_DTYPE_COUNT] = {
        [LS_BOOL] = fold_bool, [LS_U8] = fold_u8,     [LS_I8] = fold_i8,   [LS_I32] = fold_i32, [LS_I64] = fold_i64,
        [LS_F16] = fold_f16,   [LS_BF16] = fold_bf16, [LS_F32] = fold_f32, [LS_F64] = fold_f64};
    static typed *const widened[LS_DTYPE_COUNT] = {[LS_F16] = widen_f16, [LS_BF16] = widen_bf16};
    static typed *const rounded[LS_DTYPE_COUNT] = {[LS_F16] = round_f16, [LS_BF16] = round_bf16};
    typed *fold_them = from == to ? same[from] : to == LS_F32 ? widened[from] : rounded[to];
    fold_them(fold, scale, y, copies, x, count, n);
}

static inline void sum_windows(ls_dtype dtype, void *y, const void *x, const ls_window_row *row)
{
    for (int64_t pixel = 0; pixel < row->pixels; pixel++) {
        const double *weight = row->weight.across + pixel * row->weight.pitch;
        int64_t across = row->across[pixel], beside = row->x.beside;
        for (int64_t c = 0; c < row->channels; c++) {
            double sum = 0;
            for (int64_t i = 0; i < row->down; i++) {
                int64_t at = row->x.first[pixel] + i * row->x.below + c;
                double line = 0;
                for (int64_t j = 0; j < across; j++, at += beside) line += weight[j] * ls_get(dtype, x, at);
                sum += row->weight.down[i] * line;
            }
            ls_put(dtype, y, pixel * row->step + c, sum);
        }
    }
}

static void sum(ls_dtype dtype, void *y, const void *x, const ls_window_row *row)
{
    if (dtype == LS_F32) sum_windows(LS_F32, y, x, row);
    else sum_windows(dtype, y, x, row);
}

static inline void max_windows(ls_dtype dtype, void *y, int32_t *where, const void *x, const ls_window_row *row)
{
    const ls_window_walk *walk = &row->at.walk;
    for (int64_t pixel = 0; pixel < row->pixels; pixel++) {
        for (int64_t c = 0; c < row->channels; c++) {
            double best = -INFINITY;
            int64_t at = -1;
            for (int64_t i = 0; i < row->down; i++) {
                for (int64_t j = 0; j < row->across[pixel]; j++) {
                    double value = ls_get(dtype, x, row->x.first[pixel] + i * row->x.below + j * row->x.beside + c);
                    if (at >= 0 && !(value > best) && !isnan(value)) continue;
                    best = value;
                    at = row->at.origin + walk->first[pixel] + i * walk->below + j * walk->beside;
                }
            }
            ls_put(dtype, y, pixel * row->step + c, best);
            if (where) where[pixel * row->at.step + c] = (int32_t)at;
        }
    }
}

static void max(ls_dtype dtype, void *y, int32_t *where, const void *x, const ls_window_row *row)
{
    if (dtype == LS_F32) max_windows(LS_F32, y, where, x, row);
    else max_windows(dtype, y, where, x, row);
}

static inline void chosen_windows(ls_dtype dtype, void *y, const int32_t *where, const void *x,
                                  const ls_window_row *row)
{
    const ls_window_walk *walk = &row->at.walk;
    for (int64_t pixel = 0; pixel < row->pixels; pixel++) {
        for (int64_t c = 0; c < row->channels; c++) {
            double sum = 0;
            for (int64_t i = 0; i < row->down; i++) {
                for (int64_t j = 0; j < row->across[pixel]; j++) {
                    int32_t at = where[walk->first[pixel] + i * walk->below + j * walk->beside + c];
                    if (at == row->at.origin + pixel)
                        sum += ls_get(dtype, x, row->x.first[pixel] + i * row->x.below + j * row->x.beside + c);
                }
            }
            ls_put(dtype, y, pixel * row->step + c, sum);
        }
    }
}

static void chosen(ls_dtype dtype, void *y, const int32_t *where, const void *x, const ls_window_row *row)
{
    if (dtype == LS_F32) chosen_windows(LS_F32, y, where, x, row);
    else chosen_windows(dtype, y, where, x, row);
}

const ls_combine_table ls_combine_ref = {
    .add_rows = add_rows, .fold_rows = fold_rows, .sum = sum, .max = max, .chosen = chosen};
