/* combine.c - rows combined element by element: the plain form, for all types. f32 has bodies of its own, for memory
 * that is not channels-last is pooled here. */
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

const ls_combine_table ls_combine_ref = {.add_rows = add_rows, .sum = sum, .max = max, .chosen = chosen};
