/* tensor.c - tensors with memory: create, view, read and write. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "base/memory.h"
#include "tensor/context.h"

/* ---- views ---- */

bool ls_view_contiguous(const ls_operand *x)
{
    int64_t expected = 1;
    for (int d = x->ndim; d-- > 0;) {
        if (x->dim[d] == 0) return true;
        if (x->dim[d] != 1 && x->stride[d] != expected) return false;
        expected *= x->dim[d];
    }
    return true;
}

bool ls_view_dense(const ls_operand *x)
{
    /* Walk the dimensions in the order of their strides: each must begin where the ones below it end. */
    int64_t expected = 1;
    uint32_t left = 0;
    for (int d = 0; d < x->ndim; d++) {
        if (x->dim[d] == 0) return true;
        if (x->dim[d] > 1) left |= 1u << d;
    }
    while (left) {
        int found = -1;
        for (int d = 0; d < x->ndim; d++)
            if ((left >> d & 1) && x->stride[d] == expected) found = d;
        if (found < 0) return false;
        expected *= x->dim[found];
        left &= ~(1u << found);
    }
    return true;
}

bool ls_views_match(const ls_operand *a, const ls_operand *b)
{
    if (a->ndim != b->ndim || !ls_view_dense(a)) return false;
    for (int d = 0; d < a->ndim; d++)
        if (a->dim[d] != b->dim[d] || (a->dim[d] > 1 && a->stride[d] != b->stride[d])) return false;
    return true;
}

void ls_view_set_contiguous(ls_operand *x, ls_shape shape)
{
    x->ndim = shape.ndim;
    int64_t stride = 1;
    for (int d = shape.ndim; d-- > 0;) {
        x->dim[d] = shape.dim[d];
        x->stride[d] = stride;
        stride *= shape.dim[d] > 0 ? shape.dim[d] : 1;
    }
}

/* ---- new tensors ---- */

static ls_tensor *tensor_with_memory(ls_run *run, ls_device *device, ls_dtype dtype, int64_t numel)
{
    ls_storage *storage = ls_storage_new(run, device, (size_t)numel * ls_dtype_size(dtype));
    if (!storage) return &run->poison;
    ls_tensor *t = ls_handle_new(run);
    if (!t) return ls_storage_release(run, storage), &run->poison;
    ls_storage_show(storage, t);
    t->view.data = storage->block ? storage->block->address : NULL;
    t->view.dtype = dtype;
    return t;
}

ls_tensor *ls_tensor_new(ls_run *run, ls_device *device, ls_dtype dtype, ls_shape shape)
{
    int64_t numel = ls_shape_numel(shape);
    if (numel < 0 || numel > INT64_MAX / 16)
        return LS_POISON(run, LS_ERR_SHAPE, "shape %s: %s", ls_shape_text(shape, (char[LS_TEXT]){0}),
                         shape.ndim > LS_MAX_DIMS ? "too many dimensions"
                         : shape.ndim < 0         ? "the array of sizes is NULL, or their number is negative"
                                                  : "a size is negative or the product overflows");
    if (ls_dtype_size(dtype) == 0) return LS_POISON(run, LS_ERR_DTYPE, "%d is not a number type", (int)dtype);
    ls_tensor *t = tensor_with_memory(run, device, dtype, numel);
    if (t->life == LS_LIFE_LIVE) ls_view_set_contiguous(&t->view, shape);
    return t;
}

ls_tensor *ls_tensor_new_like_either(const ls_tensor *like, const ls_tensor *other, ls_dtype dtype)
{
    if (!ls_view_dense(&like->view)) {
        if (like == other || !ls_view_dense(&other->view))
            return ls_tensor_new(like->run, like->storage->device, dtype, ls_view_shape(&like->view));
        like = other;
    }
    ls_tensor *t = tensor_with_memory(like->run, like->storage->device, dtype, ls_view_numel(&like->view));
    if (t->life != LS_LIFE_LIVE) return t;
    t->view.ndim = like->view.ndim;
    for (int d = 0; d < like->view.ndim; d++) {
        t->view.dim[d] = like->view.dim[d];
        t->view.stride[d] = like->view.stride[d];
    }
    return t;
}

ls_tensor *ls_tensor_over(ls_run *run, ls_storage *storage, void *address, ls_dtype dtype, ls_shape shape)
{
    ls_tensor *t = ls_handle_new(run);
    if (!t) return &run->poison;
    storage->refs++;
    ls_storage_show(storage, t);
    t->view.data = address;
    t->view.dtype = dtype;
    ls_view_set_contiguous(&t->view, shape);
    return t;
}

static ls_tensor *alias_into(ls_tensor *alias, ls_tensor *t)
{
    if (!alias) return NULL;
    alias->view = t->view;
    if (!t->node) alias->view.derived = NULL; /* else nothing keeps the forms of a frozen weight alive */
    t->storage->refs++;
    ls_storage_show(t->storage, alias);
    alias->name = t->name;
    return alias;
}

ls_tensor *ls_alias(ls_tensor *t)
{
    ls_tensor *alias = alias_into(ls_handle_new(t->run), t);
    return alias ? alias : &t->run->poison;
}

ls_tensor *ls_alias_owned(ls_tensor *t)
{
    return alias_into(ls_handle_new_owned(t->run), t);
}

/* Let a handle show other memory. */
static void show(ls_tensor *t, ls_storage *storage, ls_operand view)
{
    ls_derived *derived = t->view.derived;
    if (derived && ls_storage_leave(t->storage, derived)) ls_storage_enter(storage, derived);
    storage->refs++;
    ls_storage_hide(t);
    ls_storage_show(storage, t);
    t->view = view;
    t->view.derived = derived;
    if (!derived) return;
    derived->version++;
    if (derived->release) derived->release(derived->form); /* of memory that is left: nothing would find it there */
    derived->form = NULL;
    derived->release = NULL;
}

void ls_adopt(ls_tensor *t, const ls_tensor *from)
{
    show(t, from->storage, from->view);
}

/* ---- moving what several handles show ---- */

typedef struct extent {
    const char *begin, *end;
} extent;

/* Bytes from its first element to its last. */
static extent extent_of(const ls_operand *x)
{
    const int64_t bytes = (int64_t)ls_dtype_size(x->dtype);
    extent e = {x->data, x->data};
    if (!ls_view_numel(x)) return e;
    for (int d = 0; d < x->ndim; d++) {
        const int64_t reach = (x->dim[d] - 1) * x->stride[d] * bytes;
        if (reach < 0) e.begin += reach;
        else e.end += reach;
    }
    e.end += bytes;
    return e;
}

static bool is_within(const ls_tensor *other, extent e)
{
    const extent shown = extent_of(&other->view);
    return shown.begin >= e.begin && shown.end <= e.end;
}

bool ls_is_part(const ls_tensor *t)
{
    const extent e = extent_of(&t->view);
    for (const ls_tensor *other = t->storage->handles; other; other = other->next_shown)
        if (!is_within(other, e)) return true;
    return false;
}

void ls_move(ls_tensor *t, const ls_tensor *home)
{
    const extent from = extent_of(&t->view);
    const char *first = t->view.data;
    home->storage->version = t->storage->version; /* the tape still sees what was written since it saved one */
    for (ls_tensor *other = t->storage->handles, *next; other; other = next) {
        next = other->next_shown;
        if (other == t || !is_within(other, from)) continue;
        ls_operand view = other->view;
        view.data = (char *)home->view.data + ((const char *)view.data - first);
        show(other, home->storage, view);
    }
    ls_adopt(t, home);
}

/* ---- work below the operators ---- */

bool ls_submit(ls_run *run, ls_device *device, ls_call *call)
{
    ls_message why;
    why.text[0] = 0;
    call->site = run->site;
    ls_status status = ls_device_run(device, call, &why);
    if (status == LS_OK) return true;
    const char *site = run->errors.path[0] || !run->site ? "" : run->site; /* errors.path is empty in backward */
    if (status == LS_ERR_UNSUPPORTED && !why.text[0])
        ls_message_set(&why, "device %s lacks this operator", device->name);
    ls_fail(&run->errors, status, "%s%s%s: %s", site, *site ? ": " : "", ls_op_name(call->op),
            why.text[0] ? why.text : ls_status_text(status));
    return false;
}

bool ls_raw_copy(ls_tensor *to, const ls_tensor *from)
{
    ls_call call = {.op = LS_OP_copy, .n_in = 1, .n_out = 1, .in = {&from->view}, .out = {&to->view}};
    return ls_submit(to->run, to->storage->device, &call);
}

bool ls_raw_fill(ls_tensor *t, double value)
{
    ls_call call = {.op = LS_OP_fill, .n_out = 1, .out = {&t->view}, .attrs.affine = {.shift = value}};
    return ls_submit(t->run, t->storage->device, &call);
}

bool ls_raw_add(ls_tensor *out, const ls_tensor *a, const ls_tensor *b)
{
    ls_call call = {.op = LS_OP_add, .n_in = 2, .n_out = 1, .in = {&a->view, &b->view}, .out = {&out->view}};
    return ls_submit(out->run, out->storage->device, &call);
}

/* A copy in memory of its own. */
static ls_tensor *set_aside(ls_tensor *t)
{
    ls_tensor *c = ls_tensor_new(t->run, t->storage->device, t->view.dtype, ls_view_shape(&t->view));
    return c->life == LS_LIFE_LIVE && ls_raw_copy(c, t) ? c : &t->run->poison;
}

ls_tensor *ls_raw_contiguous(ls_tensor *t)
{
    return ls_view_contiguous(&t->view) ? t : set_aside(t);
}

/* ---- public: making ---- */

ls_tensor *ls_empty_shape(ls_run *run, ls_dtype dtype, ls_shape shape)
{
    if (ls_failed(run)) return &run->poison;
    return ls_tensor_new(run, run->device, dtype, shape);
}

ls_tensor *ls_from(ls_run *run, ls_dtype dtype, ls_shape shape, const void *data)
{
    ls_tensor *t = ls_empty_shape(run, dtype, shape);
    if (t->life != LS_LIFE_LIVE) return t;
    return ls_write(t, data, (size_t)ls_view_numel(&t->view) * ls_dtype_size(dtype)) ? t : &run->poison;
}

/* ---- public: properties ---- */

int ls_ndim(const ls_tensor *t)
{
    return ls_is_valid(t) ? t->view.ndim : 0;
}

int64_t ls_dim(const ls_tensor *t, int d)
{
    if (!ls_is_valid(t)) return 0;
    if (d < 0) d += t->view.ndim;
    return d >= 0 && d < t->view.ndim ? t->view.dim[d] : 0;
}

int64_t ls_numel(const ls_tensor *t)
{
    return ls_is_valid(t) ? ls_view_numel(&t->view) : 0;
}

ls_shape ls_shape_of(const ls_tensor *t)
{
    return ls_is_valid(t) ? ls_view_shape(&t->view) : LS_SCALAR;
}

ls_dtype ls_dtype_of(const ls_tensor *t)
{
    return ls_is_valid(t) ? t->view.dtype : LS_DTYPE_NONE;
}

const char *ls_device_of(const ls_tensor *t)
{
    return ls_is_valid(t) ? t->storage->device->name : "none";
}

bool ls_is_contiguous(const ls_tensor *t)
{
    return ls_is_valid(t) && ls_view_contiguous(&t->view);
}

bool ls_is_valid(const ls_tensor *t)
{
    return t && t->life == LS_LIFE_LIVE;
}

ls_tensor *ls_set_name(ls_tensor *t, const char *name)
{
    if (ls_is_valid(t)) t->name = name;
    return t;
}

/* ---- public: numbers in and out ---- */

static bool fits(ls_tensor *t, size_t bytes, const char *who)
{
    size_t needed = (size_t)ls_view_numel(&t->view) * ls_dtype_size(t->view.dtype);
    if (bytes == needed) return true;
    ls_fail(&t->run->errors, LS_ERR_SHAPE, "%s: %s has %zu bytes, but the memory given has %zu", who,
            ls_operand_text(&t->view, (char[LS_TEXT]){0}), needed, bytes);
    return false;
}

static bool transferred(ls_run *run, ls_status status, const char *who, const ls_message *why)
{
    if (status) ls_fail(&run->errors, status, "%s: %s", who, why->text[0] ? why->text : ls_status_text(status));
    return status == LS_OK;
}

bool ls_read(ls_tensor *t, void *to, size_t bytes)
{
    ls_run *run = ls_run_of(t);
    if (ls_failed(run) || !ls_check_live(run, t, "ls_read") || !fits(t, bytes, "ls_read")) return false;
    if (!to && bytes) return ls_fail(&run->errors, LS_ERR_VALUE, "ls_read: the memory to read into is NULL"), false;
    ls_mark mark = ls_scope_begin(run);
    ls_message why = {{0}};
    ls_tensor *plain = ls_raw_contiguous(t);
    bool ok =
        plain->life == LS_LIFE_LIVE &&
        transferred(run, ls_device_download(t->storage->device, to, plain->view.data, bytes, &why), "ls_read", &why);
    ls_scope_end(run, mark, NULL);
    return ok;
}

bool ls_write(ls_tensor *t, const void *from, size_t bytes)
{
    ls_run *run = ls_run_of(t);
    if (ls_failed(run) || !ls_check_writable(run, t, "ls_write") || !fits(t, bytes, "ls_write")) return false;
    if (!from && bytes) return ls_fail(&run->errors, LS_ERR_VALUE, "ls_write: the data is NULL"), false;
    ls_mark mark = ls_scope_begin(run);
    ls_message why = {{0}};
    bool direct = ls_view_contiguous(&t->view);
    ls_tensor *plain = direct ? t : ls_tensor_new(run, t->storage->device, t->view.dtype, ls_view_shape(&t->view));
    bool ok =
        plain->life == LS_LIFE_LIVE &&
        transferred(run, ls_device_upload(t->storage->device, plain->view.data, from, bytes, &why), "ls_write", &why) &&
        (direct || ls_raw_copy(t, plain));
    ls_scope_end(run, mark, NULL);
    ls_written(t);
    return ok;
}

static double element_value(ls_dtype dtype, const void *p)
{
    switch (dtype) {
    case LS_BOOL: return *(const uint8_t *)p != 0;
    case LS_U8: return *(const uint8_t *)p;
    case LS_I8: return *(const int8_t *)p;
    case LS_I32: return *(const int32_t *)p;
    case LS_I64: return (double)*(const int64_t *)p;
    case LS_F16: return (double)ls_f16_to_f32(*(const ls_f16 *)p);
    case LS_BF16: return (double)ls_bf16_to_f32(*(const ls_bf16 *)p);
    case LS_F32: return (double)*(const float *)p;
    case LS_F64: return *(const double *)p;
    case LS_DTYPE_NONE:
    case LS_DTYPE_COUNT: break;
    }
    return NAN;
}

double ls_item(ls_tensor *t)
{
    ls_run *run = ls_run_of(t);
    if (ls_failed(run) || !ls_check_live(run, t, "ls_item")) return NAN;
    if (ls_view_numel(&t->view) != 1)
        return ls_fail(&run->errors, LS_ERR_SHAPE, "ls_item: %s has %lld elements, not one",
                       ls_operand_text(&t->view, (char[LS_TEXT]){0}), (long long)ls_view_numel(&t->view)),
               NAN;
    double room;
    return ls_read(t, &room, ls_dtype_size(t->view.dtype)) ? element_value(t->view.dtype, &room) : NAN;
}

enum { FORMAT_EDGE = 3, FORMAT_WHOLE = 1000 };

/* Appends the elements of one nested level; keeps the buffer terminated and never writes past it. */
static size_t format_level(const ls_operand *x, const char *data, int d, bool whole, char *buffer, size_t size,
                           size_t used)
{
#define APPEND(...)                                                                                                    \
    used += (size_t)snprintf(buffer + (used < size ? used : size), used < size ? size - used : 0, __VA_ARGS__)
    if (d == x->ndim) {
        if (x->dtype == LS_I64) APPEND("%lld", (long long)*(const int64_t *)data);
        else APPEND(ls_dtype_is_float(x->dtype) ? "%.5g" : "%.0f", element_value(x->dtype, data));
        return used;
    }
    int64_t step = (int64_t)ls_dtype_size(x->dtype);
    for (int e = d + 1; e < x->ndim; e++) step *= x->dim[e];
    APPEND("[");
    for (int64_t i = 0; i < x->dim[d]; i++) {
        if (!whole && i == FORMAT_EDGE && x->dim[d] > 2 * FORMAT_EDGE) {
            APPEND(", ...");
            i = x->dim[d] - FORMAT_EDGE;
        }
        if (i) APPEND(d + 1 < x->ndim ? ",\n%*s" : ", ", d + 1, "");
        used = format_level(x, data + i * step, d + 1, whole, buffer, size, used);
    }
    APPEND("]");
    return used;
#undef APPEND
}

char *ls_format(ls_tensor *t, char *buffer, size_t size)
{
    if (size == 0) return buffer;
    if (!buffer) return ls_fail(&ls_run_of(t)->errors, LS_ERR_VALUE, "ls_format: the buffer is NULL"), NULL;
    buffer[0] = 0;
    if (!t) {
        snprintf(buffer, size, "(no tensor)");
        return buffer;
    }
    if (!ls_is_valid(t)) {
        snprintf(buffer, size, "(%s tensor)", t->life == LS_LIFE_POISON ? "poison" : "released");
        return buffer;
    }
    int64_t numel = ls_view_numel(&t->view);
    size_t bytes = (size_t)numel * ls_dtype_size(t->view.dtype);
    char *data = ls_sys_alloc(bytes ? bytes : 1);
    if (data && ls_read(t, data, bytes)) {
        size_t used = format_level(&t->view, data, 0, numel <= FORMAT_WHOLE, buffer, size, 0);
        if (used < size) snprintf(buffer + used, size - used, " %s", ls_operand_text(&t->view, (char[LS_TEXT]){0}));
    }
    ls_sys_free(data);
    return buffer;
}

/* Bytes from the first to the last element. */
static size_t bytes_spanned(const ls_operand *x)
{
    int64_t last = 0;
    for (int d = 0; d < x->ndim; d++) last += (x->dim[d] - 1) * x->stride[d];
    return (size_t)(last + 1) * ls_dtype_size(x->dtype);
}

/* Might a copy overwrite elements that it has still to read? Not if every element stays where it is. */
static bool is_in_its_way(const ls_tensor *dst, const ls_tensor *src)
{
    const ls_operand *to = &dst->view, *from = &src->view;
    if (dst->storage != src->storage || ls_view_numel(to) == 0 || ls_view_numel(from) == 0) return false;
    if (to->data == from->data && to->dtype == from->dtype && ls_views_match(to, from)) return false;
    const char *a = to->data, *b = from->data;
    return a < b + bytes_spanned(from) && b < a + bytes_spanned(to);
}

void ls_assign(ls_tensor *dst, ls_tensor *src)
{
    ls_run *run = ls_run_of(dst);
    if (ls_failed(run) || !ls_check_writable(run, dst, "ls_assign") || !ls_check_live(run, src, "ls_assign")) return;
    char a[LS_TEXT], b[LS_TEXT];
    if (dst->storage->device != src->storage->device) {
        ls_fail(&run->errors, LS_ERR_DEVICE, "ls_assign: from device %s to device %s; ls_to_device() moves a tensor",
                src->storage->device->name, dst->storage->device->name);
        return;
    }
    if (is_in_its_way(dst, src)) {
        ls_mark mark = ls_scope_begin(run);
        ls_assign(dst, set_aside(src));
        ls_scope_end(run, mark, NULL);
        return;
    }
    /* Broadcast src to dst's shape: missing leading dimensions and those of size 1 repeat. */
    ls_operand from = src->view;
    int lead = dst->view.ndim - src->view.ndim;
    bool ok = lead >= 0;
    for (int d = 0; ok && d < dst->view.ndim; d++) {
        int s = d - lead;
        bool repeat = s < 0 || (src->view.dim[s] == 1 && dst->view.dim[d] != 1);
        ok = repeat || src->view.dim[s] == dst->view.dim[d];
        from.dim[d] = dst->view.dim[d];
        from.stride[d] = repeat ? 0 : src->view.stride[s];
    }
    if (!ok) {
        ls_fail(&run->errors, LS_ERR_SHAPE, "ls_assign: %s does not fit into %s", ls_operand_text(&src->view, a),
                ls_operand_text(&dst->view, b));
        return;
    }
    from.ndim = dst->view.ndim;
    ls_call call = {.op = LS_OP_copy, .n_in = 1, .n_out = 1, .in = {&from}, .out = {&dst->view}};
    ls_submit(run, dst->storage->device, &call);
    ls_written(dst);
}

/* ---- public: to another device ---- */

ls_tensor *ls_to_device(ls_tensor *t, const char *name)
{
    ls_run *run = ls_run_of(t);
    if (ls_failed(run) || !ls_check_live(run, t, "ls_to_device")) return &run->poison;
    if (!name) return LS_POISON(run, LS_ERR_VALUE, "ls_to_device: the device's name is NULL");
    ls_device *to = ls_device_named(run, name);
    if (!to || to == t->storage->device) return to ? t : &run->poison;
    ls_tensor *moved = ls_tensor_new(run, to, t->view.dtype, ls_view_shape(&t->view));
    if (moved->life != LS_LIFE_LIVE) return moved;
    size_t bytes = (size_t)ls_view_numel(&t->view) * ls_dtype_size(t->view.dtype);
    void *staging = ls_sys_alloc(bytes ? bytes : 1);
    if (!staging) return LS_POISON(run, LS_ERR_MEMORY, "ls_to_device: no host memory to stage %zu bytes", bytes);
    bool ok = ls_read(t, staging, bytes) && ls_write(moved, staging, bytes);
    ls_sys_free(staging);
    return ok ? moved : &run->poison;
}
