/* recent.c - a ring of the last operators. Two threads may submit. */
#include "recent.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { KEPT = 8 };

struct cuda_recent {
    _Atomic uint64_t submitted, done; /* calls; those up to `done` are known to have succeeded */
    struct {
        _Atomic(const char *) site;
        _Atomic int op;
    } call[KEPT];
};

cuda_recent *cuda_recent_new(void)
{
    return calloc(1, sizeof(cuda_recent));
}

void cuda_recent_free(cuda_recent *recent)
{
    free(recent);
}

void cuda_recent_note(cuda_recent *recent, const ls_call *call)
{
    uint64_t place = atomic_fetch_add_explicit(&recent->submitted, 1, memory_order_relaxed) % KEPT;
    atomic_store_explicit(&recent->call[place].site, call->site, memory_order_relaxed);
    atomic_store_explicit(&recent->call[place].op, (int)call->op, memory_order_relaxed);
}

uint64_t cuda_recent_count(const cuda_recent *recent)
{
    return atomic_load(&recent->submitted);
}

void cuda_recent_done(cuda_recent *recent, uint64_t count)
{
    uint64_t before = atomic_load(&recent->done);
    while (before < count && !atomic_compare_exchange_weak(&recent->done, &before, count)) {}
}

uint64_t cuda_recent_open(const cuda_recent *recent)
{
    return atomic_load(&recent->submitted) - atomic_load(&recent->done);
}

void cuda_recent_last(const cuda_device *d, char *text, size_t size)
{
    const cuda_recent *recent = d->recent;
    uint64_t count = atomic_load(&recent->submitted);
    *text = '\0';
    if (count == 0) return;
    const char *site = atomic_load(&recent->call[(count - 1) % KEPT].site);
    ls_opcode op = (ls_opcode)atomic_load(&recent->call[(count - 1) % KEPT].op);
    snprintf(text, size, "%s%s%s", site ? site : "", site ? ": " : "", d->host->op_name(op));
}

void cuda_recent_blame(const cuda_device *d, ls_message *why)
{
    const cuda_recent *recent = d->recent;
    uint64_t last = atomic_load(&recent->submitted), open = cuda_recent_open(recent);
    if (open == 0) return;
    if (open == 1) {
        uint64_t place = (last - 1) % KEPT;
        d->host->blame(atomic_load(&recent->call[place].site), (ls_opcode)atomic_load(&recent->call[place].op), why);
        return;
    }
    char text[120];
    cuda_recent_last(d, text, sizeof text);
    ls_message said = *why;
    snprintf(why->text, sizeof why->text,
             "%.90s, in one of the last %llu operators, up to %.50s; LOCKSTEP_CUDA_BLOCKING=1 names the right one",
             said.text, (unsigned long long)open, text);
}
