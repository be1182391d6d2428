/* jsonl.c - values as JSON lines: {"step":10,"time":1790000000.123,"loss":0.25}. */
#include "base/buffer.h"
#include "base/json.h"
#include "base/memory.h"
#include "track/append.h"
#include "track/sink.h"

typedef struct jsonl {
    ls_append file;
    ls_json_writer line;
    ls_byte_buffer bytes; /* the line with its line break */
} jsonl;

static void *open_file(const char *folder, ls_message *why)
{
    char path[LS_TRACK_PATH];
    jsonl *sink = ls_sys_alloc(sizeof *sink);
    if (sink && ls_track_path(path, folder, LS_TRACK_JSONL, why) && ls_append_open(&sink->file, path, why)) return sink;
    ls_sys_free(sink);
    return NULL;
}

static bool write_record(void *arg, const ls_track_record *record, ls_message *why)
{
    jsonl *sink = arg;
    ls_json_writer *w = &sink->line;
    ls_json_restart(w);
    ls_json_put_object(w, NULL);
    ls_json_put_integer(w, "step", record->step);
    ls_json_put_number(w, "time", record->time);
    for (size_t i = 0; i < record->count; i++) {
        if (record->text) ls_json_put_text(w, record->values[i].name, record->text);
        else ls_json_put_number(w, record->values[i].name, record->values[i].number);
    }
    ls_json_put_end(w);
    size_t length;
    const char *text = ls_json_view(w, &length);
    if (!text) return false;
    ls_byte_buffer_empty(&sink->bytes);
    ls_byte_buffer_put(&sink->bytes, text, length);
    ls_byte_buffer_put(&sink->bytes, "\n", 1);
    return !sink->bytes.failed && ls_append_write(&sink->file, sink->bytes.bytes, sink->bytes.length, why);
}

static void close_file(void *arg, bool succeeded)
{
    (void)succeeded;
    jsonl *sink = arg;
    ls_append_close(&sink->file);
    ls_sys_free(ls_json_take(&sink->line, NULL));
    ls_byte_buffer_free(&sink->bytes);
    ls_sys_free(sink);
}

const ls_sink_format ls_sink_jsonl = {"jsonl", open_file, write_record, NULL, close_file, false};
