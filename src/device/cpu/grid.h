/* grid.h - a set of positions, and where each lies in the memory of up to three operands.
 *
 * An operator adds the dimensions it walks one by one, outermost first; those of size 1 are dropped, and adjacent ones
 * that are contiguous in every operand are merged. Positions are numbered row-major, so that any range of numbers can
 * be given to a worker, which walks it in spans:
 *
 *     for (ls_grid_run span; begin < end; begin += span.size) {
 *         span = ls_grid_span(&grid, begin, end);
 *         for (int64_t i = 0; i < span.size; i++) ... x[span.at[0] + i * span.step[0]] ...
 *     }
 *
 * Offsets and strides count elements. A grid set to all zeros has one position, at offset 0. */
#ifndef LOCKSTEP_DEVICE_CPU_GRID_H
#define LOCKSTEP_DEVICE_CPU_GRID_H

#include <lockstep/plugin.h>

#define LS_GRID_OPERANDS 3

typedef struct ls_grid {
    int ndim;
    int64_t dim[LS_MAX_DIMS];
    int64_t stride[LS_MAX_DIMS][LS_GRID_OPERANDS];
} ls_grid;

/* Positions side by side along the innermost dimension. */
typedef struct ls_grid_run {
    int64_t size;
    int64_t at[LS_GRID_OPERANDS], step[LS_GRID_OPERANDS];
} ls_grid_run;

static inline void ls_grid_add(ls_grid *grid, int64_t size, int64_t stride0, int64_t stride1, int64_t stride2)
{
    if (size == 1) return;
    const int64_t stride[LS_GRID_OPERANDS] = {stride0, stride1, stride2};
    int last = grid->ndim - 1;
    bool joins = last >= 0;
    for (int i = 0; joins && i < LS_GRID_OPERANDS; i++) joins = grid->stride[last][i] == size * stride[i];
    if (joins) grid->dim[last] *= size;
    else grid->dim[last = grid->ndim++] = size;
    for (int i = 0; i < LS_GRID_OPERANDS; i++) grid->stride[last][i] = stride[i];
}

static inline int64_t ls_grid_size(const ls_grid *grid)
{
    int64_t size = 1;
    for (int d = 0; d < grid->ndim; d++) size *= grid->dim[d];
    return size;
}

/* The longest span that starts at position `flat` and ends at `end` or before. */
static inline ls_grid_run ls_grid_span(const ls_grid *grid, int64_t flat, int64_t end)
{
    ls_grid_run span = {.size = end - flat};
    for (int d = grid->ndim - 1; d >= 0; d--) {
        int64_t outer = flat / grid->dim[d], at = flat - outer * grid->dim[d];
        for (int i = 0; i < LS_GRID_OPERANDS; i++) span.at[i] += at * grid->stride[d][i];
        if (d == grid->ndim - 1) {
            for (int i = 0; i < LS_GRID_OPERANDS; i++) span.step[i] = grid->stride[d][i];
            if (span.size > grid->dim[d] - at) span.size = grid->dim[d] - at;
        }
        flat = outer;
    }
    return span;
}

#endif
