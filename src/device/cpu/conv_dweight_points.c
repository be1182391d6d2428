/* conv_dweight_points.c - the gradient of a convolution for its weight from pixels in place.
 *
 *     dw [O, tap, C] = sum over points p of  dy [p, O]^T  x [pixel of the tap at p, C]
 *
 * Channels are contiguous in both images: a kernel reads rows and columns of a product of two pixels where they are. A
 * tap sees a row of dy as one run of points, at equal distances in both images; points that see the border are left
 * out. So nothing is packed, and no product is with zeros of a border.
 *
 * Where pixels of x have few channels, the numbers under a row of taps are rows of the product instead, and O its
 * columns, which fill tiles better. For that, rows of x are copied with their border, whose zeros are multiplied.
 *
 * A task sums over a part of the rows of dy, a chunk that stays in L2 at a time (unless taps are far apart), and keeps
 * the sums of its block of dw in L2, too. The next chunk is fetched meanwhile. */
#include "device/cpu/conv.h"

#include "base/parallel.h"

#include <stdatomic.h>
#include <string.h>

#define CHUNK_BYTES (512 << 10) /* of both images, roughly */
#define LEAST_CHUNK 128         /* points, roughly: they share loading and storing sums */
#define LEAST_PART 1536         /* points whose sums are worth adding up later */
#define MOST_TASKS 16           /* unless there are more blocks */
#define PAGE_BYTES 4096         /* of memory: rows of tiles that are so far apart are rather packed */

typedef struct points_plan {
    const ls_conv *conv;
    ls_dweight_sums sums;
    const ls_gemm_over_points *kernel;
    ls_walk walk; /* of y over x */
    ls_pixels dy;
    int64_t rows, part, chunk; /* of dy, in all images; of a part; of a chunk */
    /* Where pixels of x have few channels: */
    int64_t numbers;      /* under a row of taps; else 0 */
    int64_t line, height; /* numbers of a copied row; rows that a chunk sees of an image */
    ls_conv turned;       /* its outputs are these numbers, its channels the outputs, its taps those of a column */
    ls_operand turned_dw;
    _Atomic int64_t next;
    atomic_bool out_of_memory;
} points_plan;

/* Points along one dimension that see a pixel through a tap: [*begin, *end). */
static void points_inside(const ls_walk *walk, int d, int64_t tap, int64_t *begin, int64_t *end)
{
    int64_t at = walk->origin[d] + tap * walk->tap_step[d], stride = walk->stride[d];
    *begin = at < 0 ? ceil_div(-at, stride) : 0;
    *end = at < walk->pixels.size[d] ? smaller(walk->grid[d], ceil_div(walk->pixels.size[d] - at, stride)) : 0;
}

/* The runs of points that a tap sees in rows [first, first + rows) of dy; runs that continue each other are one. */
static int64_t list_runs(const points_plan *plan, int64_t tap, int64_t first, int64_t rows, ls_gemm_point_run *run)
{
    const ls_walk *walk = &plan->walk;
    const ls_pixels *x = &walk->pixels, *dy = &plan->dy;
    int64_t i = tap / walk->taps[1], j = tap % walk->taps[1], x_begin, x_end, y_begin, y_end, n = 0;
    points_inside(walk, 0, i, &y_begin, &y_end);
    points_inside(walk, 1, j, &x_begin, &x_end);
    int64_t a_stride = ls_f32_bytes(dy->pixel), b_stride = ls_f32_bytes(x->pixel * walk->stride[1]);
    for (int64_t r = first; r < first + rows && x_begin < x_end; r++) {
        int64_t item = r / walk->grid[0], y = r % walk->grid[0];
        if (y < y_begin || y >= y_end) continue;
        int64_t row = y * walk->stride[0] + walk->origin[0] + i * walk->tap_step[0];
        int64_t column = x_begin * walk->stride[1] + walk->origin[1] + j * walk->tap_step[1];
        const char *a = dy->data + ls_f32_bytes(item * dy->item + y * dy->row + x_begin * dy->pixel);
        const char *b = x->data + ls_f32_bytes(item * x->item + row * x->row + column * x->pixel);
        ls_gemm_point_run *last = run + n - 1;
        if (n && last->a + last->count * a_stride == a && last->b + last->count * b_stride == b)
            last->count += x_end - x_begin;
        else run[n++] = (ls_gemm_point_run){a, b, x_end - x_begin};
    }
    return n;
}

/* ---- Few channels ------------------------------------------------------------------------------------------------ */

/* What the points of rows [first, first + rows) of dy see: one image after the other, each from the first row that its
 * first points see. */
static void copy_rows(const points_plan *plan, int64_t first, int64_t rows, float *to)
{
    const ls_walk *walk = &plan->walk;
    int64_t reach = (walk->taps[0] - 1) * walk->tap_step[0] + 1, channels = plan->conv->group_c;
    const ls_row_copy how = {.from = &walk->pixels,
                             .first = walk->origin[1],
                             .width = plan->line / channels,
                             .channels = channels,
                             .pitch = channels,
                             .bytes = sizeof(float)};
    for (int64_t i = 0, count; i < rows; i += count, to += plan->height * plan->line) {
        int64_t item = (first + i) / walk->grid[0], y = (first + i) % walk->grid[0];
        count = smaller(rows - i, walk->grid[0] - y);
        for (int64_t row = 0; row < (count - 1) * walk->stride[0] + reach; row++)
            ls_row_copy_run(&how, item, y * walk->stride[0] + walk->origin[0] + row, to + row * plan->line);
    }
}

/* The runs of points that row `tap` of the taps sees in those rows of dy. */
static int64_t list_copied(const points_plan *plan, int64_t tap, int64_t first, int64_t rows, const float *copy,
                           ls_gemm_point_run *run)
{
    const ls_pixels *dy = &plan->dy;
    const ls_walk *walk = &plan->walk;
    for (int64_t i = 0; i < rows; i++) {
        int64_t item = (first + i) / walk->grid[0], y = (first + i) % walk->grid[0],
                image = item - first / walk->grid[0];
        int64_t row = (image ? y : i) * walk->stride[0] + tap * walk->tap_step[0];
        const char *at = dy->data + ls_f32_bytes(item * dy->item + y * dy->row);
        run[i] =
            (ls_gemm_point_run){(const char *)(copy + (image * plan->height + row) * plan->line), at, walk->grid[1]};
    }
    return rows;
}

/* ---- Fetching ---------------------------------------------------------------------------------------------------- */

/* Rows [first, first + rows) of an image, all images counted through, if there are no gaps in it. */
static ls_gemm_ahead rows_of(const ls_pixels *p, int64_t first, int64_t rows)
{
    if (p->item != p->size[0] * p->row || rows <= 0) return (ls_gemm_ahead){0};
    return (ls_gemm_ahead){p->data + ls_f32_bytes(first * p->row), ls_f32_bytes(rows * p->row) / 64};
}

/* Take what one of `calls` calls has to fetch of both images, `most` lines or fewer: all calls the same, because a core
 * that waits for many lines at once does not multiply. */
static ls_gemm_ahead take_share(ls_gemm_ahead both[2], int64_t calls, int64_t most)
{
    int64_t share = smaller(most, ceil_div(both[0].lines + both[1].lines, calls));
    ls_gemm_ahead *from = &both[both[0].lines ? 0 : 1], taken = {from->at, smaller(from->lines, share)};
    if (!taken.lines) return taken;
    from->at += taken.lines * 64;
    from->lines -= taken.lines;
    return taken;
}

/* ---- A task ------------------------------------------------------------------------------------------------------ */

/* Memory of a worker. */
typedef struct worker_room {
    ls_gemm_point_run *run;
    float *copy;
} worker_room;

typedef struct chunk {
    int64_t first, rows;
    bool begins;            /* the sums of the task */
    ls_gemm_ahead ahead[2]; /* the next chunk */
} chunk;

static void multiply_chunk(const points_plan *plan, const ls_dweight_block *b, chunk *now, const worker_room *room)
{
    const ls_dweight_sums *s = &plan->sums;
    ls_gemm_point_run *run = room->run;
    int64_t points = now->rows * plan->walk.grid[1], tile = s->rows * s->columns;
    int64_t calls = s->taps * ceil_div(b->channels, s->columns) * ceil_div(b->outputs, s->rows); /* left */
    const bool turned = plan->numbers > 0;
    int64_t dy_stride = ls_f32_bytes(plan->dy.pixel);
    int64_t x_pixel = turned ? plan->conv->group_c : plan->walk.pixels.pixel;
    int64_t x_stride = ls_f32_bytes(x_pixel * plan->walk.stride[1]);
    ls_gemm_points p = {.run = run,
                        .rows = (int)s->rows,
                        .columns = (int)s->columns,
                        .a_stride = turned ? x_stride : dy_stride,
                        .b_stride = turned ? dy_stride : x_stride};
    if (turned) copy_rows(plan, now->first, now->rows, room->copy);
    for (int64_t tap = 0; tap < s->taps; tap++) {
        p.runs = turned ? list_copied(plan, tap, now->first, now->rows, room->copy, run)
                        : list_runs(plan, tap, now->first, now->rows, run);
        for (int64_t c = 0; c < b->channels; c += s->columns) {
            p.b_offset = ls_f32_bytes(ls_dweight_first(s, b->first_c + c, s->columns, s->conv->group_c));
            for (int64_t o = 0; o < b->outputs; o += s->rows) {
                p.a_offset = ls_f32_bytes(ls_dweight_first(s, b->first_o + o, s->rows, s->conv->group_o));
                p.to = ls_dweight_panel(s, b, o / s->rows) + (c / s->columns * s->taps + tap) * tile;
                p.from = now->begins ? NULL : p.to;
                p.ahead = take_share(now->ahead, calls--, points);
                plan->kernel->sum(&p);
            }
        }
    }
}

static int64_t claim(points_plan *plan)
{
    return smaller(atomic_fetch_add(&plan->next, 1), ls_dweight_tasks(&plan->sums));
}

/* Returns the task to run next, which is claimed early to fetch its first rows. */
static int64_t run_task(points_plan *plan, const worker_room *room, int64_t number)
{
    ls_dweight_block b = ls_dweight_block_of(&plan->sums, number);
    int64_t begin = b.part * plan->part, end = smaller(plan->rows, begin + plan->part), next = 0;
    bool all_channels = plan->sums.blocks_o * plan->sums.blocks_c == 1;
    for (int64_t at = begin; at < end; at += plan->chunk) {
        chunk now = {.first = at, .rows = smaller(plan->chunk, end - at), .begins = at == begin};
        int64_t soon = at + now.rows;
        if (soon == end) next = claim(plan), soon = ls_dweight_block_of(&plan->sums, next).part * plan->part;
        int64_t rows = smaller(plan->chunk, plan->rows - soon), stride = plan->walk.stride[0];
        if (all_channels) { /* x: roughly, by the rows in all images that belong to those of dy */
            const ls_pixels *x = &plan->walk.pixels;
            int64_t in_x = smaller(rows * stride, x->size[0] * plan->sums.conv->n - soon * stride);
            now.ahead[0] = rows_of(&plan->dy, soon, rows);
            now.ahead[1] = rows_of(x, soon * stride, in_x);
        }
        multiply_chunk(plan, &b, &now, room);
    }
    return next;
}

static void run_tasks(void *arg, ls_worker worker)
{
    points_plan *plan = arg;
    int64_t runs = ls_gemm_round_up(plan->chunk * (int64_t)sizeof(ls_gemm_point_run), 64);
    int64_t images = (plan->chunk + plan->walk.grid[0] - 2) / plan->walk.grid[0] + 1; /* that a chunk sees, at most */
    char *memory = ls_scratch(worker, 0, (size_t)(runs + ls_f32_bytes(images * plan->height * plan->line)));
    if (!memory) {
        atomic_store(&plan->out_of_memory, true);
        return;
    }
    worker_room room = {(ls_gemm_point_run *)memory, (float *)(memory + runs)};
    for (int64_t task = claim(plan); task < ls_dweight_tasks(&plan->sums);) task = run_task(plan, &room, task);
}

/* ---- Planning ---------------------------------------------------------------------------------------------------- */

/* Bytes of both images that belong to a point, where all channels are needed. */
static int64_t point_bytes(const ls_conv *conv)
{
    return ls_f32_bytes(conv->group_o + conv->group_c * conv->window.stride[0] * conv->window.stride[1]);
}

/* Has a pixel of x fewer channels than a tile has columns? */
static bool has_few(const ls_conv *conv, const ls_gemm_over_points *kernel)
{
    return conv->group_c < kernel->columns;
}

bool ls_conv_dweight_in_place(const ls_conv *conv, const ls_call *call)
{
    const ls_gemm_over_points *kernel = ls_gemm()->points_f32;
    if (!kernel || conv->compute != LS_F32 || call->in[0]->dtype != LS_F32 || call->in[1]->dtype != LS_F32 ||
        call->out[0]->dtype != LS_F32 || conv->window.groups != 1 || !conv->n || !conv->out[0] || !conv->out[1])
        return false;
    /* Packing is faster where a row does not stay in L2, or with several half tiles, unless it gathers lines. */
    int64_t half = kernel->columns / 2;
    bool fills = conv->group_o >= kernel->columns || conv->group_o == half;
    if (has_few(conv, kernel))
        return (conv->window.dilation[1] == 1 || conv->window.kernel[1] == 1) &&
               (fills || (ls_conv_is_narrow(conv) && conv->group_o > half)) &&
               conv->group_o + conv->group_c * conv->window.kernel[0] * conv->window.kernel[1] <= kernel->channels &&
               conv->out[1] * point_bytes(conv) <= CHUNK_BYTES;
    return conv->group_o >= kernel->rows && ls_f32_bytes(conv->group_o) < PAGE_BYTES &&
           conv->group_o + conv->group_c <= kernel->channels;
}

/* Parts depend on sizes only; a power of two, since the workers often are one, too. */
static int64_t parts_of(const points_plan *plan)
{
    int64_t parts = MOST_TASKS, blocks = plan->sums.blocks_o * plan->sums.blocks_c;
    int64_t points = plan->rows * plan->walk.grid[1];
    while (parts > 1 && (points / parts < LEAST_PART || parts * blocks > MOST_TASKS)) parts /= 2;
    return parts;
}

/* Let numbers under a row of taps and outputs change places. Their gradient goes to memory of its own. */
static bool turn(points_plan *plan)
{
    const ls_conv *conv = plan->conv;
    int64_t height = conv->window.kernel[0], width = conv->window.kernel[1], outputs = conv->group_o;
    plan->numbers = conv->group_c * width;
    plan->line = ((conv->out[1] - 1) * conv->window.stride[1] + width) * conv->group_c;
    plan->turned = *conv;
    plan->turned.group_o = plan->numbers;
    plan->turned.group_c = outputs;
    plan->turned.accumulate = false;
    plan->turned_dw =
        (ls_operand){.dtype = LS_F32,
                     .ndim = 4,
                     .dim = {plan->numbers, outputs, height, 1},
                     .stride = {outputs * height, height, 1, 1},
                     .data = ls_scratch((ls_worker){0, 1}, 1, (size_t)ls_f32_bytes(plan->numbers * outputs * height))};
    plan->sums.conv = &plan->turned;
    plan->sums.dw = &plan->turned_dw;
    plan->sums.taps = height;
    if (outputs < plan->sums.columns) plan->sums.columns /= 2;
    return plan->turned_dw.data != NULL;
}

/* That gradient to its place. */
static void store_turned(const points_plan *plan, const ls_operand *dw)
{
    const float *from = plan->turned_dw.data;
    for (int64_t number = 0; number < plan->numbers; number++)
        for (int64_t o = 0; o < dw->dim[0]; o++)
            for (int64_t row = 0; row < dw->dim[2]; row++) {
                int64_t channel = number % dw->dim[1], column = number / dw->dim[1];
                float *to = (float *)dw->data + o * dw->stride[0] + channel * dw->stride[1] + row * dw->stride[2] +
                            column * dw->stride[3];
                *to = *from++ + (plan->conv->accumulate ? *to : 0);
            }
}

ls_status ls_conv_dweight_points(const ls_conv *conv, ls_pixels dy, ls_pixels x, const ls_operand *dw, ls_message *why)
{
    const ls_gemm_over_points *kernel = ls_gemm()->points_f32;
    points_plan plan = {.conv = conv,
                        .sums = {.conv = conv,
                                 .dw = dw,
                                 .columns = kernel->columns,
                                 .within = true,
                                 .taps = conv->window.kernel[0] * conv->window.kernel[1]},
                        .kernel = kernel,
                        .walk = ls_walk_forward(conv, x),
                        .dy = dy,
                        .rows = conv->n * conv->out[0]};
    if (has_few(conv, kernel) && !turn(&plan)) return ls_conv_out_of_memory(why);
    int64_t all = plan.sums.conv->group_o;
    plan.sums.rows = ceil_div(all, ceil_div(all, kernel->rows));
    ls_dweight_cut(&plan.sums, 1);
    plan.part = ceil_div(plan.rows, parts_of(&plan));
    plan.sums.parts = ceil_div(plan.rows, plan.part);
    int64_t point = point_bytes(conv);
    if (!plan.numbers) {
        int64_t outputs = smaller(conv->group_o, plan.sums.panels_o * plan.sums.rows);
        int64_t channels = smaller(conv->group_c, plan.sums.panels_c * plan.sums.columns);
        point = ls_f32_bytes(outputs + channels * plan.walk.stride[0] * plan.walk.stride[1]);
    }
    int64_t points = larger(LEAST_CHUNK, CHUNK_BYTES / point);
    plan.chunk = smaller(plan.part, larger(1, points / conv->out[1]));
    plan.chunk = ceil_div(plan.part, ceil_div(plan.part, plan.chunk));
    plan.height = (smaller(plan.chunk, conv->out[0]) - 1) * plan.walk.stride[0] +
                  (plan.walk.taps[0] - 1) * plan.walk.tap_step[0] + 1;
    if (!ls_dweight_take(&plan.sums)) return ls_conv_out_of_memory(why);
    ls_parallel(run_tasks, &plan, ls_parallel_width());
    if (atomic_load(&plan.out_of_memory)) return ls_conv_out_of_memory(why);
    ls_dweight_add(&plan.sums);
    if (plan.numbers) store_turned(&plan, dw);
    return LS_OK;
}
