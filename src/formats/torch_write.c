/* torch_write.c - PyTorch's own format: a zip file of stored files, a pickle that describes the tensors and one file of
 * numbers for each. torch.load() reads it, also with weights_only=True. */
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/crc.h"
#include "base/memory.h"
#include "formats/safetensors.h"

/* ---- bytes ---- */

/* The low bytes of a number, lowest first; at most 8. */
static void put_number(ls_byte_buffer *b, uint64_t value, int count)
{
    for (int i = 0; i < count; i++) ls_byte_buffer_put(b, &(char){(char)(value >> 8 * i & 0xff)}, 1);
}

static void put_text(ls_byte_buffer *b, const char *text)
{
    ls_byte_buffer_put(b, text, strlen(text));
}

/* ---- the pickle, protocol 2 ---- */

static void pickle_text(ls_byte_buffer *b, const char *text)
{
    put_text(b, "X"); /* BINUNICODE */
    put_number(b, strlen(text), 4);
    put_text(b, text);
}

static void pickle_integer(ls_byte_buffer *b, int64_t value)
{
    bool small = value >= INT32_MIN && value <= INT32_MAX;
    ls_byte_buffer_put(b, small ? "J" : "\x8a\x08", small ? 1 : 2); /* BININT, LONG1 */
    put_number(b, (uint64_t)value, small ? 4 : 8);
}

static const char *storage_of(ls_dtype dtype)
{
    static const char *const names[LS_DTYPE_COUNT] = {
        [LS_BOOL] = "BoolStorage", [LS_U8] = "ByteStorage",    [LS_I8] = "CharStorage",
        [LS_I32] = "IntStorage",   [LS_I64] = "LongStorage",   [LS_F16] = "HalfStorage",
        [LS_F32] = "FloatStorage", [LS_F64] = "DoubleStorage", [LS_BF16] = "BFloat16Storage",
    };
    return names[dtype];
}

/* torch._utils._rebuild_tensor_v2(storage i, 0, sizes, strides, False, OrderedDict()) */
static void pickle_tensor(ls_byte_buffer *b, const ls_plain_tensor *t, int64_t i)
{
    char key[24];
    snprintf(key, sizeof key, "%lld", (long long)i);
    put_text(b, "ctorch._utils\n_rebuild_tensor_v2\n(("); /* GLOBAL, and MARK of its arguments and of the storage's */
    pickle_text(b, "storage");
    put_text(b, "ctorch\n");
    put_text(b, storage_of(t->dtype));
    put_text(b, "\n");
    pickle_text(b, key);
    pickle_text(b, "cpu");
    pickle_integer(b, ls_shape_numel(t->shape));
    put_text(b, "tQ"); /* TUPLE, BINPERSID */
    pickle_integer(b, 0);
    put_text(b, "(");
    for (int d = 0; d < t->shape.ndim; d++) pickle_integer(b, t->shape.dim[d]);
    put_text(b, "t(");
    for (int d = 0; d < t->shape.ndim; d++) {
        int64_t stride = 1;
        for (int e = d + 1; e < t->shape.ndim; e++) stride *= t->shape.dim[e];
        pickle_integer(b, stride);
    }
    put_text(b, "t\x89"
                "ccollections\nOrderedDict\n)RtR"); /* NEWFALSE; REDUCE of both calls */
}

static ls_byte_buffer make_pickle(const ls_plain_list *list)
{
    ls_byte_buffer b = {0};
    put_text(&b, "\x80\x02}("); /* PROTO 2, EMPTY_DICT, MARK */
    for (int64_t i = 0; i < list->count; i++) {
        pickle_text(&b, list->tensors[i].name);
        pickle_tensor(&b, &list->tensors[i], i);
    }
    put_text(&b, "u."); /* SETITEMS, STOP */
    return b;
}

/* ---- the zip file ---- */

typedef struct zip_out {
    ls_file_out *out;
    ls_byte_buffer directory;
    uint64_t offset;
    int64_t count;
    ls_message *why;
} zip_out;

/* What the local header and the directory have in common, from the version to the length of the name. */
static void put_entry(ls_byte_buffer *b, const char *name, uint32_t crc, uint64_t size)
{
    put_number(b, 10, 2);       /* version */
    put_number(b, 0, 2);        /* no flags */
    put_number(b, 0, 2);        /* stored */
    put_number(b, 0x210000, 4); /* midnight of 1 January 1980 */
    put_number(b, crc, 4);
    put_number(b, size, 4);
    put_number(b, size, 4);
    put_number(b, strlen(name), 2);
    put_number(b, 0, 2); /* extra field */
}

static bool add_file(zip_out *z, const char *name, const void *data, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "archive/%s", name);
    uint32_t crc = ls_crc32(0, data, size);
    ls_byte_buffer header = {0};
    put_text(&header, "PK\x03\x04");
    put_entry(&header, path, crc, size);
    put_text(&header, path);
    put_text(&z->directory, "PK\x01\x02");
    put_number(&z->directory, 10, 2); /* made by */
    put_entry(&z->directory, path, crc, size);
    put_number(&z->directory, 0, 2); /* comment */
    put_number(&z->directory, 0, 2); /* disk */
    put_number(&z->directory, 0, 6); /* attributes */
    put_number(&z->directory, z->offset, 4);
    put_text(&z->directory, path);
    bool ok = !header.failed && !z->directory.failed;
    if (!ok) ls_message_set(z->why, "no memory for the directory of a zip file");
    ok = ok && ls_file_put(z->out, header.bytes, header.length, z->why) && ls_file_put(z->out, data, size, z->why);
    z->offset += header.length + size;
    z->count++;
    ls_byte_buffer_free(&header);
    return ok;
}

static bool add_tensor(zip_out *z, const ls_plain_list *list, int64_t i)
{
    const ls_plain_tensor *t = &list->tensors[i];
    size_t size = ls_plain_bytes(t);
    char name[40];
    snprintf(name, sizeof name, "data/%lld", (long long)i);
    if (t->data || size == 0) return add_file(z, name, t->data ? t->data : "", size);
    void *staging = ls_sys_alloc(size);
    if (!staging) ls_message_set(z->why, "no memory to stage %zu bytes of %s", size, t->name);
    bool ok = staging && list->fetch(list->user, i, staging, size, z->why) && add_file(z, name, staging, size);
    ls_sys_free(staging);
    return ok;
}

static bool add_directory(zip_out *z)
{
    ls_byte_buffer end = {0};
    put_text(&end, "PK\x05\x06");
    put_number(&end, 0, 4); /* one disk */
    put_number(&end, (uint64_t)z->count, 2);
    put_number(&end, (uint64_t)z->count, 2);
    put_number(&end, z->directory.length, 4);
    put_number(&end, z->offset, 4);
    put_number(&end, 0, 2); /* comment */
    bool ok = !end.failed && ls_file_put(z->out, z->directory.bytes, z->directory.length, z->why) &&
              ls_file_put(z->out, end.bytes, end.length, z->why);
    ls_byte_buffer_free(&end);
    return ok;
}

/* Larger files would need the fields of zip64. */
static bool fits(const ls_plain_list *list, const char *path, ls_message *why)
{
    uint64_t total = 0;
    for (int64_t i = 0; i < list->count; i++)
        total += ls_plain_bytes(&list->tensors[i]) + strlen(list->tensors[i].name);
    if (total + 1024 * (uint64_t)list->count < UINT32_MAX && list->count < 60000) return true;
    ls_message_set(why, "%s would be too large for this format, which holds 4 GB; write .safetensors", path);
    return false;
}

bool ls_torch_put(ls_file_out *out, const char *path, const ls_plain_list *list, bool sync, ls_message *why)
{
    *out = (ls_file_out){.descriptor = -1};
    if (!fits(list, path, why)) return false;
    ls_byte_buffer pickle = make_pickle(list);
    zip_out z = {.out = out, .why = why};
    if (pickle.failed) ls_message_set(why, "no memory for the header of %s", path);
    bool ok = !pickle.failed && ls_file_create(out, path, sync, why) &&
              add_file(&z, "data.pkl", pickle.bytes, pickle.length) && add_file(&z, "byteorder", "little", 6);
    for (int64_t i = 0; ok && i < list->count; i++) ok = add_tensor(&z, list, i);
    ok = ok && add_file(&z, "version", "3\n", 2) && add_directory(&z) && ls_file_seal(out, why);
    if (!ok) ls_file_discard(out);
    ls_byte_buffer_free(&pickle);
    ls_byte_buffer_free(&z.directory);
    return ok;
}
