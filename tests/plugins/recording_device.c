/* recording_device.c - a device that only takes notes, as one that compiles whole steps does.
 *
 * Calls, copies to the device and the end of memory are kept in order, a program, which is executed when a step has
 * ended or the host wants to see a result. A program speaks of memory by the order in which it is mentioned, so that
 * the programs of two steps that do the same are the same bytes: recording_report says whether they are.
 *
 * It knows of a call what ls_effects says and nothing else. Outputs that are not declared to be read hold garbage when
 * the call runs, inputs are what they were before any output was written, and those that are not declared to be written
 * must not change. Addresses are numbers: the library may add to them, nobody can look behind them. The arithmetic is
 * borrowed from the host's CPU operators. Includes plugin.h and nothing else of the library. */
#include "recording_device.h"

#include <lockstep/plugin.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ADDRESS_BITS = 40, MOST_OPERANDS = LS_MAX_INPUTS + LS_MAX_OUTPUTS + 1 };

/* Memory the library asked for. */
typedef struct storage {
    size_t bytes;
    char *memory;    /* NULL: nothing was written yet */
    bool released;   /* by the library; gone when the program at hand is through */
    bool written;    /* in the program at hand */
    int64_t mention; /* its number in the program at hand, from 1; 0: none yet */
} storage;

typedef enum note_kind { NOTE_CALL, NOTE_UPLOAD, NOTE_COPY, NOTE_RELEASE } note_kind;

typedef struct note {
    struct note *next;
    note_kind kind;
    ls_call call;
    ls_operand operand[MOST_OPERANDS]; /* inputs, outputs, live */
    const void *to, *from;             /* addresses */
    char *data;                        /* of an upload: taken when it was asked for */
    size_t bytes;
} note;

typedef struct device {
    const ls_host *host;
    storage *storages; /* [0] is none */
    size_t count, room;
    size_t *spare; /* numbers of storages that are gone */
    size_t spares, spare_room;
    note *first, **end;
    bool ended;          /* a step has, since the last began */
    char *text, *before; /* the program at hand as bytes, and the last one */
    size_t used, text_room, before_used;
    int64_t mentions;
} device;

static recording_report report;

__attribute__((visibility("default"))) recording_report recording_report_get(void);

recording_report recording_report_get(void)
{
    return report;
}

static void *must(void *memory)
{
    if (memory) return memory;
    fprintf(stderr, "recording device: no memory\n");
    abort();
}

/* ---- memory ---- */

static storage *behind(device *d, const void *address, size_t *offset)
{
    uint64_t bits = (uint64_t)(uintptr_t)address, number = bits >> ADDRESS_BITS;
    *offset = bits & ((1ull << ADDRESS_BITS) - 1);
    storage *s = number && number < d->count ? &d->storages[number] : NULL;
    return s && s->bytes ? s : NULL;
}

static ls_status device_alloc(void *handle, size_t bytes, void **address)
{
    device *d = handle;
    size_t number = d->spares ? d->spare[--d->spares] : d->count++;
    if (d->count > d->room) d->storages = must(realloc(d->storages, (d->room *= 2) * sizeof *d->storages));
    d->storages[number] = (storage){.bytes = bytes};
    *address = (void *)(uintptr_t)((uint64_t)number << ADDRESS_BITS);
    return LS_OK;
}

static note *add_note(device *d, note_kind kind)
{
    note *n = must(calloc(1, sizeof *n));
    n->kind = kind;
    *d->end = n;
    d->end = &n->next;
    return n;
}

static void device_release(void *handle, void *address, size_t bytes)
{
    device *d = handle;
    size_t offset;
    behind(d, address, &offset)->released = true;
    note *n = add_note(d, NOTE_RELEASE);
    n->to = address;
    n->bytes = bytes;
}

/* The memory behind an address, for a program at work. Nothing was written to it yet: garbage, NaN in every type. */
static char *memory_at(device *d, const void *address)
{
    size_t offset;
    storage *s = behind(d, address, &offset);
    if (!s->memory) {
        s->memory = must(aligned_alloc(64, (s->bytes + 63) / 64 * 64));
        memset(s->memory, 0xff, s->bytes);
    }
    return s->memory + offset;
}

/* ---- the program as bytes ---- */

static void say(device *d, const void *bytes, size_t n)
{
    while (d->used + n > d->text_room) {
        d->text_room = d->text_room ? d->text_room * 2 : 1 << 16;
        d->text = must(realloc(d->text, d->text_room));
    }
    memcpy(d->text + d->used, bytes, n);
    d->used += n;
}

static void say_number(device *d, int64_t number)
{
    say(d, &number, sizeof number);
}

static void say_address(device *d, const void *address)
{
    size_t offset;
    storage *s = behind(d, address, &offset);
    bool first = !s->mention;
    if (first) s->mention = ++d->mentions;
    say_number(d, s->mention);
    say_number(d, (int64_t)offset);
    if (first) say_number(d, (int64_t)s->bytes);
}

static bool is_empty(const ls_operand *x)
{
    for (int i = 0; i < x->ndim; i++)
        if (x->dim[i] == 0) return true;
    return false;
}

static void say_operand(device *d, const ls_operand *x)
{
    say_number(d, x ? 1 + (int64_t)x->dtype : 0);
    if (!x) return;
    say_number(d, x->ndim);
    say(d, x->dim, (size_t)x->ndim * sizeof *x->dim);
    say(d, x->stride, (size_t)x->ndim * sizeof *x->stride);
    if (!is_empty(x)) say_address(d, x->data);
}

static void say_note(device *d, const note *n)
{
    say_number(d, n->kind);
    say_number(d, (int64_t)n->bytes);
    if (n->to) say_address(d, n->to);
    if (n->from) say_address(d, n->from);
    if (n->kind != NOTE_CALL) return;
    const ls_call *call = &n->call;
    say_number(d, call->op);
    for (int i = 0; i < call->n_in; i++) say_operand(d, call->in[i]);
    for (int i = 0; i < call->n_out; i++) say_operand(d, call->out[i]);
    say_operand(d, call->live);
    say(d, &call->attrs, d->host->attrs_size(call->op));
}

/* ---- execution ---- */

/* Of an operand: the bytes from its first to its last element. */
static size_t extent(const device *d, const ls_operand *x)
{
    size_t last = 0, size = d->host->dtype_size(x->dtype);
    for (int i = 0; i < x->ndim; i++) last += (size_t)((x->dim[i] - 1) * x->stride[i]) * size;
    return last + size;
}

static void spoil(const device *d, const ls_operand *x, char *at, int dim)
{
    size_t size = d->host->dtype_size(x->dtype);
    if (dim == x->ndim) {
        memset(at, 0xff, size);
        return;
    }
    for (int64_t i = 0; i < x->dim[dim]; i++) spoil(d, x, at + (size_t)(i * x->stride[dim]) * size, dim + 1);
}

static bool overlaps(const device *d, const ls_operand *a, const ls_operand *b)
{
    const char *p = a->data, *q = b->data;
    return p < q + extent(d, b) && q < p + extent(d, a);
}

typedef struct witness {
    char *copy; /* of an input */
    bool used;  /* by the call in its place */
} witness;

/* Inputs that share memory with an output are read from a copy; the others are compared with theirs afterwards. */
static void set_witnesses(const device *d, const ls_call *call, ls_operand *in, witness *seen)
{
    for (int i = 0; i < call->n_in; i++) {
        if (!call->in[i] || is_empty(call->in[i])) continue;
        size_t bytes = extent(d, call->in[i]);
        seen[i].copy = must(aligned_alloc(64, (bytes + 63) / 64 * 64));
        memcpy(seen[i].copy, call->in[i]->data, bytes);
        for (int o = 0; o < call->n_out; o++) {
            if (!call->out[o] || is_empty(call->out[o]) || !overlaps(d, call->in[i], call->out[o])) continue;
            in[i].data = seen[i].copy;
            seen[i].used = true;
        }
    }
}

static ls_status check_witnesses(const device *d, const ls_call *call, witness *seen, ls_message *why)
{
    ls_status status = LS_OK;
    for (int i = 0; i < call->n_in; i++) {
        if (!seen[i].copy) continue;
        if (!seen[i].used && memcmp(seen[i].copy, call->in[i]->data, extent(d, call->in[i])) != 0) {
            snprintf(why->text, sizeof why->text, "wrote to input %d", i);
            status = LS_ERR_DEVICE;
        }
        free(seen[i].copy);
    }
    return status;
}

static ls_status run_call(device *d, note *n, ls_message *why)
{
    ls_call call = n->call;
    ls_effects effects = d->host->effects(&call);
    for (int i = 0; i < MOST_OPERANDS; i++) {
        ls_operand *x = &n->operand[i];
        if (x->data && !is_empty(x)) x->data = memory_at(d, x->data);
    }
    witness seen[LS_MAX_INPUTS] = {{0}};
    set_witnesses(d, &call, n->operand, seen);
    for (int o = 0; o < call.n_out; o++)
        if (call.out[o] && !is_empty(call.out[o]) && !(effects.outputs_read >> o & 1))
            spoil(d, call.out[o], call.out[o]->data, 0);
    ls_status status = d->host->run_on_cpu(&call, why);
    ls_status witnessed = check_witnesses(d, &call, seen, why);
    if (!status) status = witnessed;
    if (status) d->host->blame(call.site, call.op, why);
    return status;
}

static ls_status execute(device *d, note *n, ls_message *why)
{
    switch (n->kind) {
    case NOTE_CALL: return run_call(d, n, why);
    case NOTE_UPLOAD: memcpy(memory_at(d, n->to), n->data, n->bytes); return LS_OK;
    case NOTE_COPY: memmove(memory_at(d, n->to), memory_at(d, n->from), n->bytes); return LS_OK;
    case NOTE_RELEASE: break;
    }
    size_t offset;
    storage *s = behind(d, n->to, &offset);
    free(s->memory);
    s->memory = NULL;
    return LS_OK;
}

static void mark_written(device *d, const note *n)
{
    size_t offset;
    storage *s = n->to && n->kind != NOTE_RELEASE ? behind(d, n->to, &offset) : NULL;
    if (s) s->written = true;
    for (int i = 0; i < n->call.n_out; i++) {
        const ls_operand *x = n->call.out[i];
        if (x && !is_empty(x)) behind(d, x->data, &offset)->written = true;
    }
}

/* What is left of a program: memory that was given back is gone, and the next one counts anew. */
static void settle(device *d)
{
    for (size_t i = 1; i < d->count; i++) {
        storage *s = &d->storages[i];
        if (!s->bytes) continue;
        if (s->written && !s->released) {
            report.outputs++;
            report.output_bytes += s->bytes;
        }
        s->mention = 0;
        s->written = false;
        if (!s->released) continue;
        *s = (storage){0};
        if (d->spares == d->spare_room) {
            d->spare_room = d->spare_room ? d->spare_room * 2 : 256;
            d->spare = must(realloc(d->spare, d->spare_room * sizeof *d->spare));
        }
        d->spare[d->spares++] = i;
    }
    d->mentions = 0;
}

static ls_status flush(device *d, ls_message *why)
{
    if (!d->first) return LS_OK;
    ls_status status = LS_OK;
    report = (recording_report){.programs = report.programs + 1};
    d->used = 0;
    for (const note *n = d->first; n; n = n->next) {
        say_note(d, n);
        mark_written(d, n);
        report.calls += n->kind == NOTE_CALL;
    }
    report.bytes = d->used;
    report.same = d->used == d->before_used && memcmp(d->text, d->before, d->used) == 0;
    for (note *n = d->first, *next; n; n = next) {
        next = n->next;
        if (!status || n->kind == NOTE_RELEASE) {
            ls_message ignored;
            ls_status this = execute(d, n, status ? &ignored : why);
            if (!status) status = this;
        }
        free(n->data);
        free(n);
    }
    d->first = NULL;
    d->end = &d->first;
    settle(d);
    free(d->before);
    d->before = d->text;
    d->before_used = d->used;
    d->text = NULL;
    d->text_room = 0;
    return status;
}

/* ---- notes ---- */

static ls_status refuse(ls_message *why, const char *what)
{
    snprintf(why->text, sizeof why->text, "%s is not an address of this device", what);
    return LS_ERR_DEVICE;
}

static bool is_here(device *d, const void *address, size_t bytes)
{
    size_t offset;
    const storage *s = behind(d, address, &offset);
    return s && !s->released && offset + bytes <= s->bytes;
}

static int64_t bytes_uploaded;

__attribute__((visibility("default"))) int64_t device_bytes_uploaded(void);

int64_t device_bytes_uploaded(void)
{
    return bytes_uploaded;
}

static ls_status device_copy(void *handle, ls_stream *stream, void *to, const void *from, size_t bytes,
                             ls_copy_kind kind, ls_message *why)
{
    device *d = handle;
    (void)stream;
    if (kind != LS_COPY_TO_HOST && !is_here(d, to, bytes)) return refuse(why, "the destination of a copy");
    if ((kind == LS_COPY_TO_HOST || kind == LS_COPY_ON_DEVICE) && !is_here(d, from, bytes))
        return refuse(why, "the source of a copy");
    if (kind == LS_COPY_TO_HOST) {
        ls_status status = flush(d, why);
        if (!status) memcpy(to, memory_at(d, from), bytes);
        return status;
    }
    if (kind == LS_COPY_TO_DEVICE) bytes_uploaded += (int64_t)bytes;
    note *n = add_note(d, kind == LS_COPY_ON_DEVICE ? NOTE_COPY : NOTE_UPLOAD);
    n->to = to;
    n->bytes = bytes;
    if (n->kind == NOTE_COPY) {
        n->from = from;
    } else {
        n->data = must(malloc(bytes));
        memcpy(n->data, from, bytes);
    }
    return LS_OK;
}

static bool keep_operand(device *d, const ls_operand *x, ls_operand *copy)
{
    *copy = *x;
    copy->derived = NULL;
    if (!is_empty(x)) return is_here(d, x->data, extent(d, x));
    copy->data = NULL;
    return true;
}

static ls_status device_run(void *handle, ls_stream *stream, const ls_call *call, ls_message *why)
{
    device *d = handle;
    (void)stream;
    note kept = {.call = *call}, *n;
    memset(&kept.call.attrs, 0, sizeof kept.call.attrs);
    memcpy(&kept.call.attrs, &call->attrs, d->host->attrs_size(call->op));
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i] && !keep_operand(d, call->in[i], &kept.operand[i])) return refuse(why, "an input");
    for (int i = 0; i < call->n_out; i++)
        if (call->out[i] && !keep_operand(d, call->out[i], &kept.operand[LS_MAX_INPUTS + i]))
            return refuse(why, "an output");
    if (call->live && !keep_operand(d, call->live, &kept.operand[MOST_OPERANDS - 1]))
        return refuse(why, "a live value");
    n = add_note(d, NOTE_CALL);
    n->call = kept.call;
    memcpy(n->operand, kept.operand, sizeof n->operand);
    for (int i = 0; i < call->n_in; i++) n->call.in[i] = call->in[i] ? &n->operand[i] : NULL;
    for (int i = 0; i < call->n_out; i++) n->call.out[i] = call->out[i] ? &n->operand[LS_MAX_INPUTS + i] : NULL;
    n->call.live = call->live ? &n->operand[MOST_OPERANDS - 1] : NULL;
    return LS_OK;
}

/* ---- waiting, marks ---- */

static ls_status stream_sync(void *handle, ls_stream *stream, ls_message *why)
{
    (void)stream;
    return flush(handle, why);
}

/* A step that was not taken, such as one of evaluation, ends when the next begins. */
static ls_status device_mark(void *handle, ls_stream *stream, ls_mark_kind mark, ls_message *why)
{
    device *d = handle;
    (void)stream;
    bool due = mark == LS_MARK_STEP_ENDED || !d->ended;
    d->ended = mark == LS_MARK_STEP_ENDED;
    return due ? flush(d, why) : LS_OK;
}

/* ---- opening ---- */

static int device_count(void)
{
    return 1;
}

static ls_status device_open(const ls_host *host, const ls_device_open_args *args, void **handle, ls_message *why)
{
    (void)args, (void)why;
    device *d = must(calloc(1, sizeof *d));
    d->host = host;
    d->count = 1;
    d->room = 256;
    d->storages = must(calloc(d->room, sizeof *d->storages));
    d->end = &d->first;
    report = (recording_report){0};
    *handle = d;
    return LS_OK;
}

static void device_close(void *handle)
{
    device *d = handle;
    ls_message ignored;
    flush(d, &ignored);
    for (size_t i = 1; i < d->count; i++) free(d->storages[i].memory);
    free(d->storages);
    free(d->spare);
    free(d->text);
    free(d->before);
    free(d);
}

extern ls_plugin_entry ls_plugin_v2;

const ls_device_table *ls_plugin_v2(const ls_host *host)
{
    static const ls_device_table table = {
        LS_DEVICE_TABLE,
        .traits = LS_TRAIT_STORAGES | LS_TRAIT_LIVE_VALUES | LS_TRAIT_SCATTERED,
        .name = "recording",
        .count = device_count,
        .open = device_open,
        .close = device_close,
        .alloc = device_alloc,
        .release = device_release,
        .stream_sync = stream_sync,
        .copy = device_copy,
        .run = device_run,
        .mark = device_mark,
    };
    return host->abi == LS_PLUGIN_ABI ? &table : NULL;
}
