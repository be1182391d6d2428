/* conv_winograd.c - 3x3 convolutions in f32 with fewer products (kernels/winograd.h).
 *
 * The result is cut into tiles of 2 x 2 points, whose pixels overlap: 4 x 4 without stride, 5 x 5 with a stride of two.
 * A tile has as many terms, whose products with those of the weights add up to the sums that its points are made of.
 * Each sum is a matrix product, over the channels of one, two or four terms:
 *
 *     without stride    sums [16][tiles, O] = terms of pixels [16][tiles, C]      .  terms of weights [16][C, O]
 *     with a stride     sums  [9][tiles, O] = terms of pixels  [9][tiles, n * C]  .  terms of weights  [9][n * C, O]
 *
 * A task transforms the pixels of some tiles, which then stay in L2, and computes a strip of columns after the other:
 * all products, then the points that they add up to. Terms of weights are B of the job: k of the job is a segment of C
 * for each, padded to the kernel's kr, and those of a sum follow each other. A point depends on its tile alone, so
 * results do not depend on the cut.
 *
 * Terms are sums of up to four pixels, which are rounded as their largest is: so errors are those of a sum over taps
 * relative to the largest products of a tile, not to each, and a small number beside a large one may be lost. Numbers
 * beyond 8e37 may overflow, and an infinity may become NaN; a NaN reaches just the points that see it. */
#include "device/cpu/conv.h"

#include "base/config.h"
#include "base/parallel.h"
#include "kernels/winograd.h"

#include <stdatomic.h>
#include <string.h>

#define PIXEL_BYTES (384 << 10) /* terms of the pixels of a task: stay in L2 */
#define STRIP_BYTES (192 << 10) /* sums of products of a strip: these too */
#define LEAST_CHANNELS 32       /* on either side: transforms take as long as few products */
#define MOST_PRODUCTS 0.75      /* of those over taps; tiles that exist in part have all of theirs */
#define CHUNK 64                /* channels transformed at a time before they are packed: their terms stay in L1 */
#define TASKS_PER_WORKER 4
#define APART 16 /* elements between terms, so that they do not share the same few sets of L1 */

typedef struct winograd_plan {
    const ls_gemm_job *job;
    const ls_walk *walk;
    const ls_winograd_form *form;
    ls_winograd_transforms transforms;
    ls_walk tiles;  /* at a tile, tap i sees pixel i */
    int64_t count;  /* of all tiles */
    const float *b; /* panels of the weights */
    int64_t b_stride;
    int64_t channels, depth;     /* of a pixel; padded for the kernel */
    int64_t block;               /* tiles of a task: whole panels or tiles of the kernel */
    int64_t strip;               /* columns */
    int64_t parts, part_columns; /* of the columns: tasks for the same tiles */
    int64_t tasks;
    int64_t pixel_distance, product_distance; /* elements from term to term, from sum to sum */
    int64_t *offset;                          /* of slices of a row of any sum, for products in place */
    bool plain;                               /* points are stored as they are */
    ls_gathering *gatherings;                 /* [tasks], if moments are wanted */
    bool dropped;                             /* and nothing else is */
    _Atomic int64_t next;
    atomic_bool out_of_memory;
} winograd_plan;

typedef struct winograd_task {
    float *pixels;      /* [terms][block, depth], or panels [sums][block, terms of the sum, depth] */
    float *products;    /* [sums][block, strip] */
    float *chunk;       /* [terms][rows of a panel, CHUNK], to be packed */
    float *points;      /* [points that exist, strip], unless plain */
    float *nowhere;     /* [strip], for points that do not exist */
    const void **pixel; /* [terms][block] */
    void **row;         /* [block] of a sum of products */
    /* Of each point, four of a tile: where it is stored, NULL if it does not exist; and the residual. */
    void **out, **pre;
    /* The same of points that exist. */
    void **valid, **valid_pre, **shifted, **shifted_pre;
    int64_t valid_count;
} winograd_task;

static const float zeros[CHUNK];

/* Terms that make a sum. */
static int64_t terms_of(const winograd_plan *plan, int sum)
{
    return plan->form->first[sum + 1] - plan->form->first[sum];
}

/* ---- Pixels ------------------------------------------------------------------------------------------------------ */

static void locate_pixels(const winograd_plan *plan, winograd_task *task, int64_t first, int64_t count)
{
    for (int i = 0; i < plan->form->terms; i++)
        ls_walk_locate(&plan->tiles, i, first, count, task->pixel + i * plan->block);
}

/* Terms of channels [c, c + n) of a tile. */
static void transform_tile(const winograd_plan *plan, const winograd_task *task, int64_t tile, int64_t c, int64_t n,
                           float *to, int64_t distance)
{
    const float *pixel[LS_WINOGRAD_MOST_TERMS];
    for (int i = 0; i < plan->form->terms; i++) {
        const float *at = task->pixel[i * plan->block + tile];
        pixel[i] = at ? at + c : zeros;
    }
    plan->transforms.pixels(to, distance, pixel, n);
}

/* Rows of terms for products in place; those beyond `count` are read, too. */
static void transform_rows(const winograd_plan *plan, const winograd_task *task, int64_t count)
{
    int64_t gap = plan->depth - plan->channels;
    for (int64_t t = 0; t < count; t++) {
        float *row = task->pixels + t * plan->depth;
        for (int64_t c = 0; c < plan->channels; c += CHUNK)
            transform_tile(plan, task, t, c, smaller(CHUNK, plan->channels - c), row + c, plan->pixel_distance);
        for (int i = 0; gap && i < plan->form->terms; i++)
            memset(row + i * plan->pixel_distance + plan->channels, 0, (size_t)gap * sizeof *row);
    }
    size_t beyond = (size_t)((plan->block - count) * plan->depth) * sizeof(float);
    for (int i = 0; i < plan->form->terms; i++)
        memset(task->pixels + i * plan->pixel_distance + count * plan->depth, 0, beyond);
}

/* Pack channels from c on of a panel of tiles, from t on, `n` of every term: terms of a sum follow each other in its
 * panels. */
static void pack_chunk(const winograd_plan *plan, const winograd_task *task, int64_t distance, int64_t t, int64_t c,
                       int64_t n)
{
    const ls_gemm_side *side = &plan->job->kernel->a;
    const void *line[LS_GEMM_MAX_WIDTH];
    for (int i = 0; i < plan->form->sums; i++) {
        int64_t first = plan->form->first[i], terms = terms_of(plan, i);
        float *panel = task->pixels + first * plan->pixel_distance + t * terms * plan->depth;
        for (int64_t j = 0; j < terms; j++) {
            for (int64_t r = 0; r < side->width; r++) line[r] = task->chunk + (first + j) * distance + r * CHUNK;
            side->along(panel + (j * plan->depth + c) * side->width, line, n);
        }
    }
}

/* Panels of terms. */
static void transform_panels(const winograd_plan *plan, const winograd_task *task, int64_t count)
{
    const ls_gemm_kernel *kernel = plan->job->kernel;
    int64_t mr = kernel->a.width, distance = mr * CHUNK + APART, all = plan->form->terms * distance;
    for (int64_t t = 0; t < count; t += mr) {
        int64_t there = smaller(mr, count - t);
        for (int64_t c = 0; c < plan->channels; c += CHUNK) {
            int64_t n = smaller(CHUNK, plan->channels - c), padded = ls_gemm_round_up(n, kernel->kr);
            if (there < mr || padded > n) memset(task->chunk, 0, (size_t)all * sizeof(float));
            for (int64_t r = 0; r < there; r++)
                transform_tile(plan, task, t + r, c, n, task->chunk + r * CHUNK, distance);
            pack_chunk(plan, task, distance, t, c, padded);
        }
    }
}

/* ---- Products ---------------------------------------------------------------------------------------------------- */

static void multiply_in_place(const winograd_plan *plan, const winograd_task *task, int64_t count, int i,
                              const ls_gemm_panels *b, int64_t columns)
{
    const ls_gemm_kernel *kernel = plan->job->kernel;
    for (int64_t r = 0; r < plan->block; r++)
        task->row[r] = r < count ? task->products + i * plan->product_distance + r * plan->strip : NULL;
    ls_gemm_rows a = {.first = task->pixels + plan->form->first[i] * plan->pixel_distance,
                      .stride = plan->depth * (int64_t)sizeof(float),
                      .slices = terms_of(plan, i) * plan->depth / kernel->kr,
                      .offset = plan->offset};
    ls_gemm_targets to = {.row = task->row, .columns = columns, .dtype = LS_F32};
    kernel->in_place(ceil_div(count, kernel->in_place_rows), &a, b, &to);
}

static void multiply_panels(const winograd_plan *plan, const winograd_task *task, int64_t count, int i,
                            const ls_gemm_panels *b)
{
    const ls_gemm_kernel *kernel = plan->job->kernel;
    int64_t mr = kernel->a.width, nr = kernel->b.width, k = terms_of(plan, i) * plan->depth;
    for (int64_t p = 0; p < b->count; p++) {
        ls_gemm_column column = {.count = ceil_div(count, mr),
                                 .k = k,
                                 .a = task->pixels + plan->form->first[i] * plan->pixel_distance,
                                 .a_stride = mr * k,
                                 .b = (const float *)b->first + p * b->stride,
                                 .to = task->products + i * plan->product_distance + p * nr,
                                 .ldc = plan->strip};
        ls_gemm_run_column(kernel, &column);
    }
}

/* All sums of a strip of columns. */
static void multiply(const winograd_plan *plan, const winograd_task *task, int64_t count, int64_t column,
                     int64_t columns)
{
    const ls_gemm_kernel *kernel = plan->job->kernel;
    int64_t nr = kernel->b.width;
    ls_gemm_panels b = {.count = ceil_div(columns, nr), .stride = plan->b_stride};
    for (int i = 0; i < plan->form->sums; i++) {
        b.first = plan->b + column / nr * plan->b_stride + plan->form->first[i] * plan->depth * nr;
        if (kernel->in_place) multiply_in_place(plan, task, count, i, &b, columns);
        else multiply_panels(plan, task, count, i, &b);
    }
}

/* ---- Points ------------------------------------------------------------------------------------------------------ */

/* Where the points of tiles [first, first + count) go. */
static void locate_points(const winograd_plan *plan, winograd_task *task, int64_t first, int64_t count)
{
    const ls_gemm_sink *sink = &plan->job->sink;
    const int64_t *grid = plan->walk->grid, *tiles = plan->tiles.grid;
    task->valid_count = 0;
    for (int64_t t = 0; t < count; t++) {
        int64_t tile = first + t, item = tile / (tiles[0] * tiles[1]);
        int64_t y = tile / tiles[1] % tiles[0] * 2, x = tile % tiles[1] * 2, there = smaller(2, grid[1] - x);
        for (int64_t i = 0; i < 2; i++) {
            void **out = task->out + 4 * t + 2 * i, **pre = task->pre + 4 * t + 2 * i;
            out[0] = out[1] = NULL;
            if (y + i >= grid[0]) continue;
            sink->locate(sink, 0, (item * grid[0] + y + i) * grid[1] + x, there, out, pre);
            for (int64_t j = 0; j < there; j++, task->valid_count++) {
                task->valid[task->valid_count] = out[j];
                task->valid_pre[task->valid_count] = pre[j];
            }
        }
    }
}

/* Points of a strip, stored as the result or as rows to be finished. */
static void make_points(const winograd_plan *plan, const winograd_task *task, int64_t count, int64_t column,
                        int64_t columns)
{
    float *next = task->points;
    for (int64_t t = 0; t < count; t++) {
        float *point[4];
        for (int i = 0; i < 4; i++) {
            float *out = task->out[4 * t + i];
            point[i] = !out ? task->nowhere : plan->plain ? out + column : next;
            if (out && !plan->plain) next += plan->strip;
        }
        plan->transforms.points(point, task->products + t * plan->strip, plan->product_distance, columns);
    }
}

static void finish(const winograd_plan *plan, const winograd_task *task, int64_t column, int64_t columns)
{
    const ls_gemm_job *job = plan->job;
    const ls_gemm_sink *sink = &job->sink;
    int64_t out_at = column * sink->out_step * (int64_t)ls_dtype_size(sink->how.out_dtype);
    int64_t pre_at = column * sink->pre_step * (int64_t)ls_dtype_size(sink->how.pre_dtype);
    for (int64_t i = 0; i < task->valid_count; i++) task->shifted[i] = (char *)task->valid[i] + out_at;
    for (int64_t i = 0; sink->pre && i < task->valid_count; i++)
        task->shifted_pre[i] = (char *)task->valid_pre[i] + pre_at;
    ls_gemm_finish_rows(job, task->valid_count, columns, task->points, plan->strip,
                        sink->bias ? (const float *)sink->bias + column : NULL, task->shifted,
                        sink->pre ? task->shifted_pre : NULL);
}

static void gather(const winograd_plan *plan, const winograd_task *task, ls_gathering *gathering, int64_t column,
                   int64_t columns)
{
    ls_gemm_moments found;
    ls_gemm()->moments_f32(task->points, plan->strip, task->valid_count, columns, &found);
    ls_gathering_add(gathering, column, columns, &found, task->valid_count);
}

/* ---- Tasks ------------------------------------------------------------------------------------------------------- */

/* Give out parts of a block of memory; with no block, count its bytes. */
static void *take(char **memory, int64_t *bytes, int64_t size)
{
    void *part = *memory ? *memory + *bytes : NULL;
    *bytes += ls_gemm_round_up(size, 64);
    return part;
}

static int64_t lay_out(const winograd_plan *plan, char *memory, winograd_task *task)
{
    int64_t bytes = 0, number = sizeof(float), pointer = sizeof(void *), points = 4 * plan->block;
    int64_t terms = plan->form->terms, sums = plan->form->sums;
    task->pixels = take(&memory, &bytes, terms * plan->pixel_distance * number);
    task->products = take(&memory, &bytes, sums * plan->product_distance * number);
    task->chunk = take(&memory, &bytes, terms * (plan->job->kernel->a.width * CHUNK + APART) * number);
    task->points = take(&memory, &bytes, plan->plain ? 0 : points * plan->strip * number);
    task->nowhere = take(&memory, &bytes, plan->strip * number);
    task->pixel = take(&memory, &bytes, terms * plan->block * pointer);
    task->row = take(&memory, &bytes, plan->block * pointer);
    void ***lists[] = {&task->out, &task->pre, &task->valid, &task->valid_pre, &task->shifted, &task->shifted_pre};
    for (int i = 0; i < 6; i++) *lists[i] = take(&memory, &bytes, points * pointer);
    return bytes;
}

static void run_task(const winograd_plan *plan, winograd_task *task, int64_t number)
{
    const ls_gemm_kernel *kernel = plan->job->kernel;
    int64_t first = number / plan->parts * plan->block, count = smaller(plan->block, plan->count - first);
    int64_t column = number % plan->parts * plan->part_columns,
            end = smaller(plan->job->n, column + plan->part_columns);
    locate_pixels(plan, task, first, count);
    locate_points(plan, task, first, count);
    if (kernel->in_place) transform_rows(plan, task, count);
    else transform_panels(plan, task, count);
    for (; column < end; column += plan->strip) {
        int64_t columns = smaller(plan->strip, end - column);
        multiply(plan, task, count, column, columns);
        make_points(plan, task, count, column, columns);
        if (plan->gatherings) gather(plan, task, &plan->gatherings[number], column, columns);
        if (!plan->plain && !plan->dropped) finish(plan, task, column, columns);
    }
    if (plan->gatherings) plan->gatherings[number].points = task->valid_count;
}

static void run_tasks(void *arg, ls_worker worker)
{
    winograd_plan *plan = arg;
    const ls_gemm_kernel *kernel = plan->job->kernel;
    winograd_task task;
    char *memory = ls_scratch(worker, 0, (size_t)lay_out(plan, NULL, &task));
    if (!memory) {
        atomic_store(&plan->out_of_memory, true);
        return;
    }
    lay_out(plan, memory, &task);
    if (kernel->begin) kernel->begin();
    for (int64_t i; (i = atomic_fetch_add(&plan->next, 1)) < plan->tasks;) run_task(plan, &task, i);
    if (kernel->end) kernel->end();
}

/* ---- Planning ---------------------------------------------------------------------------------------------------- */

ls_walk ls_conv_winograd_tiles(const ls_walk *walk)
{
    const ls_winograd_form *form = ls_winograd_form_of(walk->stride);
    ls_walk tiles = {.pixels = walk->pixels};
    for (int d = 0; d < 2; d++) {
        tiles.grid[d] = ceil_div(walk->grid[d], LS_WINOGRAD_POINTS);
        tiles.stride[d] = LS_WINOGRAD_POINTS * form->stride;
        tiles.origin[d] = walk->origin[d] + smaller(0, 2 * walk->tap_step[d]);
        tiles.tap_step[d] = 1;
        tiles.taps[d] = form->side;
    }
    return tiles;
}

const ls_winograd_form *ls_conv_winograd_form(const ls_walk *walk, const ls_gemm_kernel *kernel, int64_t channels,
                                              int64_t columns)
{
    const ls_winograd_form *form = ls_winograd_form_of(walk->stride);
    if (!form || !ls_config_switch(LS_SETTING_WINOGRAD)) return NULL;
    double products = form->terms / (9.0 * LS_WINOGRAD_POINTS * LS_WINOGRAD_POINTS);
    for (int d = 0; d < 2; d++) {
        bool near = walk->tap_step[d] == 1 || walk->tap_step[d] == -1;
        if (walk->taps[d] != 3 || !near || !walk->grid[d]) return NULL;
        products *= (double)ls_gemm_round_up(walk->grid[d], LS_WINOGRAD_POINTS) / (double)walk->grid[d];
    }
    bool suits = kernel->panel == LS_F32 && walk->pixels.dtype == LS_F32 && channels >= LEAST_CHANNELS &&
                 columns >= LEAST_CHANNELS && products <= MOST_PRODUCTS;
    return suits ? form : NULL;
}

static void cut_tasks(winograd_plan *plan, int64_t workers)
{
    const ls_gemm_kernel *kernel = plan->job->kernel;
    int64_t mr = kernel->in_place ? kernel->in_place_rows : kernel->a.width, nr = kernel->b.width;
    int64_t number = sizeof(float), n = plan->job->n;
    plan->block = larger(2 * mr, PIXEL_BYTES / (plan->form->terms * plan->depth * number) / mr * mr);
    plan->block = smaller(plan->block, ls_gemm_round_up(plan->count, mr));
    int64_t strip = smaller(STRIP_BYTES / (plan->form->sums * plan->block * number), LS_GEMM_MAX_WIDTH);
    plan->strip = larger(nr, strip / nr * nr);
    int64_t blocks = ceil_div(plan->count, plan->block), wanted = 1;
    if (workers > 1 && blocks < TASKS_PER_WORKER * workers) wanted = ceil_div(TASKS_PER_WORKER * workers, blocks);
    plan->part_columns = larger(plan->strip, ls_gemm_round_up(ceil_div(n, wanted), plan->strip));
    plan->parts = ceil_div(n, plan->part_columns);
    plan->tasks = blocks * plan->parts;
    plan->pixel_distance = plan->block * plan->depth + APART;
    plan->product_distance = plan->block * plan->strip + APART;
}

/* Is the result just the sums, in f32? */
static bool is_plain(const ls_gemm_sink *sink)
{
    return !sink->bias && !sink->pre && sink->how.activation == LS_ACT_NONE && !sink->how.accumulate &&
           sink->how.out_dtype == LS_F32 && sink->out_step == 1;
}

/* Memory for the offsets of slices, and for moments of the points of every task. */
static bool plan_memory(winograd_plan *plan, bool moments)
{
    int64_t slices = plan->depth / plan->job->kernel->kr, most = 0; /* of a term, and of a sum */
    for (int i = 0; i < plan->form->sums; i++) most = larger(most, terms_of(plan, i) * slices);
    int64_t offsets = ls_gemm_round_up(most * (int64_t)sizeof *plan->offset, 64);
    char *memory = ls_scratch((ls_worker){0, 1}, 1,
                              (size_t)(offsets + (moments ? ls_gathering_space(plan->tasks, plan->part_columns) : 0)));
    if (!memory) return false;
    plan->offset = (int64_t *)memory;
    for (int64_t s = 0; s < most; s++)
        plan->offset[s] = ls_f32_bytes(s / slices * plan->pixel_distance + s % slices * plan->job->kernel->kr);
    if (moments) plan->gatherings = ls_gathering_begin(memory + offsets, plan->tasks, plan->part_columns, plan->job->n);
    return true;
}

ls_status ls_conv_winograd_run(ls_gemm_job *job, const ls_conv_direct *how, ls_message *why)
{
    if (!job->m || !job->n) return LS_OK;
    const ls_winograd_form *form = ls_winograd_form_of(how->walk->stride);
    winograd_plan plan = {.job = job,
                          .walk = how->walk,
                          .form = form,
                          .transforms = ls_winograd_transforms_of(form),
                          .tiles = ls_conv_winograd_tiles(how->walk),
                          .channels = how->channels,
                          .depth = job->k / form->terms,
                          .plain = is_plain(&job->sink) && !how->moments,
                          .dropped = how->moments && how->moments->only};
    plan.count = job->m / (how->walk->grid[0] * how->walk->grid[1]) * plan.tiles.grid[0] * plan.tiles.grid[1];
    int workers = ls_gemm_workers(job);
    cut_tasks(&plan, workers);
    plan.b = ls_gemm_panels_of_b(job, &plan.b_stride);
    if (!plan.b || !plan_memory(&plan, how->moments != NULL)) return ls_conv_out_of_memory(why);
    if (workers > 1) ls_parallel(run_tasks, &plan, workers);
    else run_tasks(&plan, (ls_worker){0, 1});
    if (atomic_load(&plan.out_of_memory)) return ls_conv_out_of_memory(why);
    if (how->moments) ls_gathering_merge(plan.gatherings, plan.tasks, job->n, how->moments);
    return LS_OK;
}
