/* across.c - tensors and bytes of all processes: gather, reduce, broadcast, pad, split.
 *
 * Descriptions are exchanged before data, so that processes that disagree get an error that names both sides instead
 * of waiting for each other. */
#include <lockstep/ops.h>

#include <string.h>

#include "base/memory.h"
#include "base/opts.h"
#include "run/across.h"
#include "run/share.h"
#include "tensor/exchange.h"

/* ---- helpers ---- */

typedef struct description {
    int64_t dtype, ndim, dim[LS_MAX_DIMS];
} description;

static description describe(const ls_tensor *t)
{
    description d = {.dtype = t->view.dtype, .ndim = t->view.ndim};
    for (int i = 0; i < t->view.ndim; i++) d.dim[i] = t->view.dim[i];
    return d;
}

static char *description_text(const description *d, char text[LS_TEXT])
{
    ls_operand x = {.dtype = (ls_dtype)d->dtype, .ndim = (int32_t)d->ndim};
    for (int i = 0; i < x.ndim; i++) x.dim[i] = d->dim[i];
    return ls_operand_text(&x, text);
}

static size_t bytes_of(const ls_tensor *t)
{
    return (size_t)ls_view_numel(&t->view) * ls_dtype_size(t->view.dtype);
}

/* The descriptions of all ranks, freed by the caller. NULL after a failure. Sizes may differ in dimension free_dim; -1:
 * in none. A rank without a tensor (ndim -1) uses the description of rank 0 or, in a broadcast, of the source. */
static description *agree(ls_run *run, const ls_tensor *t, int free_dim, int model, const char *who)
{
    ls_comm *comm = run->comm;
    description mine = t ? describe(t) : (description){.ndim = -1};
    description *all = ls_sys_alloc((size_t)comm->size * sizeof *all);
    if (!all) return ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory", who), NULL;
    bool ok = ls_exchange_all(run, &mine, all, sizeof mine, who);
    if (ok && all[model].ndim < 0) {
        ok = false;
        ls_fail(&run->errors, LS_ERR_VALUE, "%s: process %d has no tensor to send", who, model);
    }
    for (int r = 0; ok && r < comm->size; r++) {
        description a = all[model], b = all[r];
        if (b.ndim < 0) continue;
        if (free_dim >= 0) a.dim[free_dim] = b.dim[free_dim] = 0;
        ok = memcmp(&a, &b, sizeof a) == 0;
        if (!ok)
            ls_fail(&run->errors, LS_ERR_SHAPE, "%s: process %d has %s, process %d has %s", who, model,
                    description_text(&all[model], (char[LS_TEXT]){0}), r,
                    description_text(&all[r], (char[LS_TEXT]){0}));
    }
    if (ok) return all;
    ls_sys_free(all);
    return NULL;
}

static bool ready(ls_run *run, const ls_tensor *t, const char *who)
{
    return ls_session_of(run) && ls_check_live(run, t, who);
}

static bool alone(const ls_run *run)
{
    return run->comm->size == 1;
}

/* ---- gather ---- */

/* `all` holds one slot of slot_bytes per rank; remove the unfilled parts. */
static void close_gaps(char *all, const description *d, int count, size_t row_bytes, size_t slot_bytes)
{
    char *to = all;
    for (int r = 0; r < count; r++) {
        size_t bytes = (size_t)d[r].dim[0] * row_bytes;
        memmove(to, all + (size_t)r * slot_bytes, bytes);
        to += bytes;
    }
}

static ls_tensor *gather_rows(ls_run *run, ls_tensor *t, const char *who)
{
    ls_comm *comm = run->comm;
    description *d = agree(run, t, 0, 0, who);
    if (!d) return &run->poison;
    ls_shape shape = ls_shape_of(t);
    int64_t largest = 0, total = 0;
    for (int r = 0; r < comm->size; r++) {
        total += d[r].dim[0];
        if (d[r].dim[0] > largest) largest = d[r].dim[0];
    }
    shape.dim[0] = 1;
    size_t row_bytes = (size_t)ls_shape_numel(shape) * ls_dtype_size(t->view.dtype);
    size_t slot_bytes = (size_t)largest * row_bytes;
    shape.dim[0] = total;
    ls_tensor *result = &run->poison;
    char *memory = ls_sys_alloc(slot_bytes * (size_t)(comm->size + 1) + 1);
    if (!memory) {
        ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory for %zu bytes of every process", who, slot_bytes);
        goto free_descriptions;
    }
    char *mine = memory + slot_bytes * (size_t)comm->size;
    if (ls_read(t, mine, bytes_of(t)) && ls_exchange_all(run, mine, memory, slot_bytes, who)) {
        close_gaps(memory, d, comm->size, row_bytes, slot_bytes);
        result = ls_from(run, t->view.dtype, shape, memory);
    }
    ls_sys_free(memory);
free_descriptions:
    ls_sys_free(d);
    return result;
}

static ls_tensor *gather(ls_run *run, ls_tensor *t, const char *who)
{
    if (!ready(run, t, who)) return &run->poison;
    ls_no_grad_begin(run);
    if (ls_ndim(t) == 0) t = ls_reshape(t, 1);
    ls_no_grad_end(run);
    return alone(run) ? t : gather_rows(run, t, who);
}

ls_tensor *ls_gather_with_repeats(ls_run *run, ls_tensor *t)
{
    return gather(run, t, "ls_gather_with_repeats");
}

ls_tensor *ls_gather(ls_run *run, ls_tensor *t)
{
    ls_tensor *all = gather(run, t, "ls_gather");
    const ls_loop *loop = run->step->loop;
    bool by_sample = loop && !ls_failed(run) && ls_ndim(t) > 0 && ls_dim(t, 0) == loop->rows;
    if (!by_sample || loop->real_rows < 0 || loop->real_rows >= ls_dim(all, 0)) return all;
    ls_no_grad_begin(run);
    all = ls_slice(all, 0, 0, loop->real_rows, 1);
    ls_no_grad_end(run);
    return all;
}

ls_gathered ls_gather_object(ls_run *run, const void *data, size_t size)
{
    if (!data && size) {
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_gather_object: the data is NULL");
        return (ls_gathered){0};
    }
    return ls_gather_bytes(run, data, size, "ls_gather_object");
}

ls_gathered ls_gather_bytes(ls_run *run, const void *data, size_t size, const char *who)
{
    ls_gathered all_of_them = {0};
    ls_session *session = ls_session_of(run);
    if (!session) return all_of_them;
    size_t count = (size_t)run->comm->size, largest = 0;
    size_t *sizes = ls_sys_alloc(count * sizeof *sizes);
    bool ok = sizes && ls_exchange_all(run, &size, sizes, sizeof size, who);
    for (size_t r = 0; ok && r < count; r++)
        if (sizes[r] > largest) largest = sizes[r];
    /* one block: pointers, sizes, the bytes of all ranks, and this rank's bytes as sent */
    size_t lead = count * (sizeof(void *) + sizeof(size_t));
    char *block = ok ? ls_sys_alloc(lead + (count + 1) * largest + 1) : NULL;
    if (block) {
        const void **pointers = (const void **)(void *)block;
        size_t *lengths = (size_t *)(void *)(pointers + count);
        char *all = block + lead, *mine = all + count * largest;
        if (size) memcpy(mine, data, size);
        memcpy(lengths, sizes, count * sizeof *lengths);
        for (size_t r = 0; r < count; r++) pointers[r] = all + r * largest;
        ok = ls_exchange_all(run, mine, all, largest, who);
        ls_sys_free(session->gathered);
        session->gathered = block;
        if (ok) all_of_them = (ls_gathered){run->comm->size, pointers, lengths};
    } else if (!ls_failed(run)) {
        ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory for %zu bytes of every process", who, largest);
    }
    ls_sys_free(sizes);
    return all_of_them;
}

/* ---- reduce, broadcast ---- */

/* Rank `model` determines the result; the others have the same tensor or, if t is NULL, none. */
static ls_tensor *exchange(ls_run *run, ls_tensor *t, int model, ls_comm_call call, const char *who)
{
    description *d = agree(run, t, -1, model, who);
    if (!d) return &run->poison;
    ls_shape shape = {.ndim = (int32_t)d[model].ndim};
    for (int i = 0; i < shape.ndim; i++) shape.dim[i] = d[model].dim[i];
    call.dtype = (ls_dtype)d[model].dtype;
    call.count = ls_shape_numel(shape);
    call.site = who;
    ls_sys_free(d);
    ls_tensor *result = ls_tensor_new(run, t ? t->storage->device : run->device, call.dtype, shape);
    if (!ls_is_valid(result) || (t && !ls_raw_copy(result, t))) return &run->poison;
    call.in = call.out = result->view.data;
    ls_message why = {{0}};
    ls_status status = ls_comm_run_on(run->comm, result->storage->device, &call, &why);
    return status ? LS_POISON(run, status, "%s: %s", who, why.text) : result;
}

ls_tensor *ls_reduce(ls_run *run, ls_tensor *t, ls_reduction how)
{
    if (!ready(run, t, "ls_reduce")) return &run->poison;
    if ((unsigned)how >= LS_REDUCE_NONE)
        return LS_POISON(run, LS_ERR_VALUE, "ls_reduce: reduction %d; must be LS_REDUCE_SUM, MEAN, MAX, MIN or PROD",
                         (int)how);
    if (how == LS_REDUCE_MEAN && !ls_dtype_is_float(t->view.dtype))
        return LS_POISON(run, LS_ERR_DTYPE, "ls_reduce: the mean of %s needs a floating type; ls_cast() it first",
                         ls_dtype_name(t->view.dtype));
    return exchange(run, t, 0, (ls_comm_call){.kind = LS_COMM_ALL_REDUCE, .op = how}, "ls_reduce");
}

ls_tensor *ls_broadcast(ls_run *run, ls_tensor *t, int from)
{
    if (!ls_session_of(run) || (t && !ls_check_live(run, t, "ls_broadcast"))) return &run->poison;
    if (from < 0 || from >= ls_world_size(run))
        return LS_POISON(run, LS_ERR_VALUE, "ls_broadcast: there is no process %d of %d", from, ls_world_size(run));
    return exchange(run, t, from, (ls_comm_call){.kind = LS_COMM_BROADCAST, .peer = from}, "ls_broadcast");
}

/* ---- pad, split ---- */

ls_tensor *ls_pad_across_processes_sized(ls_run *run, ls_tensor *t, const ls_pad_across_processes_opts *opts,
                                         size_t opts_size)
{
    ls_pad_across_processes_opts o = LS_OPTS_READ(ls_pad_across_processes_opts, opts, opts_size);
    if (!ready(run, t, "ls_pad_across_processes")) return &run->poison;
    int dim = o.dim < 0 ? o.dim + ls_ndim(t) : o.dim;
    if (dim < 0 || dim >= ls_ndim(t) || alone(run)) return t;
    description *d = agree(run, t, dim, 0, "ls_pad_across_processes");
    if (!d) return &run->poison;
    int64_t largest = 0;
    for (int r = 0; r < run->comm->size; r++)
        if (d[r].dim[dim] > largest) largest = d[r].dim[dim];
    ls_sys_free(d);
    ls_shape none = {.ndim = ls_ndim(t)}, missing = none;
    missing.dim[dim] = largest - ls_dim(t, dim);
    if (missing.dim[dim] == 0) return t;
    ls_no_grad_begin(run);
    ls_tensor *padded = o.first ? ls_pad(t, missing, none, o.value) : ls_pad(t, none, missing, o.value);
    ls_no_grad_end(run);
    return padded;
}

ls_range ls_split_between_processes(ls_run *run, int64_t count)
{
    return ls_share_of(count, ls_rank(run), ls_world_size(run));
}

ls_tensor *ls_split_tensor_between_processes(ls_run *run, ls_tensor *t, bool pad)
{
    if (!ready(run, t, "ls_split_tensor_between_processes")) return &run->poison;
    if (ls_ndim(t) == 0)
        return LS_POISON(run, LS_ERR_SHAPE, "ls_split_tensor_between_processes: [] has no rows to split");
    int64_t rows = ls_dim(t, 0), largest = ls_share_largest(rows, ls_world_size(run));
    ls_range mine = ls_split_between_processes(run, rows);
    if (alone(run)) return t;
    ls_no_grad_begin(run);
    ls_tensor *part = ls_slice(t, 0, mine.begin, mine.end, 1);
    if (pad && mine.end - mine.begin < largest && rows > 0)
        part = ls_concat(0, part, ls_slice(t, 0, rows - 1, rows, 1));
    ls_no_grad_end(run);
    return part;
}
