/* spans.c - spans of time, recorded by the thread that takes the profile without a lock, by others with one. */
#include "base/spans.h"

#include <pthread.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/memory.h"

/* Global, because what is measured, such as a collective of another thread, knows no run. */
static _Atomic(ls_spans *) measured;
static pthread_t owner;
static pthread_mutex_t others = PTHREAD_MUTEX_INITIALIZER; /* held while another thread records, and at the end */

int64_t ls_spans_clock(void)
{
    return atomic_load_explicit(&measured, memory_order_acquire) ? ls_clock_ns() : 0;
}

/* ---- totals ---- */

static uint32_t slot_of(const ls_span_lane *lane, ls_span_kind kind, const char *name, const char *site)
{
    uint64_t mixed = ((uintptr_t)name * 31 + (uintptr_t)site) * 31 + (uint64_t)kind;
    return (uint32_t)(mixed * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (uint32_t)(lane->slot_count - 1);
}

static void place(ls_span_lane *lane, int32_t index)
{
    const ls_span_total *t = &lane->totals[index];
    uint32_t slot = slot_of(lane, t->kind, t->name, t->site);
    while (lane->slots[slot]) slot = (slot + 1) & (uint32_t)(lane->slot_count - 1);
    lane->slots[slot] = index + 1;
}

/* Room for another total; the table stays at most half full. */
static bool grow(ls_span_lane *lane)
{
    if (lane->total_count < lane->total_capacity) return true;
    int32_t capacity = lane->total_capacity ? lane->total_capacity * 2 : 256;
    ls_span_total *totals = ls_sys_realloc(lane->totals, (size_t)capacity * sizeof *totals);
    if (!totals) return false;
    lane->totals = totals;
    int32_t *slots = ls_sys_alloc((size_t)capacity * 2 * sizeof *slots);
    if (!slots) return false;
    ls_sys_free(lane->slots);
    lane->slots = slots;
    lane->slot_count = capacity * 2;
    lane->total_capacity = capacity;
    for (int32_t i = 0; i < lane->total_count; i++) place(lane, i);
    return true;
}

/* The index of a total, added if it is new; -1: out of memory. */
static int32_t total_of(ls_span_lane *lane, ls_span_kind kind, const char *name, const char *site)
{
    if (lane->slot_count) {
        uint32_t slot = slot_of(lane, kind, name, site);
        for (; lane->slots[slot]; slot = (slot + 1) & (uint32_t)(lane->slot_count - 1)) {
            const ls_span_total *t = &lane->totals[lane->slots[slot] - 1];
            if (t->name == name && t->site == site && t->kind == kind) return lane->slots[slot] - 1;
        }
    }
    if (!grow(lane)) return -1;
    lane->totals[lane->total_count] = (ls_span_total){.kind = kind, .name = name, .site = site};
    place(lane, lane->total_count);
    return lane->total_count++;
}

/* ---- spans ---- */

static void keep(ls_span_lane *lane, ls_time_span span)
{
    ls_span_chunk *chunk = lane->last;
    if (lane->count >= LS_SPANS_MOST) chunk = NULL;
    else if (!chunk || chunk->count == LS_SPAN_CHUNK) {
        chunk = ls_sys_alloc(sizeof *chunk);
        if (chunk && lane->last) lane->last->next = chunk;
        else if (chunk) lane->first = chunk;
        if (chunk) lane->last = chunk;
    }
    if (!chunk) {
        lane->dropped++;
        return;
    }
    chunk->spans[chunk->count++] = span;
    lane->count++;
}

static void record(ls_span_lane *lane, ls_span_kind kind, const char *name, const char *site, int64_t began)
{
    int64_t time = ls_clock_ns() - began;
    int32_t index = total_of(lane, kind, name, site);
    if (index < 0) {
        lane->dropped++;
        return;
    }
    ls_span_total *total = &lane->totals[index];
    total->count++;
    total->time += time;
    if (time > total->longest) total->longest = time;
    keep(lane, (ls_time_span){.began = began, .time = time, .total = index});
}

void ls_spans_add(ls_span_kind kind, const char *name, const char *site, int64_t began)
{
    if (!began) return;
    if (pthread_equal(pthread_self(), owner)) {
        ls_spans *spans = atomic_load_explicit(&measured, memory_order_relaxed);
        if (spans) record(&spans->program, kind, name, site, began);
        return;
    }
    pthread_mutex_lock(&others);
    ls_spans *spans = atomic_load_explicit(&measured, memory_order_relaxed);
    if (spans) record(&spans->background, kind, name, site, began);
    pthread_mutex_unlock(&others);
}

ls_status ls_spans_begin(void)
{
    ls_spans *spans = ls_sys_alloc(sizeof *spans);
    if (!spans) return LS_ERR_MEMORY;
    pthread_mutex_lock(&others);
    bool first = !atomic_load(&measured);
    if (first) {
        owner = pthread_self(); /* before others see that there is something to measure */
        spans->began = ls_clock_ns();
        atomic_store_explicit(&measured, spans, memory_order_release);
    }
    pthread_mutex_unlock(&others);
    if (!first) ls_sys_free(spans);
    return first ? LS_OK : LS_ERR_STATE;
}

ls_spans *ls_spans_end(void)
{
    pthread_mutex_lock(&others);
    ls_spans *spans = atomic_exchange(&measured, NULL);
    pthread_mutex_unlock(&others);
    if (spans) spans->ended = ls_clock_ns();
    return spans;
}

static void free_lane(ls_span_lane *lane)
{
    ls_sys_free(lane->totals);
    ls_sys_free(lane->slots);
    for (ls_span_chunk *chunk = lane->first, *next; chunk; chunk = next) {
        next = chunk->next;
        ls_sys_free(chunk);
    }
}

void ls_spans_free(ls_spans *spans)
{
    if (!spans) return;
    free_lane(&spans->program);
    free_lane(&spans->background);
    ls_sys_free(spans);
}
