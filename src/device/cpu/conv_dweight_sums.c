/* conv_dweight_sums.c - tiles of sums that become the gradient of a convolution for its weight.
 *
 * Parts and blocks depend only on sizes, and parts are added in order: results do not depend on the number of
 * workers. */
#include "device/cpu/conv.h"

#include "base/parallel.h"

void ls_dweight_cut(ls_dweight_sums *s, int64_t sets)
{
    int64_t panels_o = ceil_div(s->conv->group_o, s->rows), panels_c = ceil_div(s->conv->group_c, s->columns);
    int64_t tile = s->rows * s->columns * (int64_t)sizeof(float) * s->taps, least = INT64_MAX;
    for (int64_t blocks_c = 1; blocks_c <= panels_c; blocks_c++) {
        int64_t in_c = ceil_div(panels_c, blocks_c), in_o = larger(1, LS_DWEIGHT_SUM_BYTES / (in_c * tile));
        if (in_c > 1 && in_c * tile > LS_DWEIGHT_SUM_BYTES) continue;
        int64_t blocks_o = ceil_div(panels_o, in_o);
        int64_t read = blocks_c * panels_o * s->rows + sets * blocks_o * panels_c * s->columns;
        if (read >= least) continue;
        least = read;
        s->panels_o = ceil_div(panels_o, blocks_o), s->panels_c = in_c;
        s->blocks_o = ceil_div(panels_o, s->panels_o), s->blocks_c = ceil_div(panels_c, in_c);
    }
}

static int64_t panel_elements(const ls_dweight_sums *s)
{
    return s->panels_c * s->taps * s->rows * s->columns;
}

bool ls_dweight_take(ls_dweight_sums *s)
{
    int64_t numbers = ls_dweight_tasks(s) * s->panels_o * panel_elements(s);
    s->sums = ls_scratch((ls_worker){0, 1}, 3, (size_t)numbers * sizeof *s->sums);
    return s->sums != NULL;
}

int64_t ls_dweight_tasks(const ls_dweight_sums *s)
{
    return s->parts * s->blocks_o * s->blocks_c;
}

ls_dweight_block ls_dweight_block_of(const ls_dweight_sums *s, int64_t task)
{
    int64_t blocks = s->blocks_o * s->blocks_c;
    ls_dweight_block b = {.part = task / blocks, .o = task % blocks / s->blocks_c, .c = task % s->blocks_c};
    b.first_o = b.o * s->panels_o * s->rows;
    b.first_c = b.c * s->panels_c * s->columns;
    b.outputs = smaller(s->panels_o * s->rows, s->conv->group_o - b.first_o);
    b.channels = smaller(s->panels_c * s->columns, s->conv->group_c - b.first_c);
    return b;
}

float *ls_dweight_panel(const ls_dweight_sums *s, const ls_dweight_block *b, int64_t panel_o)
{
    int64_t number = (b->part * s->blocks_o + b->o) * s->blocks_c + b->c;
    return s->sums + (number * s->panels_o + panel_o) * panel_elements(s);
}

void ls_dweight_store(const ls_operand *dw, int64_t o, int64_t c, int64_t channels, const float *sums, int64_t distance,
                      bool accumulate)
{
    int64_t width = dw->dim[3], taps = dw->dim[2] * width;
    float *to = (float *)dw->data + o * dw->stride[0] + c * dw->stride[1];
    if (dw->stride[3] == 1 && dw->stride[2] == width && dw->stride[1] == taps) {
        ls_conv_store_taps(to, sums, distance, channels, taps, accumulate);
        return;
    }
    for (int64_t i = 0; i < channels; i++)
        for (int64_t tap = 0; tap < taps; tap++) {
            float *at = to + i * dw->stride[1] + tap / width * dw->stride[2] + tap % width * dw->stride[3];
            *at = sums[tap * distance + i] + (accumulate ? *at : 0);
        }
}

/* A panel of outputs of a block: add the parts and store each channel once, also where panels overlap. */
static void add_panel(const ls_dweight_sums *s, ls_dweight_block b, int64_t panel_o)
{
    int64_t rows = smaller(s->rows, b.outputs - panel_o * s->rows), first = b.first_o + panel_o * s->rows;
    int64_t skipped = first - ls_dweight_first(s, first, s->rows, s->conv->group_o);
    void *total = ls_dweight_panel(s, &b, panel_o);
    ls_gemm_finish add = {.accumulate = true, .out_dtype = LS_F32};
    for (b.part = 1; b.part < s->parts; b.part++)
        ls_gemm()->finish_f32(&add, 1, panel_elements(s), ls_dweight_panel(s, &b, panel_o), 0, NULL, &total, NULL);
    for (int64_t row = 0; row < rows; row++) {
        const float *sums = (const float *)total + (skipped + row) * s->columns;
        for (int64_t c = 0; c < b.channels; c += s->columns, sums += s->taps * s->rows * s->columns) {
            int64_t at = b.first_c + c, before = at - ls_dweight_first(s, at, s->columns, s->conv->group_c);
            ls_dweight_store(s->dw, first + row, at, smaller(s->columns, b.channels - c), sums + before,
                             s->rows * s->columns, s->conv->accumulate);
        }
    }
}

/* Panels of outputs [begin, end), counted through all blocks. */
static void add_panels(void *arg, int64_t begin, int64_t end)
{
    const ls_dweight_sums *s = arg;
    for (int64_t i = begin; i < end; i++) {
        ls_dweight_block b = ls_dweight_block_of(s, i / s->panels_o);
        if (i % s->panels_o * s->rows < b.outputs) add_panel(s, b, i % s->panels_o);
    }
}

void ls_dweight_add(const ls_dweight_sums *s)
{
    ls_parallel_for(s->blocks_o * s->blocks_c * s->panels_o, 1, add_panels, (void *)s);
}
