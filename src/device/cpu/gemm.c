/* gemm.c - cuts products into tasks for the workers and runs them block by block.
 *
 * A task is a rectangle of C, or of the sums over a part of k. Its loops, outermost first:
 *
 *     columns of the task, by NC
 *     k, by KD                      B [KD, NC] packed here; all of k, where B has been packed before
 *     rows, by MC                   (partial sums of MC x NC stay in L2; of all rows, where there are several KD)
 *     k, by KB                      A [MC, KB] packed, into L2
 *     strips of columns
 *     k, by KC                      one panel of B, nr x KC, stays in L1
 *     panels of A                   stream from L2
 *
 * These sizes come from the kernel (ls_gemm_blocks): if L2 is large and L3 slow, all of k is multiplied with many rows
 * at once; if they are similar, KB is KC and blocks are small.
 *
 * If B is packed beforehand (weights; or by all workers together, if it is not too large), tasks are small and handed
 * out on demand. Otherwise every task packs its own part of B, KD is KC, and tasks are few and large. If C is too small
 * for enough tasks, k is cut too: depending on sizes only, not on the number of workers, so that sums always round the
 * same way. */
#include "device/cpu/gemm.h"

#include "base/parallel.h"
#include "device/cpu/cpu.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define ROWS 96                    /* least rows of a task, roughly */
#define FINISH_ROWS 128            /* rows of a strip finished together, roughly */
#define PARTIAL_COLUMNS 1024       /* NC, roughly, if k is cut, or too deep for a panel */
#define FEW_ROWS_COLUMNS 192       /* NC, roughly, and */
#define FEW_ROWS_BYTES (600 << 10) /* of a packed block of B, if few rows use it */
#define OWN_BLOCK_BYTES (16 << 20) /* of a packed block of B otherwise, which workers keep room for */
#define THIN_PANEL_LINES 64        /* most cache lines of a thin panel of B, and */
#define THIN_ROWS 24               /* rows multiplied with all thin panels of a strip in turn */
#define WORTH_ANOTHER 0.03         /* share of work wasted that justifies a shape other than the first */
#define UNEVEN_TASKS 16            /* per worker, from which on it does not matter whether some get one more */
#define LEAST_WORK (1 << 20)       /* multiplications worth waking a worker for */
#define MOST_ROUNDS 3              /* tasks per worker that C is cut into, roughly, if tasks pack B themselves */
#define PACKING 32.0               /* multiplications that take as long as packing an element, roughly */
#define NEAR_BYTES (512 << 10)     /* of a packed block of B that stays in L2: its panels are not fetched */
#define LARGE_SIDE 128             /* m, n and k from which on a kernel for large products is faster */
#define SPLIT_BLOCKS 64            /* blocks of C below which k is cut */
#define SPLIT_DEPTH 2048           /* least part of k */

/* Defaults, for kernels without their own: a block of A is as deep as the panel of B that stays in L1. */
static const ls_gemm_blocks usual = {
    .rows = 96,
    .block_bytes = INT64_MAX,
    .depth_bytes = 1536,
    .panel_bytes = 24 << 10,
    .cut_bytes = INT64_MAX,
    .strip = 64,
    .tasks = 8,
};

typedef struct gemm_plan {
    const ls_gemm_job *job;
    const char *b; /* packed beforehand, or NULL */
    int64_t b_stride;
    int64_t kd, kb, kc, mc, nc, strip;
    bool far;                                /* panels of B do not stay in L2: each is worth fetching */
    bool stream;                             /* C is too large to stay in the caches */
    int64_t row_tasks, column_tasks, splits; /* tasks of one item */
    int64_t task_rows, task_columns, task_depth;
    _Atomic int64_t next;
    atomic_bool out_of_memory;
} gemm_plan;

static const ls_gemm_blocks *blocks_of(const ls_gemm_kernel *kernel)
{
    return kernel->blocks ? kernel->blocks : &usual;
}

/* Parts that k may be cut into begin at multiples of this. */
static int64_t k_unit(const ls_gemm_kernel *kernel)
{
    return kernel->most_k ? kernel->most_k : kernel->kr;
}

/* The size of equal parts, each a multiple of unit and at most `most` (but at least one unit). */
static int64_t even_part(int64_t whole, int64_t most, int64_t unit)
{
    int64_t parts = ceil_div(whole, larger(most, unit));
    return ls_gemm_round_up(ceil_div(whole, larger(parts, 1)), unit);
}

/* ---- Operands -------------------------------------------------------------------------------------------------- */

void ls_gemm_locate_matrix(const ls_gemm_source *source, int64_t item, int64_t segment, int64_t first, int64_t count,
                           void *room, const void **line)
{
    (void)room;
    int64_t bytes = (int64_t)ls_dtype_size(source->dtype);
    int64_t start = (source->item_offset ? source->item_offset[item] : 0) + segment * source->length;
    const char *at = (const char *)source->data + (start + first * source->stride) * bytes;
    for (int64_t i = 0; i < count; i++) line[i] = at + i * source->stride * bytes;
}

/* ---- Packing a block --------------------------------------------------------------------------------------------- */

/* How many lines of `numbers` elements are worth prefetching before they are packed. */
static int64_t lines_ahead(const ls_gemm_source *source, int64_t numbers)
{
    return LS_GEMM_AHEAD / (numbers * (int64_t)ls_dtype_size(source->dtype)) + 1;
}

/* Pack rows [row, row + rows) of an operand of `all` rows, k in [k0, k1), into panels. `row` starts a panel. */
static void pack_block(const ls_gemm_job *job, const ls_gemm_source *source, const ls_gemm_side *side, int64_t item,
                       int64_t row, int64_t rows, int64_t all, int64_t k0, int64_t k1, char *room, char *to,
                       int64_t panel_stride)
{
    const ls_gemm_kernel *kernel = job->kernel;
    int64_t bytes = ls_gemm_packed_bytes(kernel);
    const void *line[LS_GEMM_LINES];
    ls_gemm_lines lines = {.line = line, .dtype = source->dtype, .across = source->across};
    if (!source->across) {
        int64_t part = ls_gemm_round_up(source->length, kernel->kr), most = LS_GEMM_LINES / side->width * side->width;
        for (int64_t r = 0, count; r < rows; r += count, to += count / side->width * panel_stride * bytes) {
            count = smaller(rows - r, most);
            /* The following rows are packed next, unless the next tap or the next part of k is. */
            if (source->segments == 1 && k0 == 0 && k1 == job->k && !source->room)
                lines.more =
                    smaller(smaller(all - row - r, LS_GEMM_LINES) - count, lines_ahead(source, source->length));
            for (int64_t k = k0, step; k < k1; k += step) {
                lines.offset = k % part;
                step = smaller(part - lines.offset, k1 - k);
                source->locate(source, item, k / part, row + r, count + lines.more, room, line);
                ls_gemm_pack(kernel, side, to + (k - k0) * side->width * bytes, panel_stride, &lines, count,
                             smaller(source->length - lines.offset, step));
            }
        }
        return;
    }
    int64_t part = source->segments > 1 ? ls_gemm_round_up(source->length, side->width) : source->length;
    for (int64_t r = row, step; r < row + rows; r += step) {
        lines.offset = r % part;
        step = smaller(part - lines.offset, row + rows - r);
        char *panels = to + (r - row) / side->width * panel_stride * bytes;
        for (int64_t k = k0, count; k < k1; k += count) {
            count = smaller(k1 - k, LS_GEMM_LINES / 2);
            int64_t there = smaller(source->lines - k, count);
            if (!source->room)
                lines.more = smaller(smaller(source->lines - k, LS_GEMM_LINES) - there, lines_ahead(source, step));
            source->locate(source, item, r / part, k, there + lines.more, room, line);
            ls_gemm_pack(kernel, side, panels + (k - k0) * side->width * bytes, panel_stride, &lines,
                         smaller(source->length - lines.offset, step), there);
        }
    }
}

/* Elements from panel to panel of [width x k], whole cache lines. A multiple of a large power of two would put all
 * panels into the same few sets of L1. */
static int64_t panel_distance(const ls_gemm_kernel *kernel, int width, int64_t k)
{
    int64_t bytes = ls_gemm_packed_bytes(kernel), unit = 64;
    while (unit % bytes) unit += 64;
    int64_t distance = ls_gemm_round_up(width * k * bytes, unit);
    return (distance % 4096 ? distance : distance + unit) / bytes;
}

/* ---- A task ------------------------------------------------------------------------------------------------------ */

typedef struct gemm_buffers {
    char *a, *b, *partial, *strip, *room;
} gemm_buffers;

static bool buffers_take(const gemm_plan *plan, ls_worker worker, gemm_buffers *to)
{
    const ls_gemm_kernel *kernel = plan->job->kernel;
    int64_t bytes = ls_gemm_packed_bytes(kernel), sums = ls_gemm_sum_bytes(plan->job);
    int64_t columns = ls_gemm_round_up(plan->nc, kernel->b.width), rows = ls_gemm_round_up(plan->mc, kernel->a.width);
    int64_t a =
        ls_gemm_round_up(rows / kernel->a.width * panel_distance(kernel, kernel->a.width, plan->kb) * bytes, 4096);
    int64_t strip = ls_gemm_round_up(rows * plan->strip * sums, 4096);
    int64_t partial = 0;
    if (plan->kd < plan->task_depth) partial = ls_gemm_round_up(plan->task_rows, kernel->a.width) * columns * sums;
    else if (plan->kb < plan->kd) partial = rows * columns * sums;
    else if (plan->kc < plan->kb) partial = rows * plan->strip * sums;
    int64_t room = larger(plan->job->a.room, plan->job->b.room) * LS_GEMM_LINES;
    char *memory = ls_scratch(worker, 0, (size_t)(a + strip + partial + room));
    if (!memory) return false;
    *to = (gemm_buffers){
        .a = memory, .strip = memory + a, .partial = memory + a + strip, .room = memory + a + strip + partial};
    if (plan->b) return true;
    to->b = ls_scratch(worker, 1,
                       (size_t)(columns / kernel->b.width * panel_distance(kernel, kernel->b.width, plan->kd) * bytes));
    return to->b != NULL;
}

/* A block of A multiplied with panels of B: rows x columns of C at (row, column) of an item of the sink, `depth`
 * deep. */
typedef struct gemm_block {
    int64_t item, row, rows, column, columns, depth;
    const char *a, *b;
    int64_t a_stride, b_stride; /* elements from panel to panel */
    char *partial;              /* sums so far: tiles of a panel's columns, then those of the next panel */
    int64_t partial_stride;     /* bytes between panels of B; 0: finished strip by strip */
    bool first, last;           /* of the blocks along k */
} gemm_block;

/* Do columns of tiles end in results of the type that is wanted? */
static bool columns_end_in_results(const ls_gemm_job *job)
{
    return job->kernel->column_out && job->sink.how.out_dtype == job->kernel->out;
}

/* Can the kernel's column_out finish what this sink wants? */
static bool column_finishes(const ls_gemm_job *job)
{
    const ls_gemm_sink *sink = &job->sink;
    ls_activation activation = sink->how.activation;
    if (!sink->bias && !sink->pre && activation == LS_ACT_NONE) return true;
    bool known = activation == LS_ACT_NONE || activation == LS_ACT_RELU || activation == LS_ACT_GELU;
    return job->kernel->column_finishes && known && !sink->how.scale_after &&
           (!sink->pre || (sink->how.pre_dtype == job->kernel->out && sink->pre_step == 1 && !sink->how.residual));
}

/* The destination, if tiles of a block can be stored directly: rows at equal distances, and no finishing but what the
 * kernel can do. Else NULL. */
static char *direct_target(const ls_gemm_job *job, const gemm_block *block)
{
    const ls_gemm_sink *sink = &job->sink;
    bool results = columns_end_in_results(job);
    bool plain = !sink->bias && !sink->pre && sink->how.activation == LS_ACT_NONE;
    if ((!results && sink->how.out_dtype != ls_gemm_sum_dtype(job->kernel)) || sink->store != ls_gemm_store_rows ||
        sink->locate != ls_gemm_locate_rows || sink->out_step != 1 || sink->how.accumulate ||
        !(results ? column_finishes(job) : plain))
        return NULL;
    int64_t at = (sink->out_offset ? sink->out_offset[block->item] : 0) + block->row * sink->out_stride + block->column;
    return (char *)sink->out + at * (int64_t)ls_dtype_size(sink->how.out_dtype);
}

/* How columns of tiles end that are stored directly: what is the same for all of them. */
static void set_ending(const ls_gemm_sink *sink, ls_gemm_column *c)
{
    c->ldc = sink->out_stride;
    c->activation = sink->how.activation;
    c->pre_stride = sink->pre ? sink->pre_stride : 0;
}

/* Let such a column end in rows of the destination from `to` on, which is row `row`, column `column` of an item. */
static inline void end_directly(const gemm_plan *plan, ls_gemm_column *c, char *to, int64_t item, int64_t row,
                                int64_t column)
{
    const ls_gemm_sink *sink = &plan->job->sink;
    c->to = to;
    if (sink->bias) c->bias = (const float *)sink->bias + column;
    int64_t bytes = (int64_t)ls_dtype_size(sink->how.out_dtype); /* of numbers of pre, too */
    if (sink->pre) {
        int64_t at = (sink->pre_offset ? sink->pre_offset[item] : 0) + row * c->pre_stride + column;
        c->pre = (char *)sink->pre + at * bytes;
    }
    if (!plan->stream) return;
    int64_t strides = (c->ldc | c->pre_stride) * bytes;
    c->stream = ((uintptr_t)to | (uintptr_t)c->pre | (uintptr_t)strides) % 64 == 0;
}

/* Part of a strip: columns [s, s + width) of the block, over k starting at k0, kc deep. In the last round, tiles go to
 * the buffer of the strip, which is then finished, or directly to C if possible. */
static void multiply_strip(const gemm_plan *plan, const gemm_buffers *at, const gemm_block *block, int64_t s,
                           int64_t width, int64_t k0, int64_t kc)
{
    const ls_gemm_job *job = plan->job;
    const ls_gemm_kernel *kernel = job->kernel;
    const ls_gemm_sink *sink = &job->sink;
    int64_t mr = kernel->a.width, nr = kernel->b.width, bytes = ls_gemm_packed_bytes(kernel);
    int64_t sums = ls_gemm_sum_bytes(job), ld = plan->strip, panels = ceil_div(block->rows, mr);
    int64_t out_bytes = (int64_t)ls_dtype_size(sink->how.out_dtype);
    bool first = block->first && k0 == 0, last = block->last && k0 + kc >= block->depth;
    char *direct = last ? direct_target(job, block) : NULL;
    bool results = direct && columns_end_in_results(job);
    int64_t direct_rows = direct ? block->rows / mr * mr : 0, direct_columns = direct ? width / nr * nr : 0;

    /* The next panel of B, if it is far away, is prefetched while this one is used. Thin panels stay in L1 anyway; for
     * these, a few rows at a time are multiplied with all panels, so that cache lines of C are filled at once. */
    int64_t panel_lines = nr * kc * bytes / 64;
    bool thin = panel_lines <= THIN_PANEL_LINES && nr * out_bytes < 64;
    int64_t ahead = plan->far && !thin ? panel_lines : 0;
    int64_t slab = last && !direct ? ls_gemm_round_up(FINISH_ROWS, mr) : block->rows;
    int64_t group = thin ? larger(THIN_ROWS / mr, 1) * mr : slab;

    /* Columns may be short: all that is the same for them is said once. */
    ls_gemm_column plain = {.k = kc, .a_stride = block->a_stride, .ahead.lines = ahead}, ending = plain;
    if (last) plain.ldc = ld;
    set_ending(sink, &ending);
    for (int64_t r = 0; r < block->rows; r += slab) {
        int64_t slab_end = smaller(r + slab, block->rows);
        for (int64_t g = r; g < slab_end; g += group) {
            int64_t group_end = smaller(g + group, slab_end);
            for (int64_t j = 0; j < width; j += nr) {
                const char *b = block->b + ((s + j) / nr * block->b_stride + k0 * nr) * bytes;
                char *so_far = block->partial + (block->partial_stride ? (s + j) / nr * block->partial_stride
                                                                       : j / nr * panels * mr * nr * sums);
                for (int64_t i = g, end; i < group_end; i = end) {
                    bool whole = i < direct_rows && j < direct_columns;
                    end = whole ? smaller(group_end, direct_rows) : group_end;
                    ls_gemm_column *c = whole ? &ending : &plain;
                    c->count = ceil_div(end - i, mr);
                    c->a = block->a + (i / mr * block->a_stride + k0 * mr) * bytes;
                    c->b = b;
                    c->ahead.at = b + block->b_stride * bytes;
                    c->from = first ? NULL : so_far + i / mr * mr * nr * sums;
                    if (whole)
                        end_directly(plan, c, direct + (i * sink->out_stride + s + j) * out_bytes, block->item,
                                     block->row + i, block->column + s + j);
                    else c->to = last ? at->strip + (i * ld + j) * sums : so_far + i / mr * mr * nr * sums;
                    if (whole && results) kernel->column_out(c);
                    else ls_gemm_run_column(kernel, c);
                }
            }
        }
        if (!last) continue;
        int64_t finished = larger(smaller(direct_rows, slab_end) - r, 0);
        if (r + finished < slab_end && direct_columns)
            sink->store(job, block->item, block->row + r + finished, slab_end - r - finished, block->column + s,
                        direct_columns, at->strip + (r + finished) * ld * sums, ld);
        if (direct_columns < width)
            sink->store(job, block->item, block->row + r, slab_end - r, block->column + s + direct_columns,
                        width - direct_columns, at->strip + (r * ld + direct_columns) * sums, ld);
    }
}

static void multiply_block(const gemm_plan *plan, const gemm_buffers *at, const gemm_block *block)
{
    for (int64_t s = 0; s < block->columns; s += plan->strip)
        for (int64_t k = 0; k < block->depth; k += plan->kc)
            multiply_strip(plan, at, block, s, smaller(plan->strip, block->columns - s), k,
                           smaller(plan->kc, block->depth - k));
}

/* C [row, row + rows) x [column, column + columns) of an item, over k in [k0, k1), to item `sink_item` of the sink. */
static void run_task(const gemm_plan *plan, const gemm_buffers *at, int64_t item, int64_t sink_item, int64_t row,
                     int64_t rows, int64_t column, int64_t columns, int64_t k0, int64_t k1)
{
    const ls_gemm_job *job = plan->job;
    const ls_gemm_kernel *kernel = job->kernel;
    int64_t bytes = ls_gemm_packed_bytes(kernel), mr = kernel->a.width, nr = kernel->b.width;
    for (int64_t n = 0; n < columns; n += plan->nc) {
        gemm_block block = {.item = sink_item, .column = column + n, .columns = smaller(plan->nc, columns - n)};
        int64_t padded = ls_gemm_round_up(block.columns, nr);
        for (int64_t d = k0; d < k1; d += plan->kd) {
            int64_t d_end = smaller(d + plan->kd, k1);
            const char *b = plan->b ? plan->b + (block.column / nr * plan->b_stride + d * nr) * bytes : at->b;
            block.b_stride = plan->b ? plan->b_stride : panel_distance(kernel, kernel->b.width, d_end - d);
            if (!plan->b)
                pack_block(job, &job->b, &kernel->b, item, block.column, block.columns, job->n, d, d_end, at->room,
                           at->b, block.b_stride);
            for (int64_t m = 0; m < rows; m += plan->mc) {
                block.row = row + m;
                block.rows = smaller(plan->mc, rows - m);
                bool kept = plan->kd < plan->task_depth; /* partial sums of all rows of the task are kept */
                block.partial = at->partial + (kept ? m * padded * ls_gemm_sum_bytes(job) : 0);
                block.partial_stride =
                    plan->kb < plan->task_depth ? ls_gemm_round_up(block.rows, mr) * nr * ls_gemm_sum_bytes(job) : 0;
                for (int64_t k = d; k < d_end; k += plan->kb) {
                    block.depth = smaller(plan->kb, d_end - k);
                    block.first = k == k0;
                    block.last = k + block.depth == k1;
                    block.a = at->a;
                    block.a_stride = panel_distance(kernel, kernel->a.width, block.depth);
                    block.b = b + (k - d) * nr * bytes;
                    pack_block(job, &job->a, &kernel->a, item, block.row, block.rows, job->m, k, k + block.depth,
                               at->room, at->a, block.a_stride);
                    multiply_block(plan, at, &block);
                }
            }
        }
    }
}

static void run_tasks(void *arg, ls_worker worker)
{
    gemm_plan *plan = arg;
    const ls_gemm_job *job = plan->job;
    gemm_buffers buffers;
    int64_t per_item = plan->row_tasks * plan->column_tasks * plan->splits, tasks = per_item * job->batch;
    if (!buffers_take(plan, worker, &buffers)) {
        atomic_store(&plan->out_of_memory, true);
        return;
    }
    if (job->kernel->begin) job->kernel->begin();
    for (int64_t task; (task = atomic_fetch_add(&plan->next, 1)) < tasks;) {
        int64_t item = task / per_item, part = task % per_item;
        int64_t column = part % plan->column_tasks * plan->task_columns;
        int64_t row = part / plan->column_tasks % plan->row_tasks * plan->task_rows;
        int64_t split = part / plan->column_tasks / plan->row_tasks, k0 = split * plan->task_depth;
        run_task(plan, &buffers, item, plan->splits > 1 ? split : item, row, smaller(plan->task_rows, job->m - row),
                 column, smaller(plan->task_columns, job->n - column), k0, smaller(job->k, k0 + plan->task_depth));
    }
    if (job->kernel->end) job->kernel->end();
}

/* ---- Sums over parts of k ---------------------------------------------------------------------------------------- */

/* Adds up split sums [splits, m, n], part after part, and passes the rows to the original sink. */
typedef struct gemm_reduction {
    const ls_gemm_job *job;
    char *sums;
    int64_t splits;
} gemm_reduction;

static void reduce_rows(void *arg, int64_t begin, int64_t end)
{
    const gemm_reduction *r = arg;
    const ls_gemm_job *job = r->job;
    ls_dtype dtype = ls_gemm_sum_dtype(job->kernel);
    ls_gemm_finish add = {.accumulate = true, .out_dtype = dtype};
    int64_t row_bytes = job->n * ls_gemm_sum_bytes(job);
    for (int64_t row = begin; row < end; row++) {
        void *total = r->sums + row * row_bytes;
        for (int64_t s = 1; s < r->splits; s++)
            ls_gemm_finish_of(job)(&add, 1, job->n, (char *)total + s * job->m * row_bytes, 0, NULL, &total, NULL);
    }
    job->sink.store(job, 0, begin, end - begin, 0, job->n, r->sums + begin * row_bytes, job->n);
}

/* ---- Planning ---------------------------------------------------------------------------------------------------- */

const ls_gemm_kernel *ls_gemm_choose(ls_dtype compute, int64_t m, int64_t n)
{
    const ls_gemm_kernel *const *kernel = ls_gemm_kernels(compute), *best = NULL;
    double least = 0;
    for (int i = 0; i < LS_GEMM_SHAPES && kernel[i]; i++) {
        double waste = (double)ls_gemm_round_up(n, kernel[i]->b.width) / (double)larger(n, 1);
        if (m >= 0) waste *= (double)ls_gemm_round_up(m, kernel[i]->a.width) / (double)larger(m, 1);
        if (best && waste > least - WORTH_ANOTHER) continue;
        best = kernel[i];
        least = waste;
    }
    return best;
}

const ls_gemm_kernel *ls_gemm_choose_packed(ls_dtype compute, int64_t m, int64_t n, int64_t k, bool keeps)
{
    const ls_gemm_kernel *large = ls_gemm()->large_f32;
    if (compute == LS_F32 && large && m >= LARGE_SIDE && n >= LARGE_SIDE && k >= LARGE_SIDE) return large;
    return ls_gemm_choose(compute, keeps ? -1 : m, n);
}

/* How many rows and columns of tasks C is cut into, if each task packs its own part of B: at least `rows` rows, so that
 * the workers are done soonest. They take one task after the other, and those without one in the last round wait: of
 * all columns only those are tried that leave the fewest without. */
static void cut_evenly(const ls_gemm_job *job, int64_t parts, int64_t workers, int64_t unit, int64_t *rows,
                       int64_t *columns)
{
    int64_t least = *rows, most = least - 1 + ceil_div(MOST_ROUNDS * workers, parts);
    int64_t most_rows = larger(least, smaller(most, ceil_div(job->m, job->kernel->a.width)));
    int64_t most_columns = larger(1, ceil_div(job->n, unit));
    double soonest = INFINITY;
    for (int64_t r = least; r <= most_rows; r++) {
        for (int64_t full = 1; full <= MOST_ROUNDS; full++) {
            int64_t c = smaller(larger(1, full * workers / (parts * r)), most_columns);
            int64_t height = ls_gemm_round_up(ceil_div(job->m, r), job->kernel->a.width);
            int64_t width = ls_gemm_round_up(ceil_div(job->n, c), unit), rounds = ceil_div(parts * r * c, workers);
            double end = (double)rounds * ((double)height * (double)width + PACKING * (double)(height + width));
            if (end >= soonest) continue;
            soonest = end;
            *rows = r;
            *columns = c;
        }
    }
}

/* The number of parts that k is cut into. */
static int64_t splits_of(const ls_gemm_job *job)
{
    int64_t blocks = job->batch * ceil_div(job->m, ROWS) * ceil_div(job->n, ROWS);
    if (job->batch > 1 || blocks >= SPLIT_BLOCKS / 4) return 1;
    return larger(1, smaller(SPLIT_BLOCKS / blocks, job->k / SPLIT_DEPTH));
}

/* Tasks with B already packed: blocks of rows that are multiplied with all panels of B. If there are few, they are made
 * equal, and columns are cut, too. */
static void plan_on_packed(gemm_plan *plan, int64_t workers, int64_t kc, int64_t unit)
{
    const ls_gemm_job *job = plan->job;
    const ls_gemm_blocks *blocks = blocks_of(job->kernel);
    int64_t mr = job->kernel->a.width, ku = k_unit(job->kernel), bytes = ls_gemm_packed_bytes(job->kernel);
    int64_t parts = job->batch * plan->splits;
    plan->kd = plan->task_depth;
    int64_t deepest = larger(blocks->depth_bytes / bytes, kc);
    if (job->a.across && plan->task_depth > deepest) deepest = kc; /* packed in slices anyway: rather more rows */
    plan->kb = even_part(plan->task_depth, deepest, ku);
    plan->kc = even_part(plan->kb, kc, ku);
    bool keeps_sums = plan->kb < plan->task_depth;

    /* One block each, or several adjacent ones. */
    int64_t most = smaller(blocks->rows, blocks->block_bytes / (plan->kb * bytes));
    int64_t in_task = keeps_sums || workers == 1 ? 1 : larger(1, job->m * parts / (blocks->rows * 16 * workers));
    int64_t rows = ceil_div(ceil_div(job->m, even_part(job->m, most, mr)), in_task);
    int64_t wanted = workers > 1 ? blocks->tasks * workers : 1;
    int64_t columns = larger(1, smaller(ceil_div(wanted, parts * rows), job->n / (2 * plan->strip)));
    plan->task_columns = ls_gemm_round_up(ceil_div(job->n, columns), unit);
    plan->nc = even_part(plan->task_columns, keeps_sums ? PARTIAL_COLUMNS : plan->task_columns, unit);
    if (keeps_sums) { /* sums kept with the block make it smaller: rather more tasks than blocks of odd sizes */
        int64_t row_bytes = plan->nc * ls_gemm_sum_bytes(job) + plan->kb * bytes;
        most = larger(mr, smaller(most, blocks->cut_bytes / row_bytes) / mr * mr);
        rows = larger(rows, ceil_div(job->m, most));
    }
    if (rows * columns * parts < UNEVEN_TASKS * workers && job->m > ROWS * rows) /* as many for every worker */
        rows = ls_gemm_round_up(rows * columns * parts, workers) / (columns * parts);
    plan->task_rows = ls_gemm_round_up(ceil_div(job->m, larger(rows, 1)), mr);
    plan->mc = even_part(plan->task_rows, most, mr);
}

/* Tasks that pack their own part of B. */
static void plan_with_packing(gemm_plan *plan, int64_t workers, int64_t kc, int64_t unit)
{
    const ls_gemm_job *job = plan->job;
    const ls_gemm_blocks *blocks = blocks_of(job->kernel);
    int64_t mr = job->kernel->a.width, ku = k_unit(job->kernel), bytes = ls_gemm_packed_bytes(job->kernel);
    int64_t rows = 1, columns = 1, parts = job->batch * plan->splits;
    bool deep = kc < plan->task_depth;
    kc = larger(kc, blocks->own_depth_bytes / bytes);
    bool keeps_sums = kc < plan->task_depth;
    if (keeps_sums) rows = ceil_div(job->m, larger(8 * ROWS, blocks->own_task_rows));
    if (workers > 1) cut_evenly(job, parts, workers, unit, &rows, &columns);
    plan->task_rows = ls_gemm_round_up(ceil_div(job->m, rows), mr);
    plan->task_columns = ls_gemm_round_up(ceil_div(job->n, columns), unit);
    plan->mc = even_part(plan->task_rows, larger(ROWS, blocks->own_rows), mr);
    int64_t nc = deep ? PARTIAL_COLUMNS : plan->task_columns;
    if (plan->task_rows <= 2 * ROWS) { /* few rows use each block of B: it should fit into L2 */
        nc = larger(FEW_ROWS_COLUMNS, plan->strip);
        kc = smaller(kc, larger(FEW_ROWS_BYTES / (nc * bytes), ku));
    }
    nc = smaller(nc, OWN_BLOCK_BYTES / (smaller(kc, plan->task_depth) * bytes));
    plan->nc = even_part(plan->task_columns, nc, unit);
    plan->kd = plan->kb = plan->kc = even_part(plan->task_depth, kc, ku);
    if (job->kernel->most_k) plan->kc = smaller(plan->kc, ku);
}

static void plan_tasks(gemm_plan *plan, int64_t workers)
{
    const ls_gemm_job *job = plan->job;
    const ls_gemm_kernel *kernel = job->kernel;
    const ls_gemm_blocks *blocks = blocks_of(kernel);
    int64_t nr = kernel->b.width, bytes = ls_gemm_packed_bytes(kernel);
    plan->strip = job->strip ? job->strip : larger(blocks->strip / nr * nr, nr);
    int64_t unit = job->b.segments > 1 && job->b.across && !job->strip ? nr : plan->strip;
    plan->task_depth = even_part(job->k, ceil_div(job->k, splits_of(job)), k_unit(kernel));
    plan->splits = ceil_div(job->k, plan->task_depth);
    int64_t kc = kernel->most_k ? kernel->most_k : smaller(blocks->depth_bytes, blocks->panel_bytes / nr) / bytes;
    if (plan->b) plan_on_packed(plan, workers, kc, unit);
    else plan_with_packing(plan, workers, kc, unit);
    plan->far = plan->b || (kernel->column && plan->nc * plan->kd * bytes > NEAR_BYTES);
    plan->row_tasks = ceil_div(job->m, plan->task_rows);
    plan->column_tasks = ceil_div(job->n, plan->task_columns);
    int64_t out_bytes = (int64_t)ls_dtype_size(job->sink.how.out_dtype);
    plan->stream = blocks->stream_bytes && job->batch * job->m * job->n * out_bytes >= blocks->stream_bytes;
}

/* ---- B packed before any task ------------------------------------------------------------------------------------ */

typedef struct gemm_packing {
    const ls_gemm_job *job;
    char *to;
    int64_t stride, first; /* the panel that is there */
} gemm_packing;

static void pack_panels(void *arg, int64_t begin, int64_t end)
{
    const gemm_packing *p = arg;
    const ls_gemm_side *side = &p->job->kernel->b;
    int64_t row = begin * side->width, rows = smaller(end * side->width, p->job->n) - row;
    pack_block(p->job, &p->job->b, side, 0, row, rows, p->job->n, 0, p->job->k, NULL,
               p->to + (begin - p->first) * p->stride * ls_gemm_packed_bytes(p->job->kernel), p->stride);
}

/* Slices of all panels: whole lines across k, in the order of memory. */
static void pack_slices(void *arg, int64_t begin, int64_t end)
{
    const gemm_packing *p = arg;
    const ls_gemm_kernel *kernel = p->job->kernel;
    int64_t n = p->job->n, k = begin * kernel->kr, k_end = smaller(end * kernel->kr, p->job->k);
    pack_block(p->job, &p->job->b, &kernel->b, 0, 0, n, n, k, k_end, NULL,
               p->to + k * kernel->b.width * ls_gemm_packed_bytes(kernel), p->stride);
}

static void pack_all(const ls_gemm_job *job, void *to, int64_t stride)
{
    gemm_packing packing = {job, to, stride, 0};
    int64_t width = job->kernel->b.width, kr = job->kernel->kr, worthwhile = LEAST_WORK / 128;
    if (job->b.across)
        ls_parallel_for(ceil_div(job->k, kr), larger(1, worthwhile / (kr * job->n)), pack_slices, &packing);
    else ls_parallel_for(ceil_div(job->n, width), larger(1, worthwhile / (width * job->k)), pack_panels, &packing);
}

/* Pack B into memory that the next product overwrites. NULL: out of memory. */
static void *pack_for_once(const ls_gemm_job *job, int64_t stride, size_t bytes)
{
    void *panels = ls_scratch((ls_worker){0, 1}, 3, bytes);
    if (panels) pack_all(job, panels, stride);
    return panels;
}

static void name_form(ls_gemm_job *job)
{
    int64_t padding = job->b.across ? job->k - job->b.lines : 0; /* less than kr, but of joined segments */
    int64_t known[8] = {(int64_t)(intptr_t)job->kernel,
                        (int64_t)(intptr_t)job->b.data,
                        job->n,
                        job->k,
                        (int64_t)job->b.dtype + 256 * job->b.across + 512 * padding,
                        job->b.segments,
                        job->b.length,
                        job->b.stride};
    memcpy(job->key.word, known, sizeof known);
}

/* B packed, where its operand may keep that: it does from the second product with the same version on. Sums of parts of
 * k need the memory for once themselves. NULL: out of memory. */
static const void *packed_form(ls_gemm_job *job, int64_t stride, size_t bytes)
{
    const void *panels = NULL;
    name_form(job);
    ls_gemm_form_lock();
    ls_gemm_form *form = ls_gemm_form_find(job->derived, &job->key);
    bool again = form && form->version == job->derived->version, keeps = again || splits_of(job) > 1;
    if (again && form->panels) panels = form->panels;
    else if (form && (!keeps || ls_gemm_form_keep(form, bytes)) && (!job->b.prepare || job->b.prepare(&job->b))) {
        if (form->panels) pack_all(job, form->panels, stride);
        panels = form->panels ? form->panels : pack_for_once(job, stride, bytes);
        if (panels) form->version = job->derived->version;
    }
    ls_gemm_form_unlock();
    return panels;
}

bool ls_gemm_packs_b(const ls_gemm_job *job)
{
    return !job->derived && !job->b.prepare && !job->b.room && job->b.segments == 1;
}

int64_t ls_gemm_panel_stride(const ls_gemm_job *job)
{
    return panel_distance(job->kernel, job->kernel->b.width, job->k);
}

void ls_gemm_pack_panels(const ls_gemm_job *job, int64_t first, int64_t count, void *to)
{
    gemm_packing packing = {job, to, ls_gemm_panel_stride(job), first};
    pack_panels(&packing, first, first + count);
}

const void *ls_gemm_panels_of_b(ls_gemm_job *job, int64_t *stride)
{
    const ls_gemm_kernel *kernel = job->kernel;
    *stride = ls_gemm_panel_stride(job);
    size_t bytes = (size_t)(ceil_div(job->n, kernel->b.width) * *stride * ls_gemm_packed_bytes(kernel));
    if (job->derived) return packed_form(job, *stride, bytes);
    if (job->b.prepare && !job->b.prepare(&job->b)) return NULL;
    return pack_for_once(job, *stride, bytes);
}

/* Should all workers pack B together before any task? Not if each task uses its part of B once, nor if B is large, nor
 * if its lines are assembled on demand. */
static bool packs_together(const ls_gemm_job *job)
{
    bool one_b = job->batch == 1 || job->same_b;
    const ls_gemm_blocks *blocks = blocks_of(job->kernel);
    int64_t bytes = job->n * job->k * ls_gemm_packed_bytes(job->kernel);
    return one_b && !job->b.room && job->m > 2 * ROWS && job->m * job->n >= blocks->shared_size &&
           bytes <= blocks->shared_bytes && splits_of(job) == 1;
}

/* ---- The job ----------------------------------------------------------------------------------------------------- */

static ls_status out_of_memory(ls_message *why)
{
    return ls_explain(why, LS_ERR_MEMORY, "no memory for the workspace of a matrix product");
}

/* k is 0: sums are zero, but the bias must still be added. */
static ls_status run_empty(const ls_gemm_job *job, ls_message *why)
{
    size_t bytes = (size_t)(job->n * ls_gemm_sum_bytes(job));
    void *zeros = ls_scratch((ls_worker){0, 1}, 0, bytes);
    if (!zeros) return out_of_memory(why);
    memset(zeros, 0, bytes);
    for (int64_t item = 0; item < job->batch; item++) job->sink.store(job, item, 0, job->m, 0, job->n, zeros, 0);
    return LS_OK;
}

int ls_gemm_workers(const ls_gemm_job *job)
{
    double work = (double)job->batch * (double)job->m * (double)job->n * (double)job->k;
    return (int)smaller(ls_parallel_width(), 1 + (int64_t)smaller((int64_t)(work / LEAST_WORK), 1 << 20));
}

ls_status ls_gemm_run(ls_gemm_job *job, ls_message *why)
{
    if (!job->batch || !job->m || !job->n) return LS_OK;
    if (!job->k) return run_empty(job, why);
    const ls_gemm_kernel *kernel = job->kernel;
    gemm_plan plan = {.job = job};
    if (job->derived || packs_together(job)) {
        plan.b = ls_gemm_panels_of_b(job, &plan.b_stride);
        if (!plan.b) return out_of_memory(why);
    } else if (job->b.prepare && !job->b.prepare(&job->b)) return out_of_memory(why);

    int workers = ls_gemm_workers(job);
    plan_tasks(&plan, workers);

    ls_gemm_job part = *job; /* with another sink if k is cut */
    gemm_reduction reduction = {.job = job, .splits = plan.splits};
    if (plan.splits > 1) {
        ls_dtype dtype = ls_gemm_sum_dtype(kernel);
        reduction.sums =
            ls_scratch((ls_worker){0, 1}, 3, (size_t)(plan.splits * job->m * job->n * ls_gemm_sum_bytes(job)));
        int64_t offset[SPLIT_BLOCKS];
        if (!reduction.sums) return out_of_memory(why);
        for (int64_t s = 0; s < plan.splits; s++) offset[s] = s * job->m * job->n;
        part.sink = (ls_gemm_sink){.store = ls_gemm_store_rows,
                                   .how = {.out_dtype = dtype, .pre_dtype = dtype},
                                   .locate = ls_gemm_locate_rows,
                                   .out_step = 1,
                                   .out = reduction.sums,
                                   .out_stride = job->n,
                                   .out_offset = offset};
        plan.job = &part;
        ls_parallel(run_tasks, &plan, workers);
    } else if (workers > 1) ls_parallel(run_tasks, &plan, workers);
    else run_tasks(&plan, (ls_worker){0, 1});
    if (atomic_load(&plan.out_of_memory)) return out_of_memory(why);
    if (plan.splits > 1) ls_parallel_for(job->m, larger(1, LEAST_WORK / 64 / job->n), reduce_rows, &reduction);
    return LS_OK;
}
