/* record.c - keeps the calls of a step until it is executed, as the key that tells it from other steps.
 *
 * The key has everything that the program depends on: operators, attributes, shapes, layouts, which memory is the same,
 * and, added when the recording ends, what happens to that memory. It is short, since all of it is hashed in every
 * step. */
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

/* False: there is no memory for it. */
static bool append(xla_recording *r, const void *bytes, size_t count)
{
    uint8_t *at = key_room(r, count);
    if (!at) return false;
    memcpy(at, bytes, count);
    r->key_bytes += count;
    return true;
}

/* The same for a few numbers, faster. */
static bool append_numbers(xla_recording *r, const int64_t *numbers, size_t count)
{
    uint8_t *at = key_room(r, count * sizeof *numbers);
    if (!at) return false;
    for (size_t i = 0; i < count; i++) memcpy(at + i * sizeof *numbers, &numbers[i], sizeof *numbers);
    r->key_bytes += count * sizeof *numbers;
    return true;
}

/* A storage: what is known of it, a positive number, and the dimensions that fill it. */
static int64_t facts_of(const xla_storage *s)
{
    return (int64_t)s->dtype << 32 | s->is_exact << 10 | s->is_batch << 9 | xla_has_contents(s) << 8 | s->dims.n;
}

static int dims_of_facts(int64_t facts)
{
    return facts & 0xff;
}

static bool append_storage(xla_recording *r, const xla_storage *s)
{
    int64_t numbers[1 + SHLO_MAX_DIMS];
    numbers[0] = facts_of(s);
    for (int i = 0; i < s->dims.n; i++) numbers[1 + i] = s->dims.at[i];
    return append_numbers(r, numbers, (size_t)(1 + s->dims.n));
}

/* ---- mentions ---- */

/* The first mention of a storage; 0: out of memory. */
static size_t mention(xla_device *d, size_t number)
{
    xla_recording *r = &d->recording;
    xla_storage *s = &d->storages[number];
    if (r->mentions + 1 >= r->mention_room) {
        size_t room = r->mention_room ? r->mention_room * 2 : 1024;
        size_t *mentioned = realloc(r->mentioned, room * sizeof *mentioned);
        if (!mentioned) return 0;
        r->mentioned = mentioned;
        r->mention_room = room;
    }
    if (!append_storage(r, s)) return 0;
    s->mention = ++r->mentions;
    r->mentioned[s->mention] = number;
    return s->mention;
}

/* ---- calls ---- */

enum { MOST_OPERANDS = LS_MAX_INPUTS + LS_MAX_OUTPUTS + 1, MOST_NUMBERS = 1 + MOST_OPERANDS * (2 + 2 * LS_MAX_DIMS) };

/* The lowest bits of the number that an operand begins with. */
enum {
    ABSENT,
    WHOLE, /* all of a storage, in its dimensions: its mention is in the other bits */
    VIEW,  /* type and number of dimensions are in the other bits; dimensions follow, strides, and the address */
    KIND_BITS = 2
};

static bool is_whole(const xla_storage *s, const ls_operand *x)
{
    int64_t stride = 1;
    if (x->dtype != s->dtype || x->ndim != s->dims.n || xla_offset(x->data)) return false;
    for (int i = x->ndim - 1; i >= 0; i--) {
        if (x->dim[i] != s->dims.at[i] || x->stride[i] != stride) return false;
        stride *= x->dim[i];
    }
    return true;
}

static int64_t *put_whole(int64_t *at, size_t number)
{
    *at++ = (int64_t)number << KIND_BITS | WHOLE;
    return at;
}

static int64_t *put_view(int64_t *at, const ls_operand *x, const void *address)
{
    *at++ = (int64_t)x->dtype << 32 | x->ndim << KIND_BITS | VIEW;
    for (int i = 0; i < x->ndim; i++) *at++ = x->dim[i];
    for (int i = 0; i < x->ndim; i++) *at++ = x->stride[i];
    *at++ = (int64_t)(uintptr_t)address;
    return at;
}

/* Append an operand. One without elements is nowhere; one that is all of a storage is within it. */
static ls_status put_operand(xla_device *d, const ls_operand *x, int64_t **at, ls_message *why)
{
    if (!x) return *(*at)++ = ABSENT, LS_OK;
    xla_storage *s = xla_behind(d, x->data, 0);
    if (s && !s->dtype && xla_numel(x)) xla_storage_type(d, s, x);
    bool whole = s && is_whole(s, x);
    if (!whole && xla_numel(x) == 0) return *at = put_view(*at, x, NULL), LS_OK;
    if (!whole && !xla_behind(d, x->data, xla_extent(d, x)))
        return xla_refuse(why, LS_ERR_DEVICE, "an operand is not in memory of this device");
    size_t number = s->mention ? s->mention : mention(d, xla_number(x->data));
    if (!number) return xla_refuse(why, LS_ERR_MEMORY, "no host memory to record an operator");
    *at = whole ? put_whole(*at, number) : put_view(*at, x, xla_address(number, xla_offset(x->data)));
    return LS_OK;
}

/* A call begins with a negative number. */
static int64_t head_of(const ls_call *call)
{
    return -((int64_t)call->op << 16 | call->n_in << 8 | call->n_out);
}

static bool keep_site(xla_recording *r, const char *site)
{
    if (r->calls == r->site_room) {
        size_t room = r->site_room ? r->site_room * 2 : 1024;
        const char **sites = realloc(r->sites, room * sizeof *sites);
        if (!sites) return false;
        r->sites = sites;
        r->site_room = room;
    }
    r->sites[r->calls] = site;
    return true;
}

static bool gives_nothing(const ls_call *call)
{
    for (int i = 0; i < call->n_out; i++)
        if (call->out[i] && xla_numel(call->out[i]) > 0) return false;
    return true;
}

/* The storages that it is the first to mention get into the key before it. */
ls_status xla_record(xla_device *d, const ls_call *call, ls_message *why)
{
    xla_recording *r = &d->recording;
    int64_t numbers[MOST_NUMBERS], *end = numbers;
    if (gives_nothing(call)) return LS_OK;
    *end++ = head_of(call);
    for (int i = 0; i < call->n_in; i++) XLA_TRY(put_operand(d, call->in[i], &end, why));
    for (int i = 0; i < call->n_out; i++) XLA_TRY(put_operand(d, call->out[i], &end, why));
    XLA_TRY(put_operand(d, call->live, &end, why));
    if (!keep_site(r, call->site) || !append_numbers(r, numbers, (size_t)(end - numbers)) ||
        !append(r, &call->attrs, d->host->attrs_size(call->op)))
        return xla_refuse(why, LS_ERR_MEMORY, "no host memory to record an operator");
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

/* ---- reading ---- */

static int64_t get_number(const uint8_t **at)
{
    int64_t number;
    memcpy(&number, *at, sizeof number);
    *at += sizeof number;
    return number;
}

static void get_numbers(const uint8_t **at, int64_t *numbers, int count)
{
    for (int i = 0; i < count; i++) numbers[i] = get_number(at);
}

static ls_operand whole_of(const xla_device *d, size_t mention)
{
    const xla_storage *s = xla_mentioned(d, mention);
    ls_operand x = {.data = xla_address(mention, 0), .dtype = s->dtype, .ndim = s->dims.n};
    int64_t stride = 1;
    for (int i = x.ndim - 1; i >= 0; i--) {
        x.dim[i] = s->dims.at[i];
        x.stride[i] = stride;
        stride *= x.dim[i];
    }
    return x;
}

/* NULL: the operand is absent. */
static const ls_operand *get_operand(const xla_device *d, const uint8_t **at, ls_operand *x)
{
    int64_t head = get_number(at), kind = head & ((1 << KIND_BITS) - 1);
    *x = (ls_operand){.data = NULL};
    if (kind == ABSENT) return NULL;
    if (kind == WHOLE) return *x = whole_of(d, (size_t)head >> KIND_BITS), x;
    x->dtype = (ls_dtype)(head >> 32);
    x->ndim = (int32_t)head >> KIND_BITS;
    get_numbers(at, x->dim, x->ndim);
    get_numbers(at, x->stride, x->ndim);
    x->data = (void *)(uintptr_t)get_number(at);
    return x;
}

bool xla_read(const xla_device *d, xla_reader *reader, xla_recorded *to)
{
    const xla_recording *r = &d->recording;
    if (reader->calls == r->calls) return false;
    const uint8_t *at = r->key + reader->bytes;
    int64_t head, dims[SHLO_MAX_DIMS];
    while ((head = get_number(&at)) > 0) get_numbers(&at, dims, dims_of_facts(head)); /* storages */
    ls_call *call = &to->call;
    *call = (ls_call){.op = (ls_opcode)(-head >> 16), .n_in = -head >> 8 & 0xff, .n_out = -head & 0xff};
    ls_operand *next = to->operand;
    for (int i = 0; i < call->n_in; i++) call->in[i] = get_operand(d, &at, next++);
    for (int i = 0; i < call->n_out; i++) call->out[i] = get_operand(d, &at, next++);
    call->live = get_operand(d, &at, next);
    size_t attrs = d->host->attrs_size(call->op);
    memcpy(&call->attrs, at, attrs);
    call->site = r->sites[reader->calls++];
    reader->bytes = (size_t)(at + attrs - r->key);
    return true;
}

/* ---- the end ---- */

/* Memory that was released needs no results, and may be used by others. */
void xla_recording_end(xla_device *d)
{
    xla_recording *r = &d->recording;
    uint8_t *at = key_room(r, r->mentions);
    if (!at) return;
    for (size_t m = 1; m <= r->mentions; m++) *at++ = xla_mentioned(d, m)->is_released;
    r->key_bytes += r->mentions;
}

void xla_recording_clear(xla_device *d)
{
    xla_recording *r = &d->recording;
    for (size_t i = 1; i <= r->mentions; i++) {
        xla_storage *s = xla_mentioned(d, i);
        s->mention = 0;
        if (s->is_released) xla_storage_free(d, r->mentioned[i]);
    }
    r->calls = r->mentions = r->key_bytes = r->hashed = 0;
    r->state = 0;
    r->is_joint = false;
    r->failed = false;
}

void xla_recording_free(xla_device *d)
{
    xla_recording *r = &d->recording;
    xla_recording_clear(d);
    free(r->mentioned);
    free(r->sites);
    free(r->key);
}
