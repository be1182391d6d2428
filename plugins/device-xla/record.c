/* record.c - keeps the calls of a step until it is executed, and the key that tells it from other steps.
 *
 * The key has everything that the program depends on: operators, attributes, shapes, layouts, which memory is the same,
 * and, added when the recording ends, what happens to that memory (step.c). */
#include <stdlib.h>
#include <string.h>

#include "lower.h"
#include "xla.h"

/* ---- the key ---- */

/* Where the next `bytes` bytes of the key are written; NULL: there is no memory for them. */
static uint8_t *key_room(xla_recording *r, size_t bytes)
{
    if (r->key_bytes + bytes > r->key_room) {
        size_t room = (r->key_bytes + bytes) * 2 + 4096;
        uint8_t *key = realloc(r->key, room);
        if (!key) {
            r->failed = true;
            return NULL;
        }
        r->key = key;
        r->key_room = room;
    }
    return r->key + r->key_bytes;
}

void xla_say(xla_recording *r, const void *bytes, size_t count)
{
    uint8_t *at = key_room(r, count);
    if (!at) return;
    memcpy(at, bytes, count);
    r->key_bytes += count;
}

/* Append to a key that has room for it, and return where it goes on. */
static uint8_t *put(uint8_t *at, const void *bytes, size_t count)
{
    memcpy(at, bytes, count);
    return at + count;
}

static uint8_t *put_number(uint8_t *at, int64_t number)
{
    return put(at, &number, sizeof number);
}

static uint8_t *put_numbers(uint8_t *at, const int64_t *numbers, int count)
{
    for (int i = 0; i < count; i++) at = put_number(at, numbers[i]);
    return at;
}

static void say_storage(xla_recording *r, const xla_storage *s)
{
    uint8_t *at = key_room(r, (2 + SHLO_MAX_DIMS) * sizeof(int64_t));
    if (!at) return;
    at = put_number(at, (int64_t)s->bytes);
    at = put_number(at, (int64_t)s->dtype << 32 | (int64_t)s->is_exact << 31 | s->dims.n << 2 | s->is_batch << 1 |
                            xla_has_contents(s));
    r->key_bytes = (size_t)(put_numbers(at, s->dims.at, s->dims.n) - r->key);
}

enum { MOST_OF_OPERAND = (2 + 2 * LS_MAX_DIMS) * sizeof(int64_t) };

static uint8_t *put_operand(uint8_t *at, const ls_operand *x)
{
    at = put_number(at, x ? (int64_t)x->dtype << 32 | x->ndim : 0);
    if (!x) return at;
    at = put_numbers(at, x->dim, x->ndim);
    at = put_numbers(at, x->stride, x->ndim);
    return put_number(at, (int64_t)(uintptr_t)x->data);
}

/* ---- mentions ---- */

/* The storage's number in this recording; 0: out of memory. */
static size_t mention(xla_device *d, size_t number, const ls_operand *x)
{
    xla_recording *r = &d->recording;
    xla_storage *s = &d->storages[number];
    if (s->mention) return s->mention;
    if (r->mentions + 1 >= r->mention_room) {
        size_t room = r->mention_room ? r->mention_room * 2 : 1024;
        size_t *mentioned = realloc(r->mentioned, room * sizeof *mentioned);
        if (!mentioned) return 0;
        r->mentioned = mentioned;
        r->mention_room = room;
    }
    if (!s->dtype) xla_storage_type(d, s, x);
    s->mention = ++r->mentions;
    r->mentioned[s->mention] = number;
    say_storage(r, s);
    return s->mention;
}

/* Copy an operand, with its place in the recording in place of its address. */
static ls_status keep(xla_device *d, const ls_operand *x, ls_operand *copy, ls_message *why)
{
    *copy = *x;
    copy->derived = NULL;
    copy->data = NULL;
    if (xla_numel(x) == 0) return LS_OK;
    if (!xla_behind(d, x->data, xla_extent(d, x)))
        return xla_refuse(why, LS_ERR_DEVICE, "an operand is not in memory of this device");
    size_t place = mention(d, xla_number(x->data), x);
    if (!place) return xla_refuse(why, LS_ERR_MEMORY, "no host memory to record an operator");
    copy->data = xla_address(place, xla_offset(x->data));
    return LS_OK;
}

/* ---- calls ---- */

int xla_operands(const ls_call *call)
{
    int count = call->live != NULL;
    for (int i = 0; i < call->n_in; i++) count += call->in[i] != NULL;
    for (int i = 0; i < call->n_out; i++) count += call->out[i] != NULL;
    return count;
}

/* Replace the operands of a kept call by copies of their own. */
static ls_status keep_operands(xla_device *d, xla_note *n, ls_message *why)
{
    ls_operand *next = n->operand;
    ls_call *call = &n->call;
    for (int i = 0; i < call->n_in; i++) {
        if (!call->in[i]) continue;
        XLA_TRY(keep(d, call->in[i], next, why));
        call->in[i] = next++;
    }
    for (int i = 0; i < call->n_out; i++) {
        if (!call->out[i]) continue;
        XLA_TRY(keep(d, call->out[i], next, why));
        call->out[i] = next++;
    }
    if (!call->live) return LS_OK;
    XLA_TRY(keep(d, call->live, next, why));
    call->live = next;
    return LS_OK;
}

static void say_call(xla_device *d, const ls_call *call)
{
    xla_recording *r = &d->recording;
    size_t attrs = d->host->attrs_size(call->op), operands = (size_t)(call->n_in + call->n_out + 1);
    uint8_t *at = key_room(r, sizeof(int64_t) + operands * MOST_OF_OPERAND + attrs);
    if (!at) return;
    at = put_number(at, (int64_t)call->op << 32 | call->n_in << 8 | call->n_out);
    for (int i = 0; i < call->n_in; i++) at = put_operand(at, call->in[i]);
    for (int i = 0; i < call->n_out; i++) at = put_operand(at, call->out[i]);
    at = put_operand(at, call->live);
    r->key_bytes = (size_t)(put(at, &call->attrs, attrs) - r->key);
}

/* Memory until the recording ends; NULL: there is none. Notes are much smaller than blocks. */
static void *take(xla_recording *r, size_t bytes)
{
    bytes = (bytes + 15) / 16 * 16;
    if (r->block && r->block->used + bytes > sizeof r->block->bytes && r->block->next) r->block = r->block->next;
    if (!r->block || r->block->used + bytes > sizeof r->block->bytes) {
        xla_block *fresh = malloc(sizeof *fresh);
        if (!fresh) return NULL;
        fresh->next = NULL;
        fresh->used = 0;
        if (r->block) r->block->next = fresh;
        else r->blocks = fresh;
        r->block = fresh;
    }
    void *memory = r->block->bytes + r->block->used;
    r->block->used += bytes;
    return memory;
}

static bool gives_nothing(const ls_call *call)
{
    for (int i = 0; i < call->n_out; i++)
        if (call->out[i] && xla_numel(call->out[i]) > 0) return false;
    return true;
}

ls_status xla_record(xla_device *d, const ls_call *call, ls_message *why)
{
    xla_recording *r = &d->recording;
    if (gives_nothing(call)) return LS_OK;
    size_t bytes = sizeof(xla_note) + (size_t)xla_operands(call) * sizeof(ls_operand);
    xla_note *n = take(r, bytes);
    if (!n) return xla_refuse(why, LS_ERR_MEMORY, "no host memory to record an operator");
    n->next = NULL;
    n->call = *call;
    memset(&n->call.attrs, 0, sizeof n->call.attrs);
    memcpy(&n->call.attrs, &call->attrs, d->host->attrs_size(call->op));
    XLA_TRY(keep_operands(d, n, why));
    say_call(d, &n->call);
    *r->end = n;
    r->end = &n->next;
    r->calls++;
    return LS_OK;
}

ls_status xla_record_copy(xla_device *d, void *to, const void *from, size_t bytes, ls_message *why)
{
    const xla_storage *source = xla_behind(d, from, bytes), *target = xla_behind(d, to, bytes);
    ls_dtype dtype = source->dtype ? source->dtype : target->dtype ? target->dtype : LS_U8;
    size_t size = d->host->dtype_size(dtype);
    if ((xla_offset(from) | xla_offset(to) | bytes) % size != 0) dtype = LS_U8, size = 1;
    ls_operand in = {.dtype = dtype, .ndim = 1, .dim = {(int64_t)(bytes / size)}, .stride = {1}}, out = in;
    in.data = (void *)(uintptr_t)from;
    out.data = to;
    ls_call call = {.op = LS_OP_copy, .n_in = 1, .n_out = 1, .in = {&in}, .out = {&out}};
    return xla_record(d, &call, why);
}

void xla_recording_clear(xla_device *d)
{
    xla_recording *r = &d->recording;
    for (xla_block *b = r->blocks; b; b = b->next) b->used = 0;
    r->block = r->blocks;
    for (size_t i = 1; i <= r->mentions; i++) {
        xla_storage *s = xla_mentioned(d, i);
        s->mention = 0;
        if (s->is_released) xla_storage_free(d, r->mentioned[i]);
    }
    r->first = NULL;
    r->end = &r->first;
    r->calls = r->mentions = r->key_bytes = r->hashed = 0;
    r->state = 0;
    r->is_joint = false;
    r->failed = false;
}

void xla_recording_free(xla_device *d)
{
    xla_recording *r = &d->recording;
    xla_recording_clear(d);
    for (xla_block *b = r->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(r->mentioned);
    free(r->key);
}
