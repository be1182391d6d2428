/* explain.c - says why a step had to be compiled although one like it was compiled before: that costs seconds, and
 * whoever trains can mostly avoid it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache.h"
#include "hash.h"

/* A call, as far as it tells one step from another. */
typedef struct line {
    ls_opcode op;
    int32_t ndim;
    int64_t dim[LS_MAX_DIMS]; /* of the first operand */
    uint64_t operands, attrs; /* hashes of shapes and number types, of numbers */
    char site[48];
} line;

struct xla_outline {
    size_t calls;
    line line[];
};

/* Types and shapes of all operands. */
static uint64_t hash_operands(const ls_call *call)
{
    int64_t all[(LS_MAX_INPUTS + LS_MAX_OUTPUTS) * (LS_MAX_DIMS + 1)];
    size_t n = 0;
    for (int i = 0; i < call->n_in + call->n_out; i++) {
        const ls_operand *x = i < call->n_in ? call->in[i] : call->out[i - call->n_in];
        all[n++] = x ? (int64_t)x->dtype << 32 | x->ndim : 0;
        for (int d = 0; x && d < x->ndim; d++) all[n++] = x->dim[d];
    }
    uint64_t hash[2];
    xla_hash(all, n * sizeof *all, hash);
    return hash[0];
}

static line line_of(const xla_device *d, const ls_call *call)
{
    line l = {.op = call->op, .operands = hash_operands(call)};
    const ls_operand *x = call->n_in && call->in[0] ? call->in[0] : call->out[0];
    uint64_t hash[2];
    xla_hash(&call->attrs, d->host->attrs_size(call->op), hash);
    l.attrs = hash[0];
    if (x) {
        l.ndim = x->ndim;
        memcpy(l.dim, x->dim, sizeof l.dim);
    }
    snprintf(l.site, sizeof l.site, "%s", call->site ? call->site : "");
    return l;
}

xla_outline *xla_outline_new(const xla_device *d)
{
    xla_outline *o = calloc(1, sizeof *o + d->recording.calls * sizeof *o->line);
    if (!o) return NULL;
    for (const xla_note *n = d->recording.first; n; n = n->next) o->line[o->calls++] = line_of(d, &n->call);
    return o;
}

/* ---- differences ---- */

static bool same_line(const line *a, const line *b)
{
    return a->op == b->op && a->operands == b->operands && a->attrs == b->attrs;
}

/* How many calls are the same from the first on. */
static size_t common_calls(const xla_outline *a, const xla_outline *b)
{
    size_t n = 0;
    while (n < a->calls && n < b->calls && same_line(&a->line[n], &b->line[n])) n++;
    return n;
}

static bool same_operators(const xla_outline *a, const xla_outline *b)
{
    if (a->calls != b->calls) return false;
    for (size_t i = 0; i < a->calls; i++)
        if (a->line[i].op != b->line[i].op) return false;
    return true;
}

static const char *shape_text(const line *l, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");
    for (int d = 0; d < l->ndim && used < size; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", d ? "," : "", (long long)l->dim[d]);
    if (used < size) snprintf(text + used, size - used, "]");
    return text;
}

/* What differs at the first call that does. */
static void describe(const xla_device *d, const xla_outline *now, const xla_outline *before, char *text, size_t size)
{
    size_t at = common_calls(now, before);
    char was[120], is[120];
    if (at == now->calls && at == before->calls) {
        snprintf(text, size, "the operators are the same, but other tensors are kept");
        return;
    }
    const line *n = &now->line[at < now->calls ? at : now->calls - 1];
    const char *name = d->host->op_name(n->op), *in = n->site[0] ? " in " : "";
    if (!same_operators(now, before)) {
        snprintf(text, size, "graph: it has %zu operators instead of %zu, and differs from %s%s%s on", now->calls,
                 before->calls, name, in, n->site);
    } else if (n->operands != before->line[at].operands) {
        snprintf(text, size,
                 "shape: %s%s%s got %s after %s; every new shape is compiled once, so let batches have few: drop the "
                 "last one, pad texts to multiples (pad_multiple)",
                 name, in, n->site, shape_text(n, is, sizeof is), shape_text(&before->line[at], was, sizeof was));
    } else {
        snprintf(text, size, "constant: %s%s%s got another number; put numbers that change into tensors", name, in,
                 n->site);
    }
}

void xla_explain(const xla_device *d, const xla_outline *now)
{
    const xla_outline *closest = NULL;
    size_t most = 0;
    for (size_t i = 0; i < XLA_RECENT; i++) {
        const xla_outline *o = d->recent[i] ? d->recent[i]->outline : NULL;
        if (!o) continue;
        size_t common = common_calls(now, o) + (same_operators(now, o) ? now->calls : 0);
        if (common > most) most = common, closest = o;
    }
    if (!closest || most * 2 < now->calls) return; /* another kind of step */
    char what[400], text[500];
    describe(d, now, closest, what, sizeof what);
    snprintf(text, sizeof text, "xla: compiled a step again: %s", what);
    d->host->log(text);
}
