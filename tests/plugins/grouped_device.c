/* grouped_device.c - the asynchronous device with a library of its own for collectives: devices of several processes
 * meet in memory that nothing else knows of. It can reduce f32 and broadcast, up to a size; the host does the rest. */
#define ls_plugin_v2 async_plugin
#include "async_device.c"
#undef ls_plugin_v2

#include <lockstep/group.h>

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

enum { MOST_RANKS = 8, MOST_BYTES = 1 << 20 };

/* Read by tests: calls that groups have run, and groups that were given up. */
extern atomic_int grouped_calls, grouped_aborts;
atomic_int grouped_calls, grouped_aborts;

typedef struct meeting {
    atomic_uint arrived; /* ever */
    atomic_bool aborted;
    char part[MOST_RANKS][MOST_BYTES];
} meeting;

typedef struct group {
    device *owner;
    meeting *shared;
    int rank, size;
    unsigned rounds;
} group;

/* All ranks have come as far. */
static ls_status meet(group *g, ls_message *why)
{
    unsigned target = ++g->rounds * (unsigned)g->size;
    atomic_fetch_add(&g->shared->arrived, 1);
    while (atomic_load(&g->shared->arrived) < target) {
        if (atomic_load(&g->shared->aborted)) {
            snprintf(why->text, sizeof why->text, "the group was given up");
            return LS_ERR_PEER;
        }
        sched_yield();
    }
    return LS_OK;
}

static ls_status group_id(void *handle, char id[LS_GROUP_ID_BYTES], ls_message *why)
{
    static atomic_int count;
    (void)handle, (void)why;
    snprintf(id, LS_GROUP_ID_BYTES, "/lockstep-group-%ld-%d", (long)getpid(), atomic_fetch_add(&count, 1));
    return LS_OK;
}

static ls_status group_open(void *handle, const char id[LS_GROUP_ID_BYTES], int rank, int size, void **out,
                            ls_message *why)
{
    group *g = calloc(1, sizeof *g);
    int file = g && size <= MOST_RANKS ? shm_open(id, O_CREAT | O_RDWR, 0600) : -1;
    if (file < 0 || ftruncate(file, sizeof(meeting)) != 0) return free(g), LS_ERR_DEVICE;
    void *shared = mmap(NULL, sizeof(meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (shared == MAP_FAILED) return free(g), LS_ERR_MEMORY;
    *g = (group){.owner = handle, .shared = shared, .rank = rank, .size = size};
    ls_status status = meet(g, why);
    if (rank == 0) shm_unlink(id);
    *out = g;
    return status;
}

/* ---- on the thread of the stream ---- */

static void all_reduce(const group *g, const job *j)
{
    float *y = j->to;
    for (size_t i = 0; i < j->bytes / sizeof *y; i++) {
        float sum = 0, x;
        for (int r = 0; r < g->size; r++) {
            memcpy(&x, g->shared->part[r] + i * sizeof x, sizeof x);
            sum = r ? sum + x : x;
        }
        y[i] = j->how == LS_REDUCE_MEAN ? sum * (1.0f / (float)g->size) : sum;
    }
}

static ls_status reduce_work(job *j, ls_message *why)
{
    group *g = j->group;
    memcpy(g->shared->part[g->rank], j->from, j->bytes);
    ls_status status = meet(g, why);
    if (!status) all_reduce(g, j);
    return status ? status : meet(g, why); /* all have read */
}

static ls_status broadcast_work(job *j, ls_message *why)
{
    group *g = j->group;
    if (g->rank == j->root) memcpy(g->shared->part[0], j->to, j->bytes);
    ls_status status = meet(g, why);
    if (!status && g->rank != j->root) memcpy(j->to, g->shared->part[0], j->bytes);
    return status ? status : meet(g, why);
}

/* ---- calls ---- */

static ls_status group_run(void *handle, ls_stream *s, const ls_comm_call *call, ls_message *why)
{
    group *g = handle;
    bool reduces = call->kind == LS_COMM_ALL_REDUCE && call->dtype == LS_F32 &&
                   (call->op == LS_REDUCE_SUM || call->op == LS_REDUCE_MEAN);
    size_t bytes = (size_t)call->count * g->owner->host->dtype_size(call->dtype);
    if ((!reduces && call->kind != LS_COMM_BROADCAST) || bytes > MOST_BYTES) return LS_ERR_UNSUPPORTED;
    job *j = new_job(JOB_GROUP);
    if (!j) return LS_ERR_MEMORY;
    j->work = reduces ? reduce_work : broadcast_work;
    j->group = g;
    j->bytes = bytes;
    j->how = (int32_t)call->op;
    j->root = call->peer;
    j->to = behind(g->owner, call->out);
    j->from = reduces ? behind(g->owner, call->in) : NULL;
    if (bytes && (!j->to || (reduces && !j->from))) return free(j), refuse(why, "an array of a collective");
    atomic_fetch_add(&grouped_calls, 1);
    submit(s, j);
    return LS_OK;
}

static ls_status group_error(void *handle, ls_message *why)
{
    const group *g = handle;
    if (!atomic_load(&g->shared->aborted)) return LS_OK;
    snprintf(why->text, sizeof why->text, "the group was given up");
    return LS_ERR_PEER;
}

static void group_abort(void *handle)
{
    group *g = handle;
    atomic_store(&g->shared->aborted, true);
    atomic_fetch_add(&grouped_aborts, 1);
}

static void group_close(void *handle)
{
    group *g = handle;
    for (ls_stream *s = g->owner->streams; s; s = s->next) wait_stream(s);
    munmap(g->shared, sizeof *g->shared);
    free(g);
}

extern ls_plugin_entry ls_plugin_v2;

const ls_device_table *ls_plugin_v2(const ls_host *host)
{
    static const ls_group_table groups = {.id = group_id,
                                          .open = group_open,
                                          .run = group_run,
                                          .error = group_error,
                                          .abort = group_abort,
                                          .close = group_close};
    static _Thread_local ls_device_table table; /* runs of several threads ask for it; the library copies it */
    const ls_device_table *plain = async_plugin(host);
    if (!plain) return NULL;
    table = *plain;
    table.name = "grouped";
    table.group = &groups;
    return &table;
}
