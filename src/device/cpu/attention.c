/* attention.c - attention and its gradient: cuts batches into heads and heads into parts, and distributes them to
 * workers. */
#include "kernels/attention.h"
#include "base/parallel.h"
#include "device/cpu/cpu.h"
#include "kernels/element.h"
#include "kernels/elementwise.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* Smaller pieces of a head are not worth packing keys and values again. */
#define LEAST_PIECE 96

/* An operand of the call and the matrix of the problem that it becomes, head by head. */
typedef struct attention_use {
    const ls_operand *operand;
    size_t matrix; /* offset in ls_attention_task */
    bool of_keys;  /* one row per key and one head per group, instead of one per query and query head */
    bool out;
    bool staged; /* copied, because its type or last stride does not suit the kernel */
} attention_use;

typedef struct attention_job {
    ls_attention_task problem; /* everything except addresses */
    const ls_attention_kernel *kernel;
    ls_dtype dtype; /* of the kernel's matrices */
    const ls_operand *mask;
    const ls_operand *kept;
    const ls_operand *lengths; /* NULL: all sequences are of full length */
    attention_use use[9];      /* as many as ls_attention_task has matrices */
    int n_use;
    int64_t batch, query_heads, key_heads;
    bool backward;

    /* Tasks: heads, times pieces of their queries, then pieces of their keys. If there is a single piece, it does
     * everything; otherwise backward computes dq by pieces of queries and dk, dv by pieces of keys. */
    int64_t heads_per_batch, query_pieces, key_pieces;
    _Atomic int64_t next_task;
    atomic_bool out_of_memory;
} attention_job;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t pieces_of(int64_t rows, int64_t heads)
{
    int64_t wanted = heads ? (4 * ls_parallel_width() + heads - 1) / heads : 1;
    int64_t most = (rows + LEAST_PIECE - 1) / LEAST_PIECE;
    return ls_parallel_width() == 1 || wanted < 2 || most < 2 ? 1 : least(wanted, most);
}

static void piece_of(int64_t rows, int64_t pieces, int64_t index, int64_t *begin, int64_t *end)
{
    int64_t size = (rows + pieces - 1) / pieces;
    size = (size + LS_ATTENTION_CUT - 1) / LS_ATTENTION_CUT * LS_ATTENTION_CUT;
    *begin = least(rows, index * size);
    *end = least(rows, *begin + size);
}

/* ---- Staging: contiguous rows of the kernel's element type --------------------------------------------------- */

/* Copy rows [begin, end) of one task between an operand, whose first element is at `data`, and its staged form. */
static void copy_rows(const attention_job *job, const attention_use *use, void *data, const ls_attention_matrix *staged,
                      int64_t heads, int64_t begin, int64_t end)
{
    const ls_operand *x = use->operand;
    ls_dtype from = use->out ? job->dtype : x->dtype, to = use->out ? x->dtype : job->dtype;
    ls_map_fn *convert = ls_elementwise_kernels()->convert[from][to];
    int64_t columns = x->dim[3], step = x->stride[3] == 1 ? columns : 1; /* a whole row, or element by element */
    size_t outside_bytes = ls_dtype_size(x->dtype), inside_bytes = ls_dtype_size(job->dtype);
    for (int64_t row = begin; row < end; row++)
        for (int64_t i = 0; i < heads * columns; i += step) {
            int64_t h = i / columns, d = i % columns;
            int64_t outside = h * x->stride[1] + row * x->stride[2] + d * x->stride[3];
            char *there = (char *)data + (size_t)outside * outside_bytes;
            char *here = (char *)staged->data + (size_t)(h * staged->head + row * staged->row + d) * inside_bytes;
            convert(step, (void *[]){use->out ? there : here, use->out ? here : there}, NULL);
        }
}

/* ---- Tasks ---------------------------------------------------------------------------------------------------- */

static void *element_at(const ls_operand *x, int64_t batch, int64_t head)
{
    return (char *)x->data + (size_t)(batch * x->stride[0] + head * x->stride[1]) * ls_dtype_size(x->dtype);
}

static size_t staged_bytes(const attention_job *job, const attention_use *use)
{
    int64_t heads = use->of_keys ? 1 : job->problem.group;
    size_t bytes = (size_t)(heads * use->operand->dim[2] * use->operand->dim[3]) * ls_dtype_size(job->dtype);
    return (bytes + 63) & ~(size_t)63;
}

static size_t all_staged_bytes(const attention_job *job)
{
    size_t bytes = 64;
    for (const attention_use *use = job->use; use < job->use + job->n_use; use++)
        if (use->staged) bytes += staged_bytes(job, use);
    return bytes;
}

/* Copy staged operands into the kernel's form (out false), or staged results back (out true). */
static void move_staged(const attention_job *job, ls_attention_task *problem, const ls_attention_part *part,
                        int64_t batch, int64_t query_head, bool out)
{
    for (const attention_use *use = job->use; use < job->use + job->n_use; use++) {
        const ls_attention_matrix *matrix = (const void *)((const char *)problem + use->matrix);
        if (!use->staged || use->out != out || !matrix->data) continue;
        if (use->of_keys)
            copy_rows(job, use, element_at(use->operand, batch, query_head * job->key_heads / job->query_heads), matrix,
                      1, part->key_begin, part->key_end);
        else
            copy_rows(job, use, element_at(use->operand, batch, query_head), matrix, problem->group, part->query_begin,
                      part->query_end);
    }
}

static void set_addresses(const attention_job *job, ls_attention_task *problem, int64_t batch, int64_t query_head,
                          char *staging)
{
    int64_t key_head = query_head * job->key_heads / job->query_heads;
    for (const attention_use *use = job->use; use < job->use + job->n_use; use++) {
        const ls_operand *x = use->operand;
        ls_attention_matrix *matrix = (void *)((char *)problem + use->matrix);
        if (use->staged) {
            *matrix = (ls_attention_matrix){staging, x->dim[3], x->dim[2] * x->dim[3]};
            staging += staged_bytes(job, use);
        } else {
            void *data = element_at(x, batch, use->of_keys ? key_head : query_head);
            *matrix = (ls_attention_matrix){data, x->stride[2], x->stride[1]};
        }
    }
    if (job->mask) problem->mask.data = element_at(job->mask, batch, query_head);
    if (job->kept)
        problem->kept =
            (ls_attention_matrix){element_at(job->kept, batch, query_head), job->kept->stride[2], job->kept->stride[1]};
    problem->first = (uint64_t)((batch * job->query_heads + query_head) * problem->drawn_head);
}

typedef struct attention_task {
    ls_attention_task problem;
    ls_attention_part part;
    int64_t batch, query_head;
} attention_task;

static attention_task task_at(const attention_job *job, int64_t index, char *staging)
{
    int64_t pieces = job->query_pieces + job->key_pieces, head = index / pieces, piece = index % pieces;
    attention_task task = {.problem = job->problem,
                           .part = {.query_end = job->problem.queries, .key_end = job->problem.keys},
                           .batch = head / job->heads_per_batch,
                           .query_head = head % job->heads_per_batch * job->problem.group};
    ls_attention_task *problem = &task.problem;
    set_addresses(job, problem, task.batch, task.query_head, staging);
    if (piece >= job->query_pieces) {
        piece_of(problem->keys, job->key_pieces, piece - job->query_pieces, &task.part.key_begin, &task.part.key_end);
        problem->dq.data = NULL;
    } else if (pieces > 1) {
        piece_of(problem->queries, job->query_pieces, piece, &task.part.query_begin, &task.part.query_end);
        problem->dk.data = problem->dv.data = NULL;
    }
    return task;
}

static int64_t task_count(const attention_job *job)
{
    return job->batch * job->heads_per_batch * (job->query_pieces + job->key_pieces);
}

static size_t task_scratch(const attention_job *job, attention_task task)
{
    return job->backward ? job->kernel->backward_scratch(&task.problem, &task.part)
                         : job->kernel->forward_scratch(&task.problem);
}

/* Scratch of the largest tasks: the first of the pieces of queries and of keys. */
static size_t most_scratch(const attention_job *job, char *staging)
{
    size_t by_queries = task_scratch(job, task_at(job, 0, staging));
    size_t by_keys = job->key_pieces ? task_scratch(job, task_at(job, job->query_pieces, staging)) : 0;
    return by_queries > by_keys ? by_queries : by_keys;
}

/* ---- Lengths ---------------------------------------------------------------------------------------------------- */

static int64_t length_of(const attention_job *job, int64_t batch)
{
    return ls_get_int(job->lengths->dtype, job->lengths->data, batch * job->lengths->stride[0]);
}

static ls_status check_lengths(const attention_job *job, ls_message *why)
{
    for (int64_t b = 0; job->lengths && b < job->batch; b++) {
        int64_t length = length_of(job, b), limit = job->problem.queries;
        if (length < 0 || length > limit)
            return ls_explain(why, LS_ERR_VALUE, "length %lld of sequence %lld is not in 0 .. %lld", (long long)length,
                              (long long)b, (long long)limit);
    }
    return LS_OK;
}

/* Write rows [begin, end) of a result for queries that see no key, or keys that no query sees. */
static void write_empty_rows(const attention_job *job, const attention_use *use, const ls_attention_matrix *matrix,
                             int64_t begin, int64_t end)
{
    bool lse = use->matrix == offsetof(ls_attention_task, lse);
    size_t number = ls_dtype_size(lse ? use->operand->dtype : job->dtype);
    for (int64_t head = 0; head < (use->of_keys ? 1 : job->problem.group); head++)
        for (int64_t row = begin; row < end; row++) {
            int64_t at = head * matrix->head + row * matrix->row;
            if (lse) ls_put(use->operand->dtype, matrix->data, at, -INFINITY);
            else memset((char *)matrix->data + (size_t)at * number, 0, (size_t)use->operand->dim[3] * number);
        }
}

/* ---- Padding ---------------------------------------------------------------------------------------------------- */

/* Rows of a task from which on nothing has to be computed. */
typedef struct attention_ends {
    int64_t queries, keys;
} attention_ends;

/* The mask of a task, if all of its queries and heads have the same one; NULL: they have not, or there is none. */
static const bool *common_mask(const attention_job *job, const ls_attention_task *problem)
{
    const ls_attention_mask *mask = &problem->mask;
    bool common = mask->dtype == LS_BOOL && (mask->row == 0 || problem->queries == 1) &&
                  (mask->head == 0 || job->query_heads == 1);
    return common ? mask->data : NULL;
}

/* Where masks end in padding, as those of tokenizers do, keys from there on are not read. What is left of such a mask
 * lets everything pass, and is dropped. */
static int64_t end_of_mask(const attention_job *job, ls_attention_task *problem)
{
    const bool *mask = common_mask(job, problem);
    int64_t step = problem->mask.step, keys = problem->keys, open = 0;
    if (!mask) return keys;
    while (keys > 0 && !mask[(keys - 1) * step]) keys--;
    if (keys == 0) return problem->keys; /* queries that see no key: the kernel's business */
    while (open < keys && mask[open * step]) open++;
    if (open == keys) problem->mask.data = NULL;
    return keys;
}

static attention_ends ends_of(const attention_job *job, attention_task *task)
{
    if (!job->lengths) return (attention_ends){task->problem.queries, end_of_mask(job, &task->problem)};
    int64_t length = length_of(job, task->batch);
    return (attention_ends){length, length};
}

/* Limit a task to rows before the padding, and write the results of the others. False if no work is left. */
static bool leave_out_padding(const attention_job *job, attention_task *task)
{
    if (!task->problem.keys) task->problem.mask.data = NULL; /* results are those of no key, masked or not */
    if (!job->lengths && !task->problem.mask.data) return true;
    ls_attention_part *part = &task->part;
    attention_ends end = ends_of(job, task);
    for (const attention_use *use = job->use; use < job->use + job->n_use; use++) {
        const ls_attention_matrix *matrix = (const void *)((const char *)&task->problem + use->matrix);
        if (!use->out || !matrix->data) continue;
        if (use->of_keys) write_empty_rows(job, use, matrix, most(end.keys, part->key_begin), part->key_end);
        else write_empty_rows(job, use, matrix, most(end.queries, part->query_begin), part->query_end);
    }
    task->problem.queries = end.queries;
    task->problem.keys = end.keys;
    part->query_end = least(part->query_end, end.queries);
    part->key_end = least(part->key_end, end.keys);
    return part->query_begin < part->query_end && part->key_begin < part->key_end;
}

/* A task as far as another one is concerned that prefetches for it. */
static attention_task upcoming(const attention_job *job, int64_t index, char *staging)
{
    attention_task task = task_at(job, index, staging);
    attention_ends end = ends_of(job, &task);
    task.problem.queries = end.queries;
    task.problem.keys = end.keys;
    return task;
}

/* ---- Running ---------------------------------------------------------------------------------------------------- */

/* Every worker allocates its memory, even if no task is left for it: which worker comes too late is random, and after
 * the first step training should not allocate any more. */
static void run_tasks(void *arg, ls_worker worker)
{
    attention_job *job = arg;
    int64_t tasks = task_count(job);
    char *staging = ls_scratch(worker, 1, all_staged_bytes(job));
    void *scratch = staging ? ls_scratch(worker, 0, most_scratch(job, staging) + 64) : NULL;
    if (!scratch) {
        atomic_store(&job->out_of_memory, true);
        return;
    }
    for (int64_t index = atomic_fetch_add(&job->next_task, 1), next; index < tasks; index = next) {
        attention_task task = task_at(job, index, staging), later;
        ls_attention_part whole = task.part;
        next = atomic_fetch_add(&job->next_task, 1); /* claimed early, so that the kernel can prefetch it */
        if (next < tasks) {
            later = upcoming(job, next, staging);
            task.part.next = &later.problem;
        }
        if (leave_out_padding(job, &task)) {
            move_staged(job, &task.problem, &task.part, task.batch, task.query_head, false);
            (job->backward ? job->kernel->backward : job->kernel->forward)(&task.problem, &task.part, scratch);
        }
        move_staged(job, &task.problem, &whole, task.batch, task.query_head, true);
    }
}

static ls_status run_job(attention_job *job, ls_message *why)
{
    int64_t tasks = task_count(job);
    ls_status status = check_lengths(job, why);
    if (status != LS_OK || !tasks) return status;
    ls_parallel(run_tasks, job, (int)least(tasks, ls_parallel_width()));
    if (job->out_of_memory) return ls_explain(why, LS_ERR_MEMORY, "no memory for the scratch of attention");
    return LS_OK;
}

/* ---- The operators ---------------------------------------------------------------------------------------------- */

static void use_operand(attention_job *job, const ls_operand *x, size_t matrix, bool of_keys, bool out)
{
    if (!x) return;
    bool vector =
        matrix == offsetof(ls_attention_task, lse); /* one value per row: no last dimension to be contiguous */
    bool staged = !vector && (x->dtype != job->dtype || (x->stride[3] != 1 && x->dim[3] > 1));
    job->use[job->n_use++] = (attention_use){x, matrix, of_keys, out, staged};
}

/* Setup common to forward and backward. */
static void start_job(attention_job *job, const ls_call *call, const ls_operand *q, const ls_operand *k,
                      const ls_operand *v, const ls_operand *mask, const ls_operand *lengths)
{
    /* Fast kernels assume a positive scale, so that larger products are larger scores, and nonempty rows. */
    bool usual = call->attrs.attention.scale > 0 && q->dim[3] > 0 && v->dim[3] > 0;
    const ls_attention_table *kernels = usual ? ls_attention_kernels() : &ls_attention_ref;
    bool bf16 = q->dtype == LS_BF16 && kernels->bf16;
    job->kernel = q->dtype == LS_F64 ? kernels->f64 : bf16 ? kernels->bf16 : kernels->f32;
    job->dtype = q->dtype == LS_F64 || bf16 ? q->dtype : LS_F32;
    job->mask = mask;
    job->lengths = lengths;
    job->batch = q->dim[0];
    job->query_heads = q->dim[1];
    job->key_heads = k->dim[1];

    double p = call->attrs.attention.dropout;
    uint32_t below = ls_dropout_threshold(p); /* of 24 bits */
    bool keeps = below >> 24 == 0;
    job->problem = (ls_attention_task){
        .queries = q->dim[2],
        .keys = k->dim[2],
        .depth = q->dim[3],
        .value_depth = v->dim[3],
        .group = 1,
        .scale = call->attrs.attention.scale,
        .causal = call->attrs.attention.causal,
        .drop_below = keeps ? below << 8 : UINT32_MAX,
        .keep_scale = keeps ? 1 / (1 - p) : 0,
        .seed = call->attrs.attention.seed,
        .offset = call->attrs.attention.offset,
        .drawn_row = k->dim[2],
        .drawn_head = q->dim[2] * k->dim[2],
    };
    if (mask)
        job->problem.mask = (ls_attention_mask){
            .dtype = mask->dtype, .head = mask->stride[1], .row = mask->stride[2], .step = mask->stride[3]};
    use_operand(job, q, offsetof(ls_attention_task, q), false, false);
    use_operand(job, k, offsetof(ls_attention_task, k), true, false);
    use_operand(job, v, offsetof(ls_attention_task, v), true, false);
}

/* in: q [B,H,Sq,D], k [B,Hk,Skv,D], v [B,Hk,Skv,Dv], mask? [B,H,Sq,Skv] (bool: true attends; float: added to scores
 *     as ls_attention_bias has it), lengths? [B] (i32 or i64; Sq == Skv)
 * out: o [B,H,Sq,Dv], lse? [B,H,Sq] (f64 for f64, else f32), kept? [B,H,Sq,bytes] (u8), for the gradient only
 * Hk divides H: query head h uses key head h / (H / Hk). attrs: attention. A query that sees no key gives zeros and an
 * lse of -infinity. The score [b,h,i,j] is dropped as element [b,h,i,j] of a tensor [B,H,Sq,Skv] would be. Of sequence
 * b only the first lengths[b] queries and keys exist: those beyond are never read, such a query sees no key and such a
 * key is seen by no query. Any operand may be strided: q, k, v and their gradients may be parts of one tensor. */
ls_status ls_cpu_attention(const ls_call *call, ls_message *why)
{
    attention_job job = {.backward = false};
    const ls_operand *mask = call->n_in > 3 ? call->in[3] : NULL;
    const ls_operand *lengths = call->n_in > 4 ? call->in[4] : NULL;
    start_job(&job, call, call->in[0], call->in[1], call->in[2], mask, lengths);
    use_operand(&job, call->out[0], offsetof(ls_attention_task, o), false, true);
    use_operand(&job, call->n_out > 1 ? call->out[1] : NULL, offsetof(ls_attention_task, lse), false, true);
    job.kept = call->n_out > 2 ? call->out[2] : NULL;
    job.heads_per_batch = job.query_heads;
    job.query_pieces = pieces_of(job.problem.queries, job.batch * job.query_heads);
    return run_job(&job, why);
}

/* in: do [B,H,Sq,Dv], q [B,H,Sq,D], k [B,Hk,Skv,D], v [B,Hk,Skv,Dv], o [B,H,Sq,Dv], lse [B,H,Sq], mask? [B,H,Sq,Skv],
 *     kept? [B,H,Sq,bytes], lengths? [B]
 * out: dq? like q, dk? like k, dv? like v
 * attrs: those of the attention call that made o and lse. Gradients of rows beyond the lengths are 0. */
ls_status ls_cpu_attention_grad(const ls_call *call, ls_message *why)
{
    attention_job job = {.backward = true};
    const ls_operand *mask = call->n_in > 6 ? call->in[6] : NULL;
    const ls_operand *lengths = call->n_in > 8 ? call->in[8] : NULL;
    start_job(&job, call, call->in[1], call->in[2], call->in[3], mask, lengths);
    use_operand(&job, call->in[0], offsetof(ls_attention_task, d_o), false, false);
    use_operand(&job, call->in[4], offsetof(ls_attention_task, o), false, false);
    use_operand(&job, call->in[5], offsetof(ls_attention_task, lse), false, false);
    use_operand(&job, call->out[0], offsetof(ls_attention_task, dq), false, true);
    use_operand(&job, call->n_out > 1 ? call->out[1] : NULL, offsetof(ls_attention_task, dk), true, true);
    use_operand(&job, call->n_out > 2 ? call->out[2] : NULL, offsetof(ls_attention_task, dv), true, true);

    job.kept = call->n_in > 7 ? call->in[7] : NULL;

    bool dq = call->out[0], dkv = (call->n_out > 1 && call->out[1]) || (call->n_out > 2 && call->out[2]);
    job.problem.group = job.key_heads ? job.query_heads / job.key_heads : 1;
    job.heads_per_batch = job.key_heads;
    int64_t heads = job.batch * job.key_heads;
    job.query_pieces = dq ? pieces_of(job.problem.queries, heads) : 0;
    job.key_pieces = dkv ? pieces_of(job.problem.keys, heads) : 0;
    if (job.query_pieces == 1 && job.key_pieces == 1) job.key_pieces = 0; /* one pass does both */
    return run_job(&job, why);
}
