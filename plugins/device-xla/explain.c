/* explain.c - says why a step had to be compiled although one like it was compiled before: that costs seconds, and
 * whoever trains can mostly avoid it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache.h"
#include "hash.h"

/* A call, as far as it tells one step from another. */
typedef struct line {
    ls_opcode op;
    uint64_t operands, attrs; /* hashes of shapes and number types, of numbers */
    char shapes[96];          /* of the inputs, as far as there is room */
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

/* Add to a text as far as it fits. */
__attribute__((format(printf, 3, 4))) static void add(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list list;
    va_start(list, format);
    vsnprintf(text + used, size - used, format, list);
    va_end(list);
}

/* "[4,3] and [3]"; of a call without inputs, that of its output. */
static void write_shapes(const ls_call *call, char *text, size_t size)
{
    text[0] = 0;
    for (int i = 0; i < (call->n_in ? call->n_in : 1); i++) {
        const ls_operand *x = call->n_in ? call->in[i] : call->out[0];
        if (!x) continue;
        add(text, size, "%s[", text[0] ? " and " : "");
        for (int d = 0; d < x->ndim; d++) add(text, size, "%s%lld", d ? "," : "", (long long)x->dim[d]);
        add(text, size, "]");
    }
}

static line line_of(const xla_device *d, const ls_call *call)
{
    line l = {.op = call->op, .operands = hash_operands(call)};
    uint64_t hash[2];
    xla_hash(&call->attrs, d->host->attrs_size(call->op), hash);
    l.attrs = hash[0];
    write_shapes(call, l.shapes, sizeof l.shapes);
    snprintf(l.site, sizeof l.site, "%s", call->site ? call->site : "");
    return l;
}

xla_outline *xla_outline_new(const xla_device *d)
{
    xla_outline *o = calloc(1, sizeof *o + d->recording.calls * sizeof *o->line);
    if (!o) return NULL;
    xla_reader reader = {0};
    for (xla_recorded r; xla_read(d, &reader, &r);) o->line[o->calls++] = line_of(d, &r.call);
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

/* What differs at the first call that does. */
static void describe(const xla_device *d, const xla_outline *now, const xla_outline *before, char *text, size_t size)
{
    size_t at = common_calls(now, before);
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
                 "shape: %s%s%s got %s after %s; every new shape is compiled once, so let batches have few: the loader "
                 "can drop the last one (drop_last) and pad texts to multiples (pad_multiple)",
                 name, in, n->site, n->shapes, before->line[at].shapes);
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
    char what[500], text[600];
    describe(d, now, closest, what, sizeof what);
    snprintf(text, sizeof text, "xla: compiled a step again: %s", what);
    d->host->log(text);
}
