/* conv.h - shared by the CPU convolutions: images as pixels of contiguous channels, and walks over them. */
#ifndef LOCKSTEP_DEVICE_CPU_CONV_H
#define LOCKSTEP_DEVICE_CPU_CONV_H

#include "device/cpu/gemm.h"
#include "kernels/winograd.h"

static inline int64_t ls_f32_bytes(int64_t numbers)
{
    return numbers * (int64_t)sizeof(float);
}

/* A 2-D convolution: x [n,c,h,w], w [o,c/groups,kernel], y [n,o,out]. Index 0 is the height, 1 the width. */
typedef struct ls_conv {
    ls_window window;
    int64_t n, c, o, in[2], out[2];
    int64_t group_c, group_o; /* channels of one group */
    ls_dtype compute;
    bool accumulate;
} ls_conv;

/* Built from the operands in their roles; all are views [n,c,h,w]. */
ls_conv ls_conv_of(const ls_call *call, const ls_operand *x, const ls_operand *w, const ls_operand *y);

/* Pixels of an image in memory; their channels are contiguous, or `step` elements apart if they are only written. */
typedef struct ls_pixels {
    char *data;
    ls_dtype dtype;
    int64_t size[2];                /* height, width */
    int64_t item, row, pixel, step; /* elements from image to image, row to row, pixel to pixel, channel to channel */
} ls_pixels;

ls_pixels ls_pixels_of(const ls_operand *image);

/* Bytes of a copy of an image with contiguous channels. */
size_t ls_pixels_copy_size(const ls_operand *image);
/* Make that copy, on all workers. */
ls_pixels ls_pixels_copy(const ls_operand *image, void *memory);

/* How rows of an image are copied with their border, whose pixels are zeros: columns [first, first + width), from the
 * border on where first is negative. The first `channels` elements of each pixel, then zeros up to `pitch`. */
typedef struct ls_row_copy {
    const ls_pixels *from;
    int64_t first, width;
    int64_t channels, pitch;
    int64_t bytes;                                                               /* of an element of the copy */
    void (*convert)(void *to, const void *from, ls_dtype from_dtype, int64_t n); /* NULL: types are the same */
} ls_row_copy;
void ls_row_copy_run(const ls_row_copy *how, int64_t item, int64_t row, void *to);

/* A walk over a grid [n, grid]: at point (y, x), tap (i, j)
 * of taps sees pixel (y * stride + origin + i * tap_step, ...). */
typedef struct ls_walk {
    ls_pixels pixels;
    int64_t grid[2], stride[2], origin[2], tap_step[2], taps[2];
} ls_walk;

/* Addresses of the pixels that a tap (i * taps[1] + j) sees at points [first,
 * first + count); NULL outside the image. */
void ls_walk_locate(const ls_walk *walk, int64_t tap, int64_t first, int64_t count, const void **line);

/* Gather the pixels that all taps see at points [first, first + count), `channels` elements each, tap after tap, one
 * point after the other, `distance` bytes apart at `to`. */
void ls_walk_gather(const ls_walk *walk, int64_t channels, int64_t first, int64_t count, void *to, int64_t distance);

/* The walk of y over x: at point (oh, ow), tap (kh, kw) sees the pixel of x it multiplies. */
ls_walk ls_walk_forward(const ls_conv *conv, ls_pixels x);

/* Points of dx that the same taps reach: those at `phase` modulo the stride. walk: over dy, where at point (y, x) of
 * the phase tap (i, j) sees the pixel of dy it multiplies with tap (first + i * step, ...) of the kernel.
 * No taps: gradients are 0. */
typedef struct ls_phase {
    ls_walk walk;
    int64_t first[2], step[2]; /* taps of the kernel */
} ls_phase;

ls_phase ls_phase_of(const ls_conv *conv, ls_pixels dy, int64_t phase_h, int64_t phase_w);
/* The positions of a phase's points in dx. */
ls_walk ls_phase_points(const ls_conv *conv, ls_pixels dx, const ls_phase *phase, int64_t phase_h, int64_t phase_w);

/* The same walk, starting at channel `channel`. */
ls_walk ls_walk_from_channel(ls_walk walk, int64_t channel);
/* A walk that visits each pixel once. */
ls_walk ls_walk_over(ls_pixels pixels);
/* Does a walk visit each pixel once, at equal distances, image after image, like the rows of a matrix? */
bool ls_walk_is_even(const ls_walk *walk);

/* Steps after a convolution: a bias, or a bias and a batch norm by running statistics, then a residual and an
 * activation. */
typedef struct ls_conv_finish {
    const ls_operand *bias;                        /* [o]? */
    const ls_operand *weight, *shift, *mean, *var; /* [o]; mean NULL: no norm; weight and shift may be NULL */
    double epsilon;
    const ls_operand *residual; /* as y? */
    ls_activation activation;
} ls_conv_finish;

/* Bytes for the per-channel values of ls_conv_columns. */
static inline int64_t ls_conv_columns_space(const ls_conv *conv)
{
    return ls_gemm_round_up(2 * conv->o * (int64_t)sizeof(double), 64);
}
/* Fill `columns`: what the engine adds to the sums of each channel, followed by their scales, which it applies
 * first. */
void ls_conv_columns(const ls_conv_finish *finish, const ls_conv *conv, ls_dtype sum_dtype, void *columns);
/* Set up the sink, given the columns of the first channel of a product. */
void ls_conv_finish_sink(const ls_conv_finish *finish, const ls_conv *conv, const void *columns, ls_gemm_sink *sink);

/* Scratch of the caller for copies of images and weights: slot 2, allocated once for all that a call may need. */
typedef struct ls_conv_space {
    char *next;
} ls_conv_space;

/* Bytes that ls_conv_pixels may take for an image. */
size_t ls_conv_pixels_space(const ls_operand *image);
/* Pixels with contiguous channels: those of the image, or of a copy. */
ls_pixels ls_conv_pixels(const ls_operand *image, ls_conv_space *space);
ls_status ls_conv_out_of_memory(ls_message *why);

/* Few channels: lines of one tap would be short and mostly padding, so all taps of a point are joined. */
bool ls_conv_is_narrow(const ls_conv *conv);

/* Moments of the columns of a product over all its rows, before anything is added to its sums: their means, and sums of
 * squared deviations from them. */
typedef struct ls_conv_moments {
    double *mean, *m2; /* [columns] */
    bool only;         /* nothing else is wanted: the product itself is not stored */
} ls_conv_moments;

/* conv_moments.c: moments gathered by the tasks of a product, each in some points and columns. */
typedef struct ls_gathering {
    int64_t column, columns;
    int64_t points;    /* gathered so far in each of the columns */
    double *mean, *m2; /* [columns] */
} ls_gathering;

/* Bytes for the gatherings of `tasks` tasks of `columns` columns each; and to begin them, where tasks follow each other
 * along the n columns of the product first. */
int64_t ls_gathering_space(int64_t tasks, int64_t columns);
ls_gathering *ls_gathering_begin(void *memory, int64_t tasks, int64_t columns, int64_t n);
/* Add what a kernel found in `points` points and a panel of the columns, from `column` of the product on. */
void ls_gathering_add(ls_gathering *gathering, int64_t column, int64_t columns, const ls_gemm_moments *found,
                      int64_t points);
/* Merge all in the order of the tasks, whoever ran them. */
void ls_gathering_merge(const ls_gathering *gatherings, int64_t tasks, int64_t n, const ls_conv_moments *into);

/* conv_direct.c: the product of the pixels under a walk with B of the job; A of the job is not used. k of the job is
 * segments of taps_in_line taps of `channels` elements, padded to the kernel's kr; the taps of a line are adjacent in a
 * row of the image. */
typedef struct ls_conv_direct {
    const ls_walk *walk;
    int64_t channels, taps_in_line;
    const ls_conv_moments *moments; /* to be filled, only if the kernel has in_place_finishes; NULL: not wanted */
} ls_conv_direct;
bool ls_conv_direct_suits(const ls_walk *walk, const ls_gemm_kernel *kernel, int64_t channels, int64_t columns);
/* Can the kernel itself store sums as the result? Otherwise they pass through memory. */
bool ls_conv_direct_finishes(const ls_gemm_job *job);
ls_status ls_conv_direct_run(ls_gemm_job *job, const ls_conv_direct *how, ls_message *why);

/* conv_winograd.c: the same in f32, on every CPU, for 3 x 3 taps side by side and a stride of one or two: B of the job
 * holds the terms of the weights (kernels/winograd.h), one segment of k each, where it would hold their taps. The first
 * function gives the form of that, that of the walk's stride, or NULL if sums over taps are faster or all there is. */
const ls_winograd_form *ls_conv_winograd_form(const ls_walk *walk, const ls_gemm_kernel *kernel, int64_t channels,
                                              int64_t columns);
/* The tiles of the points of a walk: at a tile, tap i sees pixel i. */
ls_walk ls_conv_winograd_tiles(const ls_walk *walk);
ls_status ls_conv_winograd_run(ls_gemm_job *job, const ls_conv_direct *how, ls_message *why);

/* conv.c: the convolution of a call whose first operands are those of conv2d, finished. */
ls_status ls_conv_finished(const ls_call *call, const ls_conv_finish *finish, ls_message *why);
/* The same in memory of the caller, ls_conv_run_space() bytes, and with moments unless that is NULL; these only where
 * ls_conv_gathers() says so. Not for depthwise convolutions. */
bool ls_conv_gathers(const ls_call *call);
size_t ls_conv_run_space(const ls_call *call);
ls_status ls_conv_run(const ls_call *call, const ls_conv_finish *finish, const ls_conv_moments *moments, void *memory,
                      ls_message *why);

/* conv_norm.c: conv2d with its second and third outputs. */
ls_status ls_conv_with_moments(const ls_call *call, ls_message *why);

/* conv_dweight.c: store sums of each tap, `ld` elements apart, for one output channel and `channels` input channels, in
 * the order [channel][tap]. */
void ls_conv_store_taps(float *to, const float *sums, int64_t ld, int64_t channels, int64_t taps, bool accumulate);

/* The gradient for the weight. Operands as in conv.c. */
ls_status ls_conv_dweight(const ls_call *call, const ls_conv *conv, ls_message *why);

/* conv_dweight_sums.c: the gradient for the weight as tiles of sums, over parts of the points and for blocks of dw,
 * which are added up in the end. A tile is one tap of a panel of output channels and a panel of input channels. */
typedef struct ls_dweight_sums {
    const ls_conv *conv;
    const ls_operand *dw;  /* f32 */
    int64_t rows, columns; /* of a tile */
    bool within;           /* a panel that would exceed the channels begins further ahead instead */
    int64_t taps, parts;
    int64_t blocks_o, blocks_c; /* of dw */
    int64_t panels_o, panels_c; /* of a block */
    float *sums;                /* [parts][blocks_o][blocks_c][panels_o][panels_c][taps][tile] */
} ls_dweight_sums;

/* What a task computes: a block of dw, summed over a part of the points. */
typedef struct ls_dweight_block {
    int64_t part, o, c;       /* numbers */
    int64_t first_o, outputs; /* channels */
    int64_t first_c, channels;
} ls_dweight_block;

#define LS_DWEIGHT_SUM_BYTES (640 << 10) /* of a block, at most: about a third of L2 */

/* Cut dw into blocks such that fewest pixels are read: every block reads its part of dy, and its part of x `sets`
 * times. */
void ls_dweight_cut(ls_dweight_sums *sums, int64_t sets);
/* Memory for all sums, scratch slot 3 of the caller; false: out of memory. */
bool ls_dweight_take(ls_dweight_sums *sums);
int64_t ls_dweight_tasks(const ls_dweight_sums *sums);
ls_dweight_block ls_dweight_block_of(const ls_dweight_sums *sums, int64_t task);
/* The sums of a panel of a block's outputs. */
float *ls_dweight_panel(const ls_dweight_sums *sums, const ls_dweight_block *block, int64_t panel_o);
/* The first channel of a panel, `at` or, of `all`, further ahead. */
static inline int64_t ls_dweight_first(const ls_dweight_sums *sums, int64_t at, int64_t width, int64_t all)
{
    return sums->within ? smaller(at, all - width) : at;
}
/* Store sums of each tap, `distance` elements apart, for output channel o and input channels [c, c + channels). */
void ls_dweight_store(const ls_operand *dw, int64_t o, int64_t c, int64_t channels, const float *sums, int64_t distance,
                      bool accumulate);
/* Add up the parts in order and store dw, on all workers. */
void ls_dweight_add(const ls_dweight_sums *sums);

/* conv_dweight_points.c: the gradient for the weight of pixels in f32 in place, without packing, where the CPU has a
 * kernel for it whose tiles fit. */
bool ls_conv_dweight_in_place(const ls_conv *conv, const ls_call *call);
ls_status ls_conv_dweight_points(const ls_conv *conv, ls_pixels dy, ls_pixels x, const ls_operand *dw, ls_message *why);

/* conv_dweight_taps.c: the same with every pixel packed once for all taps, for pixels of contiguous channels, one group
 * and dw in f32. The first function says whether that is possible and wastes little. */
bool ls_conv_dweight_by_taps(const ls_conv *conv, const ls_operand *dw);
ls_status ls_conv_dweight_taps(const ls_conv *conv, ls_pixels dy, ls_pixels x, const ls_operand *dw, ls_message *why);

/* conv_dweight_winograd.c: the gradient for the weight of 3 x 3 taps side by side in f32 by products of terms. */
bool ls_conv_dweight_by_terms(const ls_conv *conv, const ls_call *call);
ls_status ls_conv_dweight_terms(const ls_conv *conv, ls_pixels dy, ls_pixels x, const ls_operand *dw, ls_message *why);

/* conv_depthwise.c: one channel per group on either side, pixel by pixel. Operands as in conv.c. */
ls_status ls_conv_depthwise(const ls_call *call, const ls_conv *conv, const ls_conv_finish *finish, ls_message *why);
ls_status ls_conv_depthwise_dinput(const ls_call *call, const ls_conv *conv, ls_message *why);
ls_status ls_conv_depthwise_dweight(const ls_call *call, const ls_conv *conv, ls_message *why);

#endif
