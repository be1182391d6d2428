/* history_events.c - values read back from TensorBoard event files, ours and others'. The format is described in
 * tensorboard.c. */
#include <string.h>

#include "base/crc.h"
#include "track/history.h"

/* A field of a protocol buffer message. */
typedef struct field {
    int number;
    uint64_t value;             /* of a varint; else the size of the bytes */
    const unsigned char *bytes; /* NULL for a varint */
} field;

typedef struct reader {
    const unsigned char *at, *end;
    bool damaged;
} reader;

static uint64_t take_varint(reader *r)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && r->at < r->end; shift += 7) {
        uint64_t byte = *r->at++;
        value |= (byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    r->damaged = true;
    return 0;
}

static bool take_field(reader *r, field *f)
{
    if (r->damaged || r->at >= r->end) return false;
    uint64_t key = take_varint(r);
    *f = (field){.number = (int)(key >> 3 & 0xffff)};
    switch (key & 7) {
    case 0: f->value = take_varint(r); return !r->damaged;
    case 1: f->value = 8; break;
    case 2: f->value = take_varint(r); break;
    case 5: f->value = 4; break;
    default: r->damaged = true; return false;
    }
    r->damaged = r->damaged || f->value > (uint64_t)(r->end - r->at);
    if (r->damaged) return false;
    f->bytes = r->at;
    r->at += f->value;
    return true;
}

static reader inside(field f)
{
    return (reader){.at = f.bytes, .end = f.bytes ? f.bytes + f.value : NULL};
}

/* The value of a tensor of one element, which newer writers use for scalars. */
static bool tensor_number(field tensor, double *number)
{
    enum { DTYPE = 1, CONTENT = 4, FLOATS = 5, DOUBLES = 6, TYPE_FLOAT = 1, TYPE_DOUBLE = 2 };
    reader r = inside(tensor);
    uint64_t dtype = 0;
    field data = {0};
    for (field f; take_field(&r, &f);) {
        if (f.number == DTYPE && !f.bytes) dtype = f.value;
        if (f.number == CONTENT || f.number == FLOATS || f.number == DOUBLES) data = f;
    }
    float single;
    if (dtype == TYPE_FLOAT && data.bytes && data.value == sizeof single) {
        memcpy(&single, data.bytes, sizeof single);
        *number = (double)single;
        return true;
    }
    if (dtype != TYPE_DOUBLE || !data.bytes || data.value != sizeof *number) return false;
    memcpy(number, data.bytes, sizeof *number);
    return true;
}

static bool add_value(ls_history *history, field value, double step)
{
    enum { TAG = 1, NUMBER = 2, TENSOR = 8 };
    reader r = inside(value);
    field tag = {0};
    double number = 0;
    bool found = false;
    for (field f; take_field(&r, &f);) {
        if (f.number == TAG && f.bytes) tag = f;
        if (f.number == TENSOR && f.bytes) found = tensor_number(f, &number) || found;
        if (f.number == NUMBER && f.bytes && f.value == sizeof(float)) {
            float single;
            memcpy(&single, f.bytes, sizeof single);
            number = (double)single;
            found = true;
        }
    }
    if (!found || !tag.bytes || memchr(tag.bytes, 0, tag.value)) return true;
    return ls_history_add(history, (const char *)tag.bytes, tag.value, step, number);
}

static bool add_event(ls_history *history, field event)
{
    enum { TIME = 1, STEP = 2, SUMMARY = 5, VALUE = 1 };
    double step = 0, seconds = 0;
    bool has_values = false;
    reader r = inside(event);
    for (field f; take_field(&r, &f);) {
        if (f.number == TIME && f.bytes && f.value == sizeof seconds) memcpy(&seconds, f.bytes, sizeof seconds);
        if (f.number == STEP && !f.bytes) step = (double)(int64_t)f.value;
        has_values = has_values || f.number == SUMMARY;
    }
    r = inside(event);
    for (field f; take_field(&r, &f);) {
        reader values = f.number == SUMMARY ? inside(f) : (reader){0};
        for (field value; take_field(&values, &value);)
            if (value.number == VALUE && value.bytes && !add_value(history, value, step)) return false;
    }
    return !has_values || ls_history_end_record(history, step, seconds);
}

static bool crc_fits(const char *bytes, size_t size, const char *stored)
{
    uint32_t wanted, crc = ls_crc32c(0, bytes, size);
    memcpy(&wanted, stored, sizeof wanted);
    return wanted == (crc >> 15 | crc << 17) + 0xa282ead8u;
}

enum { HEAD = 12, TAIL = 4 }; /* bytes of a record around its event: the length and its checksum, and the event's */

/* Where the zeros at the end of a file begin: its size if there are fewer than a checksum has bytes, which may be its
 * own. */
static size_t zeros_at(const char *bytes, size_t size)
{
    size_t at = size;
    while (at > 0 && !bytes[at - 1]) at--;
    return size - at < TAIL ? size : at;
}

bool ls_history_read_events(ls_history *history, const char *bytes, size_t size, size_t *lost, ls_message *why)
{
    *lost = 0;
    for (size_t at = 0; size - at >= HEAD;) {
        uint64_t length;
        memcpy(&length, bytes + at, sizeof length);
        bool fits = crc_fits(bytes + at, sizeof length, bytes + at + sizeof length);
        if (fits && (size - at < HEAD + TAIL || length > size - at - HEAD - TAIL)) return true; /* being written */
        const char *event = bytes + at + HEAD;
        if (!fits || !crc_fits(event, length, event + length)) {
            size_t end = fits ? at + HEAD + length + TAIL : at + HEAD;
            if (at > 0 && zeros_at(bytes, size) < end) return *lost = size - at, true;
            if (at == 0) ls_message_set(why, "neither JSON lines, nor a CSV table with steps, nor TensorBoard events");
            else ls_message_set(why, "the record at byte %zu is damaged", at);
            return false;
        }
        if (!add_event(history, (field){.value = length, .bytes = (const unsigned char *)event})) return false;
        at += HEAD + length + TAIL;
    }
    return true;
}
