/* arrow.c - messages of Arrow's IPC: a schema, then batches. Each is a FlatBuffer that describes the body after it: for
 * each field a node (how many values), and buffers (where they are). The file format is the stream preceded by a magic
 * number and followed by an index, which is not needed to read everything. */
#include "formats/arrow.h"

#include <string.h>

#include "formats/bytes.h"
#include "formats/flatbuffer.h"

enum { DEEPEST = 32, MOST_FIELDS = 4096, MARK = 8 /* bytes before a stream in a file */, CONTINUES = -1 };

static const char mark[MARK] = "ARROW1\0";

/* Members of the tables of Arrow's Message.fbs and Schema.fbs. */
enum { MESSAGE_VERSION, MESSAGE_HEADER_TYPE, MESSAGE_HEADER, MESSAGE_BODY_LENGTH };
enum { HEADER_SCHEMA = 1, HEADER_DICTIONARY, HEADER_BATCH };
enum { SCHEMA_ENDIANNESS, SCHEMA_FIELDS };
enum { FIELD_NAME, FIELD_NULLABLE, FIELD_TYPE_TYPE, FIELD_TYPE, FIELD_DICTIONARY, FIELD_CHILDREN };
enum { INT_BIT_WIDTH, INT_IS_SIGNED };
enum { BATCH_LENGTH, BATCH_NODES, BATCH_BUFFERS, BATCH_COMPRESSION };
enum { OLDEST_VERSION = 3, NEWEST_VERSION = 4 /* V4 and V5, as FlatBuffers number them */ };

/* ---- The schema ---- */

/* How a batch stores each type. */
static const struct type {
    const char *name;
    ls_arrow_kind kind;
    int width, buffers;
    bool is_known;
} types[] = {
    [1] = {"null", LS_ARROW_OTHER, 0, 0, true},
    [2] = {"int", LS_ARROW_INTEGER, 0, 2, true},
    [3] = {"floating_point", LS_ARROW_OTHER, 0, 2, true},
    [4] = {"binary", LS_ARROW_OTHER, 0, 3, true},
    [5] = {"utf8", LS_ARROW_TEXT, 4, 3, true},
    [6] = {"bool", LS_ARROW_OTHER, 0, 2, true},
    [7] = {"decimal", LS_ARROW_OTHER, 0, 2, true},
    [8] = {"date", LS_ARROW_OTHER, 0, 2, true},
    [9] = {"time", LS_ARROW_OTHER, 0, 2, true},
    [10] = {"timestamp", LS_ARROW_OTHER, 0, 2, true},
    [11] = {"interval", LS_ARROW_OTHER, 0, 2, true},
    [12] = {"list", LS_ARROW_LIST, 4, 2, true},
    [13] = {"struct", LS_ARROW_STRUCT, 0, 1, true},
    [14] = {"union", LS_ARROW_OTHER, 0, 0, false},
    [15] = {"fixed_size_binary", LS_ARROW_OTHER, 0, 2, true},
    [16] = {"fixed_size_list", LS_ARROW_OTHER, 0, 1, true},
    [17] = {"map", LS_ARROW_OTHER, 0, 2, true},
    [18] = {"duration", LS_ARROW_OTHER, 0, 2, true},
    [19] = {"large_binary", LS_ARROW_OTHER, 0, 3, true},
    [20] = {"large_utf8", LS_ARROW_TEXT, 8, 3, true},
    [21] = {"large_list", LS_ARROW_LIST, 8, 2, true},
    [22] = {"run_end_encoded", LS_ARROW_OTHER, 0, 0, false},
    [23] = {"binary_view", LS_ARROW_OTHER, 0, 0, false},
    [24] = {"utf8_view", LS_ARROW_OTHER, 0, 0, false},
    [25] = {"list_view", LS_ARROW_OTHER, 0, 3, true},
    [26] = {"large_list_view", LS_ARROW_OTHER, 0, 3, true},
};

enum { TYPES = sizeof types / sizeof *types };

typedef struct reader {
    ls_arrow *table;
    const char *body; /* of the current message */
    int64_t body_size;
    ls_flatbuffer head;
    ls_flat_vector nodes, buffers; /* of the batch, and the index of the next unused one of each */
    int64_t node, buffer;
    int64_t fields; /* of the schema so far */
    ls_message *why;
} reader;

static ls_status damaged(reader *r, const char *what)
{
    return ls_explain(r->why, LS_ERR_IO, "it is damaged: %s", what);
}

static ls_status read_fields(reader *r, ls_flat_vector from, ls_arrow_field *parent, int depth);

static ls_status read_field(reader *r, ls_flat_table from, ls_arrow_field *to, int depth)
{
    if (!from.buffer) return damaged(r, "a column cannot be read");
    int64_t number = ls_flat_integer(from, FIELD_TYPE_TYPE, 1, 0);
    const char *name = ls_flat_text(from, FIELD_NAME);
    const struct type *type = number > 0 && number < TYPES ? &types[number] : NULL;
    to->name = ls_arena_text(&r->table->memory, name ? name : "", name ? strlen(name) : 0);
    if (!to->name) return ls_explain(r->why, LS_ERR_MEMORY, "no memory for its columns");
    if (!type || !type->is_known)
        return ls_explain(r->why, LS_ERR_UNSUPPORTED,
                          "column \"%.60s\" has type %s, which is not supported; leave it out", to->name,
                          type ? type->name : "unknown");
    to->type = type->name;
    to->kind = type->kind;
    to->width = type->width;
    to->buffers = type->buffers;
    if (to->kind == LS_ARROW_INTEGER) {
        ls_flat_table integer = ls_flat_member(from, FIELD_TYPE);
        int64_t bits = ls_flat_integer(integer, INT_BIT_WIDTH, 4, 0);
        if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
            return damaged(r, "an integer has an odd number of bits");
        to->width = (int)bits / 8;
        to->is_signed = ls_flat_integer(integer, INT_IS_SIGNED, 1, 0) != 0;
    }
    if (ls_flat_member(from, FIELD_DICTIONARY).buffer) { /* batches have its indices; its children are elsewhere */
        *to = (ls_arrow_field){.name = to->name, .type = "dictionary", .kind = LS_ARROW_OTHER, .buffers = 2};
        return LS_OK;
    }
    ls_status status = read_fields(r, ls_flat_list(from, FIELD_CHILDREN, 4), to, depth + 1);
    if (!status && to->kind == LS_ARROW_LIST && to->child_count != 1) return damaged(r, "a list has no type of values");
    return status;
}

static ls_status read_fields(reader *r, ls_flat_vector from, ls_arrow_field *parent, int depth)
{
    if (depth > DEEPEST) return damaged(r, "columns are nested too deeply");
    if ((r->fields += from.count) > MOST_FIELDS) return damaged(r, "there are too many columns");
    parent->children = ls_arena_take(&r->table->memory, (size_t)from.count * sizeof *parent->children + 1);
    if (!parent->children) return ls_explain(r->why, LS_ERR_MEMORY, "no memory for its columns");
    parent->child_count = from.count;
    for (int64_t i = 0; i < from.count; i++) {
        ls_status status = read_field(r, ls_flat_table_at(from, i), &parent->children[i], depth);
        if (status) return status;
    }
    return LS_OK;
}

static ls_status read_schema(reader *r, ls_flat_table schema)
{
    if (r->table->table.type) return damaged(r, "there are two schemas");
    if (ls_flat_integer(schema, SCHEMA_ENDIANNESS, 2, 0) != 0)
        return ls_explain(r->why, LS_ERR_UNSUPPORTED, "its numbers are big-endian, which is not supported");
    r->table->table = (ls_arrow_field){.name = "", .type = "struct", .kind = LS_ARROW_STRUCT};
    return read_fields(r, ls_flat_list(schema, SCHEMA_FIELDS, 4), &r->table->table, 0);
}

/* ---- Batches ---- */

/* The next buffer, of at least `least` bytes; NULL, and an error, if it is missing. An empty one may be missing. */
static const char *take_buffer(reader *r, int64_t least, int64_t *size)
{
    static const char nothing[8];
    if (r->buffer < r->buffers.count) {
        int64_t at = ls_flat_number_at(r->buffers, r->buffer, 2, 0),
                bytes = ls_flat_number_at(r->buffers, r->buffer, 2, 1);
        r->buffer++;
        if (at >= 0 && bytes >= least && at <= r->body_size && bytes <= r->body_size - at) {
            if (size) *size = bytes;
            return bytes ? r->body + at : nothing;
        }
    }
    damaged(r, "a buffer is too small, or outside its batch");
    return NULL;
}

static int64_t offset_at(const ls_arrow_array *a, int64_t index)
{
    const char *at = a->offsets + index * a->field->width;
    return a->field->width == 4 ? (int32_t)ls_u32(at) : (int64_t)ls_u64(at);
}

/* Offsets rise, and end at or before `limit`. An array without values may have none. */
static bool offsets_are_sound(const ls_arrow_array *a, int64_t limit)
{
    if (a->count == 0) return true;
    int64_t last = offset_at(a, 0);
    bool rises = last >= 0;
    for (int64_t i = 1; i <= a->count; i++) {
        int64_t next = offset_at(a, i);
        rises &= next >= last;
        last = next;
    }
    return rises && last <= limit;
}

static ls_status take_array(reader *r, const ls_arrow_field *field, ls_arrow_array *to);

static ls_status take_children(reader *r, ls_arrow_array *to)
{
    const ls_arrow_field *field = to->field;
    to->children = ls_arena_take(&r->table->memory, (size_t)field->child_count * sizeof *to->children + 1);
    if (!to->children) return ls_explain(r->why, LS_ERR_MEMORY, "no memory for a batch");
    for (int64_t i = 0; i < field->child_count; i++) {
        ls_status status = take_array(r, &field->children[i], &to->children[i]);
        if (status) return status;
        if (field->kind == LS_ARROW_STRUCT && to->children[i].count < to->count)
            return damaged(r, "a column is shorter than its batch");
    }
    if (field->kind == LS_ARROW_LIST && !offsets_are_sound(to, to->children[0].count))
        return damaged(r, "lists extend past their values");
    return LS_OK;
}

static ls_status take_array(reader *r, const ls_arrow_field *field, ls_arrow_array *to)
{
    if (r->node >= r->nodes.count) return damaged(r, "a batch lacks columns of the schema");
    int64_t count = ls_flat_number_at(r->nodes, r->node, 2, 0), nulls = ls_flat_number_at(r->nodes, r->node, 2, 1);
    r->node++;
    *to = (ls_arrow_array){.field = field, .count = count};
    /* Below this, no size overflows: a count of 8-byte values fits into the body. */
    bool is_read = field->kind != LS_ARROW_OTHER;
    if (count < 0 || nulls < 0 || (is_read && field->kind != LS_ARROW_STRUCT && count > r->body_size))
        return damaged(r, "a column has an impossible number of values");
    if (field->kind == LS_ARROW_STRUCT && count > INT64_MAX - 7) return damaged(r, "a struct is too long");
    for (int i = 0; i < field->buffers; i++) {
        int64_t least = 0, size;
        bool is_valid = i == 0, is_offsets = i == 1 && field->kind != LS_ARROW_INTEGER;
        if (!is_read) least = 0;
        else if (is_valid) least = nulls ? (count + 7) / 8 : 0;
        else if (is_offsets) least = count ? (count + 1) * field->width : 0;
        else if (field->kind == LS_ARROW_INTEGER) least = count * field->width;
        const char *bytes = take_buffer(r, least, &size);
        if (!bytes) return LS_ERR_IO;
        if (!is_read) continue;
        if (is_valid) to->valid = nulls ? bytes : NULL;
        else if (is_offsets) to->offsets = bytes;
        else to->values = bytes;
        if (i == 2 && !offsets_are_sound(to, size)) return damaged(r, "texts extend past their buffer");
    }
    return take_children(r, to);
}

static ls_status read_batch(reader *r, ls_flat_table batch, ls_arrow_batch ***end)
{
    int64_t rows = ls_flat_integer(batch, BATCH_LENGTH, 8, 0);
    if (!r->table->table.type) return damaged(r, "a batch comes before the schema");
    if (ls_flat_member(batch, BATCH_COMPRESSION).buffer)
        return ls_explain(r->why, LS_ERR_UNSUPPORTED,
                          "its batches are compressed, which is not supported; write them without compression");
    if (rows < 0 || rows > INT64_MAX - r->table->rows) return damaged(r, "an impossible number of rows");
    ls_arrow_batch *to = ls_arena_take(&r->table->memory, sizeof *to);
    if (!to) return ls_explain(r->why, LS_ERR_MEMORY, "no memory for a batch");
    to->rows = rows;
    to->table = (ls_arrow_array){.field = &r->table->table, .count = rows};
    r->nodes = ls_flat_list(batch, BATCH_NODES, 16);
    r->buffers = ls_flat_list(batch, BATCH_BUFFERS, 16);
    r->node = r->buffer = 0;
    ls_status status = take_children(r, &to->table);
    if (status) return status;
    r->table->rows += rows;
    **end = to;
    *end = &to->next;
    return LS_OK;
}

/* ---- Messages ---- */

static ls_status read_message(reader *r, ls_flat_table message, ls_arrow_batch ***end)
{
    int64_t version = ls_flat_integer(message, MESSAGE_VERSION, 2, 0);
    int64_t kind = ls_flat_integer(message, MESSAGE_HEADER_TYPE, 1, 0);
    ls_flat_table header = ls_flat_member(message, MESSAGE_HEADER);
    if (r->head.broken || !header.buffer) return damaged(r, "a message cannot be read");
    if (version < OLDEST_VERSION || version > NEWEST_VERSION)
        return ls_explain(r->why, LS_ERR_UNSUPPORTED, "it has version %lld of Arrow's metadata; 4 and 5 are supported",
                          (long long)version + 1);
    ls_status status = LS_OK;
    if (kind == HEADER_SCHEMA) status = read_schema(r, header);
    else if (kind == HEADER_BATCH) status = read_batch(r, header, end);
    else if (kind != HEADER_DICTIONARY) return ls_explain(r->why, LS_ERR_UNSUPPORTED, "it does not contain a table");
    return !status && r->head.broken ? damaged(r, "a message cannot be read") : status;
}

bool ls_is_arrow(const char *bytes, size_t size)
{
    return size >= MARK && (memcmp(bytes, mark, MARK) == 0 || (int32_t)ls_u32(bytes) == CONTINUES);
}

/* Where the stream ends: in a file, where its index begins; 0: the file is truncated. */
static size_t end_of_stream(const char *bytes, size_t size)
{
    enum { TAIL = 4 + MARK - 2 }; /* the size of the index, and the mark without its padding */
    if (memcmp(bytes, mark, MARK) != 0) return size;
    if (size < MARK + TAIL || memcmp(bytes + size - MARK + 2, mark, MARK - 2) != 0) return 0;
    size_t index = ls_u32(bytes + size - TAIL);
    return index <= size - MARK - TAIL ? size - TAIL - index : 0;
}

static ls_status read_stream(reader *r, const char *bytes, size_t at, size_t end)
{
    ls_arrow_batch **last = &r->table->first;
    while (at < end) {
        if (end - at < 8) return damaged(r, "it ends within a message");
        int32_t begin = (int32_t)ls_u32(bytes + at);
        size_t size = ls_u32(bytes + at + 4);
        if (begin != CONTINUES) return damaged(r, "a message does not begin where one is expected");
        if (size == 0) break;
        at += 8;
        if (size > end - at) return damaged(r, "it ends within a message");
        r->head = (ls_flatbuffer){.bytes = bytes + at, .size = size};
        at += size;
        ls_flat_table message = ls_flat_root(&r->head);
        r->body = bytes + at;
        r->body_size = ls_flat_integer(message, MESSAGE_BODY_LENGTH, 8, 0);
        if (r->body_size < 0 || (size_t)r->body_size > end - at) return damaged(r, "it ends within a batch");
        ls_status status = read_message(r, message, &last);
        if (status) return status;
        at += (size_t)r->body_size;
    }
    return r->table->table.type ? LS_OK : damaged(r, "there is no schema");
}

ls_status ls_arrow_read(ls_arrow *table, const char *bytes, size_t size, ls_message *why)
{
    *table = (ls_arrow){.rows = 0};
    reader r = {.table = table, .why = why};
    if (!ls_is_arrow(bytes, size)) return ls_explain(why, LS_ERR_IO, "it is not an Arrow file");
    size_t end = end_of_stream(bytes, size);
    ls_status status = end ? read_stream(&r, bytes, memcmp(bytes, mark, MARK) == 0 ? MARK : 0, end)
                           : damaged(&r, "its end is missing");
    if (status) ls_arrow_free(table);
    return status;
}

void ls_arrow_free(ls_arrow *table)
{
    ls_arena_free(&table->memory);
    *table = (ls_arrow){.rows = 0};
}

/* ---- Values ---- */

const ls_arrow_array *ls_arrow_child(const ls_arrow_array *array, const char *name)
{
    for (int64_t i = 0; i < array->field->child_count; i++)
        if (strcmp(array->field->children[i].name, name) == 0) return &array->children[i];
    return NULL;
}

bool ls_arrow_is_null(const ls_arrow_array *array, int64_t index)
{
    return array->valid && !(array->valid[index / 8] >> (index % 8) & 1);
}

int64_t ls_arrow_integer(const ls_arrow_array *array, int64_t index)
{
    int width = array->field->width;
    uint64_t value = ls_little_endian(array->values + index * width, width);
    uint64_t sign = array->field->is_signed ? UINT64_C(1) << (8 * width - 1) : 0;
    return (int64_t)((value ^ sign) - sign);
}

const char *ls_arrow_text(const ls_arrow_array *array, int64_t index, size_t *size)
{
    int64_t begin = offset_at(array, index);
    *size = (size_t)(offset_at(array, index + 1) - begin);
    return array->values + begin;
}

int64_t ls_arrow_list(const ls_arrow_array *array, int64_t index, int64_t *count)
{
    int64_t begin = offset_at(array, index);
    *count = offset_at(array, index + 1) - begin;
    return begin;
}
