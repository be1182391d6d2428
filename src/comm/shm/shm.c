/* shm.c - the communicator between processes of one host: join, split, run, close. */
#include "comm/shm/shm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config.h"
#include "base/memory.h"

#include <lockstep/version.h>

static const ls_comm_table table;

/* ---- creating and closing ---- */

/* Offsets of the parts of a communicator's piece of the segment. */
typedef struct layout {
    size_t leavers, lines, headers, channels, stages, boxes, bytes;
} layout;

static layout compute_layout(int size)
{
    enum { PAGE = 4096 };
    size_t n = (size_t)size, at = 0;
    layout l;
    l.leavers = at, at += sizeof(ls_line);
    l.lines = at, at += n * sizeof(ls_line);
    l.headers = at, at += 2 * n * sizeof(ls_call_header);
    l.channels = at, at += n * n * sizeof(ls_channel);
    at = (at + PAGE - 1) / PAGE * PAGE;
    l.stages = at, at += n * 2 * LS_SHM_HALF;
    l.boxes = at, at += n * n * 2 * LS_SHM_BOX;
    l.bytes = at;
    return l;
}

/* The launcher should see the process that failed exit before those that failed because of it. */
static void wait_for_culprit(const ls_shm *shm)
{
    enum { TRIES = 60, PAUSE = 5000 /* microseconds */ };
    const ls_segment_header *header = shm->segment->header;
    int culprit = ls_segment_aborted(shm->segment) ? header->culprit : -1, number = 0;
    while (number < (int)header->size && header->member[number].rank != culprit) number++;
    if (culprit < 0 || number == (int)header->size || header->member[number].pid == (int32_t)getpid()) return;
    for (int i = 0; i < TRIES && !ls_segment_dead(shm->segment, number); i++) usleep(PAUSE);
}

static void unmap_piece(ls_shm *shm, void *piece, bool last)
{
    if (last) ls_segment_clear(shm->segment, piece);
    ls_segment_map_out(shm->segment, piece);
}

static void close_shm(ls_comm *comm)
{
    ls_shm *shm = (ls_shm *)comm;
    if (!shm) return;
    if (shm->group == 0) wait_for_culprit(shm);
    if (shm->group == 0)
        atomic_store_explicit(&shm->segment->header->member[comm->rank].state, LS_MEMBER_LEFT, memory_order_release);
    bool last = shm->context && atomic_fetch_add(&shm->leavers->count, 1) + 1 == (uint32_t)comm->size;
    for (int i = 0; i < shm->block_count; i++) unmap_piece(shm, shm->blocks[i].base, last);
    if (shm->context) unmap_piece(shm, shm->context, last);
    ls_segment_release(shm->segment);
    ls_sys_free(shm->blocks);
    ls_sys_free(shm->member);
    ls_sys_free(shm->job_rank);
    ls_sys_free(shm->sent);
    ls_sys_free(shm->received);
    ls_sys_free(shm);
}

/* The members of a communicator: numbers in the segment, ranks in the job. */
typedef struct participants {
    int member[LS_SEGMENT_MOST], job_rank[LS_SEGMENT_MOST];
} participants;

/* A communicator whose piece of the segment begins at `offset`. */
static ls_shm *new_shm(ls_segment *segment, uint64_t offset, int rank, int size, const participants *who,
                       ls_message *why)
{
    size_t n = (size_t)size;
    ls_shm *shm = ls_sys_alloc(sizeof *shm);
    if (!shm) return ls_message_set(why, "no memory for a communicator"), NULL;
    *shm = (ls_shm){.comm = {.table = &table, .rank = rank, .size = size, .started = &segment->started},
                    .segment = segment};
    ls_segment_hold(segment);
    shm->group = UINT32_MAX; /* until set by the caller */
    shm->timeout = (int64_t)ls_config_count(LS_SETTING_COMM_TIMEOUT) * 1000000000;
    shm->member = ls_sys_alloc(n * sizeof *shm->member);
    shm->job_rank = ls_sys_alloc(n * sizeof *shm->job_rank);
    shm->sent = ls_sys_alloc(n * sizeof *shm->sent);
    shm->received = ls_sys_alloc(n * sizeof *shm->received);
    layout l = compute_layout(size);
    bool ok = shm->member && shm->job_rank && shm->sent && shm->received;
    if (!ok) ls_message_set(why, "no memory for a communicator");
    char *context = ok ? ls_segment_map_in(segment, offset, l.bytes, why) : NULL;
    if (!context) return close_shm(&shm->comm), NULL;
    memcpy(shm->member, who->member, n * sizeof *shm->member);
    memcpy(shm->job_rank, who->job_rank, n * sizeof *shm->job_rank);
    shm->context = context;
    shm->leavers = (ls_line *)(void *)(context + l.leavers);
    shm->lines = (ls_line *)(void *)(context + l.lines);
    shm->headers = (ls_call_header *)(void *)(context + l.headers);
    shm->channels = (ls_channel *)(void *)(context + l.channels);
    shm->stages = context + l.stages;
    shm->boxes = context + l.boxes;
    return shm;
}

/* ---- joining ---- */

static void fill_member(ls_member *member, int rank)
{
    struct stat status;
    member->rank = rank;
    member->pid = (int32_t)getpid();
    snprintf(member->version, sizeof member->version, "%s", ls_version());
    if (stat("/proc/self/exe", &status) == 0) {
        member->program_file[0] = (uint64_t)status.st_dev;
        member->program_file[1] = (uint64_t)status.st_ino;
    }
    ssize_t length = readlink("/proc/self/exe", member->program, sizeof member->program - 1);
    member->program[length > 0 ? length : 0] = '\0';
    atomic_store_explicit(&member->state, LS_MEMBER_HERE, memory_order_release);
}

static ls_status check_programs(ls_shm *shm)
{
    const ls_member *first = &shm->segment->header->member[0];
    for (int r = 1; r < shm->comm.size; r++) {
        const ls_member *other = &shm->segment->header->member[r];
        if (strcmp(first->version, other->version) != 0)
            return ls_shm_break(shm, "rank %d has Lockstep %s, rank %d has %s", first->rank, first->version,
                                other->rank, other->version);
        if (memcmp(first->program_file, other->program_file, sizeof first->program_file) != 0)
            return ls_shm_break(shm,
                                "rank %d runs %s, rank %d runs %s: all processes of a job must run the same program",
                                first->rank, first->program, other->rank, other->program);
    }
    return LS_OK;
}

ls_comm *ls_shm_join(ls_segment *segment, int rank, ls_message *why)
{
    int ranks[LS_SEGMENT_MOST];
    for (int r = 0; r < LS_SEGMENT_MOST; r++) ranks[r] = r;
    return ls_shm_join_host(segment, rank, ranks, why);
}

ls_comm *ls_shm_join_host(ls_segment *segment, int number, const int *ranks, ls_message *why)
{
    int size = (int)segment->header->size, rank = ranks[number];
    participants all;
    for (int r = 0; r < size; r++) all.member[r] = r, all.job_rank[r] = ranks[r];
    ls_member *member = &segment->header->member[number];
    if (atomic_load(&member->state) != LS_MEMBER_ABSENT) {
        if (member->pid == (int)getpid())
            ls_message_set(
                why,
                "this process was rank %d of its job before: a process may join a job only once, keep the first run",
                rank);
        else ls_message_set(why, "rank %d of this job is taken by process %d", rank, member->pid);
        return NULL;
    }
    fill_member(member, rank);
    /* The first piece is for the communicator of all ranks: the first process to arrive takes it, others find it. */
    uint64_t offset = segment->header->header_bytes, nobody = offset;
    size_t bytes = (compute_layout(size).bytes + 0xffff) / 0x10000 * 0x10000;
    atomic_compare_exchange_strong(&segment->header->used, &nobody, offset + bytes);
    ls_shm *shm = new_shm(segment, offset, number, size, &all, why);
    if (!shm) return NULL;
    shm->group = 0;
    if (ls_comm_barrier(&shm->comm, "ls_init", why) == LS_OK) {
        if (check_programs(shm) == LS_OK) return &shm->comm;
        *why = shm->broken;
    }
    close_shm(&shm->comm);
    return NULL;
}

/* ---- splitting ---- */

typedef struct split_request {
    int32_t colour, key, rank, pad;
    uint64_t offset; /* of the piece; set by the lowest rank of each colour */
} split_request;

static int by_key(const void *a, const void *b)
{
    const split_request *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : x->rank - y->rank;
}

static ls_comm *split(ls_comm *comm, int colour, int key, ls_message *why)
{
    ls_shm *shm = (ls_shm *)comm;
    split_request all[LS_SEGMENT_MOST], mine = {.colour = colour, .key = key, .rank = comm->rank};
    int count = 0, rank = 0;
    participants some;
    /* The lowest rank of each colour allocates the memory; its size is known only after the first gather. */
    if (ls_comm_all_gather(comm, &mine, all, sizeof mine, "split", why) != LS_OK) return NULL;
    split_request chosen[LS_SEGMENT_MOST];
    for (int r = 0; r < comm->size; r++)
        if (all[r].colour == colour) chosen[count++] = all[r];
    int lowest = chosen[0].rank;
    qsort(chosen, (size_t)count, sizeof *chosen, by_key);
    for (int r = 0; r < count; r++) {
        some.member[r] = shm->member[chosen[r].rank];
        some.job_rank[r] = shm->job_rank[chosen[r].rank];
        if (chosen[r].rank == comm->rank) rank = r;
    }
    if (lowest == comm->rank) mine.offset = ls_segment_take(shm->segment, compute_layout(count).bytes);
    if (ls_comm_all_gather(comm, &mine, all, sizeof mine, "split", why) != LS_OK) return NULL;
    if (!all[lowest].offset) return ls_message_set(why, "the shared memory of this job is used up"), NULL;
    ls_shm *part = new_shm(shm->segment, all[lowest].offset, rank, count, &some, why);
    if (!part) return NULL;
    part->listen = shm->listen;
    part->listener = shm->listener;
    part->group = (uint32_t)(all[lowest].offset >> 16);
    return &part->comm;
}

/* ---- memory ---- */

static void *share(ls_comm *comm, size_t bytes, ls_message *why)
{
    ls_shm *shm = (ls_shm *)comm;
    bytes = (bytes + 4095) / 4096 * 4096;
    uint64_t offset = comm->rank == 0 ? ls_segment_take(shm->segment, bytes * (size_t)comm->size) : 0;
    if (ls_comm_broadcast(comm, &offset, sizeof offset, 0, "share", why) != LS_OK) return NULL;
    ls_shm_block *grown = ls_sys_realloc(shm->blocks, (size_t)(shm->block_count + 1) * sizeof *grown);
    if (grown) shm->blocks = grown;
    if (!grown || !offset) return ls_message_set(why, "no memory to share %zu bytes of each process", bytes), NULL;
    char *base = ls_segment_map_in(shm->segment, offset, bytes * (size_t)comm->size, why);
    if (!base) return NULL;
    shm->blocks[shm->block_count++] = (ls_shm_block){base, bytes, (int64_t)offset};
    return base + (size_t)comm->rank * bytes;
}

/* Offset of this rank's array in the shared file; -1: it is not in shared memory. */
static int64_t shared_offset(const ls_shm *shm, const char *data, size_t bytes)
{
    for (int i = 0; i < shm->block_count; i++) {
        const ls_shm_block *block = &shm->blocks[i];
        const char *mine = block->base + (size_t)shm->comm.rank * block->bytes;
        if (data >= mine && data + bytes <= mine + block->bytes) return block->begin + (data - block->base);
    }
    return -1;
}

char *ls_shm_shared(const ls_shm *shm, int rank)
{
    const ls_shm_block *block = shm->blocks + shm->block_count - 1;
    int64_t address = ls_shm_header(shm, rank)->address;
    while (address < block->begin) block--; /* blocks are in file order */
    return block->base + (address - block->begin);
}

bool ls_shm_all_shared(const ls_shm *shm)
{
    for (int r = 0; r < shm->comm.size; r++)
        if (ls_shm_header(shm, r)->address < 0) return false;
    return true;
}

/* ---- running ---- */

/* The full array of a call made in place; NULL: the call is not in place. */
static const char *array_in_place(const ls_comm *comm, const ls_comm_call *call, size_t *bytes)
{
    size_t element = ls_dtype_size(call->dtype), before = (size_t)ls_comm_offset(call, comm->rank) * element;
    const char *in = call->in, *out = call->out;
    *bytes = (size_t)ls_comm_offset(call, comm->size) * element;
    switch (call->kind) {
    case LS_COMM_ALL_REDUCE: *bytes = (size_t)call->count * element; return in == out ? out : NULL;
    case LS_COMM_REDUCE_SCATTER: return in && out == in + before ? in : NULL;
    case LS_COMM_ALL_GATHER: return out && in == out + before ? out : NULL;
    default: return NULL;
    }
}

static void publish_header(ls_shm *shm, const ls_comm *comm, const ls_comm_call *call)
{
    ls_call_header *header = ls_shm_header(shm, shm->comm.rank);
    bool brings_parts = call->kind == LS_COMM_ALL_TO_ALL || call->kind == LS_COMM_REDUCE_SCATTER;
    size_t bytes;
    const char *array = array_in_place(comm, call, &bytes);
    header->what = shm->entry;
    header->extent = call->count;
    header->address = array ? shared_offset(shm, array, bytes) : -1;
    if (!call->counts || !brings_parts) return;
    header->extent = call->counts[0];
    for (int r = 1; r < comm->size; r++)
        if (call->counts[r] > header->extent) header->extent = call->counts[r];
}

ls_status ls_shm_begin(ls_shm *shm, const ls_comm *comm, const ls_comm_call *call, ls_ring_entry **slot,
                       ls_message *why)
{
    if (!shm->broken.text[0] && ls_shm_interrupted(shm)) shm->status = ls_shm_interruption(shm);
    if (shm->broken.text[0]) {
        *why = shm->broken;
        return shm->status;
    }
    bool message = call->kind == LS_COMM_SEND || call->kind == LS_COMM_RECEIVE;
    uint64_t number = message ? ++shm->messages : ++shm->number;
    ls_member *member = &shm->segment->header->member[shm->member[shm->comm.rank]];
    *slot = ls_ring_begin(member, call, number, shm->group);
    shm->entry = **slot;
    if (!message) publish_header(shm, comm, call);
    return LS_OK;
}

ls_status ls_shm_end(ls_shm *shm, ls_ring_entry *slot, ls_status status, const ls_message *why)
{
    if (status && !shm->broken.text[0]) shm->broken = *why;
    shm->status = status;
    ls_ring_end(slot, &shm->entry, status);
    return status;
}

static ls_status run(ls_comm *comm, const ls_comm_call *call, ls_message *why)
{
    ls_shm *shm = (ls_shm *)comm;
    ls_ring_entry *slot;
    bool message = call->kind == LS_COMM_SEND || call->kind == LS_COMM_RECEIVE;
    ls_status status = ls_shm_begin(shm, comm, call, &slot, why);
    if (status) return status;
    status = message ? ls_shm_message(shm, call, why) : ls_shm_collective(shm, call, why);
    return ls_shm_end(shm, slot, status, why);
}

static void abort_job(ls_comm *comm, const char *reason)
{
    ls_shm *shm = (ls_shm *)comm;
    ls_segment_abort(shm->segment, ls_shm_job_rank(shm, comm->rank), reason);
}

static void cancel(ls_comm *comm)
{
    ls_shm *shm = (ls_shm *)comm;
    ls_segment_cancel(shm->segment, ls_shm_job_rank(shm, comm->rank), atomic_load(&shm->segment->header->resets));
}

/* Every rank resets the fields that only it writes. */
static void reset(ls_comm *comm)
{
    ls_shm *shm = (ls_shm *)comm;
    int size = comm->size, rank = comm->rank;
    atomic_store(&shm->lines[rank].count, 0);
    for (int r = 0; r < size; r++) {
        atomic_store(&shm->channels[rank * size + r].filled.count, 0);
        atomic_store(&shm->channels[r * size + rank].emptied.count, 0);
        shm->sent[r] = shm->received[r] = 0;
    }
    shm->step = 0;
    shm->half = 0;
    shm->number = shm->messages = 0;
    shm->broken.text[0] = '\0';
    shm->status = LS_OK;
    if (rank == 0 && shm->group == 0) atomic_fetch_add(&shm->segment->header->resets, 1);
}

static ls_segment *segment_of(ls_comm *comm)
{
    return ((ls_shm *)comm)->segment;
}

static const ls_comm_table table = {"shared memory", run,   split,     share,     abort_job,
                                    cancel,          reset, close_shm, segment_of};
