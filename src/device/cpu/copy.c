/* copy.c - operators that only move elements: copies between types and layouts, constants, sequences. */
#include "base/parallel.h"
#include "device/cpu/cpu.h"
#include "device/cpu/iterate.h"
#include "device/cpu/rows.h"
#include "kernels/elementwise.h"
#include "kernels/ref/number.h"

#include <string.h>

/* ---- copy -------------------------------------------------------------------------------------------------------- */

typedef struct copy_run {
    ls_map_fn *convert; /* NULL: same type on both sides */
    size_t size;
} copy_run;

static void run_copy(void *arg, int64_t first, int64_t n, void *const *p)
{
    const copy_run *run = arg;
    (void)first;
    if (run->convert) run->convert(n, p, NULL);
    else memcpy(p[0], p[1], (size_t)n * run->size);
}

/* Side of a tile that is transposed in L1. Both its sides are read and written in runs of whole cache lines, so strides
 * that are powers of two, which map many rows to few cache sets, do no harm. */
#define TILE_SIDE 64
#define TILE_ELEMENTS (TILE_SIDE * TILE_SIDE)

/* A copy whose output is contiguous along another dimension than its input. */
typedef struct transposition {
    ls_layout layout;
    int down, across;                 /* dimensions that the output and the input are contiguous along */
    int64_t tile_down, tile_across;   /* elements of a tile along them */
    int64_t tiles_down, tiles_across; /* tiles along them */
    char *out;
    const char *in;
    size_t out_size, in_size;
    ls_transpose_fn *transpose;
    ls_map_fn *convert;
} transposition;

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void transpose_tile(const transposition *t, char *out, const char *in, int64_t down, int64_t across)
{
    _Alignas(64) char turned[TILE_ELEMENTS * 8];
    int64_t out_stride = t->layout.stride[0][t->across], in_stride = t->layout.stride[1][t->down];
    t->transpose(down, across, turned, t->tile_down, in, in_stride / (int64_t)t->in_size);
    for (int64_t c = 0; c < across; c++) {
        char *from = turned + c * t->tile_down * (int64_t)t->in_size, *to = out + c * out_stride;
        if (t->convert) t->convert(down, (void *[]){to, from}, NULL);
        else memcpy(to, from, (size_t)down * t->in_size);
    }
}

/* Tiles [begin, end), counted over the other dimensions, then across, then down. */
static void run_tiles(void *arg, int64_t begin, int64_t end)
{
    const transposition *t = arg;
    const ls_layout *l = &t->layout;
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t down = tile % t->tiles_down * t->tile_down, rest = tile / t->tiles_down;
        int64_t across = rest % t->tiles_across * t->tile_across;
        rest /= t->tiles_across;
        int64_t out = down * l->stride[0][t->down] + across * l->stride[0][t->across];
        int64_t in = down * l->stride[1][t->down] + across * l->stride[1][t->across];
        for (int d = l->ndim - 1; d >= 0; d--) {
            if (d == t->down || d == t->across) continue;
            out += rest % l->dim[d] * l->stride[0][d];
            in += rest % l->dim[d] * l->stride[1][d];
            rest /= l->dim[d];
        }
        transpose_tile(t, t->out + out, t->in + in, smaller(t->tile_down, l->dim[t->down] - down),
                       smaller(t->tile_across, l->dim[t->across] - across));
    }
}

/* True if the copy was a transposition, which is then done. */
static bool transpose(const ls_operand *const *operand, ls_map_fn *convert)
{
    transposition t = {.layout = ls_layout_of(operand, 2, false),
                       .across = -1,
                       .out = operand[0]->data,
                       .in = operand[1]->data,
                       .out_size = ls_dtype_size(operand[0]->dtype),
                       .in_size = ls_dtype_size(operand[1]->dtype),
                       .transpose = ls_elementwise_kernels()->transpose[operand[1]->dtype],
                       .convert = convert};
    const ls_layout *l = &t.layout;
    t.down = l->ndim - 1;
    for (int d = 0; d < l->ndim; d++) {
        if (l->stride[1][d] == (int64_t)t.in_size) t.across = d;
    }
    bool is_turned = l->stride[0][t.down] == (int64_t)t.out_size && t.across >= 0 && t.across != t.down;
    if (!is_turned || l->count == 0) return false;

    /* If one side is short, the other may be longer: images have three channels. */
    t.tile_down = smaller(l->dim[t.down], TILE_SIDE);
    t.tile_across = smaller(l->dim[t.across], TILE_ELEMENTS / t.tile_down);
    if (t.tile_across < TILE_SIDE) t.tile_down = smaller(l->dim[t.down], TILE_ELEMENTS / t.tile_across);
    t.tiles_down = (l->dim[t.down] + t.tile_down - 1) / t.tile_down;
    t.tiles_across = (l->dim[t.across] + t.tile_across - 1) / t.tile_across;
    int64_t tiles = t.tiles_down * t.tiles_across * (l->count / (l->dim[t.down] * l->dim[t.across]));
    ls_parallel_for(tiles, ls_grain(500) / (t.tile_down * t.tile_across) + 1, run_tiles, &t);
    return true;
}

/* in: x  out: y, any types and layouts; x broadcasts to the shape of y. Conversions: floating types to
 * integers round towards zero, integers wrap modulo 2^bits, bool is "not 0". */
ls_status ls_cpu_copy(const ls_call *call, ls_message *why)
{
    (void)why;
    const ls_operand *out = call->out[0], *in = call->in[0];
    copy_run run = {.size = ls_dtype_size(out->dtype)};
    if (out->dtype != in->dtype) run.convert = ls_elementwise_kernels()->convert[in->dtype][out->dtype];
    ls_iteration walk = {.count = 2, .outputs = 1, .operand = {out, in}, .grain = ls_grain(200)};
    if (ls_all_contiguous(walk.operand, 2)) {
        int64_t n = ls_operand_numel(out);
        if (n && n < 2 * walk.grain) run_copy(&run, 0, n, (void *[]){out->data, in->data});
        if (n < 2 * walk.grain) return LS_OK;
    } else if (transpose(walk.operand, run.convert)) {
        return LS_OK;
    }
    ls_iterate(&walk, run_copy, &run);
    return LS_OK;
}

/* ---- constants and sequences ------------------------------------------------------------------------------------- */

typedef struct fill_run {
    char pattern[64]; /* the element, repeated */
    size_t size;
    bool is_byte; /* all bytes of the element are the same */
} fill_run;

static void run_fill(void *arg, int64_t first, int64_t n, void *const *p)
{
    const fill_run *run = arg;
    (void)first;
    char *to = p[0];
    size_t bytes = (size_t)n * run->size, at = 0;
    if (run->is_byte) {
        memset(to, run->pattern[0], bytes);
        return;
    }
    for (; at + sizeof run->pattern <= bytes; at += sizeof run->pattern)
        memcpy(to + at, run->pattern, sizeof run->pattern);
    memcpy(to + at, run->pattern, bytes - at);
}

/* in: none  out: y, every element attrs.affine.shift */
ls_status ls_cpu_fill(const ls_call *call, ls_message *why)
{
    (void)why;
    const ls_operand *out = call->out[0];
    double value = call->attrs.affine.shift;
    fill_run run = {.size = ls_dtype_size(out->dtype), .is_byte = true};
    ls_elementwise_kernels()->convert[LS_F64][out->dtype](1, (void *[]){run.pattern, &value}, NULL);
    for (size_t i = run.size; i < sizeof run.pattern; i++) run.pattern[i] = run.pattern[i - run.size];
    for (size_t i = 1; i < run.size; i++) run.is_byte &= run.pattern[i] == run.pattern[0];
    ls_iteration walk = {.count = 1, .outputs = 1, .operand = {out}, .grain = ls_grain(100)};
    ls_iterate(&walk, run_fill, &run);
    return LS_OK;
}

typedef struct arange_run {
    double start, step;
    bool is_whole;
} arange_run;

static void run_arange(void *arg, int64_t first, int64_t n, void *const *p)
{
    const arange_run *run = arg;
    if (run->is_whole) {
        int64_t *to = p[0], start = (int64_t)run->start, step = (int64_t)run->step;
        for (int64_t i = 0; i < n; i++) to[i] = start + step * (first + i);
    } else {
        double *to = p[0];
        for (int64_t i = 0; i < n; i++) to[i] = run->start + run->step * (double)(first + i);
    }
}

/* in: none  out: y; element i is attrs.affine.shift + i * attrs.affine.scale, computed in f64 (or i64, if y is an
 * integer type and both attributes are integers) */
ls_status ls_cpu_arange(const ls_call *call, ls_message *why)
{
    (void)why;
    const ls_operand *out = call->out[0];
    arange_run run = {.start = call->attrs.affine.shift, .step = call->attrs.affine.scale};
    run.is_whole = !ls_dtype_is_float(out->dtype) && (double)ls_whole_of_real(run.start) == run.start &&
                   (double)ls_whole_of_real(run.step) == run.step;
    ls_iteration walk = {.count = 1,
                         .outputs = 1,
                         .operand = {out},
                         .as = {run.is_whole ? LS_I64 : LS_F64},
                         .in_order = true,
                         .grain = ls_grain(1000)};
    ls_iterate(&walk, run_arange, &run);
    return LS_OK;
}
