/* collective.c - collectives through shared memory.
 *
 * Data outside shared memory passes through the stages piece by piece: every rank puts a piece, all make a step, every
 * rank gets what it needs from the pieces of all. The first piece is put before headers are compared, so that a small
 * call costs one step. */
#include <string.h>

#include "comm/helpers.h"
#include "comm/shm/shm.h"
#include "kernels/combine.h"

/* State of one call. Sizes are in bytes. */
typedef struct job {
    ls_shm *shm;
    const ls_comm_call *call;
    int rank, size;
    size_t element, bytes; /* bytes: of `count` elements */
    size_t part;           /* share of a half stage per rank, where each rank gets different data */
} job;

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Bytes in piece number `piece` of an array cut into pieces of at most `most` bytes. */
static size_t piece_of(size_t bytes, size_t most, int64_t piece)
{
    size_t before = (size_t)piece * most;
    return bytes > before ? smaller(bytes - before, most) : 0;
}

static size_t bytes_of(const job *j, const int64_t *counts, int rank)
{
    return counts ? (size_t)counts[rank] * j->element : j->bytes;
}

static size_t bytes_before(const job *j, const int64_t *counts, int rank)
{
    size_t sum = 0;
    for (int r = 0; r < rank; r++) sum += bytes_of(j, counts, r);
    return sum;
}

static void copy(void *to, const void *from, size_t bytes)
{
    if (bytes) memcpy(to, from, bytes);
}

/* ---- large work ---- */

ls_fold ls_comm_fold(ls_reduction op)
{
    static const ls_fold folds[LS_REDUCE_NONE] = {[LS_REDUCE_SUM] = LS_FOLD_SUM,
                                                  [LS_REDUCE_MEAN] = LS_FOLD_SUM,
                                                  [LS_REDUCE_MAX] = LS_FOLD_MAX,
                                                  [LS_REDUCE_MIN] = LS_FOLD_MIN,
                                                  [LS_REDUCE_PROD] = LS_FOLD_PROD};
    return folds[op];
}

typedef struct folding {
    const job *job;
    char *const *rows, *const *to;
    int copies;
    size_t begin;
} folding;

static void fold_part(void *user, size_t from, size_t end)
{
    const folding *f = user;
    const job *j = f->job;
    const void *x[LS_SEGMENT_MOST];
    void *y[LS_SEGMENT_MOST];
    for (int r = 0; r < j->size; r++) x[r] = f->rows[r] + f->begin + from;
    for (int k = 0; k < f->copies; k++) y[k] = f->to[k] + f->begin + from;
    double scale = j->call->op == LS_REDUCE_MEAN ? 1.0 / j->size : 1.0;
    ls_combine_kernels()->fold_rows(j->call->dtype, j->call->dtype, ls_comm_fold(j->call->op), scale, y, f->copies, x,
                                    j->size, (int64_t)((end - from) / j->element));
}

/* Fold bytes [begin, end) of the rows of all ranks, into each of `copies` destinations. */
static void fold(const job *j, char *const *rows, char *const *to, int copies, size_t begin, size_t end)
{
    folding f = {j, rows, to, copies, begin};
    if (begin < end) ls_helpers_run(j->shm->comm.helpers, end - begin, fold_part, &f);
}

typedef struct copying {
    char *to;
    const char *from;
} copying;

static void copy_part(void *user, size_t begin, size_t end)
{
    const copying *c = user;
    copy(c->to + begin, c->from + begin, end - begin);
}

/* Like copy, with helper threads for large arrays. */
static void copy_array(const job *j, char *to, const char *from, size_t bytes)
{
    ls_helpers_run(j->shm->comm.helpers, bytes, copy_part, &(copying){to, from});
}

/* The bytes of an array that a rank reduces: whole cache lines, evenly divided. */
static void slice_of(const job *j, size_t bytes, int rank, size_t *begin, size_t *end)
{
    size_t each = ((bytes + (size_t)j->size - 1) / (size_t)j->size + 63) / 64 * 64;
    *begin = smaller(each * (size_t)rank, bytes);
    *end = smaller(*begin + each, bytes);
}

static void stages_of(const job *j, char **rows)
{
    for (int r = 0; r < j->size; r++) rows[r] = ls_shm_stage(j->shm, r);
}

/* ---- pieces ---- */

/* Bytes of the largest contribution per piece. */
static size_t piece_bytes(const job *j)
{
    switch (j->call->kind) {
    case LS_COMM_REDUCE_SCATTER:
    case LS_COMM_SCATTER: return j->part;
    case LS_COMM_ALL_TO_ALL: return j->part - 64; /* the first cache line of a part holds the byte count */
    default: return LS_SHM_HALF;
    }
}

static void put(const job *j, int64_t piece)
{
    const ls_comm_call *call = j->call;
    size_t most = piece_bytes(j), from = (size_t)piece * most;
    const char *in = call->kind == LS_COMM_BROADCAST ? call->out : call->in;
    j->shm->half ^= 1;
    char *stage = ls_shm_stage(j->shm, j->rank);
    switch (call->kind) {
    case LS_COMM_BARRIER: break;
    case LS_COMM_REDUCE_SCATTER:
    case LS_COMM_SCATTER:
        for (int r = 0; (j->rank == call->peer || call->kind == LS_COMM_REDUCE_SCATTER) && r < j->size; r++)
            copy(stage + (size_t)r * j->part, in + bytes_before(j, call->counts, r) + from,
                 piece_of(bytes_of(j, call->counts, r), most, piece));
        break;
    case LS_COMM_ALL_TO_ALL:
        for (int r = 0; r < j->size; r++) {
            uint64_t whole = bytes_of(j, call->counts, r);
            copy(stage + (size_t)r * j->part, &whole, sizeof whole);
            copy(stage + (size_t)r * j->part + 64, in + bytes_before(j, call->counts, r) + from,
                 piece_of(whole, most, piece));
        }
        break;
    case LS_COMM_BROADCAST:
        if (j->rank == call->peer) copy(stage, in + from, piece_of(j->bytes, most, piece));
        break;
    default: copy(stage, in + from, piece_of(j->bytes, most, piece)); break;
    }
}

static ls_status get_of_all(const job *j, int64_t piece)
{
    const ls_comm_call *call = j->call;
    size_t most = piece_bytes(j), from = (size_t)piece * most;
    for (int r = 0; r < j->size; r++) {
        const char *part = ls_shm_stage(j->shm, r) + (size_t)j->rank * j->part;
        uint64_t sent;
        size_t wanted = bytes_of(j, call->out_counts, r);
        copy(&sent, part, sizeof sent);
        if (sent != wanted) return ls_shm_wrong_size(j->shm, ls_shm_job_rank(j->shm, r), sent, wanted);
        copy((char *)call->out + bytes_before(j, call->out_counts, r) + from, part + 64, piece_of(wanted, most, piece));
    }
    return LS_OK;
}

static ls_status get(const job *j, int64_t piece, ls_message *why)
{
    const ls_comm_call *call = j->call;
    size_t most = piece_bytes(j), from = (size_t)piece * most, here = piece_of(j->bytes, most, piece);
    char *rows[LS_SEGMENT_MOST], *out = (char *)call->out + (call->out ? from : 0);
    stages_of(j, rows);
    switch (call->kind) {
    case LS_COMM_REDUCE:
        if (j->rank == call->peer) fold(j, rows, &out, 1, 0, here);
        return LS_OK;
    case LS_COMM_REDUCE_SCATTER:
        for (int r = 0; r < j->size; r++) rows[r] += (size_t)j->rank * j->part;
        fold(j, rows, &out, 1, 0, here);
        return LS_OK;
    case LS_COMM_SCATTER: copy(out, rows[call->peer] + (size_t)j->rank * j->part, here); return LS_OK;
    case LS_COMM_BROADCAST:
        if (j->rank != call->peer) copy(out, rows[call->peer], here);
        return LS_OK;
    case LS_COMM_ALL_TO_ALL: return get_of_all(j, piece);
    case LS_COMM_GATHER:
        if (j->rank != call->peer) return LS_OK;
        /* fall through */
    case LS_COMM_ALL_GATHER:
        for (int r = 0; r < j->size; r++)
            copy((char *)call->out + bytes_before(j, call->counts, r) + from, rows[r],
                 piece_of(bytes_of(j, call->counts, r), most, piece));
        return LS_OK;
    case LS_COMM_ALL_REDUCE: break;
    default: return LS_OK;
    }
    /* Every rank reduces everything if it is small, or if there are two ranks, where halving would save reductions but
     * add a copy. */
    if (j->size == 2 || j->bytes * (size_t)j->size <= LS_SHM_SMALL) {
        rows[j->rank] = (char *)(uintptr_t)call->in + from; /* likelier to be in cache than the stage */
        fold(j, rows, &out, 1, 0, here);
        return LS_OK;
    }
    size_t begin, end;
    slice_of(j, here, j->rank, &begin, &end);
    fold(j, rows, &rows[j->rank], 1, begin, end);
    ls_status status = ls_shm_step(j->shm, why);
    for (int r = 0; !status && r < j->size; r++) {
        slice_of(j, here, r, &begin, &end);
        copy(out + begin, rows[r] + begin, end - begin);
    }
    return status;
}

/* ---- arrays in shared memory ---- */

/* Each rank reduces a slice and writes it into every rank's array, to cache lines that it has just read. If the others
 * had to fetch the results from where they were formed, 8 ranks of one processor would take three to five times as
 * long. */
static ls_status all_reduce_in_place(const job *j, char **rows, ls_message *why)
{
    size_t begin, end;
    slice_of(j, j->bytes, j->rank, &begin, &end);
    fold(j, rows, rows, j->size, begin, end);
    return ls_shm_step(j->shm, why);
}

/* All ranks have arrived, so their arrays may be read; none returns while another still reads. */
static ls_status work_in_place(const job *j, ls_message *why)
{
    char *rows[LS_SEGMENT_MOST];
    const int64_t *counts = j->call->counts;
    for (int r = 0; r < j->size; r++) rows[r] = ls_shm_shared(j->shm, r);
    if (j->call->kind == LS_COMM_ALL_REDUCE) return all_reduce_in_place(j, rows, why);
    if (j->call->kind == LS_COMM_REDUCE_SCATTER) {
        size_t begin = bytes_before(j, counts, j->rank);
        fold(j, rows, &rows[j->rank], 1, begin, begin + j->bytes);
    }
    for (int i = 1; j->call->kind == LS_COMM_ALL_GATHER && i < j->size; i++) {
        int r = (j->rank + i) % j->size;
        size_t begin = bytes_before(j, counts, r);
        copy_array(j, rows[j->rank] + begin, rows[r] + begin, bytes_of(j, counts, r));
    }
    return ls_shm_step(j->shm, why);
}

/* ---- comparing headers ---- */

/* All headers are published: they must match, and sizes that may differ must be those this rank expects. */
static ls_status check_headers(const job *j)
{
    ls_comm_kind kind = j->call->kind;
    bool knows_sizes = kind == LS_COMM_ALL_GATHER || kind == LS_COMM_REDUCE_SCATTER ||
                       ((kind == LS_COMM_GATHER || kind == LS_COMM_SCATTER) && j->rank == j->call->peer);
    const ls_call_header *first = ls_shm_header(j->shm, 0);
    for (int r = 0; r < j->size; r++) {
        const ls_call_header *header = ls_shm_header(j->shm, r);
        size_t wanted = knows_sizes ? bytes_of(j, j->call->counts, r) : 0;
        if (!ls_headers_agree(&first->what, &header->what) ||
            (knows_sizes && !j->call->counts && first->what.count != header->what.count))
            return ls_shm_disagree(j->shm, ls_shm_job_rank(j->shm, 0), &first->what, ls_shm_job_rank(j->shm, r),
                                   &header->what);
        if (knows_sizes && wanted != (size_t)header->what.count * j->element)
            return ls_shm_wrong_size(j->shm, ls_shm_job_rank(j->shm, r), (size_t)header->what.count * j->element,
                                     wanted);
    }
    return LS_OK;
}

/* Is the call large enough to check for shared arrays before copying? Decided from values that all ranks share. */
static bool is_large(const job *j)
{
    size_t bytes = j->bytes;
    switch (j->call->kind) {
    case LS_COMM_REDUCE_SCATTER:
    case LS_COMM_ALL_GATHER: bytes = bytes_before(j, j->call->counts, j->size); break;
    case LS_COMM_ALL_REDUCE: break;
    default: return false;
    }
    return bytes * (size_t)j->size > LS_SHM_SMALL;
}

static int64_t piece_count(const job *j)
{
    int64_t largest = 0;
    for (int r = 0; r < j->size; r++) {
        int64_t extent = ls_shm_header(j->shm, r)->extent;
        if (extent > largest) largest = extent;
    }
    size_t most = piece_bytes(j), bytes = (size_t)largest * j->element;
    return bytes ? (int64_t)((bytes + most - 1) / most) : 1;
}

ls_status ls_shm_collective(ls_shm *shm, const ls_comm_call *call, ls_message *why)
{
    job j = {.shm = shm, .call = call, .rank = shm->comm.rank, .size = shm->comm.size};
    j.element = ls_dtype_size(call->dtype);
    j.bytes = (size_t)call->count * j.element;
    j.part = LS_SHM_HALF / (size_t)j.size / 64 * 64;
    bool large = is_large(&j);
    if (!large) put(&j, 0);
    ls_status status = ls_shm_step(shm, why);
    if (!status) {
        status = check_headers(&j);
        if (status) *why = shm->broken;
    }
    if (status) return status;
    if (large && ls_shm_all_shared(shm)) return work_in_place(&j, why);
    int64_t pieces = piece_count(&j);
    for (int64_t piece = 0; piece < pieces && !status; piece++) {
        if (piece > 0 || large) {
            put(&j, piece);
            status = ls_shm_step(shm, why);
        }
        if (status) return status;
        status = get(&j, piece, why);
        if (status && shm->broken.text[0]) *why = shm->broken;
    }
    return status;
}
