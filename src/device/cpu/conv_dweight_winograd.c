/* conv_dweight_winograd.c - the gradient of a 3x3 convolution in f32 for its weight with fewer products
 * (kernels/winograd.h).
 *
 *     terms of dw [16][O, C] = sum over tiles of  terms of dy [16][tile, O]^T  .  terms of x [16][tile, C]
 *
 * All workers together transform the tiles of a chunk, slice by slice; then they multiply it, term by term, and add
 * that to the sums of the chunks before. In the end terms become taps. The order of sums depends on sizes only.
 *
 * Where a CPU sums over points in place, terms are lines of channels like the images themselves. Elsewhere they are
 * packed into panels. */
#include "device/cpu/conv.h"

#include "base/parallel.h"
#include "kernels/winograd.h"

#include <stdatomic.h>
#include <string.h>

#define TERMS LS_WINOGRAD_TERMS
#define TAPS 9
#define TERM_BYTES (384 << 10) /* of one term of a chunk of both images, packed: stays in L2 */
#define LEAST_CHUNK 192        /* tiles, packed: they share loading and storing sums */
#define MOST_CHUNK 512         /* of which a panel stays in L1 */
#define LINES_BYTES (1 << 20)  /* of all terms of a chunk of both images, in lines: these stay in L2 */
#define LEAST_LINES 64         /* tiles of such a chunk; where fewer would stay, sums come from further away, too, */
#define FAR_LINES 256          /* and share them with so many */
#define SLICE_LINES 16         /* tiles of a slice, in lines */
#define BLOCK_CHANNELS 64      /* transformed before they are packed, roughly: their terms stay in L1 */
#define APART 16               /* elements between terms, so that they do not share the same few sets of L1 */

/* One of the two images: dy, whose channels are rows of the products, or x, whose channels are columns. */
typedef struct terms_side {
    ls_walk tiles; /* at a tile, tap i sees pixel i */
    int seen;      /* pixels of a tile */
    int64_t channels;
    int64_t width, panels;    /* channels of a tile of the product; how many of these there are */
    const ls_gemm_side *side; /* that packs them */
    int64_t together;         /* panels packed at a time */
    float *terms;             /* [TERMS][panels][chunk, width], or in lines [TERMS][chunk, channels] */
    int64_t distance;         /* elements from term to term */
} terms_side;

typedef struct terms_plan {
    const ls_conv *conv;
    const ls_operand *dw;
    const ls_gemm_over_points *points; /* sums over lines; NULL: panels are multiplied by */
    const ls_gemm_kernel *kernel;
    terms_side side[2];                /* dy, x */
    int64_t count, chunk, slice_tiles; /* of all tiles, of a chunk, of a slice */
    int64_t parts, part_panels;        /* of the panels of dy: tasks of a term */
    float *sums;                       /* [TERMS][panels of dy][panels of x][tile of the product] */
    _Atomic int64_t slice, task, rows; /* next ones, counted through all chunks */
    atomic_bool out_of_memory;
} terms_plan;

static const float zeros[BLOCK_CHANNELS + LS_GEMM_MAX_WIDTH];

/* ---- Terms ------------------------------------------------------------------------------------------------------- */

/* Tiles whose pixels, or points, are known. */
typedef struct located_tiles {
    int64_t count; /* those beyond the last do not exist */
    const void *pixel[TERMS][LS_GEMM_MAX_KR];
} located_tiles;

/* Terms of channels [c, c + n) of tile r. */
static void transform(const terms_side *s, const located_tiles *tiles, int64_t r, int64_t c, int64_t n, float *to,
                      int64_t distance)
{
    const float *from[TERMS];
    for (int i = 0; i < s->seen; i++) from[i] = tiles->pixel[i][r] ? (const float *)tiles->pixel[i][r] + c : zeros;
    if (s->seen == TERMS) ls_winograd()->pixels(to, distance, from, n);
    else ls_winograd()->dpoints(to, distance, from, n);
}

/* Tiles from tile t of the chunk on, in lines. */
static void make_lines(const terms_side *s, const located_tiles *tiles, int64_t t)
{
    for (int64_t r = 0; r < tiles->count; r++)
        for (int64_t c = 0; c < s->channels; c += BLOCK_CHANNELS)
            transform(s, tiles, r, c, smaller(BLOCK_CHANNELS, s->channels - c), s->terms + (t + r) * s->channels + c,
                      s->distance);
}

/* The same in panels; tiles that do not exist are zeros. */
static void make_panels(const terms_plan *plan, const terms_side *s, const located_tiles *tiles, int64_t t,
                        float *lines)
{
    int64_t kr = plan->kernel->kr, block = s->together * s->width, apart = kr * block + APART;
    const void *line[LS_GEMM_MAX_KR];
    for (int64_t p = 0; p < s->panels; p += s->together) {
        int64_t c = p * s->width, n = smaller(block, s->channels - c);
        if (n < block || tiles->count < kr) memset(lines, 0, (size_t)(TERMS * apart) * sizeof *lines);
        for (int64_t r = 0; r < tiles->count; r++) transform(s, tiles, r, c, n, lines + r * block, apart);
        for (int i = 0; i < TERMS; i++) {
            for (int64_t r = 0; r < kr; r++) line[r] = lines + i * apart + r * block;
            s->side->across(s->terms + i * s->distance + (p * plan->chunk + t) * s->width, plan->chunk * s->width, line,
                            smaller(s->together, s->panels - p));
        }
    }
}

/* The slice that begins with tile t of the chunk that begins with tile `first` of all. */
static void make_slice(const terms_plan *plan, const terms_side *s, int64_t first, int64_t t, float *lines)
{
    located_tiles tiles = {.count = larger(0, smaller(plan->slice_tiles, plan->count - first - t))};
    for (int i = 0; i < s->seen; i++) ls_walk_locate(&s->tiles, i, first + t, tiles.count, tiles.pixel[i]);
    if (plan->points) make_lines(s, &tiles, t);
    else make_panels(plan, s, &tiles, t, lines);
}

/* ---- Products ---------------------------------------------------------------------------------------------------- */

static float *sums_of(const terms_plan *plan, int64_t term, int64_t panel_o, int64_t panel_c)
{
    int64_t tile = plan->side[0].width * plan->side[1].width;
    return plan->sums + ((term * plan->side[0].panels + panel_o) * plan->side[1].panels + panel_c) * tile;
}

/* Add the first `depth` tiles of a chunk to a tile of sums. */
static void multiply_lines(const terms_plan *plan, int64_t term, int64_t o, int64_t c, int64_t depth, bool begins)
{
    const terms_side *dy = &plan->side[0], *x = &plan->side[1];
    float *sums = sums_of(plan, term, o, c);
    ls_gemm_point_run run = {.a = (const char *)(dy->terms + term * dy->distance),
                             .b = (const char *)(x->terms + term * x->distance),
                             .count = depth};
    plan->points->sum(&(ls_gemm_points){.run = &run,
                                        .runs = 1,
                                        .a_offset = ls_f32_bytes(o * dy->width),
                                        .b_offset = ls_f32_bytes(c * x->width),
                                        .a_stride = ls_f32_bytes(dy->channels),
                                        .b_stride = ls_f32_bytes(x->channels),
                                        .from = begins ? NULL : sums,
                                        .to = sums});
}

static void multiply_panels(const terms_plan *plan, int64_t term, int64_t o, int64_t c, int64_t depth, bool begins,
                            bool ends)
{
    const terms_side *dy = &plan->side[0], *x = &plan->side[1];
    float *sums = sums_of(plan, term, o, c);
    plan->kernel->tile(depth, dy->terms + term * dy->distance + o * plan->chunk * dy->width,
                       x->terms + term * x->distance + c * plan->chunk * x->width, begins ? NULL : sums, sums,
                       ends ? x->width : 0);
}

/* A part of the rows of a term. */
static void multiply(const terms_plan *plan, int64_t task, int64_t depth, bool begins, bool ends)
{
    int64_t term = task / plan->parts, first = task % plan->parts * plan->part_panels;
    int64_t end = smaller(plan->side[0].panels, first + plan->part_panels);
    for (int64_t c = 0; c < plan->side[1].panels; c++)
        for (int64_t o = first; o < end; o++) {
            if (plan->points) multiply_lines(plan, term, o, c, depth, begins);
            else multiply_panels(plan, term, o, c, depth, begins, ends);
        }
}

/* Taps of one output channel from its terms. */
static void store_taps(const terms_plan *plan, int64_t o)
{
    int64_t rows = plan->side[0].width, columns = plan->side[1].width;
    int64_t distance = plan->side[0].panels * plan->side[1].panels * rows * columns;
    float taps[TAPS][LS_GEMM_MAX_WIDTH], *tap[TAPS];
    for (int i = 0; i < TAPS; i++) tap[i] = taps[i];
    for (int64_t c = 0; c < plan->conv->group_c; c += columns) {
        int64_t n = smaller(columns, plan->conv->group_c - c);
        ls_winograd()->dweights(tap, sums_of(plan, 0, o / rows, c / columns) + o % rows * columns, distance, n);
        ls_dweight_store(plan->dw, o, c, n, taps[0], LS_GEMM_MAX_WIDTH, plan->conv->accumulate);
    }
}

/* ---- The job ----------------------------------------------------------------------------------------------------- */

/* Of a slice before it is packed. */
static int64_t lines_bytes(const terms_plan *plan)
{
    int64_t most = 0;
    for (int s = 0; s < 2; s++) most = larger(most, plan->side[s].together * plan->side[s].width);
    return ls_f32_bytes(TERMS * (plan->slice_tiles * most + APART));
}

/* Workers take slices, tasks and rows as they come; a number beyond the present chunk is kept for the next. */
static void run(void *arg, ls_worker worker)
{
    terms_plan *plan = arg;
    const ls_gemm_kernel *kernel = plan->kernel;
    int64_t slices = ceil_div(plan->chunk, plan->slice_tiles), tasks = TERMS * plan->parts;
    float *lines = plan->points ? NULL : ls_scratch(worker, 0, (size_t)lines_bytes(plan));
    if (!lines && !plan->points) atomic_store(&plan->out_of_memory, true);
    ls_parallel_barrier(worker);
    if (atomic_load(&plan->out_of_memory)) return;
    int64_t slice = atomic_fetch_add(&plan->slice, 1), task = atomic_fetch_add(&plan->task, 1);
    if (kernel->begin) kernel->begin();
    for (int64_t first = 0, number = 0; first < plan->count; first += plan->chunk, number++) {
        int64_t left = plan->count - first;
        int64_t depth = smaller(plan->chunk, plan->points ? left : ls_gemm_round_up(left, kernel->kr));
        for (; slice < (number + 1) * slices; slice = atomic_fetch_add(&plan->slice, 1)) {
            int64_t t = slice % slices * plan->slice_tiles;
            for (int s = 0; s < 2 && t < depth; s++) make_slice(plan, &plan->side[s], first, t, lines);
        }
        ls_parallel_barrier(worker);
        for (; task < (number + 1) * tasks; task = atomic_fetch_add(&plan->task, 1))
            multiply(plan, task % tasks, depth, first == 0, first + plan->chunk >= plan->count);
        ls_parallel_barrier(worker);
    }
    if (kernel->end) kernel->end();
    for (int64_t o; (o = atomic_fetch_add(&plan->rows, 1)) < plan->conv->group_o;) store_taps(plan, o);
}

/* ---- Planning ---------------------------------------------------------------------------------------------------- */

bool ls_conv_dweight_by_terms(const ls_conv *conv, const ls_call *call)
{
    for (int i = 0; i < 2; i++)
        if (call->in[i]->dtype != LS_F32) return false;
    if (conv->compute != LS_F32 || call->out[0]->dtype != LS_F32 || conv->window.groups != 1 || !conv->n) return false;
    ls_walk walk = ls_walk_forward(conv, ls_pixels_of(call->in[1]));
    return ls_conv_winograd_suits(&walk, ls_gemm_kernels(LS_F32)[0], conv->group_c, conv->group_o);
}

/* The points of a tile, as pixels of dy that taps see; those that do not exist are beyond it. */
static ls_walk points_of(const ls_walk *tiles, ls_pixels dy)
{
    ls_walk points = *tiles;
    points.pixels = dy;
    for (int d = 0; d < 2; d++) {
        points.origin[d] = 0;
        points.taps[d] = LS_WINOGRAD_POINTS;
    }
    return points;
}

static terms_side side_of(ls_walk tiles, int64_t channels, int64_t width)
{
    return (terms_side){.tiles = tiles,
                        .seen = (int)(tiles.taps[0] * tiles.taps[1]),
                        .channels = channels,
                        .width = width,
                        .panels = ceil_div(channels, width)};
}

static void pack_sides(terms_plan *plan)
{
    plan->side[0].side = &plan->kernel->a;
    plan->side[1].side = &plan->kernel->b;
    for (int s = 0; s < 2; s++)
        plan->side[s].together = smaller(plan->side[s].panels, larger(1, BLOCK_CHANNELS / plan->side[s].width));
}

/* Chunks of whole slices, as equal as can be. */
static void cut_chunks(terms_plan *plan)
{
    int64_t tile = ls_f32_bytes(plan->conv->group_o + plan->conv->group_c);
    int64_t most = larger(LEAST_CHUNK, smaller(MOST_CHUNK, TERM_BYTES / tile));
    if (plan->points) most = LINES_BYTES / (TERMS * tile);
    if (plan->points && most < LEAST_LINES) most = FAR_LINES;
    plan->slice_tiles = plan->points ? SLICE_LINES : plan->kernel->kr;
    plan->chunk = ls_gemm_round_up(ceil_div(plan->count, ceil_div(plan->count, most)), plan->slice_tiles);
}

static bool plan_memory(terms_plan *plan)
{
    terms_side *dy = &plan->side[0], *x = &plan->side[1];
    int64_t numbers = 0;
    for (int s = 0; s < 2; s++) {
        terms_side *side = &plan->side[s];
        side->distance = (plan->points ? side->channels : side->panels * side->width) * plan->chunk + APART;
        numbers += TERMS * side->distance;
    }
    /* The last tiles of a product may be wider than what is left of a line, and read what follows: also the last. */
    dy->terms = ls_scratch((ls_worker){0, 1}, 3, (size_t)ls_f32_bytes(numbers + LS_GEMM_MAX_WIDTH));
    x->terms = dy->terms ? dy->terms + TERMS * dy->distance : NULL;
    numbers = TERMS * dy->panels * x->panels * dy->width * x->width;
    plan->sums = ls_scratch((ls_worker){0, 1}, 1, (size_t)numbers * sizeof(float));
    return dy->terms && plan->sums;
}

ls_status ls_conv_dweight_terms(const ls_conv *conv, ls_pixels dy, ls_pixels x, const ls_operand *dw, ls_message *why)
{
    const ls_gemm_over_points *points = ls_gemm()->points_f32;
    const ls_gemm_kernel *kernel = ls_gemm_choose(LS_F32, conv->group_o, conv->group_c);
    ls_walk walk = ls_walk_forward(conv, x), tiles = ls_conv_winograd_tiles(&walk);
    terms_plan plan = {.conv = conv,
                       .dw = dw,
                       .points = points,
                       .kernel = kernel,
                       .side = {side_of(points_of(&tiles, dy), conv->group_o, points ? points->rows : kernel->a.width),
                                side_of(tiles, conv->group_c, points ? points->columns : kernel->b.width)},
                       .count = conv->n * tiles.grid[0] * tiles.grid[1]};
    if (!points) pack_sides(&plan);
    cut_chunks(&plan);
    int workers = ls_parallel_width();
    plan.part_panels = ceil_div(plan.side[0].panels, smaller(plan.side[0].panels, ceil_div(4 * workers, TERMS)));
    plan.parts = ceil_div(plan.side[0].panels, plan.part_panels);
    if (!plan_memory(&plan)) return ls_conv_out_of_memory(why);
    ls_parallel(run, &plan, workers);
    return atomic_load(&plan.out_of_memory) ? ls_conv_out_of_memory(why) : LS_OK;
}
