/* conv_dweight_taps.c - the gradient of a convolution for its weight, with every pixel packed once for all taps.
 *
 *     dw [O, tap, C] = sum over points p of  dy [p, O]^T  x [p + offset of the tap, C]
 *
 * Number points row by row, with gaps between rows and between images as wide as the border. Then a tap sees all points
 * at one distance, and its product begins that many points further on in the same panels of x: these are packed once,
 * and once more starting at the second point if a panel holds pairs of points. A stride parts x into phases, pixels at
 * the same place modulo the stride: taps that see the same phase share its panels.
 *
 * A task multiplies a part of the points, a chunk at a time, and keeps its sums in L2. Every pixel of both images comes
 * from memory once, fetched while the chunk before is multiplied; one tap gains from that, too. Larger weights are cut
 * into blocks whose sums fit, and pixels are then read and packed once per block. With one tap that is too often where
 * weights are very large: conv_dweight.c packs these tap by tap.
 *
 * Parts depend only on sizes and are added in order: results do not depend on the number of workers. */
#include "device/cpu/conv.h"

#include "base/parallel.h"

#include <stdatomic.h>
#include <string.h>

#define CHUNK 512                /* points packed at a time, at most: a panel of dy then stays in L1 */
#define PACKED_BYTES (768 << 10) /* of a chunk, roughly */
#define STREAM_BYTES (144 << 10) /* the same of one tap: L2 holds what is packed, from what, and what is fetched next */
#define STREAM_CHUNK 192         /* but so many points at least, which share loading and storing sums */
#define LEAST_PART 1536          /* points whose sums are worth adding up later */
#define MOST_TASKS 16            /* unless there are more blocks */
#define LEAST_USE 0.6            /* share of points that are pixels */
#define MOST_SETS 8              /* of panels of x, one for each phase and first point */

/* One side of the product: the pixels of its points. */
typedef struct points {
    ls_pixels pixels;
    int64_t first[2]; /* pixel of point (0, 0) of an image */
    int64_t step[2];  /* pixels from point to point */
    int64_t grid[2];  /* points of an image that are pixels */
} points;

/* Where the taps of one dimension see x: tap t, at point p, the pixel at `phase` of step p + point of that tap. */
typedef struct tap_place {
    int64_t phase, point;
} tap_place;

typedef struct taps_plan {
    ls_dweight_sums sums;
    const ls_conv *conv;
    const ls_gemm_kernel *kernel;
    points dy, x;         /* x: the first phase */
    int64_t line, height; /* points of a row and rows of an image, gaps included */
    int64_t total, part;  /* points; of a part */
    int64_t chunk;
    int64_t reach; /* most points that taps see beyond a chunk */
    int64_t bytes;
    int sets;             /* of panels of x, */
    bool seen[MOST_SETS]; /* and which of them taps see */
    _Atomic int64_t next;
    atomic_bool out_of_memory;
} taps_plan;

/* Points [*begin, *end) of a row, or rows of an image, that are pixels. */
static void pixels_inside(const points *side, int d, int64_t *begin, int64_t *end)
{
    int64_t first = side->first[d], size = side->pixels.size[d], step = side->step[d];
    *begin = first < 0 ? ceil_div(-first, step) : 0;
    *end = smaller(side->grid[d], first < size ? ceil_div(size - first, step) : 0);
}

/* Addresses of the pixels of points [first, first + count); NULL in gaps. */
static void locate(const taps_plan *plan, const points *side, int64_t first, int64_t count, const void **line)
{
    const ls_pixels *p = &side->pixels;
    int64_t bytes = (int64_t)ls_dtype_size(p->dtype), distance = p->pixel * side->step[1] * bytes;
    int64_t x = first % plan->line, y = first / plan->line % plan->height, item = first / plan->line / plan->height;
    int64_t x_begin, x_end, y_begin, y_end;
    pixels_inside(side, 1, &x_begin, &x_end);
    pixels_inside(side, 0, &y_begin, &y_end);
    for (int64_t end; count > 0; count -= end - x, line += end - x, x = 0) {
        end = smaller(plan->line, x + count);
        bool there = y >= y_begin && y < y_end && item < plan->conv->n;
        int64_t row = item * p->item + (side->first[0] + y * side->step[0]) * p->row;
        int64_t at = (row + side->first[1] * p->pixel) * bytes;
        int64_t i = x;
        for (; i < end && (!there || i < x_begin); i++) line[i - x] = NULL;
        for (; i < end && i < x_end; i++) line[i - x] = p->data + at + i * distance;
        for (; i < end; i++) line[i - x] = NULL;
        if (++y < plan->height) continue;
        y = 0;
        item++;
    }
}

/* ---- Taps and sets of panels ------------------------------------------------------------------------------------- */

/* Points are counted from the first that any tap sees. */
static tap_place place_of(const ls_window *w, int d, int64_t tap)
{
    int64_t stride = w->stride[d], before = ceil_div(w->padding[d], stride);
    int64_t at = before * stride - w->padding[d] + tap * w->dilation[d];
    return (tap_place){at % stride, at / stride};
}

/* The set of panels that a tap sees, and how many points further on its product begins there. */
static int set_of_tap(const taps_plan *plan, int64_t tap, int64_t *offset)
{
    const ls_window *w = &plan->conv->window;
    tap_place row = place_of(w, 0, tap / w->kernel[1]), column = place_of(w, 1, tap % w->kernel[1]);
    int64_t further = row.point * plan->line + column.point, step = plan->kernel->half_step;
    *offset = further / step * step;
    return (int)((row.phase * w->stride[1] + column.phase) * step + further % step);
}

static points points_of_phase(const taps_plan *plan, int phase)
{
    const ls_window *w = &plan->conv->window;
    const int64_t of[2] = {phase / w->stride[1], phase % w->stride[1]};
    points side = plan->x;
    for (int d = 0; d < 2; d++) {
        side.first[d] += of[d];
        side.grid[d] = 0; /* pixels beyond what the taps of this phase see are left out: they may be NaN */
        for (int64_t tap = 0; tap < w->kernel[d]; tap++) {
            tap_place place = place_of(w, d, tap);
            if (place.phase == of[d]) side.grid[d] = plan->conv->out[d] + place.point;
        }
    }
    return side;
}

/* ---- A task ------------------------------------------------------------------------------------------------------ */

typedef struct taps_task {
    const void **line;
    const void **panels; /* [panels_c][taps], of x */
    char *a, *b;
    int64_t a_stride, b_stride, b_set; /* elements between panels; between sets of panels of x that start at different
                                        * points */
} taps_task;

/* The panels of a tap within what pack_x makes, for a panel of channels. */
static const char *tap_panels(const taps_plan *plan, const taps_task *task, int64_t c, int64_t tap)
{
    int64_t offset, set = set_of_tap(plan, tap, &offset);
    int64_t at = set * task->b_set + offset * plan->kernel->half_b.width;
    return task->b + (at + 2 * c * task->b_stride) * plan->bytes;
}

static bool task_memory(const taps_plan *plan, ls_worker worker, taps_task *task)
{
    const ls_gemm_kernel *kernel = plan->kernel;
    int64_t seen = ls_gemm_round_up(plan->chunk + plan->reach, kernel->kr) + kernel->kr;
    task->a_stride = plan->chunk * kernel->a.width + 32; /* not a power of two, to spread over the sets of L1 */
    task->b_stride = seen * kernel->half_b.width + 32;
    task->b_set = 2 * task->b_stride * plan->sums.panels_c;
    int64_t lines = ls_gemm_round_up((seen + kernel->half_step) * (int64_t)sizeof(void *), 64);
    int64_t panels = ls_gemm_round_up(plan->sums.panels_c * plan->sums.taps * (int64_t)sizeof(void *), 64);
    int64_t a = ls_gemm_round_up(plan->sums.panels_o * task->a_stride * plan->bytes, 64);
    char *memory = ls_scratch(worker, 0, (size_t)(lines + panels + a + plan->sets * task->b_set * plan->bytes));
    if (!memory) return false;
    task->line = (const void **)memory;
    task->panels = (const void **)(memory + lines);
    task->a = memory + lines + panels;
    task->b = task->a + a;
    for (int64_t i = 0; i < plan->sums.panels_c * plan->sums.taps; i++)
        task->panels[i] = tap_panels(plan, task, i / plan->sums.taps, i % plan->sums.taps);
    return true;
}

static void pack_dy(const taps_plan *plan, const taps_task *task, const ls_dweight_block *b, int64_t point,
                    int64_t count)
{
    ls_gemm_lines lines = {.line = task->line, .offset = b->first_o, .dtype = plan->dy.pixels.dtype, .across = true};
    locate(plan, &plan->dy, point, count, task->line);
    ls_gemm_pack(plan->kernel, &plan->kernel->a, task->a, task->a_stride, &lines, b->outputs, count);
}

/* Packs x once for every set of panels that taps see. Taps read whole steps of k: where dy is filled up with zeros, x
 * must be, too, since zero times what memory happened to hold may be NaN. */
static void pack_x(const taps_plan *plan, const taps_task *task, const ls_dweight_block *b, int64_t point,
                   int64_t count)
{
    const ls_gemm_kernel *kernel = plan->kernel;
    int64_t seen = ls_gemm_round_up(count, kernel->kr) + plan->reach;
    for (int set = 0; set < plan->sets; set++) {
        int first = set % kernel->half_step;
        points side = points_of_phase(plan, set / kernel->half_step);
        ls_gemm_lines lines = {
            .line = task->line + first, .offset = b->first_c, .dtype = side.pixels.dtype, .across = true};
        if (!first) locate(plan, &side, point, seen + kernel->half_step - 1, task->line);
        if (plan->seen[set])
            ls_gemm_pack(kernel, &kernel->half_b, task->b + set * task->b_set * plan->bytes, task->b_stride, &lines,
                         b->channels, seen);
    }
}

/* ---- Chunks ------------------------------------------------------------------------------------------------------ */

/* The address of the first pixel at a point or after it. */
static const char *pixel_after(const taps_plan *plan, const points *side, int64_t point)
{
    const ls_pixels *p = &side->pixels;
    int64_t x = point % plan->line * side->step[1] + side->first[1];
    int64_t y = point / plan->line % plan->height * side->step[0] + side->first[0];
    int64_t item = point / plan->line / plan->height;
    x = larger(0, smaller(x, p->size[1])), y = larger(0, smaller(y, p->size[0]));
    int64_t at = item < plan->conv->n ? item * p->item + y * p->row + (y < p->size[0] ? x * p->pixel : 0)
                                      : plan->conv->n * p->item;
    return p->data + at * (int64_t)ls_dtype_size(p->dtype);
}

/* What a chunk reads of one side, if that is all there is: channels of one block of dw, rows and images without gaps,
 * no pixels that a single tap steps over. */
static ls_gemm_ahead pixels_ahead(const taps_plan *plan, const points *side, int64_t point, int64_t count)
{
    const ls_pixels *p = &side->pixels;
    if (p->row != p->size[1] * p->pixel || p->item != p->size[0] * p->row ||
        plan->sums.blocks_o * plan->sums.blocks_c > 1 || (plan->sums.taps == 1 && side->step[1] > 1))
        return (ls_gemm_ahead){0};
    const char *begin = pixel_after(plan, side, point), *end = pixel_after(plan, side, point + count);
    return (ls_gemm_ahead){begin, (end - begin) / 64};
}

/* Part `i` of `n` of what is fetched. */
static ls_gemm_ahead share_of(ls_gemm_ahead all, int64_t i, int64_t n)
{
    int64_t lines = ceil_div(all.lines, n);
    return (ls_gemm_ahead){lines ? all.at + i * lines * 64 : NULL, lines};
}

/* Points of a task that are packed and multiplied together. */
typedef struct chunk {
    int64_t count;
    bool first, last;
    int64_t next, soon; /* points that are packed next, fetched meanwhile: the first, and how many */
} chunk;

static void multiply_chunk(const taps_plan *plan, const taps_task *task, const ls_dweight_block *b, const chunk *now)
{
    ls_gemm_ahead dy = pixels_ahead(plan, &plan->dy, now->next, now->soon);
    ls_gemm_ahead x = pixels_ahead(plan, &plan->x, now->next + plan->reach, now->soon); /* before: has been read */
    for (int64_t o = 0; o < plan->sums.panels_o; o++) {
        float *sums = ls_dweight_panel(&plan->sums, b, o);
        ls_gemm_halves tiles = {.count = plan->sums.panels_c * plan->sums.taps,
                                .k = ls_gemm_round_up(now->count, plan->kernel->kr),
                                .a = task->a + o * task->a_stride * plan->bytes,
                                .b = task->panels,
                                .b_stride = task->b_stride,
                                .from = now->first ? NULL : sums,
                                .to = sums,
                                .row_major = now->last,
                                .ahead = {share_of(dy, o, plan->sums.panels_o), share_of(x, o, plan->sums.panels_o)}};
        ls_gemm_run_halves(plan->kernel, &tiles);
    }
}

static int64_t claim(taps_plan *plan)
{
    return smaller(atomic_fetch_add(&plan->next, 1), ls_dweight_tasks(&plan->sums));
}

/* Returns the task to run next, which is claimed early to fetch its first points. */
static int64_t run_task(taps_plan *plan, const taps_task *task, int64_t number)
{
    ls_dweight_block b = ls_dweight_block_of(&plan->sums, number);
    int64_t begin = b.part * plan->part, end = smaller(plan->total, begin + plan->part), next = 0;
    for (int64_t at = begin; at < end; at += plan->chunk) {
        chunk now = {.count = smaller(plan->chunk, end - at), .first = at == begin};
        now.next = at + now.count;
        now.last = now.next == end;
        if (now.last) next = claim(plan), now.next = ls_dweight_block_of(&plan->sums, next).part * plan->part;
        now.soon = smaller(plan->chunk, plan->total - now.next);
        pack_dy(plan, task, &b, at, now.count);
        pack_x(plan, task, &b, at, now.count);
        multiply_chunk(plan, task, &b, &now);
    }
    return next;
}

static void run_tasks(void *arg, ls_worker worker)
{
    taps_plan *plan = arg;
    taps_task task;
    if (!task_memory(plan, worker, &task)) {
        atomic_store(&plan->out_of_memory, true);
        return;
    }
    if (plan->kernel->begin) plan->kernel->begin();
    for (int64_t number = claim(plan); number < ls_dweight_tasks(&plan->sums);) number = run_task(plan, &task, number);
    if (plan->kernel->end) plan->kernel->end();
}

/* ---- Planning ---------------------------------------------------------------------------------------------------- */

static const ls_gemm_kernel *kernel_for(const ls_conv *conv)
{
    const ls_gemm_kernel *const *kernel = ls_gemm_kernels(conv->compute);
    for (int i = 0; i < LS_GEMM_SHAPES && kernel[i]; i++)
        if (kernel[i]->tile_halves && ls_gemm_sum_dtype(kernel[i]) == LS_F32) return kernel[i];
    return NULL;
}

/* Points from row to row, or from image to image: those of the grid, plus a gap so wide that what a tap sees beyond the
 * end is the border of the next. */
static int64_t spaced(const ls_conv *conv, int d)
{
    const ls_window *w = &conv->window;
    int64_t before = ceil_div(w->padding[d], w->stride[d]),
            need = conv->out[d] + place_of(w, d, w->kernel[d] - 1).point;
    int64_t there = larger(smaller(ceil_div(conv->in[d], w->stride[d]) + before, need), need - before);
    return larger(there, conv->out[d]);
}

/* A power of two, since the workers often are one, too. */
static int64_t parts_of(const taps_plan *plan)
{
    int64_t parts = MOST_TASKS, blocks = plan->sums.blocks_o * plan->sums.blocks_c;
    while (parts > 1 && (plan->total / parts < LEAST_PART || parts * blocks > MOST_TASKS)) parts /= 2;
    return parts;
}

/* Weights of one tap that are larger do not pay for packing pixels once per block; and without a kernel that hides
 * storing the sums of a tile, those of all taps should fit into L2. */
static int64_t most_weights(const ls_conv *conv, const ls_gemm_kernel *kernel)
{
    int64_t taps = conv->window.kernel[0] * conv->window.kernel[1];
    if (!kernel->halves) return taps > 1 ? LS_DWEIGHT_SUM_BYTES : 0;
    return taps > 1 ? INT64_MAX : 2 * LS_DWEIGHT_SUM_BYTES;
}

static int64_t weight_bytes(const ls_conv *conv, const ls_gemm_kernel *kernel)
{
    int64_t outputs = ls_gemm_round_up(conv->group_o, kernel->a.width);
    int64_t channels = ls_gemm_round_up(conv->group_c, kernel->b.width);
    return outputs * channels * conv->window.kernel[0] * conv->window.kernel[1] * (int64_t)sizeof(float);
}

bool ls_conv_dweight_by_taps(const ls_conv *conv, const ls_operand *dw)
{
    const ls_gemm_kernel *kernel = kernel_for(conv);
    const ls_window *w = &conv->window;
    if (!kernel || w->groups > 1 || dw->dtype != LS_F32 || !conv->n || !conv->out[0] || !conv->out[1] ||
        weight_bytes(conv, kernel) > most_weights(conv, kernel))
        return false;
    int64_t phases = w->stride[0] * w->stride[1]; /* without a kernel of its own: not measured */
    if (phases > 1 && (!kernel->halves || phases * kernel->half_step > MOST_SETS)) return false;
    double use = (double)(conv->out[0] * conv->out[1]) / (double)(spaced(conv, 0) * spaced(conv, 1));
    use *= (double)conv->group_o / (double)ls_gemm_round_up(conv->group_o, kernel->a.width);
    use *= (double)conv->group_c / (double)ls_gemm_round_up(conv->group_c, kernel->b.width);
    return use >= LEAST_USE;
}

/* Marks the sets of panels that taps see; how many? */
static int64_t sets_seen(taps_plan *plan)
{
    int64_t count = 0, offset;
    for (int64_t tap = 0; tap < plan->sums.taps; tap++) plan->seen[set_of_tap(plan, tap, &offset)] = true;
    for (int set = 0; set < plan->sets; set++) count += plan->seen[set];
    return count;
}

ls_status ls_conv_dweight_taps(const ls_conv *conv, ls_pixels dy, ls_pixels x, const ls_operand *dw, ls_message *why)
{
    const ls_window *w = &conv->window;
    const ls_gemm_kernel *kernel = kernel_for(conv);
    taps_plan plan = {.sums = {.conv = conv,
                               .dw = dw,
                               .rows = kernel->a.width,
                               .columns = kernel->b.width,
                               .taps = w->kernel[0] * w->kernel[1]},
                      .conv = conv,
                      .kernel = kernel,
                      .dy = {.pixels = dy, .step = {1, 1}, .grid = {conv->out[0], conv->out[1]}},
                      .x = {.pixels = x, .step = {w->stride[0], w->stride[1]}, .grid = {INT64_MAX, INT64_MAX}},
                      .line = spaced(conv, 1),
                      .height = spaced(conv, 0),
                      .bytes = (int64_t)ls_dtype_size(kernel->panel)};
    plan.total = conv->n * plan.height * plan.line;
    plan.sets = (int)(w->stride[0] * w->stride[1] * kernel->half_step);
    for (int d = 0; d < 2; d++) plan.x.first[d] = -ceil_div(w->padding[d], w->stride[d]) * w->stride[d];
    int64_t packed = sets_seen(&plan);
    plan.reach = place_of(w, 0, w->kernel[0] - 1).point * plan.line + place_of(w, 1, w->kernel[1] - 1).point;
    ls_dweight_cut(&plan.sums, packed);
    plan.part = ls_gemm_round_up(ceil_div(plan.total, parts_of(&plan)), kernel->kr);
    plan.sums.parts = ceil_div(plan.total, plan.part);
    int64_t point_bytes =
        (plan.sums.panels_o * kernel->a.width + packed * plan.sums.panels_c * kernel->b.width) * plan.bytes;
    bool streams = plan.sums.taps == 1 && plan.sums.blocks_o * plan.sums.blocks_c == 1;
    int64_t most = streams ? larger(STREAM_CHUNK, STREAM_BYTES / point_bytes) : PACKED_BYTES / point_bytes;
    plan.chunk = larger(kernel->kr, smaller(CHUNK, most));
    plan.chunk = ls_gemm_round_up(ceil_div(plan.part, ceil_div(plan.part, plan.chunk)), kernel->kr);
    if (!ls_dweight_take(&plan.sums)) return ls_conv_out_of_memory(why);
    ls_parallel(run_tasks, &plan, ls_parallel_width());
    if (atomic_load(&plan.out_of_memory)) return ls_conv_out_of_memory(why);
    ls_dweight_add(&plan.sums);
    return LS_OK;
}
