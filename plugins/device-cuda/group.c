/* group.c - collectives between the GPUs of several processes, by NCCL.
 *
 * A communicator of NCCL is opened so that no call of it blocks: calls that are in progress are waited for up to the
 * limit of LOCKSTEP_COMM_TIMEOUT. A collective that was submitted waits on the GPU, where nothing limits it, and a host
 * that waits for the stream would wait as long: a thread per group watches the last one. If that is too late, the
 * thread gives the communicator up, which ends the kernels; the wait for the stream, and the next call, report it. */
#include "group.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "../thread.h"
#include "../variables.h"
#include "nccl.h"

typedef struct group {
    const nccl_functions *nccl;
    cuda_device *device;
    nccl_comm *comm; /* NULL after it was given up */
    int rank, size;
    int64_t limit; /* seconds to wait for other ranks; 0: none */

    pthread_t watcher;
    pthread_mutex_t lock; /* of the rest, and of calls with `comm` */
    pthread_cond_t changed;
    cudaEvent_t last;   /* after the last collective */
    time_t submitted;   /* when it was; 0: none is in progress */
    bool ends, watched; /* the watcher is to end; there is one */
    ls_message why;     /* the first failure */
} group;

/* The group whose watcher gave it up, if any. */
static _Atomic(group *) lost;

static time_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1; /* never 0 */
}

static void sleep_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

/* ---- failures ---- */

/* Remember the first failure. The group is useless from then on. */
static ls_status fail(group *g, const char *what, nccl_result result, ls_message *why)
{
    if (!g->why.text[0])
        cuda_refuse(&g->why, LS_ERR_DEVICE, "NCCL, %s: %s; %.120s", what, g->nccl->text(result),
                    g->nccl->last_error(g->comm));
    *why = g->why;
    return result == NCCL_REMOTE_ERROR ? LS_ERR_PEER : LS_ERR_DEVICE;
}

static void give_up(group *g)
{
    if (g->comm) g->nccl->abort(g->comm);
    g->comm = NULL;
    g->submitted = 0;
}

/* Wait until a call is no longer in progress. */
static ls_status settle(group *g, const char *what, nccl_result result, ls_message *why)
{
    time_t began = now();
    while (result == NCCL_IN_PROGRESS) {
        if (g->limit && now() - began > g->limit) {
            cuda_refuse(&g->why, LS_ERR_PEER, "NCCL, %s: other ranks did not answer within %lld s", what,
                        (long long)g->limit);
            give_up(g);
            *why = g->why;
            return LS_ERR_PEER;
        }
        sleep_a_little();
        nccl_result asked = g->nccl->state(g->comm, &result);
        if (asked != NCCL_SUCCESS) result = asked;
    }
    return result == NCCL_SUCCESS ? LS_OK : fail(g, what, result, why);
}

/* ---- the watcher ---- */

static void look(group *g)
{
    if (!g->submitted || !g->comm) return;
    if (cudaEventQuery(g->last) != cudaErrorNotReady) {
        g->submitted = 0;
    } else if (now() - g->submitted > g->limit) {
        cuda_refuse(&g->why, LS_ERR_PEER,
                    "NCCL: a collective did not end within %lld s (LOCKSTEP_COMM_TIMEOUT): a process of the job hangs",
                    (long long)g->limit);
        atomic_store(&lost, g); /* before the stream continues */
        give_up(g);
    }
}

static void *watch(void *of)
{
    group *g = of;
    pthread_mutex_lock(&g->lock);
    if (cuda_enter(g->device, NULL) != LS_OK) g->ends = true;
    while (!g->ends) {
        struct timespec next;
        clock_gettime(CLOCK_MONOTONIC, &next);
        next.tv_sec++;
        pthread_cond_timedwait(&g->changed, &g->lock, &next);
        look(g);
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

/* ---- opening and closing ---- */

static ls_status group_id(void *device, char id[LS_GROUP_ID_BYTES], ls_message *why)
{
    cuda_device *d = device;
    nccl_id made;
    const nccl_functions *nccl = nccl_load(why);
    if (!nccl) return LS_ERR_UNSUPPORTED;
    CUDA_TRY(cuda_enter(d, why));
    nccl_result result = nccl->make_id(&made);
    memcpy(id, made.bytes, sizeof made.bytes);
    return result == NCCL_SUCCESS ? LS_OK : cuda_refuse(why, LS_ERR_DEVICE, "NCCL: %s", nccl->text(result));
}

static void group_close(void *handle)
{
    group *g = handle;
    ls_message ignored;
    if (g->watched) {
        pthread_mutex_lock(&g->lock);
        g->ends = true;
        pthread_cond_signal(&g->changed);
        pthread_mutex_unlock(&g->lock);
        pthread_join(g->watcher, NULL);
    }
    group *own = g;
    atomic_compare_exchange_strong(&lost, &own, NULL);
    cuda_enter(g->device, NULL);
    if (g->comm && settle(g, "closing", g->nccl->finalize(g->comm), &ignored) != LS_OK) give_up(g);
    if (g->comm) g->nccl->destroy(g->comm);
    if (g->last) cudaEventDestroy(g->last);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

static ls_status connect(group *g, const char id[LS_GROUP_ID_BYTES], ls_message *why)
{
    nccl_id made;
    memcpy(made.bytes, id, sizeof made.bytes);
    nccl_config config = {sizeof config, NCCL_CONFIG_MAGIC, NCCL_CONFIG_VERSION, 0};
    CUDA_TRY(cuda_enter(g->device, why));
    CUDA_TRY(cuda_check(cudaEventCreateWithFlags(&g->last, cudaEventDisableTiming), "event", why));
    CUDA_TRY(settle(g, "opening", g->nccl->open(&g->comm, g->size, made, g->rank, &config), why));
    if (!g->limit) return LS_OK;
    g->watched = thread_start(&g->watcher, watch, g);
    return g->watched ? LS_OK
                      : cuda_refuse(why, LS_ERR_MEMORY, "no thread can be started that gives up late collectives");
}

static ls_status group_open(void *device, const char id[LS_GROUP_ID_BYTES], int rank, int size, void **out,
                            ls_message *why)
{
    const nccl_functions *nccl = nccl_load(why);
    group *g = nccl ? calloc(1, sizeof *g) : NULL;
    if (!nccl) return LS_ERR_UNSUPPORTED;
    if (!g) return cuda_refuse(why, LS_ERR_MEMORY, "no memory for a group");
    *g = (group){.nccl = nccl,
                 .device = device,
                 .rank = rank,
                 .size = size,
                 .limit = variable_count("LOCKSTEP_COMM_TIMEOUT", 600)};
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, &clock);
    pthread_condattr_destroy(&clock);
    ls_status status = connect(g, id, why);
    if (status == LS_OK) *out = g;
    else give_up(g), group_close(g);
    return status;
}

static void group_abort(void *handle)
{
    group *g = handle;
    pthread_mutex_lock(&g->lock);
    if (!g->why.text[0]) cuda_refuse(&g->why, LS_ERR_PEER, "NCCL: the group was given up");
    give_up(g);
    pthread_mutex_unlock(&g->lock);
}

ls_status cuda_groups_lost(ls_message *why)
{
    const group *g = atomic_load(&lost);
    if (g && why) *why = g->why;
    return g ? LS_ERR_PEER : LS_OK;
}

static ls_status group_error(void *handle, ls_message *why)
{
    group *g = handle;
    pthread_mutex_lock(&g->lock);
    ls_status status = LS_ERR_PEER;
    nccl_result state = NCCL_SUCCESS;
    if (!g->comm) *why = g->why;
    else if (g->nccl->state(g->comm, &state) == NCCL_SUCCESS && (state == NCCL_SUCCESS || state == NCCL_IN_PROGRESS))
        status = LS_OK;
    else status = fail(g, "between calls", state, why);
    pthread_mutex_unlock(&g->lock);
    return status;
}

/* ---- calls ---- */

static bool find_type(ls_dtype dtype, nccl_type *type)
{
    switch (dtype) {
    case LS_U8: *type = NCCL_UINT8; return true;
    case LS_I8: *type = NCCL_INT8; return true;
    case LS_I32: *type = NCCL_INT32; return true;
    case LS_I64: *type = NCCL_INT64; return true;
    case LS_F16: *type = NCCL_FLOAT16; return true;
    case LS_BF16: *type = NCCL_BFLOAT16; return true;
    case LS_F32: *type = NCCL_FLOAT32; return true;
    case LS_F64: *type = NCCL_FLOAT64; return true;
    default: return false;
    }
}

/* NCCL's largest of floating numbers ignores NaN, the host's does not: such calls are left to the host, as are their
 * products, which would be rounded in another order. */
static bool find_op(ls_dtype dtype, ls_reduction reduction, nccl_op *op)
{
    bool is_float = dtype == LS_F16 || dtype == LS_BF16 || dtype == LS_F32 || dtype == LS_F64;
    switch (reduction) {
    case LS_REDUCE_SUM: *op = NCCL_SUM; return true;
    case LS_REDUCE_MEAN: *op = NCCL_AVG; return is_float;
    case LS_REDUCE_MAX: *op = NCCL_MAX; return !is_float;
    case LS_REDUCE_MIN: *op = NCCL_MIN; return !is_float;
    case LS_REDUCE_PROD: *op = NCCL_PROD; return !is_float;
    default: return false;
    }
}

static bool moves(ls_comm_kind kind)
{
    return kind == LS_COMM_ALL_GATHER || kind == LS_COMM_BROADCAST;
}

static bool reduces(ls_comm_kind kind)
{
    return kind == LS_COMM_ALL_REDUCE || kind == LS_COMM_REDUCE || kind == LS_COMM_REDUCE_SCATTER;
}

/* Parts of different sizes: one call for each, in one submission. */
static nccl_result submit_parts(group *g, cudaStream_t stream, const ls_comm_call *call, size_t element, nccl_type type,
                                nccl_op op)
{
    const nccl_functions *n = g->nccl;
    size_t at = 0;
    nccl_result result = n->group_start(), ended;
    for (int r = 0; r < g->size && result == NCCL_SUCCESS; r++) {
        size_t count = (size_t)call->counts[r];
        if (count && call->kind == LS_COMM_ALL_GATHER)
            result = n->broadcast(call->in, (char *)call->out + at, count * element, NCCL_UINT8, r, g->comm, stream);
        else if (count) result = n->reduce((const char *)call->in + at, call->out, count, type, op, r, g->comm, stream);
        if (result == NCCL_IN_PROGRESS) result = NCCL_SUCCESS; /* group_end waits for all */
        at += count * element;
    }
    ended = n->group_end();
    return result == NCCL_SUCCESS ? ended : result;
}

static nccl_result submit(group *g, cudaStream_t stream, const ls_comm_call *call, size_t element, nccl_type type,
                          nccl_op op)
{
    const nccl_functions *n = g->nccl;
    size_t count = (size_t)call->count;
    if (call->counts) return submit_parts(g, stream, call, element, type, op);
    switch (call->kind) {
    case LS_COMM_ALL_REDUCE: return n->all_reduce(call->in, call->out, count, type, op, g->comm, stream);
    case LS_COMM_REDUCE: return n->reduce(call->in, call->out, count, type, op, call->peer, g->comm, stream);
    case LS_COMM_REDUCE_SCATTER: return n->reduce_scatter(call->in, call->out, count, type, op, g->comm, stream);
    case LS_COMM_ALL_GATHER: return n->all_gather(call->in, call->out, count * element, NCCL_UINT8, g->comm, stream);
    default: /* a broadcast */
        return n->broadcast(call->out, call->out, count * element, NCCL_UINT8, call->peer, g->comm, stream);
    }
}

static ls_status group_run(void *handle, ls_stream *stream, const ls_comm_call *call, ls_message *why)
{
    group *g = handle;
    nccl_type type = NCCL_UINT8;
    nccl_op op = NCCL_SUM;
    bool can = moves(call->kind) ||
               (reduces(call->kind) && find_type(call->dtype, &type) && find_op(call->dtype, call->op, &op));
    if (!can) return LS_ERR_UNSUPPORTED;
    CUDA_TRY(cuda_enter(g->device, why));
    cuda_count_call(g->device);
    pthread_mutex_lock(&g->lock);
    ls_status status = LS_ERR_PEER;
    if (g->comm) {
        size_t element = g->device->host->dtype_size(call->dtype);
        status = settle(g, "a collective", submit(g, (cudaStream_t)stream, call, element, type, op), why);
    } else {
        *why = g->why;
    }
    if (status == LS_OK) status = cuda_check(cudaEventRecord(g->last, (cudaStream_t)stream), "event", why);
    if (status == LS_OK) g->submitted = now();
    pthread_mutex_unlock(&g->lock);
    return status;
}

const ls_group_table cuda_groups = {.id = group_id,
                                    .open = group_open,
                                    .run = group_run,
                                    .error = group_error,
                                    .abort = group_abort,
                                    .close = group_close};
