/* recorder.c - a ring buffer of each rank's last calls, for error messages. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "comm/shm/segment.h"

int64_t ls_comm_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

ls_ring_entry *ls_ring_begin(ls_member *member, const ls_comm_call *call, uint64_t number, uint32_t group)
{
    uint32_t at = atomic_fetch_add_explicit(&member->next, 1, memory_order_relaxed);
    ls_ring_entry *entry = &member->ring[at % LS_RING];
    entry->number = 0; /* invalid while it is being written */
    entry->kind = (int32_t)call->kind;
    entry->dtype = (int32_t)call->dtype;
    entry->op = (int32_t)call->op;
    entry->peer = call->peer;
    entry->count = call->count;
    entry->shape = call->shape;
    entry->began = ls_comm_clock();
    entry->ended = 0;
    entry->status = 0;
    entry->group = group;
    snprintf(entry->site, sizeof entry->site, "%s", call->site ? call->site : "");
    entry->number = number;
    return entry;
}

void ls_ring_end(ls_ring_entry *slot, const ls_ring_entry *entry, ls_status status)
{
    if (slot->began != entry->began || slot->number != entry->number) return;
    slot->status = (int32_t)status;
    slot->ended = ls_comm_clock();
}

/* ---- descriptions ---- */

typedef struct writer {
    char *to;
    size_t size, used;
} writer;

LS_PRINTF(2, 3) static void put(writer *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int wrote = vsnprintf(w->to + w->used, w->size - w->used, format, args);
    va_end(args);
    if (wrote > 0) w->used += (size_t)wrote < w->size - w->used ? (size_t)wrote : w->size - w->used - 1;
}

static void put_entry(writer *w, const ls_ring_entry *e)
{
    put(w, "%s", ls_comm_kind_name((ls_comm_kind)e->kind));
    if (ls_comm_reduces((ls_comm_kind)e->kind)) put(w, " %s", ls_comm_op_name((ls_reduction)e->op));
    if (e->kind != LS_COMM_BARRIER && e->dtype == LS_U8) put(w, " of %lld bytes", (long long)e->count);
    else if (e->kind != LS_COMM_BARRIER) put(w, " of %lld %s", (long long)e->count, ls_dtype_name((ls_dtype)e->dtype));
    if (e->kind == LS_COMM_SEND || e->kind == LS_COMM_REDUCE || e->kind == LS_COMM_GATHER)
        put(w, " to rank %d", e->peer);
    if (e->kind == LS_COMM_RECEIVE || e->kind == LS_COMM_BROADCAST || e->kind == LS_COMM_SCATTER)
        put(w, " from rank %d", e->peer);
    put(w, " (%.*s%scall %llu)", LS_SITE - 1, e->site, e->site[0] ? ", " : "", (unsigned long long)e->number);
}

void ls_ring_describe(const ls_ring_entry *entry, char *text, size_t size)
{
    writer w = {text, size, 0};
    text[0] = '\0';
    put_entry(&w, entry);
}

static void put_time(writer *w, const ls_ring_entry *e)
{
    int64_t now = ls_comm_clock();
    if (!e->ended) put(w, ", in it for %.1f s", (double)(now - e->began) / 1e9);
    else put(w, ", %s %.1f s ago", e->status ? "failed" : "done", (double)(now - e->ended) / 1e9);
}

void ls_ring_describe_last(const ls_member *member, char *text, size_t size)
{
    writer w = {text, size, 0};
    uint32_t next = atomic_load(&member->next);
    const ls_ring_entry *last = next ? &member->ring[(next - 1) % LS_RING] : NULL;
    text[0] = '\0';
    if (!last || !last->number) {
        put(&w, "nothing yet");
        return;
    }
    put_entry(&w, last);
    put_time(&w, last);
}

double ls_ring_waits(const ls_member *member)
{
    uint32_t next = atomic_load(&member->next);
    const ls_ring_entry *last = next ? &member->ring[(next - 1) % LS_RING] : NULL;
    return last && last->number && !last->ended ? (double)(ls_comm_clock() - last->began) / 1e9 : 0;
}

/* Map the header of the segment in a file; the caller unmaps it. NULL: the file is not a segment. */
static const ls_segment_header *map_header(int file)
{
    struct stat status;
    if (fstat(file, &status) != 0 || (size_t)status.st_size < sizeof(ls_segment_header)) return NULL;
    void *map = mmap(NULL, sizeof(ls_segment_header), PROT_READ, MAP_SHARED, file, 0);
    if (map == MAP_FAILED) return NULL;
    size_t bytes = ((const ls_segment_header *)map)->header_bytes;
    munmap(map, sizeof(ls_segment_header));
    map = mmap(NULL, bytes ? bytes : 1, PROT_READ, MAP_SHARED, file, 0);
    return map == MAP_FAILED ? NULL : map;
}

int ls_segment_culprit(int file)
{
    const ls_segment_header *header = map_header(file);
    if (!header) return -1;
    int culprit = atomic_load_explicit(&header->aborted, memory_order_acquire) == 2 ? header->culprit : -1;
    munmap((void *)header, header->header_bytes);
    return culprit;
}

void ls_segment_describe(int file, int count, char *text, size_t size)
{
    writer w = {text, size, 0};
    text[0] = '\0';
    const ls_segment_header *header = map_header(file);
    if (!header) return;
    for (uint32_t r = 0; r < header->size; r++) {
        const ls_member *member = &header->member[r];
        uint32_t next = atomic_load(&member->next), from = next > (uint32_t)count ? next - (uint32_t)count : 0;
        for (uint32_t i = from; i < next; i++) {
            const ls_ring_entry *e = &member->ring[i % LS_RING];
            if (!e->number) continue;
            put(&w, "rank %d: ", member->rank);
            put_entry(&w, e);
            put_time(&w, e);
            put(&w, "\n");
        }
    }
    munmap((void *)header, header->header_bytes);
}
