/* conv_dweight_winograd.c - the gradient of a 3x3 convolution in f32 for its weight with fewer products
 * (kernels/winograd.h).
 *
 *     terms of dw [16][O, C] = sum over tiles of  terms of dy [16][tile, O]^T  .  terms of x [16][tile, C]
 *
 * Tiles are cut into parts that have sums of their own, and a part into chunks. A chunk is transformed, slice by slice,
 * then multiplied, term by term, and added to the sums of the chunks before. A crew does that: one worker alone, who
 * waits for nobody and whose chunk and sums stay in its L2, or, where parts are too few for that, all workers together,
 * a part after the other. In the end parts are added in order, and terms become taps. What is summed in which order
 * depends on sizes only.
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
#define SUM_BYTES (1 << 20)    /* of a part, roughly: these stay in L2, too; there is one part if they cannot */
#define LEAST_PART 512         /* tiles whose sums are worth adding up later */
#define MOST_PARTS 16          /* a power of two, since the workers often are one, too */
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
    int64_t distance;         /* elements from term to term */
} terms_side;

/* Who sum over a part. */
typedef struct terms_crew {
    float *terms[2];             /* of dy and x: [TERMS][panels][chunk, width], or in lines [TERMS][chunk, channels] */
    _Atomic int64_t slice, task; /* next ones, counted through all its rounds */
} terms_crew;

typedef struct terms_plan {
    const ls_conv *conv;
    const ls_operand *dw;
    const ls_gemm_over_points *points; /* sums over lines; NULL: panels are multiplied by */
    const ls_gemm_kernel *kernel;
    terms_side side[2];                      /* dy, x */
    int64_t count, part, chunk, slice_tiles; /* of all tiles, of a part, of a chunk, of a slice */
    int64_t parts;                           /* of the tiles */
    int64_t shares, share_panels;            /* of the panels of dy: tasks of a term */
    float *sums;                             /* [parts][TERMS][panels of dy][panels of x][tile of the product] */
    bool alone;                              /* every worker is a crew */
    terms_crew all;                          /* otherwise */
    _Atomic int64_t next_part, row;
    atomic_bool out_of_memory;
} terms_plan;

/* A worker in its crew. */
typedef struct terms_hand {
    terms_crew *crew;
    ls_worker worker;
    float *lines;        /* a slice before it is packed */
    int64_t round;       /* chunks that the crew has done */
    int64_t slice, task; /* to be done next, in this round or a later one */
} terms_hand;

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
static void make_lines(const terms_side *s, const located_tiles *tiles, int64_t t, float *terms)
{
    for (int64_t r = 0; r < tiles->count; r++)
        for (int64_t c = 0; c < s->channels; c += BLOCK_CHANNELS)
            transform(s, tiles, r, c, smaller(BLOCK_CHANNELS, s->channels - c), terms + (t + r) * s->channels + c,
                      s->distance);
}

/* The same in panels; tiles that do not exist are zeros. */
static void make_panels(const terms_plan *plan, const terms_side *s, const located_tiles *tiles, int64_t t,
                        float *terms, float *lines)
{
    int64_t kr = plan->kernel->kr, block = s->together * s->width, apart = kr * block + APART;
    const void *line[LS_GEMM_MAX_KR];
    for (int64_t p = 0; p < s->panels; p += s->together) {
        int64_t c = p * s->width, n = smaller(block, s->channels - c);
        if (n < block || tiles->count < kr) memset(lines, 0, (size_t)(TERMS * apart) * sizeof *lines);
        for (int64_t r = 0; r < tiles->count; r++) transform(s, tiles, r, c, n, lines + r * block, apart);
        for (int i = 0; i < TERMS; i++) {
            for (int64_t r = 0; r < kr; r++) line[r] = lines + i * apart + r * block;
            s->side->across(terms + i * s->distance + (p * plan->chunk + t) * s->width, plan->chunk * s->width, line,
                            smaller(s->together, s->panels - p));
        }
    }
}

/* Tiles [first, end) of an image, from tile t of the chunk on; in panels, what is left of these are zeros. */
static void make_slice(const terms_plan *plan, int side, int64_t first, int64_t end, int64_t t, const terms_hand *hand)
{
    const terms_side *s = &plan->side[side];
    float *terms = hand->crew->terms[side];
    located_tiles tiles = {.count = end - first};
    for (int i = 0; i < s->seen; i++) ls_walk_locate(&s->tiles, i, first, tiles.count, tiles.pixel[i]);
    if (plan->points) make_lines(s, &tiles, t, terms);
    else make_panels(plan, s, &tiles, t, terms, hand->lines);
}

/* ---- Products ---------------------------------------------------------------------------------------------------- */

/* A chunk that has been transformed. */
typedef struct terms_chunk {
    const float *terms[2];
    int64_t part, depth; /* what it belongs to; its tiles */
    bool begins, ends;   /* the part */
} terms_chunk;

static int64_t sums_of_term(const terms_plan *plan)
{
    return plan->side[0].panels * plan->side[0].width * plan->side[1].panels * plan->side[1].width;
}

static float *sums_of(const terms_plan *plan, int64_t part, int64_t term, int64_t panel_o, int64_t panel_c)
{
    int64_t tile = plan->side[0].width * plan->side[1].width;
    return plan->sums + (part * TERMS + term) * sums_of_term(plan) + (panel_o * plan->side[1].panels + panel_c) * tile;
}

/* Add a chunk to a tile of sums. */
static void multiply_lines(const terms_plan *plan, const terms_chunk *chunk, int64_t term, int64_t o, int64_t c)
{
    const terms_side *dy = &plan->side[0], *x = &plan->side[1];
    float *sums = sums_of(plan, chunk->part, term, o, c);
    ls_gemm_point_run run = {.a = (const char *)(chunk->terms[0] + term * dy->distance),
                             .b = (const char *)(chunk->terms[1] + term * x->distance),
                             .count = chunk->depth};
    plan->points->sum(&(ls_gemm_points){.run = &run,
                                        .runs = 1,
                                        .rows = plan->points->rows,
                                        .columns = plan->points->columns,
                                        .a_offset = ls_f32_bytes(o * dy->width),
                                        .b_offset = ls_f32_bytes(c * x->width),
                                        .a_stride = ls_f32_bytes(dy->channels),
                                        .b_stride = ls_f32_bytes(x->channels),
                                        .from = chunk->begins ? NULL : sums,
                                        .to = sums});
}

static void multiply_panels(const terms_plan *plan, const terms_chunk *chunk, int64_t term, int64_t o, int64_t c)
{
    const terms_side *dy = &plan->side[0], *x = &plan->side[1];
    float *sums = sums_of(plan, chunk->part, term, o, c);
    plan->kernel->tile(ls_gemm_round_up(chunk->depth, plan->kernel->kr),
                       chunk->terms[0] + term * dy->distance + o * plan->chunk * dy->width,
                       chunk->terms[1] + term * x->distance + c * plan->chunk * x->width, chunk->begins ? NULL : sums,
                       sums, chunk->ends ? x->width : 0);
}

/* A share of the rows of a term. */
static void multiply(const terms_plan *plan, const terms_chunk *chunk, int64_t task)
{
    int64_t term = task / plan->shares, first = task % plan->shares * plan->share_panels;
    int64_t end = smaller(plan->side[0].panels, first + plan->share_panels);
    for (int64_t c = 0; c < plan->side[1].panels; c++)
        for (int64_t o = first; o < end; o++)
            (plan->points ? multiply_lines : multiply_panels)(plan, chunk, term, o, c);
}

/* ---- Results ----------------------------------------------------------------------------------------------------- */

/* Add to this worker's share of the sums of the first part those of the others, in order. */
static void add_parts(const terms_plan *plan, ls_worker worker)
{
    ls_gemm_finish add = {.accumulate = true, .out_dtype = LS_F32};
    int64_t begin, end, all = TERMS * sums_of_term(plan);
    ls_worker_range(worker, all, LS_GEMM_MAX_WIDTH, &begin, &end);
    void *total = plan->sums + begin;
    for (int64_t part = 1; part < plan->parts && begin < end; part++)
        ls_gemm()->finish_f32(&add, 1, end - begin, plan->sums + part * all + begin, 0, NULL, &total, NULL);
}

/* Taps of one output channel from its terms. */
static void store_taps(const terms_plan *plan, int64_t o)
{
    int64_t rows = plan->side[0].width, columns = plan->side[1].width;
    float taps[TAPS][LS_GEMM_MAX_WIDTH], *tap[TAPS];
    for (int i = 0; i < TAPS; i++) tap[i] = taps[i];
    for (int64_t c = 0; c < plan->conv->group_c; c += columns) {
        int64_t n = smaller(columns, plan->conv->group_c - c);
        const float *terms = sums_of(plan, 0, 0, o / rows, c / columns) + o % rows * columns;
        ls_winograd()->dweights(tap, terms, sums_of_term(plan), n);
        ls_dweight_store(plan->dw, o, c, n, taps[0], LS_GEMM_MAX_WIDTH, plan->conv->accumulate);
    }
}

/* ---- Crews ------------------------------------------------------------------------------------------------------- */

static void meet(const terms_plan *plan, const terms_hand *hand)
{
    if (!plan->alone) ls_parallel_barrier(hand->worker);
}

/* Hands take slices and tasks as they come; a number beyond the present round is kept for the next. */
static void sum_part(const terms_plan *plan, terms_hand *hand, int64_t part)
{
    terms_crew *crew = hand->crew;
    int64_t slices = ceil_div(plan->chunk, plan->slice_tiles), tasks = TERMS * plan->shares;
    int64_t begin = part * plan->part, end = smaller(plan->count, begin + plan->part);
    for (int64_t first = begin; first < end; first += plan->chunk, hand->round++) {
        int64_t last = smaller(end, first + plan->chunk);
        for (; hand->slice < (hand->round + 1) * slices; hand->slice = atomic_fetch_add(&crew->slice, 1)) {
            int64_t t = hand->slice % slices * plan->slice_tiles;
            for (int s = 0; s < 2 && first + t < last; s++)
                make_slice(plan, s, first + t, smaller(last, first + t + plan->slice_tiles), t, hand);
        }
        meet(plan, hand);
        terms_chunk chunk = {{crew->terms[0], crew->terms[1]}, part, last - first, first == begin, last == end};
        for (; hand->task < (hand->round + 1) * tasks; hand->task = atomic_fetch_add(&crew->task, 1))
            multiply(plan, &chunk, hand->task % tasks);
        meet(plan, hand);
    }
}

/* Of a slice before it is packed. */
static int64_t lines_bytes(const terms_plan *plan)
{
    int64_t most = 0;
    for (int s = 0; s < 2; s++) most = larger(most, plan->side[s].together * plan->side[s].width);
    return ls_f32_bytes(TERMS * (plan->slice_tiles * most + APART));
}

/* The last tiles of a product may be wider than what is left of a line, and read what follows: also the last. */
static int64_t terms_bytes(const terms_plan *plan)
{
    return ls_f32_bytes(TERMS * (plan->side[0].distance + plan->side[1].distance) + LS_GEMM_MAX_WIDTH);
}

/* Scratch of the calling worker for the terms of a crew, and for the lines of a hand. */
static bool crew_memory(const terms_plan *plan, ls_worker worker, terms_crew *crew)
{
    crew->terms[0] = ls_scratch(worker, 3, (size_t)terms_bytes(plan));
    if (crew->terms[0]) crew->terms[1] = crew->terms[0] + TERMS * plan->side[0].distance;
    return crew->terms[0] != NULL;
}

static bool hand_memory(const terms_plan *plan, terms_hand *hand)
{
    if (plan->points) return true;
    hand->lines = ls_scratch(hand->worker, 0, (size_t)lines_bytes(plan));
    return hand->lines != NULL;
}

static void run(void *arg, ls_worker worker)
{
    terms_plan *plan = arg;
    terms_crew own = {.terms = {NULL}};
    terms_hand hand = {.crew = plan->alone ? &own : &plan->all, .worker = worker};
    if (!hand_memory(plan, &hand) || (plan->alone && !crew_memory(plan, worker, &own)))
        atomic_store(&plan->out_of_memory, true);
    ls_parallel_barrier(worker);
    if (atomic_load(&plan->out_of_memory)) return;
    hand.slice = atomic_fetch_add(&hand.crew->slice, 1);
    hand.task = atomic_fetch_add(&hand.crew->task, 1);
    if (plan->kernel->begin) plan->kernel->begin();
    if (plan->alone)
        for (int64_t part; (part = atomic_fetch_add(&plan->next_part, 1)) < plan->parts;) sum_part(plan, &hand, part);
    else
        for (int64_t part = 0; part < plan->parts; part++) sum_part(plan, &hand, part);
    if (plan->kernel->end) plan->kernel->end();
    ls_parallel_barrier(worker);
    if (plan->parts > 1) {
        add_parts(plan, worker);
        ls_parallel_barrier(worker);
    }
    for (int64_t o; (o = atomic_fetch_add(&plan->row, 1)) < plan->conv->group_o;) store_taps(plan, o);
}

/* ---- Planning ---------------------------------------------------------------------------------------------------- */

bool ls_conv_dweight_by_terms(const ls_conv *conv, const ls_call *call)
{
    for (int i = 0; i < 2; i++)
        if (call->in[i]->dtype != LS_F32) return false;
    if (conv->compute != LS_F32 || call->out[0]->dtype != LS_F32 || conv->window.groups != 1 || !conv->n) return false;
    ls_walk walk = ls_walk_forward(conv, ls_pixels_of(call->in[1]));
    return ls_conv_winograd_form(&walk, ls_gemm_kernels(LS_F32)[0], conv->group_c, conv->group_o) ==
           &ls_winograd_unstrided;
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

static void cut_parts(terms_plan *plan)
{
    int64_t parts = MOST_PARTS;
    if (ls_f32_bytes(TERMS * plan->conv->group_o * plan->conv->group_c) > SUM_BYTES) parts = 1;
    while (parts > 1 && plan->count / parts < LEAST_PART) parts /= 2;
    plan->slice_tiles = plan->points ? SLICE_LINES : plan->kernel->kr;
    plan->part = ceil_div(plan->count, parts);
    plan->parts = ceil_div(plan->count, plan->part);
}

/* Chunks of whole slices, as equal as can be. */
static void cut_chunks(terms_plan *plan)
{
    int64_t tile = ls_f32_bytes(plan->conv->group_o + plan->conv->group_c);
    int64_t most = larger(LEAST_CHUNK, smaller(MOST_CHUNK, TERM_BYTES / tile));
    if (plan->points) most = LINES_BYTES / (TERMS * tile);
    if (plan->points && most < LEAST_LINES) most = FAR_LINES;
    plan->chunk = ls_gemm_round_up(ceil_div(plan->part, ceil_div(plan->part, most)), plan->slice_tiles);
    for (int s = 0; s < 2; s++) {
        terms_side *side = &plan->side[s];
        side->distance = (plan->points ? side->channels : side->panels * side->width) * plan->chunk + APART;
    }
}

/* Workers are alone if parts keep most of them busy. */
static void form_crews(terms_plan *plan, int64_t workers)
{
    int64_t rows = plan->side[0].panels;
    plan->alone = 4 * plan->parts >= 3 * workers * ceil_div(plan->parts, workers);
    plan->share_panels = plan->alone ? rows : ceil_div(rows, smaller(rows, ceil_div(4 * workers, TERMS)));
    plan->shares = ceil_div(rows, plan->share_panels);
}

static bool plan_memory(terms_plan *plan)
{
    plan->sums = ls_scratch((ls_worker){0, 1}, 1, (size_t)ls_f32_bytes(plan->parts * TERMS * sums_of_term(plan)));
    return plan->sums && (plan->alone || crew_memory(plan, (ls_worker){0, 1}, &plan->all));
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
    int workers = ls_parallel_width();
    cut_parts(&plan);
    cut_chunks(&plan);
    form_crews(&plan, workers);
    if (!plan_memory(&plan)) return ls_conv_out_of_memory(why);
    ls_parallel(run, &plan, workers);
    return atomic_load(&plan.out_of_memory) ? ls_conv_out_of_memory(why) : LS_OK;
}
