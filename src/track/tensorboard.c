/* tensorboard.c - values as TensorBoard event files.
 *
 * A file is a sequence of records: length (8 bytes), its masked CRC-32C (4), an Event message, its masked CRC-32C (4).
 * Field numbers are those of event.proto, summary.proto and, for hyperparameters, plugin_data.proto. Each session has
 * its own file, so that nothing is ever written after a record that a crash cut off; if it continues earlier ones, its
 * first event says at which step, and TensorBoard discards what the crashed session had recorded from there on. */
#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc.h"
#include "base/memory.h"
#include "base/png.h"
#include "track/append.h"
#include "track/proto.h"
#include "track/sink.h"

enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SUMMARY_VALUE = 1 };
enum { VALUE_TAG = 1, VALUE_NUMBER = 2, VALUE_IMAGE = 4, VALUE_HISTOGRAM = 5, VALUE_TENSOR = 8, VALUE_METADATA = 9 };
enum { IMAGE_HEIGHT = 1, IMAGE_WIDTH = 2, IMAGE_CHANNELS = 3, IMAGE_FILE = 4 };
enum {
    HISTOGRAM_MIN = 1,
    HISTOGRAM_MAX,
    HISTOGRAM_COUNT,
    HISTOGRAM_SUM,
    HISTOGRAM_SQUARES,
    HISTOGRAM_LIMITS,
    HISTOGRAM_SIZES
};
enum { METADATA_PLUGIN = 1, PLUGIN_NAME = 1, PLUGIN_CONTENT = 2 };
enum { TENSOR_DTYPE = 1, TENSOR_SHAPE = 2, TENSOR_STRINGS = 8, SHAPE_DIM = 2, DIM_SIZE = 1, DTYPE_STRING = 7 };
enum { SESSION_STATUS = 1, SESSION_STARTS = 1 };
enum { HPARAMS_START = 3, HPARAMS_END = 4, START_SETTINGS = 1, START_TIME = 5, END_STATUS = 1, END_TIME = 2 };
enum { MAP_KEY = 1, MAP_VALUE = 2, SETTING_NUMBER = 2, SETTING_TEXT = 3 };
enum { STATUS_SUCCESS = 1, STATUS_FAILURE = 2 };

typedef struct events {
    ls_append file;
    bool continues; /* the folder had event files, and nothing was recorded yet */
    bool configured;
    ls_byte_buffer record;
} events;

/* ---- records ---- */

static uint32_t masked_crc(const void *bytes, size_t size)
{
    uint32_t crc = ls_crc32c(0, bytes, size);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

enum { RECORD_HEAD = 12 };

static ls_byte_buffer *begin_event(events *sink, double at, int64_t step)
{
    ls_byte_buffer *b = &sink->record;
    ls_byte_buffer_empty(b);
    ls_byte_buffer_put(b, (char[RECORD_HEAD]){0}, RECORD_HEAD);
    ls_proto_double(b, EVENT_TIME, at);
    if (step) ls_proto_integer(b, EVENT_STEP, step);
    return b;
}

static bool end_event(events *sink, ls_message *why)
{
    ls_byte_buffer *b = &sink->record;
    if (b->failed) return false;
    uint64_t size = b->length - RECORD_HEAD;
    uint32_t size_crc = masked_crc(&size, sizeof size), crc = masked_crc(b->bytes + RECORD_HEAD, size);
    memcpy(b->bytes, &size, sizeof size);
    memcpy(b->bytes + sizeof size, &size_crc, sizeof size_crc);
    ls_byte_buffer_put(b, &crc, sizeof crc);
    return !b->failed && ls_append_write(&sink->file, b->bytes, b->length, why);
}

/* ---- events ---- */

static bool write_version(events *sink, ls_message *why)
{
    ls_proto_text(begin_event(sink, ls_clock_date(), 0), EVENT_VERSION, "brain.Event:2");
    return end_event(sink, why);
}

static bool write_continuation(events *sink, int64_t step, ls_message *why)
{
    ls_byte_buffer *b = begin_event(sink, ls_clock_date(), step);
    size_t session = ls_proto_begin(b, EVENT_SESSION);
    ls_proto_integer(b, SESSION_STATUS, SESSION_STARTS);
    ls_proto_end(b, session);
    return end_event(sink, why);
}

/* Starts the fields read by a TensorBoard plug-in; the caller closes them with `ls_proto_end`. */
static size_t begin_plugin(ls_byte_buffer *b, const char *plugin)
{
    ls_proto_text(b, PLUGIN_NAME, plugin);
    return ls_proto_begin(b, PLUGIN_CONTENT);
}

static void put_text_value(ls_byte_buffer *b, const char *name, const char *text)
{
    size_t value = ls_proto_begin(b, SUMMARY_VALUE);
    ls_proto_text(b, VALUE_TAG, name);
    size_t tensor = ls_proto_begin(b, VALUE_TENSOR);
    ls_proto_integer(b, TENSOR_DTYPE, DTYPE_STRING);
    size_t shape = ls_proto_begin(b, TENSOR_SHAPE), dim = ls_proto_begin(b, SHAPE_DIM);
    ls_proto_integer(b, DIM_SIZE, 1);
    ls_proto_end(b, dim);
    ls_proto_end(b, shape);
    ls_proto_text(b, TENSOR_STRINGS, text);
    ls_proto_end(b, tensor);
    size_t metadata = ls_proto_begin(b, VALUE_METADATA), plugin = ls_proto_begin(b, METADATA_PLUGIN);
    ls_proto_text(b, PLUGIN_NAME, "text");
    ls_proto_end(b, plugin);
    ls_proto_end(b, metadata);
    ls_proto_end(b, value);
}

static void put_image_value(ls_byte_buffer *b, const char *name, const ls_painting *picture)
{
    size_t value = ls_proto_begin(b, SUMMARY_VALUE);
    ls_proto_text(b, VALUE_TAG, name);
    size_t image = ls_proto_begin(b, VALUE_IMAGE);
    ls_proto_integer(b, IMAGE_HEIGHT, picture->height);
    ls_proto_integer(b, IMAGE_WIDTH, picture->width);
    ls_proto_integer(b, IMAGE_CHANNELS, 3);
    size_t file = ls_proto_begin(b, IMAGE_FILE);
    ls_png_put(b, picture->rgb, (int)picture->width, (int)picture->height);
    ls_proto_end(b, file);
    ls_proto_end(b, image);
    ls_proto_end(b, value);
}

static void put_doubles(ls_byte_buffer *b, int field, const double *numbers, int count)
{
    size_t list = ls_proto_begin(b, field);
    ls_byte_buffer_put(b, numbers, (size_t)count * sizeof *numbers);
    ls_proto_end(b, list);
}

static void put_histogram_value(ls_byte_buffer *b, const char *name, const ls_histogram *h)
{
    size_t value = ls_proto_begin(b, SUMMARY_VALUE);
    ls_proto_text(b, VALUE_TAG, name);
    size_t histogram = ls_proto_begin(b, VALUE_HISTOGRAM);
    ls_proto_double(b, HISTOGRAM_MIN, h->min);
    ls_proto_double(b, HISTOGRAM_MAX, h->max);
    ls_proto_double(b, HISTOGRAM_COUNT, (double)h->count);
    ls_proto_double(b, HISTOGRAM_SUM, h->sum);
    ls_proto_double(b, HISTOGRAM_SQUARES, h->sum_squares);
    put_doubles(b, HISTOGRAM_LIMITS, h->limit, h->bins);
    put_doubles(b, HISTOGRAM_SIZES, h->size, h->bins);
    ls_proto_end(b, histogram);
    ls_proto_end(b, value);
}

static void put_numbers(ls_byte_buffer *b, const ls_track_record *record)
{
    for (size_t i = 0; i < record->count; i++) {
        size_t value = ls_proto_begin(b, SUMMARY_VALUE);
        ls_proto_text(b, VALUE_TAG, record->values[i].name);
        ls_proto_float(b, VALUE_NUMBER, (float)record->values[i].number);
        ls_proto_end(b, value);
    }
}

static bool write_record(void *arg, const ls_track_record *record, ls_message *why)
{
    events *sink = arg;
    if (sink->continues && !write_continuation(sink, record->step, why)) return false;
    sink->continues = false;
    ls_byte_buffer *b = begin_event(sink, record->time, record->step);
    size_t summary = ls_proto_begin(b, EVENT_SUMMARY);
    const char *name = record->count ? record->values[0].name : "";
    if (record->text) put_text_value(b, name, record->text);
    else if (record->picture) put_image_value(b, name, record->picture);
    else if (record->histogram) put_histogram_value(b, name, record->histogram);
    else put_numbers(b, record);
    ls_proto_end(b, summary);
    return end_event(sink, why);
}

/* ---- hyperparameters: summaries without a value, whose metadata the plug-in reads ---- */

typedef struct hparams_event {
    size_t summary, value, metadata, plugin, content, message;
} hparams_event;

static hparams_event begin_hparams(ls_byte_buffer *b, const char *tag, int field)
{
    hparams_event e = {.summary = ls_proto_begin(b, EVENT_SUMMARY)};
    e.value = ls_proto_begin(b, SUMMARY_VALUE);
    ls_proto_text(b, VALUE_TAG, tag);
    e.metadata = ls_proto_begin(b, VALUE_METADATA);
    e.plugin = ls_proto_begin(b, METADATA_PLUGIN);
    e.content = begin_plugin(b, "hparams");
    e.message = ls_proto_begin(b, field);
    return e;
}

static void end_hparams(ls_byte_buffer *b, hparams_event e)
{
    const size_t begins[] = {e.message, e.content, e.plugin, e.metadata, e.value, e.summary};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) ls_proto_end(b, begins[i]);
}

static bool configure(void *arg, const ls_track_setting *settings, size_t count, ls_message *why)
{
    events *sink = arg;
    double at = ls_clock_date();
    ls_byte_buffer *b = begin_event(sink, at, 0);
    hparams_event e = begin_hparams(b, "_hparams_/session_start_info", HPARAMS_START);
    for (size_t i = 0; i < count; i++) {
        size_t entry = ls_proto_begin(b, START_SETTINGS);
        ls_proto_text(b, MAP_KEY, settings[i].name);
        size_t value = ls_proto_begin(b, MAP_VALUE);
        if (settings[i].text) ls_proto_text(b, SETTING_TEXT, settings[i].text);
        else ls_proto_double(b, SETTING_NUMBER, settings[i].number);
        ls_proto_end(b, value);
        ls_proto_end(b, entry);
    }
    ls_proto_double(b, START_TIME, at);
    end_hparams(b, e);
    sink->configured = end_event(sink, why);
    return sink->configured;
}

static void write_end(events *sink, bool succeeded)
{
    double at = ls_clock_date();
    ls_byte_buffer *b = begin_event(sink, at, 0);
    hparams_event e = begin_hparams(b, "_hparams_/session_end_info", HPARAMS_END);
    ls_proto_integer(b, END_STATUS, succeeded ? STATUS_SUCCESS : STATUS_FAILURE);
    ls_proto_double(b, END_TIME, at);
    end_hparams(b, e);
    end_event(sink, &(ls_message){{0}}); /* ignore failures: the values are written, and nobody is left to report to */
}

/* ---- the file ---- */

static bool has_events(const char *folder)
{
    DIR *listing = opendir(folder);
    bool found = false;
    for (const struct dirent *e; listing && !found && (e = readdir(listing));)
        found = strncmp(e->d_name, LS_TRACK_EVENTS, sizeof LS_TRACK_EVENTS - 1) == 0;
    if (listing) closedir(listing);
    return found;
}

static void close_file(void *arg, bool succeeded)
{
    events *sink = arg;
    if (!sink) return;
    if (sink->configured) write_end(sink, succeeded);
    ls_append_close(&sink->file);
    ls_byte_buffer_free(&sink->record);
    ls_sys_free(sink);
}

static void *open_file(const char *folder, ls_message *why)
{
    static atomic_int files_of_this_process;
    char host[128] = "localhost", name[256], path[LS_TRACK_PATH];
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, LS_TRACK_EVENTS "%010lld.%s.%d.%d", (long long)time(NULL), host, (int)getpid(),
             atomic_fetch_add(&files_of_this_process, 1));
    events *sink = ls_sys_alloc(sizeof *sink);
    if (!sink || !ls_track_path(path, folder, name, why)) goto fail;
    sink->continues = has_events(folder);
    if (ls_append_open(&sink->file, path, why) && write_version(sink, why)) return sink;
fail:
    close_file(sink, false);
    return NULL;
}

const ls_sink_format ls_sink_tensorboard = {"tensorboard", open_file, write_record, configure, close_file, true};
