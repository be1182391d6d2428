/* pickle_globals.c - the globals that a pickle may use, and their meaning: all of it data. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/utf8.h"
#include "formats/numpy.h"
#include "formats/pickle.h"

/* What calling it with a tuple creates. */
typedef enum meaning {
    DICT,         /* nothing, a dict, or pairs */
    LIST,         /* nothing, or a list: sets */
    SEQUENCE,     /* a list: torch.Size */
    TEXT,         /* text: torch.device */
    STORAGE,      /* only as part of a storage's description */
    TYPE,         /* only as an argument */
    TENSOR,       /* storage, offset, size, stride, ... */
    TENSOR_TYPED, /* storage, offset, size, stride, requires_grad, hooks, type, ... */
    PARAMETER,    /* a tensor, ... */
    ENCODE,       /* text, 'latin1': bytes */
    NUMPY_ARRAY,  /* the class, and a shape and type that are ignored */
    NUMPY_DTYPE,  /* 'f4', ... */
    NUMPY_NUMBER, /* dtype, bytes */
} meaning;

struct ls_pickle_global {
    const char *module, *name;
    meaning meaning;
    ls_element element; /* of STORAGE and TYPE */
};

static const ls_pickle_global globals[] = {
    {"collections", "OrderedDict", DICT, 0},
    {"collections", "Counter", DICT, 0},
    {"__builtin__", "set", LIST, 0},
    {"__builtin__", "frozenset", LIST, 0},
    {"builtins", "set", LIST, 0},
    {"builtins", "frozenset", LIST, 0},
    {"_codecs", "encode", ENCODE, 0},
    {"torch", "Size", SEQUENCE, 0},
    {"torch", "device", TEXT, 0},
    {"torch._utils", "_rebuild_tensor", TENSOR, 0},
    {"torch._utils", "_rebuild_tensor_v2", TENSOR, 0},
    {"torch._utils", "_rebuild_tensor_v3", TENSOR_TYPED, 0},
    {"torch._utils", "_rebuild_parameter", PARAMETER, 0},
    {"torch._utils", "_rebuild_parameter_with_state", PARAMETER, 0},
    {"torch", "DoubleStorage", STORAGE, LS_ELEMENT_F64},
    {"torch", "FloatStorage", STORAGE, LS_ELEMENT_F32},
    {"torch", "HalfStorage", STORAGE, LS_ELEMENT_F16},
    {"torch", "BFloat16Storage", STORAGE, LS_ELEMENT_BF16},
    {"torch", "LongStorage", STORAGE, LS_ELEMENT_I64},
    {"torch", "IntStorage", STORAGE, LS_ELEMENT_I32},
    {"torch", "ShortStorage", STORAGE, LS_ELEMENT_I16},
    {"torch", "CharStorage", STORAGE, LS_ELEMENT_I8},
    {"torch", "ByteStorage", STORAGE, LS_ELEMENT_U8},
    {"torch", "BoolStorage", STORAGE, LS_ELEMENT_BOOL},
    {"torch", "ComplexFloatStorage", STORAGE, LS_ELEMENT_C64},
    {"torch", "ComplexDoubleStorage", STORAGE, LS_ELEMENT_C128},
    {"torch", "UntypedStorage", STORAGE, LS_ELEMENT_U8},
    {"torch.storage", "UntypedStorage", STORAGE, LS_ELEMENT_U8},
    {"torch", "float64", TYPE, LS_ELEMENT_F64},
    {"torch", "float32", TYPE, LS_ELEMENT_F32},
    {"torch", "float16", TYPE, LS_ELEMENT_F16},
    {"torch", "bfloat16", TYPE, LS_ELEMENT_BF16},
    {"torch", "int64", TYPE, LS_ELEMENT_I64},
    {"torch", "int32", TYPE, LS_ELEMENT_I32},
    {"torch", "int16", TYPE, LS_ELEMENT_I16},
    {"torch", "int8", TYPE, LS_ELEMENT_I8},
    {"torch", "uint64", TYPE, LS_ELEMENT_U64},
    {"torch", "uint32", TYPE, LS_ELEMENT_U32},
    {"torch", "uint16", TYPE, LS_ELEMENT_U16},
    {"torch", "uint8", TYPE, LS_ELEMENT_U8},
    {"torch", "bool", TYPE, LS_ELEMENT_BOOL},
    {"torch", "complex64", TYPE, LS_ELEMENT_C64},
    {"torch", "complex128", TYPE, LS_ELEMENT_C128},
    {"torch", "float8_e4m3fn", TYPE, LS_ELEMENT_F8_E4M3},
    {"torch", "float8_e5m2", TYPE, LS_ELEMENT_F8_E5M2},
    {"torch", "float8_e4m3fnuz", TYPE, LS_ELEMENT_F8_E4M3FNUZ},
    {"torch", "float8_e5m2fnuz", TYPE, LS_ELEMENT_F8_E5M2FNUZ},
    {"torch", "float8_e8m0fnu", TYPE, LS_ELEMENT_F8_E8M0},
    {"numpy", "ndarray", TYPE, LS_ELEMENT_COUNT},
    {"numpy", "dtype", NUMPY_DTYPE, 0},
    {"numpy.core.multiarray", "_reconstruct", NUMPY_ARRAY, 0},
    {"numpy._core.multiarray", "_reconstruct", NUMPY_ARRAY, 0},
    {"numpy.core.multiarray", "scalar", NUMPY_NUMBER, 0},
    {"numpy._core.multiarray", "scalar", NUMPY_NUMBER, 0},
};

static bool same(const char *text, const char *bytes, size_t length)
{
    return strlen(text) == length && memcmp(text, bytes, length) == 0;
}

const ls_pickle_global *ls_pickle_global_named(ls_pickle *p, const char *module, size_t module_length, const char *name,
                                               size_t name_length)
{
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++)
        if (same(globals[i].module, module, module_length) && same(globals[i].name, name, name_length))
            return &globals[i];
    ls_archive_fail_with(p->archive, LS_ERR_UNSUPPORTED,
                         "it wants to run %.*s.%.*s; only tensors, numbers, text and plain containers are allowed",
                         (int)(module_length < 100 ? module_length : 100), module,
                         (int)(name_length < 100 ? name_length : 100), name);
    return NULL;
}

/* ---- arguments ---- */

static const ls_pickle_value *argument(const ls_pickle_value *arguments, int64_t i, ls_pickle_kind kind)
{
    if (i >= arguments->list.count || arguments->list.items[i]->kind != kind) return NULL;
    return arguments->list.items[i];
}

/* A tuple or list of counts, as an array. */
static bool read_counts(ls_pickle *p, const ls_pickle_value *from, int *count, const int64_t **counts)
{
    if (!from || (from->kind != LS_PICKLE_TUPLE && from->kind != LS_PICKLE_LIST) || from->list.count > 1000)
        return ls_pickle_fail(p, "a shape is missing");
    int64_t *array = ls_archive_take(p->archive, (size_t)from->list.count * sizeof *array);
    if (!array) return false;
    for (int64_t i = 0; i < from->list.count; i++) {
        const ls_pickle_value *item = from->list.items[i];
        if (item->kind != LS_PICKLE_INT || item->integer < 0) return ls_pickle_fail(p, "a size is not a count");
        array[i] = item->integer;
    }
    *count = (int)from->list.count;
    *counts = array;
    return true;
}

/* ---- storages and tensors ---- */

ls_pickle_storage *ls_pickle_storage_of(ls_pickle *p, const char *key, size_t length)
{
    ls_pickle_storage **bucket = &p->hashed[ls_hash_keyed(key, length) % (sizeof p->hashed / sizeof *p->hashed)];
    for (ls_pickle_storage *s = *bucket; s; s = s->same_hash)
        if (same(s->key, key, length)) return s;
    ls_pickle_storage *storage = ls_archive_take(p->archive, sizeof *storage);
    if (!storage) return NULL;
    storage->key = ls_archive_text(p->archive, key, length);
    if (!storage->key) return NULL;
    storage->element = LS_ELEMENT_COUNT; /* not described yet */
    storage->number = p->archive->storages++;
    storage->next = p->storages;
    storage->same_hash = *bucket;
    p->storages = *bucket = storage;
    return storage;
}

ls_pickle_value *ls_pickle_persistent(ls_pickle *p, const ls_pickle_value *id)
{
    const ls_pickle_value *tag = id->kind == LS_PICKLE_TUPLE ? argument(id, 0, LS_PICKLE_TEXT) : NULL;
    if (!tag || !same("storage", tag->text.bytes, tag->text.length))
        return ls_pickle_fail(p, "a reference is invalid"), NULL;
    const ls_pickle_value *type = argument(id, 1, LS_PICKLE_GLOBAL), *key = argument(id, 2, LS_PICKLE_TEXT);
    const ls_pickle_value *count = argument(id, 4, LS_PICKLE_INT), *view = argument(id, 5, LS_PICKLE_TUPLE);
    if (!type || type->global->meaning != STORAGE || !key || !count || count->integer < 0)
        return ls_pickle_fail(p, "a storage has no valid description"), NULL;
    ls_pickle_storage *storage = ls_pickle_storage_of(p, key->text.bytes, key->text.length);
    ls_pickle_value *value = storage ? ls_pickle_new(p, LS_PICKLE_STORAGE) : NULL;
    if (!value) return NULL;
    if (storage->element == LS_ELEMENT_COUNT) {
        storage->element = type->global->element;
        storage->count = count->integer;
    } else if (storage->element != type->global->element || storage->count != count->integer) {
        return ls_pickle_fail(p, "storage %s has two different descriptions", storage->key), NULL;
    }
    int64_t *size = ls_archive_take(p->archive, sizeof *size);
    if (!size) return NULL;
    *size = count->integer;
    value->tensor = (ls_pickle_tensor){.storage = storage, .element = storage->element, .ndim = 1, .dim = size};
    if (view) { /* the older form: key, offset, size of a part */
        const ls_pickle_value *offset = argument(view, 1, LS_PICKLE_INT), *length = argument(view, 2, LS_PICKLE_INT);
        if (!offset || !length || offset->integer < 0 || length->integer < 0)
            return ls_pickle_fail(p, "a part of storage %s has no valid description", storage->key), NULL;
        value->tensor.offset = offset->integer;
        *size = length->integer;
    }
    return value;
}

static ls_pickle_value *make_tensor(ls_pickle *p, const ls_pickle_value *arguments, bool typed)
{
    const ls_pickle_value *storage = argument(arguments, 0, LS_PICKLE_STORAGE);
    const ls_pickle_value *offset = argument(arguments, 1, LS_PICKLE_INT),
                          *type = argument(arguments, 6, LS_PICKLE_GLOBAL);
    ls_pickle_value *value = ls_pickle_new(p, LS_PICKLE_TENSOR);
    if (!value) return NULL;
    if (!storage || !offset || offset->integer < 0 || arguments->list.count < 4 ||
        (typed && (!type || type->global->meaning != TYPE || type->global->element == LS_ELEMENT_COUNT)))
        return ls_pickle_fail(p, "a tensor has no valid description"), NULL;
    ls_pickle_tensor *t = &value->tensor;
    *t = (ls_pickle_tensor){.storage = storage->tensor.storage,
                            .element = typed ? type->global->element : storage->tensor.element};
    /* In the older form the offset of a tensor is relative to its part of the storage. */
    int strides;
    if (__builtin_add_overflow(offset->integer, storage->tensor.offset, &t->offset))
        return ls_pickle_fail(p, "a tensor exceeds its storage"), NULL;
    if (!read_counts(p, arguments->list.items[2], &t->ndim, &t->dim) ||
        !read_counts(p, arguments->list.items[3], &strides, &t->stride))
        return NULL;
    if (strides != t->ndim) return ls_pickle_fail(p, "%d sizes and %d strides", t->ndim, strides), NULL;
    return value;
}

/* ---- NumPy ---- */

static ls_pickle_value *make_dtype(ls_pickle *p, const ls_pickle_value *arguments)
{
    const ls_pickle_value *text = argument(arguments, 0, LS_PICKLE_TEXT);
    ls_pickle_value *value = text ? ls_pickle_new(p, LS_PICKLE_DTYPE) : NULL;
    if (!value) return text ? NULL : (ls_pickle_fail(p, "a NumPy type has no valid description"), NULL);
    value->element = ls_numpy_element(text->text.bytes, text->text.length);
    if (value->element < LS_ELEMENT_COUNT) return value;
    ls_archive_fail_with(p->archive, LS_ERR_UNSUPPORTED, "an array has type %.*s, which is not supported",
                         (int)(text->text.length < 40 ? text->text.length : 40), text->text.bytes);
    return NULL;
}

static bool set_numbers(ls_pickle *p, ls_pickle_value *array, ls_element element, const ls_pickle_value *bytes)
{
    uint64_t wanted;
    ls_pickle_tensor *t = &array->tensor;
    if (!ls_element_bytes(element, t->ndim, t->dim, &wanted) || wanted != bytes->text.length)
        return ls_pickle_fail(p, "the shape of an array does not match its %zu bytes", bytes->text.length);
    t->element = element;
    t->bytes = bytes->text.bytes;
    t->size = bytes->text.length;
    return true;
}

static ls_pickle_value *make_number(ls_pickle *p, const ls_pickle_value *arguments)
{
    const ls_pickle_value *dtype = argument(arguments, 0, LS_PICKLE_DTYPE),
                          *bytes = argument(arguments, 1, LS_PICKLE_BYTES);
    ls_pickle_value *value = ls_pickle_new(p, LS_PICKLE_ARRAY);
    if (!value) return NULL;
    if (!dtype || !bytes) return ls_pickle_fail(p, "a NumPy number has no valid description"), NULL;
    return set_numbers(p, value, dtype->element, bytes) ? value : NULL;
}

/* Text whose characters encode bytes (latin1), back to bytes. */
static ls_pickle_value *encode(ls_pickle *p, const ls_pickle_value *arguments)
{
    const ls_pickle_value *text = argument(arguments, 0, LS_PICKLE_TEXT),
                          *code = argument(arguments, 1, LS_PICKLE_TEXT);
    if (!text || !code || !same("latin1", code->text.bytes, code->text.length))
        return ls_pickle_fail(p, "bytes have no valid description"), NULL;
    ls_pickle_value *value = ls_pickle_new(p, LS_PICKLE_BYTES);
    char *bytes = value ? ls_archive_take(p->archive, text->text.length) : NULL;
    if (!bytes) return NULL;
    value->text.bytes = bytes;
    for (size_t at = 0, length; at < text->text.length; at += length) {
        length = ls_utf8_length(text->text.bytes + at, text->text.length - at);
        uint32_t c = length ? ls_utf8_decode(text->text.bytes + at, length) : 256;
        if (c > 255) return ls_pickle_fail(p, "bytes contain a character above 255"), NULL;
        bytes[value->text.length++] = (char)c;
    }
    return value;
}

/* version, shape, dtype, is_fortran, bytes */
static bool build_array(ls_pickle *p, ls_pickle_value *value, const ls_pickle_value *state)
{
    const ls_pickle_value *dtype = state->kind == LS_PICKLE_TUPLE ? argument(state, 2, LS_PICKLE_DTYPE) : NULL;
    const ls_pickle_value *fortran = dtype ? argument(state, 3, LS_PICKLE_BOOL) : NULL;
    const ls_pickle_value *bytes = dtype ? argument(state, 4, LS_PICKLE_BYTES) : NULL;
    if (!fortran || !bytes) return ls_pickle_fail(p, "an array has no valid description, or contains objects");
    value->tensor = (ls_pickle_tensor){0};
    if (!read_counts(p, state->list.items[1], &value->tensor.ndim, &value->tensor.dim) ||
        !set_numbers(p, value, dtype->element, bytes))
        return false;
    if (!fortran->integer) return true;
    value->tensor.stride = ls_fortran_strides(p->archive, value->tensor.ndim, value->tensor.dim);
    return value->tensor.stride != NULL;
}

/* ---- calls ---- */

/* An empty container, or one filled from the only argument. */
static ls_pickle_value *make_container(ls_pickle *p, ls_pickle_kind kind, const ls_pickle_value *arguments)
{
    ls_pickle_value *value = ls_pickle_new(p, kind);
    if (!value || arguments->list.count == 0) return value;
    const ls_pickle_value *from = arguments->list.items[0];
    bool pairs = kind == LS_PICKLE_DICT && from->kind == LS_PICKLE_LIST;
    if (arguments->list.count != 1 ||
        (from->kind != LS_PICKLE_LIST && from->kind != LS_PICKLE_TUPLE && from->kind != kind))
        return ls_pickle_fail(p, "a container has no valid description"), NULL;
    for (int64_t i = 0; i < from->list.count; i++) {
        const ls_pickle_value *item = from->list.items[i];
        bool is_pair = (item->kind == LS_PICKLE_LIST || item->kind == LS_PICKLE_TUPLE) && item->list.count == 2;
        if (pairs && !is_pair) return ls_pickle_fail(p, "a dict is built from items that are not pairs"), NULL;
        if (pairs ? !ls_pickle_append(p, &value->list, item->list.items[0]) ||
                        !ls_pickle_append(p, &value->list, item->list.items[1])
                  : !ls_pickle_append(p, &value->list, from->list.items[i]))
            return NULL;
    }
    if (kind == LS_PICKLE_DICT && value->list.count % 2) return ls_pickle_fail(p, "a key without a value"), NULL;
    return value;
}

ls_pickle_value *ls_pickle_reduce(ls_pickle *p, const ls_pickle_value *callee, const ls_pickle_value *arguments)
{
    if (callee->kind != LS_PICKLE_GLOBAL || arguments->kind != LS_PICKLE_TUPLE)
        return ls_pickle_fail(p, "a call of something that is not a global"), NULL;
    switch (callee->global->meaning) {
    case DICT: return make_container(p, LS_PICKLE_DICT, arguments);
    case LIST: return make_container(p, LS_PICKLE_LIST, arguments);
    case SEQUENCE: return make_container(p, LS_PICKLE_TUPLE, arguments);
    case TENSOR: return make_tensor(p, arguments, false);
    case TENSOR_TYPED: return make_tensor(p, arguments, true);
    case ENCODE: return encode(p, arguments);
    case NUMPY_ARRAY: return ls_pickle_new(p, LS_PICKLE_ARRAY);
    case NUMPY_DTYPE: return make_dtype(p, arguments);
    case NUMPY_NUMBER: return make_number(p, arguments);
    case TEXT:
        if (argument(arguments, 0, LS_PICKLE_TEXT)) return arguments->list.items[0];
        break;
    case PARAMETER:
        if (argument(arguments, 0, LS_PICKLE_TENSOR)) return arguments->list.items[0];
        break;
    case STORAGE:
    case TYPE: break;
    }
    return ls_pickle_fail(p, "%s.%s is called with unexpected arguments", callee->global->module, callee->global->name),
           NULL;
}

bool ls_pickle_build(ls_pickle *p, ls_pickle_value *value, const ls_pickle_value *state)
{
    switch (value->kind) {
    case LS_PICKLE_DICT: return true; /* attributes of an OrderedDict, such as the _metadata of a state_dict */
    case LS_PICKLE_ARRAY: return build_array(p, value, state);
    case LS_PICKLE_DTYPE: { /* version, byte order, ... */
        const ls_pickle_value *order = state->kind == LS_PICKLE_TUPLE ? argument(state, 1, LS_PICKLE_TEXT) : NULL;
        if (order && order->text.length == 1 && strchr("<|=", order->text.bytes[0])) return true;
        return ls_archive_fail_with(p->archive, LS_ERR_UNSUPPORTED, "an array is big-endian, which is not supported");
    }
    default: return ls_pickle_fail(p, "a value without state is given one");
    }
}
