/* tracker.c - a tracker: a folder, its output formats, and the settings of the run. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/opts.h"
#include "base/utf8.h"
#include "run/session.h"
#include "track/sink.h"
#include "track/status.h"

static const ls_sink_format *const formats[] = {&ls_sink_tensorboard, &ls_sink_jsonl, &ls_sink_csv};
enum { FORMATS = sizeof formats / sizeof *formats };
enum { IN_A_ROW = 8, GAP = 2 }; /* of pictures in a grid, and pixels between them */

struct ls_tracker {
    ls_object object;
    char folder[LS_TRACK_PATH];
    void *sinks[FORMATS]; /* NULL: format not used */
    ls_track_setting *settings;
    size_t setting_count, setting_capacity;
    ls_custom_tracker_opts own; /* functions of the program, if it has no folder */
    ls_status_writer *status;   /* NULL: none */
    bool recorded;              /* a record was written, so the settings were too */
    bool warned;                /* a write failure was reported */
};

bool ls_track_path(char path[LS_TRACK_PATH], const char *folder, const char *name, ls_message *why)
{
    bool here = strcmp(folder, ".") == 0;
    if (strcmp(name, ".") == 0) name = folder, here = true;
    if (snprintf(path, LS_TRACK_PATH, "%s%s%s", here ? "" : folder, here ? "" : "/", name) < LS_TRACK_PATH) return true;
    ls_message_set(why, "%.100s...: the path is too long", folder);
    return false;
}

/* Training is worth more than its log: a full disk must not stop it. */
static void warn(ls_tracker *tracker, const ls_message *why)
{
    if (tracker->warned) return;
    tracker->warned = true;
    ls_log_line(LS_LOG_WARN, "values are not recorded: %s; training continues",
                why->text[0] ? why->text : "out of memory");
}

/* ---- making and ending ---- */

static void clear(void *object)
{
    ls_tracker *tracker = object;
    const ls_run *run = tracker->object.run;
    if (tracker->own.close) tracker->own.close(!ls_failed(run), tracker->own.user);
    ls_status_close(tracker->status, ls_failed(run) ? run->errors.message : NULL);
    for (int i = 0; i < FORMATS; i++)
        if (tracker->sinks[i]) formats[i]->close(tracker->sinks[i], !ls_failed(run));
    for (size_t i = 0; i < tracker->setting_count; i++) {
        ls_sys_free(tracker->settings[i].name);
        ls_sys_free(tracker->settings[i].text);
    }
    ls_sys_free(tracker->settings);
}

static ls_tracker *next_tracker(ls_object *from)
{
    while (from && from->kind != LS_OBJECT_TRACKER) from = from->older;
    return (ls_tracker *)from;
}

#define EACH_TRACKER(t, run) (ls_tracker *t = next_tracker((run)->objects); t; t = next_tracker(t->object.older))

/* Parse a list of formats such as "jsonl,csv"; false if a name is unknown. */
static bool choose(const char *kinds, bool chosen[FORMATS])
{
    bool any = false;
    while (*kinds) {
        size_t length = strcspn(kinds, ",");
        bool all = length == 3 && memcmp(kinds, "all", 3) == 0, known = all;
        for (int i = 0; i < FORMATS; i++) {
            bool named = strlen(formats[i]->name) == length && memcmp(kinds, formats[i]->name, length) == 0;
            known = known || named;
            chosen[i] = chosen[i] || named || all;
        }
        if (!known) return false;
        any = true;
        kinds += length + (kinds[length] == ',');
    }
    return any;
}

/* A name leads into project_dir, never out of it. */
static bool stays_inside(const char *name)
{
    if (!*name || *name == '/') return false;
    for (const char *part = name;; part = strchr(part, '/') + 1) {
        if (strcspn(part, "/") == 2 && memcmp(part, "..", 2) == 0) return false;
        if (!strchr(part, '/')) return true;
    }
}

/* Another tracker of the run that writes into the same folder, this format or (-1) any; NULL: none. */
static const ls_tracker *neighbour(const ls_tracker *tracker, int format)
{
    for
        EACH_TRACKER(other, tracker->object.run)
        {
            if (other != tracker && strcmp(other->folder, tracker->folder) == 0 && (format < 0 || other->sinks[format]))
                return other;
        }
    return NULL;
}

/* Create parent/DATE_TIME. Runs that begin in the same second get _2, _3, ... */
static bool make_folder_of_now(ls_tracker *tracker, const char *parent, ls_message *why)
{
    char now[64], name[80];
    struct tm parts;
    time_t seconds = time(NULL);
    strftime(now, sizeof now, "%Y-%m-%d_%H-%M-%S", localtime_r(&seconds, &parts));
    for (int n = 1;; n++) {
        snprintf(name, sizeof name, n > 1 ? "%s_%d" : "%s", now, n);
        if (!ls_track_path(tracker->folder, parent, name, why)) return false;
        if (mkdir(tracker->folder, 0777) == 0) return true;
        if (errno != EEXIST) return ls_message_set(why, "%.200s: %s", tracker->folder, strerror(errno)), false;
        if (neighbour(tracker, -1)) return true;
    }
}

/* Create project_dir/name, by default runs/DATE_TIME in the run's own folder. */
static bool make_folder(ls_tracker *tracker, const ls_tracker_opts *o, ls_message *why)
{
    char runs[LS_TRACK_PATH];
    if (!ls_track_path(runs, ls_project_dir(tracker->object.run), "runs", why)) return false;
    const char *parent = o->project_dir ? o->project_dir : runs;
    if (!o->name) return ls_folder_make(parent, why) && make_folder_of_now(tracker, parent, why);
    return ls_track_path(tracker->folder, parent, o->name, why) && ls_folder_make(tracker->folder, why);
}

ls_tracker *ls_tracker_new_sized(ls_run *run, const char *kinds, const ls_tracker_opts *opts, size_t opts_size)
{
    if (!run || ls_failed(run) || !ls_is_main(run)) return NULL;
    ls_tracker_opts o = LS_OPTS_READ(ls_tracker_opts, opts, opts_size);
    bool chosen[FORMATS] = {false};
    if (!kinds || !choose(kinds, chosen)) {
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_tracker_new: \"%s\" is not a list of tensorboard, jsonl, csv, or all",
                kinds ? kinds : "(null)");
        return NULL;
    }
    if (o.name && !stays_inside(o.name)) {
        ls_fail(&run->errors, LS_ERR_VALUE,
                "ls_tracker_new: .name \"%s\" is not a folder in project_dir; give .project_dir for files elsewhere",
                o.name);
        return NULL;
    }
    ls_tracker *tracker = ls_object_new(run, LS_OBJECT_TRACKER, sizeof *tracker, clear);
    if (!tracker) return NULL;
    ls_message why = {{0}};
    bool ok = make_folder(tracker, &o, &why);
    if (ok && !ls_claim_folder(&run->session->claims, tracker->folder, "ls_tracker_new", &run->errors))
        return ls_object_free(tracker), NULL;
    for (int i = 0; ok && i < FORMATS; i++) {
        if (!chosen[i]) continue;
        if (neighbour(tracker, i)) {
            ls_fail(&run->errors, LS_ERR_STATE, "ls_tracker_new: another tracker of this run writes %s into %s",
                    formats[i]->name, tracker->folder);
            return ls_object_free(tracker), NULL;
        }
        tracker->sinks[i] = formats[i]->open(tracker->folder, &why);
        ok = tracker->sinks[i] != NULL;
    }
    if (ok) {
        tracker->status = ls_status_open(run, tracker->folder);
        return tracker;
    }
    ls_fail(&run->errors, why.text[0] ? LS_ERR_IO : LS_ERR_MEMORY, "ls_tracker_new: %s",
            why.text[0] ? why.text : "no memory for its files");
    ls_object_free(tracker);
    return NULL;
}

ls_tracker *ls_custom_tracker_new_sized(ls_run *run, const ls_custom_tracker_opts *opts, size_t opts_size)
{
    if (!run || ls_failed(run) || !ls_is_main(run)) return NULL;
    ls_tracker *tracker = ls_object_new(run, LS_OBJECT_TRACKER, sizeof *tracker, clear);
    if (tracker) tracker->own = LS_OPTS_READ(ls_custom_tracker_opts, opts, opts_size);
    return tracker;
}

const char *ls_tracker_folder(const ls_tracker *tracker)
{
    return tracker ? tracker->folder : "";
}

void ls_tracker_free(ls_tracker *tracker)
{
    ls_object_free(tracker);
}

/* ---- recording ---- */

/* Names are columns and keys: nonempty, in UTF-8, without line breaks, and not one of the two reserved ones. */
static bool name_fits(ls_run *run, const char *who, const char *name)
{
    const char *wrong = NULL;
    if (!name || !*name) wrong = "a value has no name";
    else if (strcmp(name, "step") == 0 || strcmp(name, "time") == 0) wrong = "this name is reserved";
    for (const char *c = name; !wrong && *c; c++)
        if ((unsigned char)*c < ' ') wrong = "the name has a control character";
    if (!wrong && !ls_utf8_is_valid(name)) wrong = "the name is not UTF-8";
    if (wrong) ls_fail(&run->errors, LS_ERR_VALUE, "%s: \"%s\": %s", who, name ? name : "", wrong);
    return !wrong;
}

static bool names_fit(ls_run *run, const char *who, const ls_value *values, int64_t count)
{
    if (count < 0 || (count && !values)) {
        ls_fail(&run->errors, LS_ERR_VALUE, "%s: %lld values%s", who, (long long)count, values ? "" : " of NULL");
        return false;
    }
    for (int64_t i = 0; i < count; i++) {
        if (!name_fits(run, who, values[i].name)) return false;
        for (int64_t j = 0; j < i; j++) {
            if (strcmp(values[i].name, values[j].name) != 0) continue;
            ls_fail(&run->errors, LS_ERR_VALUE, "%s: \"%s\" is given twice", who, values[i].name);
            return false;
        }
    }
    return true;
}

/* A text as it is recorded; NULL, and an error, if there is no memory for it. Event files and tables that are not UTF-8
 * cannot be read at all, and a text may come from anywhere, cut inside a character: then a valid copy is in `copy`. */
static const char *text_as_utf8(ls_run *run, const char *who, const char *text, ls_byte_buffer *copy)
{
    if (!text) return "";
    if (ls_utf8_is_valid(text)) return text;
    ls_byte_buffer_put_utf8(copy, text);
    ls_byte_buffer_put(copy, "", 1);
    if (copy->failed) ls_fail(&run->errors, LS_ERR_MEMORY, "%s: out of memory", who);
    return copy->failed ? NULL : copy->bytes;
}

/* Pass a record to the program's functions. */
static void tell_program(const ls_custom_tracker_opts *own, const ls_track_record *what)
{
    const char *name = what->count ? what->values[0].name : "";
    const ls_painting *p = what->picture;
    if (what->text) {
        if (own->text) own->text(what->step, name, what->text, own->user);
    } else if (p) {
        if (own->image) own->image(what->step, name, p->rgb, p->height, p->width, own->user);
    } else if (what->histogram) {
        if (own->histogram) own->histogram(what->step, name, what->histogram, own->user);
    } else if (own->values) {
        own->values(what->step, what->values, (int64_t)what->count, own->user);
    }
}

static void record(ls_run *run, const ls_track_record *what)
{
    bool special = what->picture || what->histogram;
    for
        EACH_TRACKER(tracker, run)
        {
            ls_message why = {{0}};
            bool ok = true;
            tell_program(&tracker->own, what);
            for (int i = 0; i < FORMATS; i++) {
                void *sink = tracker->sinks[i];
                if (!sink || (special && !formats[i]->takes_all)) continue;
                if (!tracker->recorded && tracker->setting_count && formats[i]->configure)
                    ok = formats[i]->configure(sink, tracker->settings, tracker->setting_count, &why) && ok;
                ok = formats[i]->write(sink, what, &why) && ok;
            }
            tracker->recorded = true;
            ls_status_note(tracker->status, run, what->step);
            if (!ok) warn(tracker, &why);
        }
}

/* In ms: more digits of the date say nothing about a step. */
static double now(void)
{
    return floor(ls_clock_date() * 1e3) / 1e3;
}

void ls_track_n(ls_run *run, int64_t step, const ls_value *values, int64_t count)
{
    if (!run || ls_failed(run) || !next_tracker(run->objects)) return;
    if (!names_fit(run, "ls_track", values, count)) return;
    record(run, &(ls_track_record){.step = step, .time = now(), .count = (size_t)count, .values = values});
}

/* A record of one value that is not a number. */
static void record_one(ls_run *run, int64_t step, const char *name, ls_track_record what)
{
    ls_value value = {.name = name};
    what.step = step;
    what.time = now();
    what.count = 1;
    what.values = &value;
    record(run, &what);
}

void ls_track_text(ls_run *run, int64_t step, const char *name, const char *text)
{
    if (!run || ls_failed(run) || !next_tracker(run->objects)) return;
    if (!name_fits(run, "ls_track_text", name)) return;
    ls_byte_buffer copy = {0};
    text = text_as_utf8(run, "ls_track_text", text, &copy);
    if (text) record_one(run, step, name, (ls_track_record){.text = text});
    ls_byte_buffer_free(&copy);
}

void ls_track_image(ls_run *run, int64_t step, const char *name, ls_tensor *image)
{
    ls_painting picture;
    if (!run || ls_failed(run) || !next_tracker(run->objects)) return;
    if (!name_fits(run, "ls_track_image", name) || !ls_image_paint(image, "ls_track_image", IN_A_ROW, GAP, &picture))
        return;
    record_one(run, step, name, (ls_track_record){.picture = &picture});
    ls_sys_free(picture.rgb);
}

void ls_track_histogram(ls_run *run, int64_t step, const char *name, ls_tensor *values)
{
    ls_histogram histogram;
    if (!run || ls_failed(run) || !next_tracker(run->objects)) return;
    if (!name_fits(run, "ls_track_histogram", name) || !ls_track_count(run, values, &histogram)) return;
    record_one(run, step, name, (ls_track_record){.histogram = &histogram});
}

/* ---- settings ---- */

/* The setting of this name, created if missing; NULL: out of memory. */
static ls_track_setting *setting_named(ls_tracker *tracker, const char *name)
{
    for (size_t i = 0; i < tracker->setting_count; i++)
        if (strcmp(tracker->settings[i].name, name) == 0) return &tracker->settings[i];
    if (tracker->setting_count == tracker->setting_capacity) {
        size_t capacity = tracker->setting_capacity ? tracker->setting_capacity * 2 : 16;
        ls_track_setting *grown = ls_sys_realloc(tracker->settings, capacity * sizeof *grown);
        if (!grown) return NULL;
        tracker->settings = grown;
        tracker->setting_capacity = capacity;
    }
    char *copy = ls_sys_alloc(strlen(name) + 1);
    if (!copy) return NULL;
    ls_track_setting *setting = &tracker->settings[tracker->setting_count++];
    *setting = (ls_track_setting){.name = strcpy(copy, name)};
    return setting;
}

static bool set(ls_tracker *tracker, const char *name, double number, const char *text)
{
    char *copy = text ? ls_sys_alloc(strlen(text) + 1) : NULL;
    ls_track_setting *setting = text && !copy ? NULL : setting_named(tracker, name);
    if (!setting) return ls_sys_free(copy), false;
    ls_sys_free(setting->text);
    setting->text = copy ? strcpy(copy, text) : NULL;
    setting->number = number;
    return true;
}

static bool write_settings(const ls_tracker *tracker, ls_message *why)
{
    char path[LS_TRACK_PATH];
    if (!tracker->folder[0]) return true; /* the program's own */
    if (!ls_track_path(path, tracker->folder, LS_TRACK_CONFIG, why)) return false;
    ls_json_writer w = {.indent = 2};
    ls_json_put_object(&w, NULL);
    for (size_t i = 0; i < tracker->setting_count; i++) {
        const ls_track_setting *s = &tracker->settings[i];
        bool whole = !s->text && fabs(s->number) < 0x1p53 && s->number == floor(s->number);
        if (s->text) ls_json_put_text(&w, s->name, s->text);
        else if (whole) ls_json_put_integer(&w, s->name, (int64_t)s->number);
        else ls_json_put_number(&w, s->name, s->number);
    }
    ls_json_put_end(&w);
    size_t length;
    char *text = ls_json_take(&w, &length);
    if (!text) return false;
    text[length] = '\n'; /* replaces the terminating zero */
    bool ok = ls_file_write(path, text, length + 1, false, why);
    ls_sys_free(text);
    return ok;
}

void ls_track_config_n(ls_run *run, const ls_value *values, int64_t count)
{
    if (!run || ls_failed(run) || !names_fit(run, "ls_track_config", values, count)) return;
    for
        EACH_TRACKER(tracker, run)
        {
            ls_message why = {{0}};
            bool ok = true;
            const ls_custom_tracker_opts *own = &tracker->own;
            for (int64_t i = 0; i < count; i++) {
                if (own->config) own->config(values[i].name, values[i].number, NULL, own->user);
                ok = set(tracker, values[i].name, values[i].number, NULL) && ok;
            }
            if (!ok || !write_settings(tracker, &why)) warn(tracker, &why);
        }
}

void ls_track_config_text(ls_run *run, const char *name, const char *text)
{
    if (!run || ls_failed(run) || !name_fits(run, "ls_track_config_text", name)) return;
    ls_byte_buffer copy = {0};
    text = text_as_utf8(run, "ls_track_config_text", text, &copy);
    for
        EACH_TRACKER(tracker, run)
        {
            if (!text) break;
            ls_message why = {{0}};
            const ls_custom_tracker_opts *own = &tracker->own;
            if (own->config) own->config(name, 0, text, own->user);
            if (!set(tracker, name, 0, text) || !write_settings(tracker, &why)) warn(tracker, &why);
        }
    ls_byte_buffer_free(&copy);
}
