/* conv_direct.c - convolutions whose pixels are multiplied in place, without being packed first.
 *
 * Let the rows of an image follow each other with a border of zeros in between. Then the elements that a tap sees at
 * successive points are at equal distances, whatever row they are in, and a kernel can load a tile of them knowing only
 * that distance:
 *
 *     row of the copy   0 0 | x x x x x | 0 0 | x x x x x | ...   a right border is the left border of the next row
 *     points            . . . . .  - -   . . . . .                sums of points in the border ("-") are dropped
 *
 * A task copies its part of the image into this form, which stays in L2, and multiplies it with all panels of weights.
 * Where a kernel takes short runs of points from anywhere, and these fill a row, no sums are computed in vain:
 *
 *     points            . . .|. . .      . . .|. . .             of six points: runs of three
 *
 * With a stride of s, copied rows go to s planes in turn: within a plane, points are at equal distances again. With one
 * tap, no border and no stride, the image itself has that form and nothing is copied; unless its pixels are at
 * distances at which rows of a tile drive each other out of a small L1. */
#include "device/cpu/conv.h"

#include "base/cpus.h"
#include "base/parallel.h"

#include <stdatomic.h>
#include <string.h>

#define COPY_BYTES (512 << 10)   /* of a task's copy of the image: about a quarter of L2 */
#define IMAGE_BYTES (64 << 10)   /* of its part of an image that is not copied: stays close to L1 */
#define LEAST_POINTS 256         /* of a task: they share loads of the weights */
#define STAYS_BYTES (1 << 20)    /* of their pixels, roughly, if not copied: in L2 until all weights have passed */
#define SPREAD_BYTES (384 << 10) /* the same if their rows are spread, which read as much again */
#define LEAST_USE 0.6            /* share of points that are not border */
#define LEAST_PANELS 4           /* of the weights, per task with its own points */
#define PANEL_BYTES (448 << 10)  /* of the weights, at most: read from L2 for every tile */
#define PASS_BYTES (1 << 20)     /* of panels that all points of a task pass together: they stay in L2 */
#define CACHE_LINE 64
#define OWN_BYTES (256 << 10) /* of all panels up to which every worker packs those of its own columns */
#define OWN_ROWS 8            /* times the columns: rows that they then all read, at most */
#define TASKS_PER_WORKER 4
#define MOMENTS_TASKS 8 /* least, if points allow, where moments are gathered: the same with any number of workers */

typedef struct direct_plan {
    const ls_gemm_job *job;
    const ls_walk *walk;
    const char *b; /* panels of the weights; NULL: each worker packs those of its columns */
    int64_t b_stride;
    int64_t channels, bytes;     /* of a pixel; of an element of the copy */
    int64_t low[2];              /* row and column of the image that the copy begins with; negative: in the border */
    int64_t pitch;               /* elements from pixel to pixel of the copy, or of the image */
    int64_t spread;              /* the same of pixels of an image that are copied only to be further apart; 0: not */
    int64_t width, height;       /* pixels of a row; rows of an item in one plane */
    int64_t need;                /* rows that the points of one item see */
    int64_t run;                 /* a row of points is runs of so many, without its border; 0: all points are one run */
    int64_t items, rows;         /* of a task: several whole images, or rows of the grid of one */
    int64_t parts, part_columns; /* of the columns: tasks for the same points */
    int64_t tasks;
    bool copied;
    int64_t slices;
    int64_t group, rest;      /* slices of elements that are contiguous; elements of the last one, if it is not whole */
    int64_t *offset;          /* [slices] */
    ls_gathering *gatherings; /* [tasks], if moments are wanted */
    bool dropped;             /* and nothing else is */
    _Atomic int64_t next;
    atomic_bool out_of_memory;
} direct_plan;

/* ---- Layout of the copy ------------------------------------------------------------------------------------------ */

/* Pixels, along one dimension, from the first to the last that `points` points see. */
static int64_t pixels_seen(const ls_walk *walk, int d, int64_t points)
{
    int64_t reach = (walk->taps[d] - 1) * walk->tap_step[d];
    return (points - 1) * walk->stride[d] + (reach < 0 ? -reach : reach) + 1;
}

/* How far apart rows, or images, must begin so that each can use the zeros before the next as its border, and so that
 * no two points coincide. */
static int64_t distance(const direct_plan *plan, int d, int64_t points)
{
    const ls_walk *walk = plan->walk;
    int64_t before = larger(0, -plan->low[d]), need = pixels_seen(walk, d, points);
    int64_t there = smaller(walk->pixels.size[d], plan->low[d] + need) - larger(0, plan->low[d]);
    int64_t least = larger(larger(before + there, need - before), points * walk->stride[d]);
    return ls_gemm_round_up(least, walk->stride[d]);
}

static int64_t points_in_row(const direct_plan *plan)
{
    return plan->run ? ls_gemm_round_up(plan->walk->grid[1], plan->run) : plan->width / plan->walk->stride[1];
}

/* Elements of a plane, including those that its last points see beyond it and those that the last tile reads unused. */
static int64_t plane_elements(const direct_plan *plan)
{
    int64_t beyond = larger(0, ceil_div(plan->need, plan->walk->stride[0]) - plan->height) + 1;
    int64_t tile = plan->job->kernel->in_place_rows * plan->walk->stride[1];
    int64_t numbers = ((plan->items * plan->height + beyond) * plan->width + tile) * plan->pitch;
    return ls_gemm_round_up(numbers + plan->slices * plan->job->kernel->kr, 64);
}

/* Bytes from the first point to the elements of a tap. */
static int64_t tap_offset(const direct_plan *plan, int64_t i, int64_t j)
{
    const ls_walk *walk = plan->walk;
    int64_t row = walk->origin[0] + i * walk->tap_step[0] - plan->low[0];
    int64_t column = walk->origin[1] + j * walk->tap_step[1] - plan->low[1];
    int64_t plane = row % walk->stride[0], in_plane = row / walk->stride[0];
    return (plane * plane_elements(plan) + (in_plane * plan->width + column) * plan->pitch) * plan->bytes;
}

/* ---- Copying ----------------------------------------------------------------------------------------------------- */

static ls_row_copy row_copy_of(const direct_plan *plan)
{
    const ls_pixels *p = &plan->walk->pixels;
    const ls_gemm_kernel *kernel = plan->job->kernel;
    return (ls_row_copy){.from = p,
                         .first = plan->low[1],
                         .width = plan->width,
                         .channels = plan->channels,
                         .pitch = plan->pitch,
                         .bytes = plan->bytes,
                         .convert = p->dtype == kernel->panel ? NULL : kernel->convert};
}

/* Copy what the points of rows [y, y + rows) of the grid see of images [item, item + items). */
static void copy_part(const direct_plan *plan, char *to, int64_t item, int64_t items, int64_t y)
{
    int64_t stride = plan->walk->stride[0], plane = plane_elements(plan) * plan->bytes;
    int64_t row_bytes = plan->width * plan->pitch * plan->bytes;
    const ls_row_copy how = row_copy_of(plan);
    for (int64_t q = 0; q < stride; q++) {
        char *at = to + q * plane;
        for (int64_t i = 0; i < items; i++)
            for (int64_t r = 0; r < plan->height; r++, at += row_bytes)
                ls_row_copy_run(&how, item + i, plan->low[0] + (y + r) * stride + q, at);
        memset(at, 0, (size_t)(to + (q + 1) * plane - at));
    }
}

/* ---- A task ------------------------------------------------------------------------------------------------------ */

typedef struct direct_task {
    ls_gemm_ahead ahead; /* what the next task reads of the image */
    char *copy;
    const char *first; /* point */
    char *b;           /* panels of the worker's columns, if it packs them itself */
    int64_t tiles;
    bool few;       /* tiles have as many points as a run */
    void **row;     /* of every point of the tiles; NULL: border */
    void **valid;   /* the non-NULL ones, one after the other */
    void **shifted; /* rows shifted to a column */
    /* The same for the residual, if there is one. */
    void **residual, **valid_residual, **shifted_residual;
    int64_t valid_count;
    int64_t *start;          /* of runs of points, in bytes of the copy */
    float *sums;             /* [valid_count, columns of a panel], if the kernel cannot finish them */
    ls_gathering *gathering; /* where the moments of its points go; NULL: not wanted */
    ls_gemm_moments *found;  /* [panels]: moments of the points that were multiplied last */
} direct_task;

/* What sums are added to is a residual for the kernel. */
bool ls_conv_direct_finishes(const ls_gemm_job *job)
{
    const ls_gemm_sink *sink = &job->sink;
    const ls_gemm_finish *how = &sink->how;
    bool type = how->out_dtype == LS_F32 || how->out_dtype == LS_BF16;
    bool plain = !sink->bias && !sink->pre && how->activation == LS_ACT_NONE, more = job->kernel->in_place_finishes;
    if (!type || sink->out_step != 1) return false;
    if (plain || !more || how->accumulate) return plain && (more || !how->accumulate);
    return (how->activation == LS_ACT_NONE || how->activation == LS_ACT_RELU) &&
           (!sink->pre || (how->residual && sink->pre_step == 1 && how->pre_dtype == how->out_dtype));
}

static int64_t task_points(const direct_plan *plan)
{
    int64_t rows = plan->run ? plan->rows : plan->height;
    int64_t points = plan->copied ? plan->items * rows * points_in_row(plan) : plan->rows;
    return ls_gemm_round_up(points, plan->job->kernel->in_place_rows);
}

static int64_t copy_bytes(const direct_plan *plan)
{
    int64_t numbers = plan->job->kernel->in_place_rows * plan->pitch; /* the last tile may have few rows */
    if (plan->copied) numbers = plan->walk->stride[0] * plane_elements(plan);
    else if (plan->spread) numbers = task_points(plan) * plan->spread;
    return ls_gemm_round_up(numbers * plan->bytes, 64);
}

static bool task_memory(const direct_plan *plan, ls_worker worker, direct_task *task)
{
    int64_t points = task_points(plan), pointers = ls_gemm_round_up(points * (int64_t)sizeof(void *), 64);
    int64_t sums =
        ls_conv_direct_finishes(plan->job) ? 0 : points * plan->job->kernel->b.width * (int64_t)sizeof(float);
    int64_t copy = copy_bytes(plan), panels = plan->part_columns / plan->job->kernel->b.width;
    int64_t found = plan->gatherings ? panels * (int64_t)sizeof(ls_gemm_moments) : 0;
    int64_t starts = plan->run ? pointers : 0;
    int64_t own = plan->b ? 0 : ls_gemm_round_up(panels * plan->b_stride * plan->bytes, 64);
    char *memory = ls_scratch(worker, 0, (size_t)(copy + own + 6 * pointers + starts + found + sums));
    if (!memory) return false;
    char *behind = memory + copy + own + 6 * pointers;
    *task = (direct_task){.copy = memory,
                          .b = memory + copy,
                          .start = (int64_t *)behind,
                          .found = (ls_gemm_moments *)(behind + starts),
                          .sums = (float *)(behind + starts + found)};
    void ***lists[] = {&task->row,      &task->valid,          &task->shifted,
                       &task->residual, &task->valid_residual, &task->shifted_residual};
    for (int i = 0; i < 6; i++) *lists[i] = (void **)(memory + copy + own + i * pointers);
    return true;
}

/* Where the runs of points of a row of the copy begin. */
static void locate_runs(const direct_plan *plan, int64_t row, int64_t *start)
{
    int64_t runs = points_in_row(plan) / plan->run, point = plan->walk->stride[1] * plan->pitch;
    for (int64_t i = 0; i < runs; i++)
        start[i] = (row * plan->width * plan->pitch + i * plan->run * point) * plan->bytes;
}

/* Destinations of the sums of the points. */
static void locate_points(const direct_plan *plan, direct_task *task, int64_t item, int64_t items, int64_t y,
                          int64_t rows)
{
    const ls_gemm_sink *sink = &plan->job->sink;
    const int64_t *grid = plan->walk->grid;
    int64_t line = points_in_row(plan), at = 0;
    int64_t mr = plan->job->kernel->in_place_rows;
    int64_t between = plan->run ? rows : plan->height; /* rows from image to image */
    task->tiles = ceil_div(((items - 1) * between + rows) * line, mr);
    for (int64_t i = 0; i < items; i++) {
        for (int64_t r = 0; r < between && (i + 1 < items || r < rows); r++, at += line) {
            if (plan->run) locate_runs(plan, i * plan->height + r, task->start + at / plan->run);
            int64_t there = r < rows ? grid[1] : 0;
            if (there)
                sink->locate(sink, 0, ((item + i) * grid[0] + y + r) * grid[1], there, task->row + at,
                             task->residual + at);
            for (int64_t x = there; x < line; x++) task->row[at + x] = task->residual[at + x] = NULL;
        }
    }
    for (int64_t i = at; plan->run && i < task->tiles * mr; i += plan->run) task->start[i / plan->run] = 0;
    for (; at < task->tiles * mr; at++) task->row[at] = task->residual[at] = NULL;
}

/* Collect the rows that pass through sums in f32, which are contiguous, in point order. */
static void collect_valid(const direct_plan *plan, direct_task *task)
{
    int64_t n = 0;
    for (int64_t i = 0; i < task->tiles * plan->job->kernel->in_place_rows; i++) {
        if (!task->row[i]) continue;
        task->valid[n] = task->row[i];
        if (plan->job->sink.pre) task->valid_residual[n] = task->residual[i];
        task->row[i] = task->sums + n++ * plan->job->kernel->b.width;
    }
    task->valid_count = n;
}

static void finish_panel(const direct_plan *plan, const direct_task *task, int64_t column, int64_t columns)
{
    const ls_gemm_job *job = plan->job;
    const ls_gemm_sink *sink = &job->sink;
    int64_t at = column * sink->out_step * (int64_t)ls_dtype_size(sink->how.out_dtype);
    int64_t beside_at = column * sink->pre_step * (int64_t)ls_dtype_size(sink->how.pre_dtype);
    const float *bias = sink->bias ? (const float *)sink->bias + column : NULL;
    for (int64_t i = 0; i < task->valid_count; i++) task->shifted[i] = (char *)task->valid[i] + at;
    for (int64_t i = 0; sink->pre && i < task->valid_count; i++)
        task->shifted_residual[i] = (char *)task->valid_residual[i] + beside_at;
    ls_gemm_finish_rows(job, task->valid_count, columns, task->sums, job->kernel->b.width, bias, task->shifted,
                        sink->pre ? task->shifted_residual : NULL);
}

static int64_t result_bytes(const ls_gemm_job *job)
{
    return job->m * job->n * (int64_t)ls_dtype_size(job->sink.how.out_dtype);
}

/* Is the result so large that it leaves the caches before it is read, and do its rows start on cache lines? Not where
 * it is added to what is there: that has just been read, and a store that bypasses the caches would drive it out. */
static bool may_stream(const direct_plan *plan, const direct_task *task)
{
    enum { MORE = 4 }; /* times as large, where products take longer than writing: stores to memory hold them up */
    const ls_gemm_job *job = plan->job;
    const ls_gemm_blocks *blocks = job->kernel->blocks;
    if (!blocks || !blocks->in_place_stream_bytes || job->sink.how.accumulate) return false;
    int64_t writing = blocks->products_per_byte * (int64_t)ls_dtype_size(job->sink.how.out_dtype);
    int64_t least = blocks->in_place_stream_bytes * (writing && job->k > writing ? MORE : 1);
    if (result_bytes(job) < least) return false;
    uintptr_t any = 0;
    for (int64_t i = 0; i < task->tiles * job->kernel->in_place_rows; i++) any |= (uintptr_t)task->row[i];
    return any % 64 == 0;
}

/* Are the rows of neighbouring points further apart than they are long? */
static bool rows_scattered(const direct_plan *plan, const direct_task *task)
{
    const ls_gemm_job *job = plan->job;
    int64_t bytes = job->n * (int64_t)ls_dtype_size(job->sink.how.out_dtype);
    return job->m > 1 && task->row[0] && task->row[1] && (char *)task->row[1] - (char *)task->row[0] > bytes;
}

static int64_t count_points(const direct_plan *plan, const direct_task *task)
{
    int64_t n = 0;
    for (int64_t i = 0; i < task->tiles * plan->job->kernel->in_place_rows; i++) n += task->row[i] != NULL;
    return n;
}

/* What the kernel does with sums, apart from what depends on the column. */
static ls_gemm_targets targets_of(const direct_plan *plan, direct_task *task)
{
    const ls_gemm_sink *sink = &plan->job->sink;
    ls_gemm_targets to = {.row = task->row, .dtype = LS_F32};
    if (plan->dropped) to.dtype = LS_DTYPE_NONE;
    else if (ls_conv_direct_finishes(plan->job)) {
        to.dtype = sink->how.out_dtype;
        to.scattered = rows_scattered(plan, task);
        to.stream = may_stream(plan, task);
        to.relu = sink->how.activation == LS_ACT_RELU;
        if (sink->how.accumulate) to.residual = to.row;
        else if (sink->pre) to.residual = task->residual;
    } else collect_valid(plan, task);
    return to;
}

/* Keep the moments that were found in the panels of some columns. */
static void add_moments(const direct_plan *plan, const direct_task *task, int64_t column, int64_t columns,
                        int64_t points)
{
    int64_t width = plan->job->kernel->b.width;
    for (int64_t c = 0; c < columns; c += width)
        ls_gathering_add(task->gathering, column + c, smaller(width, columns - c), &task->found[c / width], points);
}

/* Columns that the kernel multiplies at once: one panel where it cannot finish sums, else as many as stay in L2, in
 * equal passes of pairs of panels. Panels that are deep make passes too narrow to be worth it. */
static int64_t columns_at_once(const direct_plan *plan, bool apart)
{
    const ls_gemm_kernel *kernel = plan->job->kernel;
    int64_t all = plan->part_columns, width = kernel->b.width;
    if (apart) return width;
    int64_t panels = PASS_BYTES / (plan->slices * kernel->kr * width * plan->bytes);
    if (panels < LEAST_PANELS || panels * width >= all) return all;
    return ls_gemm_round_up(ceil_div(all, ceil_div(all, panels * width)), 2 * width);
}

static const char *panel_at(const direct_plan *plan, const direct_task *task, int64_t column, int64_t part)
{
    if (!plan->b) column -= part * plan->part_columns;
    return (plan->b ? plan->b : task->b) + column / plan->job->kernel->b.width * plan->b_stride * plan->bytes;
}

static void multiply(const direct_plan *plan, direct_task *task, int64_t part)
{
    const ls_gemm_job *job = plan->job;
    const ls_gemm_kernel *kernel = job->kernel;
    ls_gemm_rows a = {.first = task->first,
                      .stride = (plan->spread ? plan->spread : plan->pitch * plan->walk->stride[1]) * plan->bytes,
                      .slices = plan->slices,
                      .offset = plan->offset,
                      .start = plan->run ? task->start : NULL,
                      .group = plan->group,
                      .rest = plan->rest};
    ls_gemm_targets to = targets_of(plan, task);
    bool apart = !plan->dropped && !ls_conv_direct_finishes(job);
    int64_t end = smaller(job->n, (part + 1) * plan->part_columns), points = 0;
    if (task->gathering) {
        points = count_points(plan, task);
        to.moments = task->found;
    }
    int64_t at_once = columns_at_once(plan, apart);
    bool far = job->n * job->k * plan->bytes > PASS_BYTES;
    for (int64_t column = part * plan->part_columns; column < end; column += at_once) {
        to.columns = smaller(at_once, end - column);
        if (to.dtype != LS_DTYPE_NONE && !apart) {
            to.offset = column * (int64_t)ls_dtype_size(to.dtype);
            if (job->sink.bias) to.bias = (const float *)job->sink.bias + column;
            if (job->sink.how.scale_after) to.scale = to.bias + job->sink.how.scale_after;
        }
        ls_gemm_panels b = {.first = panel_at(plan, task, column, part),
                            .count = ceil_div(to.columns, kernel->b.width),
                            .stride = plan->b_stride};
        int64_t next = column + at_once < end ? column + at_once : part * plan->part_columns;
        if (far) b.next = panel_at(plan, task, next, part);
        a.ahead = task->ahead;
        a.ahead.lines = ceil_div(task->ahead.lines, ceil_div(end - column, at_once));
        if (a.ahead.at) task->ahead.at += a.ahead.lines * CACHE_LINE;
        task->ahead.lines -= a.ahead.lines;
        (task->few ? kernel->in_place_few : kernel->in_place)(task->tiles, &a, &b, &to);
        if (apart) finish_panel(plan, task, column, to.columns);
        if (to.moments) add_moments(plan, task, column, to.columns, points);
    }
    if (task->gathering) task->gathering->points += points;
}

/* The images and rows of the grid that a task has. */
typedef struct task_part {
    int64_t item, items, y, rows;
} task_part;

static task_part part_of(const direct_plan *plan, int64_t number)
{
    const int64_t *grid = plan->walk->grid;
    int64_t bands = ceil_div(grid[0], plan->rows), images = plan->job->m / grid[0] / grid[1];
    task_part p = {.item = number / bands * plan->items, .y = number % bands * plan->rows};
    p.items = smaller(plan->items, images - p.item);
    p.rows = smaller(plan->rows, grid[0] - p.y);
    return p;
}

/* The first point of task `number` in an image that is not copied. All have as many tiles, or one more. */
static int64_t first_point(const direct_plan *plan, int64_t number)
{
    int64_t mr = plan->job->kernel->in_place_rows, tiles = ceil_div(plan->job->m, mr);
    return smaller(plan->job->m, tiles * number / (plan->tasks / plan->parts) * mr);
}

/* Point to what task `number` reads of the image: it is prefetched while another one runs. */
static void look_ahead(const direct_plan *plan, direct_task *task, int64_t number)
{
    const ls_pixels *pixels = &plan->walk->pixels;
    int64_t bytes = (int64_t)ls_dtype_size(pixels->dtype), first, count; /* elements */
    if (!plan->copied) {
        first = first_point(plan, number) * plan->pitch;
        count = first_point(plan, number + 1) * plan->pitch - first;
    } else {
        task_part p = part_of(plan, number);
        int64_t row = larger(0, plan->low[0] + p.y * plan->walk->stride[0]);
        int64_t rows = larger(0, smaller(pixels->size[0] - row, plan->need));
        first = p.item * pixels->item + row * pixels->row;
        count = p.items > 1 ? p.items * pixels->item : rows * pixels->row;
    }
    task->ahead = (ls_gemm_ahead){pixels->data + first * bytes, count * bytes / CACHE_LINE};
}

static void run_copied(const direct_plan *plan, direct_task *task, int64_t number, int64_t part)
{
    task_part p = part_of(plan, number);
    copy_part(plan, task->copy, p.item, p.items, p.y);
    locate_points(plan, task, p.item, p.items, p.y, p.rows);
    task->first = task->copy;
    multiply(plan, task, part);
}

/* The points of task `number` of an image that needs no copy, except to spread them, or for a tile that would read past
 * its end. */
static void run_in_image(const direct_plan *plan, direct_task *task, int64_t number, int64_t part)
{
    const ls_gemm_sink *sink = &plan->job->sink;
    const ls_gemm_kernel *kernel = plan->job->kernel;
    int64_t mr = kernel->in_place_rows, stride = plan->pitch * plan->bytes;
    int64_t distance = plan->spread ? plan->spread * plan->bytes : stride;
    int64_t first = first_point(plan, number), count = first_point(plan, number + 1) - first, whole = count / mr * mr;
    const char *image = plan->walk->pixels.data + first * stride;
    /* Only the channels of this group: the image may end with them. */
    char *rest = task->copy + (plan->spread ? whole * distance : 0);
    for (int64_t i = plan->spread ? 0 : whole; i < count; i++)
        memcpy(rest + (i - whole) * distance, image + i * stride, (size_t)(plan->channels * plan->bytes));
    if (whole) {
        sink->locate(sink, 0, first, whole, task->row, task->residual);
        task->first = plan->spread ? task->copy : image;
        task->tiles = whole / mr;
        multiply(plan, task, part);
    }
    if (whole == count) return;
    task->few = kernel->in_place_few && count - whole <= kernel->in_place_run;
    if (task->few) mr = kernel->in_place_run;
    memset(rest + (count - whole) * distance, 0, (size_t)((whole + mr - count) * distance));
    sink->locate(sink, 0, first + whole, count - whole, task->row, task->residual);
    for (int64_t i = count - whole; i < kernel->in_place_rows; i++) task->row[i] = task->residual[i] = NULL;
    task->first = rest;
    task->tiles = 1;
    multiply(plan, task, part);
    task->few = false;
}

static int64_t claim(direct_plan *plan)
{
    return atomic_fetch_add(&plan->next, 1);
}

static void run_task(const direct_plan *plan, direct_task *task, int64_t number)
{
    if (plan->gatherings) task->gathering = &plan->gatherings[number];
    (plan->copied ? run_copied : run_in_image)(plan, task, number / plan->parts, number % plan->parts);
}

/* All tasks of a worker's columns. */
static void run_own(const direct_plan *plan, direct_task *task, ls_worker worker)
{
    int64_t width = plan->job->kernel->b.width, all = ceil_div(plan->job->n, width);
    int64_t panels = plan->part_columns / width;
    for (int64_t part = worker.index; part < plan->parts; part += worker.width) {
        ls_gemm_pack_panels(plan->job, part * panels, smaller(panels, all - part * panels), task->b);
        for (int64_t number = part; number < plan->tasks; number += plan->parts) run_task(plan, task, number);
    }
}

/* One task after the other, as workers have time. */
static void run_claimed(direct_plan *plan, direct_task *task, ls_worker worker)
{
    for (int64_t number = claim(plan), next; number < plan->tasks; number = next) {
        /* The next one is known early, since what it reads comes from far away, while others have enough. */
        bool early = atomic_load(&plan->next) + worker.width - 1 < plan->tasks;
        next = early ? claim(plan) : number;
        task->ahead = (ls_gemm_ahead){0};
        if (next < plan->tasks && next / plan->parts != number / plan->parts)
            look_ahead(plan, task, next / plan->parts);
        run_task(plan, task, number);
        if (!early) next = claim(plan);
    }
}

static void run_tasks(void *arg, ls_worker worker)
{
    direct_plan *plan = arg;
    direct_task task;
    if (!task_memory(plan, worker, &task)) {
        atomic_store(&plan->out_of_memory, true);
        return;
    }
    if (plan->job->kernel->begin) plan->job->kernel->begin();
    if (plan->b) run_claimed(plan, &task, worker);
    else run_own(plan, &task, worker);
    if (plan->job->kernel->end) plan->job->kernel->end();
}

/* ---- Planning ---------------------------------------------------------------------------------------------------- */

/* How many points make a task: tiles of them, rows of the grid, or images. */
static void cut_points(direct_plan *plan, int64_t images, int64_t wanted, int64_t workers, bool moments)
{
    const ls_walk *walk = plan->walk;
    int64_t pixel = plan->pitch * plan->bytes;
    int64_t most = larger(COPY_BYTES / (pixel * walk->stride[0] * walk->stride[1]), LEAST_POINTS);
    if (!plan->copied) {
        int64_t stays = plan->spread && !moments ? SPREAD_BYTES : STAYS_BYTES; /* moments do not depend on L1 */
        int64_t m = plan->job->m, mr = plan->job->kernel->in_place_rows, tiles = ceil_div(m, mr);
        int64_t least = larger(mr, smaller(LEAST_POINTS, stays / pixel));
        most = larger(least, smaller(larger(IMAGE_BYTES / pixel, least), ceil_div(m, wanted)));
        plan->items = 1;
        plan->tasks = ceil_div(m, most);
        if (!moments && plan->tasks > workers) /* as many for each */
            plan->tasks = (plan->tasks + workers / 2) / workers * workers;
        plan->tasks = smaller(plan->tasks, tiles);
        plan->rows = ceil_div(tiles, plan->tasks) * mr;
        return;
    }
    plan->width = distance(plan, 1, walk->grid[1]);
    plan->height = distance(plan, 0, walk->grid[0]) / walk->stride[0];
    int64_t per_image = plan->height * points_in_row(plan), run = plan->job->kernel->in_place_run;
    if (run && walk->grid[0] * ls_gemm_round_up(walk->grid[1], run) < per_image) plan->run = run;
    int64_t line = points_in_row(plan);
    if (plan->run) per_image = walk->grid[0] * line;
    most = larger(LEAST_POINTS, smaller(most, ceil_div(images * per_image, wanted)));
    plan->rows = walk->grid[0];
    plan->items = larger(1, smaller(images, most / per_image));
    if (per_image > most) { /* equal bands of one image */
        plan->rows = ceil_div(walk->grid[0], ceil_div(walk->grid[0], larger(1, most / line)));
        plan->height = ceil_div(pixels_seen(walk, 0, plan->rows), walk->stride[0]);
    }
    plan->need = pixels_seen(walk, 0, plan->rows);
    plan->tasks = ceil_div(images, plan->items) * ceil_div(walk->grid[0], plan->rows);
}

static void cut_tasks(direct_plan *plan, int64_t workers, bool moments)
{
    const int64_t *grid = plan->walk->grid;
    int64_t point_tasks = moments ? MOMENTS_TASKS : workers > 1 ? TASKS_PER_WORKER * workers : 1;
    cut_points(plan, plan->job->m / (grid[0] * grid[1]), point_tasks, workers, moments);
    int64_t panels = ceil_div(plan->job->n, plan->job->kernel->b.width), wanted = 1;
    if (!plan->b) wanted = workers;
    else if (workers > 1 && plan->tasks < TASKS_PER_WORKER * workers)
        wanted = ceil_div(TASKS_PER_WORKER * workers, plan->tasks);
    plan->part_columns = larger(ceil_div(panels, wanted), plan->b ? LEAST_PANELS : 1) * plan->job->kernel->b.width;
    plan->parts = ceil_div(plan->job->n, plan->part_columns);
    plan->tasks *= plan->parts;
}

/* k in the order of the weights: taps, and the elements that are contiguous in a line of them. */
static void list_slices(direct_plan *plan, int64_t taps_in_line)
{
    const ls_walk *walk = plan->walk;
    int64_t kr = plan->job->kernel->kr, contiguous = taps_in_line * plan->channels, n = 0;
    plan->group = ceil_div(contiguous, kr);
    plan->rest = contiguous % kr;
    for (int64_t i = 0; i < walk->taps[0]; i++)
        for (int64_t j = 0; j < walk->taps[1]; j += taps_in_line)
            for (int64_t number = 0; number < contiguous; number += kr)
                plan->offset[n++] = plan->copied ? tap_offset(plan, i, j) + number * plan->bytes : number * plan->bytes;
}

/* Also where pixels are the same one, or overlap: a kernel's rows are apart. */
static bool needs_copy(const ls_walk *walk, const ls_gemm_kernel *kernel, int64_t channels)
{
    const ls_pixels *p = &walk->pixels;
    return !ls_walk_is_even(walk) || p->pixel < channels || p->dtype != kernel->panel || channels % kernel->kr;
}

/* Do rows at that distance, in bytes, meet in L1? */
static bool rows_meet(const ls_gemm_kernel *kernel, int64_t distance)
{
    return kernel->blocks && kernel->blocks->meeting_bytes && distance % kernel->blocks->meeting_bytes == 0;
}

/* Columns up to which rows in place are faster than packed ones. */
static int64_t columns_in_place(const ls_walk *walk, const ls_gemm_kernel *kernel)
{
    if (!rows_meet(kernel, walk->pixels.pixel * (int64_t)ls_dtype_size(kernel->panel))) return kernel->in_place_columns;
    return smaller(kernel->in_place_columns, kernel->blocks->meeting_columns - 1);
}

/* Keep pixels apart that meet: in the image, if L1 has lines for less than two of three rows of a tile, or is not
 * known; a copy can be made so anyway. */
static void keep_apart(direct_plan *plan, bool joined)
{
    const ls_gemm_kernel *kernel = plan->job->kernel;
    if (!rows_meet(kernel, plan->pitch * plan->walk->stride[1] * plan->bytes)) return;
    int64_t line = CACHE_LINE / plan->bytes;
    if (plan->copied && !joined) plan->pitch += line;
    if (plan->copied || 2 * kernel->in_place_rows * kernel->blocks->meeting_bytes <= 3 * ls_cpus_l1()) return;
    plan->spread = ls_gemm_round_up(plan->channels, line) + line;
    if (rows_meet(kernel, plan->spread * plan->bytes)) plan->spread += line;
}

/* Where the image, or the copy of it, begins. */
static void find_low(direct_plan *plan)
{
    const ls_walk *walk = plan->walk;
    for (int d = 0; d < 2; d++) plan->low[d] = walk->origin[d] + smaller(0, (walk->taps[d] - 1) * walk->tap_step[d]);
}

bool ls_conv_direct_suits(const ls_walk *walk, const ls_gemm_kernel *kernel, int64_t channels, int64_t columns)
{
    int64_t taps = walk->taps[0] * walk->taps[1];
    int64_t column = taps * channels * (int64_t)ls_dtype_size(kernel->panel);
    if (!kernel->in_place || column * kernel->b.width > PANEL_BYTES || !column || !walk->grid[0] || !walk->grid[1])
        return false;
    if (!needs_copy(walk, kernel, channels)) return columns <= columns_in_place(walk, kernel);
    if (columns > kernel->copied_columns) return false;
    direct_plan plan = {.walk = walk};
    find_low(&plan);
    plan.width = distance(&plan, 1, walk->grid[1]);
    double points = (double)(points_in_row(&plan) * distance(&plan, 0, walk->grid[0]) / walk->stride[0]);
    return (double)(walk->grid[0] * walk->grid[1]) >= LEAST_USE * points;
}

/* Memory for the offsets of slices, and for moments of the points of every task. */
static bool plan_memory(direct_plan *plan, bool moments)
{
    int64_t offsets = ls_gemm_round_up(plan->slices * (int64_t)sizeof *plan->offset, 64);
    char *memory = ls_scratch((ls_worker){0, 1}, 1,
                              (size_t)(offsets + (moments ? ls_gathering_space(plan->tasks, plan->part_columns) : 0)));
    if (!memory) return false;
    plan->offset = (int64_t *)memory;
    if (moments) plan->gatherings = ls_gathering_begin(memory + offsets, plan->tasks, plan->part_columns, plan->job->n);
    return true;
}

/* Should every worker pack the panels of its own columns? Few of them it packs sooner than it gets them from another
 * core. But all workers must have as many, and each reads all rows: these must stay in L2, and not be many more than
 * the columns. */
static bool packs_own(const direct_plan *plan, int workers)
{
    const ls_gemm_job *job = plan->job;
    int64_t panels = ceil_div(job->n, job->kernel->b.width);
    return workers > 1 && panels % workers == 0 && ls_gemm_packs_b(job) && job->m <= OWN_ROWS * job->n &&
           panels * ls_gemm_panel_stride(job) * plan->bytes <= OWN_BYTES &&
           job->m * job->k * plan->bytes <= STAYS_BYTES;
}

ls_status ls_conv_direct_run(ls_gemm_job *job, const ls_conv_direct *how, ls_message *why)
{
    if (!job->m || !job->n) return LS_OK;
    const ls_gemm_kernel *kernel = job->kernel;
    direct_plan plan = {.job = job,
                        .walk = how->walk,
                        .channels = how->channels,
                        .bytes = (int64_t)ls_dtype_size(kernel->panel),
                        .pitch = how->taps_in_line > 1 ? how->channels : ls_gemm_round_up(how->channels, kernel->kr),
                        .copied = needs_copy(how->walk, kernel, how->channels),
                        .slices = job->k / kernel->kr,
                        .dropped = how->moments && how->moments->only};
    if (!plan.copied) plan.pitch = how->walk->pixels.pixel;
    keep_apart(&plan, how->taps_in_line > 1);
    find_low(&plan);
    int workers = ls_gemm_workers(job);
    if (packs_own(&plan, workers)) plan.b_stride = ls_gemm_panel_stride(job);
    else if (!(plan.b = ls_gemm_panels_of_b(job, &plan.b_stride))) return ls_conv_out_of_memory(why);
    cut_tasks(&plan, workers, how->moments != NULL);
    if (!plan_memory(&plan, how->moments != NULL)) return ls_conv_out_of_memory(why);
    list_slices(&plan, how->taps_in_line);
    if (workers > 1) ls_parallel(run_tasks, &plan, workers);
    else run_tasks(&plan, (ls_worker){0, 1});
    if (atomic_load(&plan.out_of_memory)) return ls_conv_out_of_memory(why);
    if (how->moments) ls_gathering_merge(plan.gatherings, plan.tasks, job->n, how->moments);
    return LS_OK;
}
