/* rehearse.c - steps for chips that are not there: programs are compiled for them and measured, and the host computes
 * what the chips would.
 *
 * What was found goes to the file LOCKSTEP_XLA_REPORT, which `lockstep compile` reads, or to the log:
 *
 *     chips COUNT USED MEMORY KIND...                 bytes of each; 0: unknown
 *     program STEP CALLS CODE ARGUMENTS RESULTS ALIASED TEMPORARIES PEAK OTHERS OPERATIONS
 *     refused STEP CALLS REASON...                    by the compiler
 *     step STEP                                       it has ended
 *
 * OTHERS: bytes of tensors that the program does not use. A program that was compiled before is not reported again. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache.h"

static void report(const xla_device *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void report(const xla_device *d, const char *format, ...)
{
    char line[600];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    const char *path = getenv("LOCKSTEP_XLA_REPORT"), *rank = getenv("RANK");
    if (rank && strcmp(rank, "0") != 0) return; /* it would say the same */
    FILE *file = path && *path ? fopen(path, "a") : NULL;
    if (file) fprintf(file, "%s\n", line);
    else d->host->log(line);
    if (file) fclose(file);
}

ls_status xla_rehearsal_begin(xla_device *d, ls_message *why)
{
    char kind[80];
    int64_t memory;
    XLA_TRY(pjrt_kind(d->pjrt, kind, sizeof kind, &memory, why));
    report(d, "chips %zu %d %lld %s", d->pjrt->chip_count, d->team.count, (long long)memory, kind);
    return LS_OK;
}

void xla_rehearsal_step(xla_device *d)
{
    report(d, "step %zu", ++d->steps);
}

/* On each chip: a part of a batch that chips divide, and numbers as narrow as they are stored. */
static long long other_bytes(const xla_device *d)
{
    size_t bytes = 0;
    for (size_t i = 1; i < d->storage_count; i++) {
        const xla_storage *s = &d->storages[i];
        if (s->mention || !s->host) continue;
        bytes += xla_storage_size(s) / (size_t)(xla_is_divided(d, s) ? d->team.count : 1);
    }
    return (long long)bytes;
}

/* Whatever the compiler says, the program goes on: later steps may be smaller. */
void xla_compile_ahead(xla_device *d, const shlo *text)
{
    ls_message why = {{0}};
    pjrt_needs n;
    size_t step = d->steps + 1, calls = d->recording.calls;
    if (pjrt_compile_ahead(d->pjrt, d->team, text->text, text->used, &n, &why)) {
        for (char *c = why.text; *c; c++) *c = *c == '\n' ? ' ' : *c;
        report(d, "refused %zu %zu %s", step, calls, why.text);
        return;
    }
    d->counts.compiled++;
    report(d, "program %zu %zu %lld %lld %lld %lld %lld %lld %lld %.0f", step, calls, (long long)n.code,
           (long long)n.arguments, (long long)n.results, (long long)n.aliased, (long long)n.temporaries,
           (long long)n.peak, other_bytes(d), n.operations);
}
