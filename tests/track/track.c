/* track.c - the files of trackers: event files, JSON lines, CSV; continued, truncated, refused. */
#include <lockstep/track.h>

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/capture.h"
#include "base/crc.h"
#include "base/json.h"
#include "base/memory.h"
#include "check.h"
#include "folder.h"
#include "run/session.h"

#define FOLDER "track_test"
#define CHECK_HAS(text, part) CHECK_MSG(strstr(text, part), "\"%s\" lacks \"%s\"", text, part)

/* ---- event files, decoded according to their specification ---- */

static uint32_t crc32c_bit_by_bit(const unsigned char *bytes, size_t size)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    }
    return ~crc;
}

static uint32_t masked(const unsigned char *bytes, size_t size)
{
    uint32_t crc = crc32c_bit_by_bit(bytes, size);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static uint64_t varint(const unsigned char **at)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        uint64_t byte = *(*at)++;
        value |= (byte & 0x7f) << shift;
        if (byte < 0x80) break;
    }
    return value;
}

typedef struct field {
    int number;
    uint64_t value; /* or the length of the bytes */
    const unsigned char *bytes;
} field;

static bool next_field(const unsigned char **at, const unsigned char *end, field *f)
{
    if (*at >= end) return false;
    uint64_t key = varint(at);
    *f = (field){.number = (int)(key >> 3)};
    switch (key & 7) {
    case 0: f->value = varint(at); return true;
    case 2: f->value = varint(at); break;
    case 1: f->value = 8; break;
    case 5: f->value = 4; break;
    default: check_fail(__FILE__, __LINE__, "wire type %d", (int)(key & 7)); return false;
    }
    f->bytes = *at;
    *at += f->value;
    CHECK(*at <= end);
    return *at <= end;
}

/* The first field with this number in a message. */
static field find(field message, int number)
{
    const unsigned char *at = message.bytes;
    for (field f; next_field(&at, message.bytes + message.value, &f);)
        if (f.number == number) return f;
    return (field){0};
}

typedef struct events {
    int count, values, texts, sessions;
    int64_t first_step, last_step;
    double sum;                   /* of all numbers */
    char version[32], words[512]; /* tags and texts in turn */
} events;

static void add_words(events *e, field f)
{
    size_t used = strlen(e->words);
    snprintf(e->words + used, sizeof e->words - used, "%.*s;", (int)f.value, (const char *)f.bytes);
}

static void read_event(events *e, field event)
{
    field step = find(event, 2), version = find(event, 3), summary = find(event, 5);
    CHECK(find(event, 1).value == 8);
    if (version.bytes) snprintf(e->version, sizeof e->version, "%.*s", (int)version.value, (const char *)version.bytes);
    field session = find(event, 7);
    if (session.bytes) {
        CHECK(find(session, 1).value == 1);
        e->sessions++;
        e->first_step = (int64_t)step.value;
    }
    const unsigned char *at = summary.bytes;
    for (field value; summary.bytes && next_field(&at, summary.bytes + summary.value, &value);) {
        add_words(e, find(value, 1));
        field number = find(value, 2), tensor = find(value, 8);
        float f = 0;
        if (number.bytes) memcpy(&f, number.bytes, sizeof f), e->values++;
        if (number.bytes || tensor.bytes) e->last_step = (int64_t)step.value;
        e->sum += (double)f;
        if (tensor.bytes) {
            CHECK(find(tensor, 1).value == 7 && find(find(find(tensor, 2), 2), 1).value == 1);
            add_words(e, find(tensor, 8));
            field plugin = find(find(value, 9), 1);
            CHECK(find(plugin, 1).value == 4 && memcmp(find(plugin, 1).bytes, "text", 4) == 0);
            e->texts++;
        }
    }
    e->count++;
}

static events read_events(const char *path)
{
    events e = {0};
    size_t size = 0;
    unsigned char *text = (unsigned char *)file_text(path, &size);
    for (size_t at = 0; text && at < size;) {
        uint64_t length;
        uint32_t length_crc, crc;
        memcpy(&length, text + at, 8);
        memcpy(&length_crc, text + at + 8, 4);
        CHECK(length_crc == masked(text + at, 8));
        if (length > size - at - 16) return check_fail(__FILE__, __LINE__, "record of %d", (int)length), e;
        memcpy(&crc, text + at + 12 + length, 4);
        CHECK(crc == masked(text + at + 12, length));
        read_event(&e, (field){.value = length, .bytes = text + at + 12});
        at += 16 + length;
    }
    free(text);
    return e;
}

/* The n-th event file of a folder by name; "" if there are fewer. */
static const char *event_file(const char *folder, int n)
{
    static char path[1024];
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, alphasort), found = 0;
    path[0] = '\0';
    for (int i = 0; i < count; i++) {
        if (strncmp(entries[i]->d_name, "events.out.tfevents.", 20) == 0 && found++ == n)
            snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
    return path;
}

/* ---- tests ---- */

static void checksums_have_their_known_values(void)
{
    CHECK(ls_crc32(0, "123456789", 9) == 0xcbf43926u);
    CHECK(ls_crc32c(0, "123456789", 9) == 0xe3069283u);
    CHECK(ls_crc32c(ls_crc32c(0, "1234", 4), "56789", 5) == 0xe3069283u);
    CHECK(ls_crc32(0, "", 0) == 0);
}

static ls_run *open_run(const char *kinds)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_tracker_new(run, kinds, .project_dir = FOLDER, .name = "a/b");
    CHECK_MSG(!ls_error(run), "%s", ls_error_message(run));
    return run;
}

static void event_files_contain_what_was_recorded(void)
{
    folder_remove(FOLDER);
    ls_run *run = open_run("tensorboard");
    ls_track_config(run, {"lr", 0.5});
    ls_track_config_text(run, "model", "net");
    ls_track(run, 0, {"loss", 4}, {"eval/loss", 2});
    ls_track(run, 300, {"loss", 1});
    ls_track_text(run, 301, "note", "said");
    CHECK(ls_finish(run) == 0);
    events e = read_events(event_file(FOLDER "/a/b", 0));
    CHECK_TEXT(e.version, "brain.Event:2");
    CHECK_TEXT(e.words, "_hparams_/session_start_info;loss;eval/loss;loss;note;said;_hparams_/session_end_info;");
    CHECK(e.count == 6 && e.values == 3 && e.texts == 1 && e.sessions == 0 && e.last_step == 301);
    CHECK_NEAR(e.sum, 7, 0);
    CHECK_TEXT(event_file(FOLDER "/a/b", 1), "");
}

static void another_session_gets_its_own_file(void)
{
    folder_remove(FOLDER);
    ls_run *run = open_run("tensorboard");
    for (int i = 0; i < 10; i++) ls_track(run, i, {"loss", i});
    ls_finish(run);
    run = open_run("tensorboard");
    ls_track(run, 5, {"loss", 50}); /* from the last checkpoint */
    ls_track(run, 6, {"loss", 60});
    ls_finish(run);
    events first = read_events(event_file(FOLDER "/a/b", 0)), second = read_events(event_file(FOLDER "/a/b", 1));
    CHECK(first.values == 10 && first.sessions == 0);
    CHECK(second.values == 2 && second.sessions == 1 && second.first_step == 5);
}

/* Line n as a tree, to be freed; NULL if it is not JSON. */
static ls_json *json_line(const char *text, int n)
{
    for (; n > 0 && text; n--) text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL;
    return text ? ls_json_read(text, strcspn(text, "\n"), &(ls_message){{0}}) : NULL;
}

static void json_lines_are_json(void)
{
    folder_remove(FOLDER);
    ls_run *run = open_run("jsonl");
    ls_track(run, 7, {"loss", 0.1}, {"nan", (double)NAN}, {"a \"name\"", -1e300});
    ls_track_text(run, INT64_MAX, "note", "two\nlines \xc3\xa4");
    ls_finish(run);
    char *text = file_text(FOLDER "/a/b/values.jsonl", NULL);
    ls_json *line = json_line(text, 0);
    CHECK(ls_json_integer(ls_json_get(line, "step"), 0) == 7);
    CHECK(ls_json_number(ls_json_get(line, "time"), 0) > 1e9);
    CHECK(ls_json_number(ls_json_get(line, "loss"), 0) == 0.1);
    CHECK(ls_json_get(line, "nan") && ls_json_get(line, "nan")->type == LS_JSON_NULL);
    CHECK(ls_json_number(ls_json_get(line, "a \"name\""), 0) == -1e300);
    ls_json_free(line);
    line = json_line(text, 1);
    CHECK(ls_json_integer(ls_json_get(line, "step"), 0) == INT64_MAX);
    CHECK_TEXT(ls_json_text(ls_json_get(line, "note")), "two\nlines \xc3\xa4");
    ls_json_free(line);
    CHECK(text[strlen(text) - 1] == '\n');
    free(text);
}

/* The table without times. */
static char *table(const char *path)
{
    char *text = file_text(path, NULL), *to = text;
    for (char *c = text; c && *c;) {
        char *comma = strchr(c, ',');
        if (!comma) break;
        char *end = strchr(comma + 1, ','), *line_end = strchr(c, '\n') + 1;
        if (!end || end > line_end) end = line_end - 1;
        size_t step = (size_t)(comma - c), rest = (size_t)(line_end - end);
        memmove(to, c, step);
        memmove(to + step, end, rest);
        to += step + rest;
        c = line_end;
    }
    if (to) *to = '\0';
    return text;
}

static void columns_are_added_to_tables(void)
{
    folder_remove(FOLDER);
    ls_run *run = open_run("csv");
    ls_track(run, 1, {"loss", 0.5}, {"a,b", 1});
    ls_track(run, 2, {"loss", 0.25});
    ls_track(run, 2, {"accuracy", 99.5});
    ls_track_text(run, 3, "say \"it\"", "one, \"two\"\nthree");
    ls_track(run, 4, {"a,b", (double)INFINITY});
    ls_finish(run);
    char *text = table(FOLDER "/a/b/values.csv");
    CHECK_TEXT(text, "step,loss,\"a,b\",accuracy,\"say \"\"it\"\"\"\n"
                     "1,0.5,1,,\n"
                     "2,0.25,,,\n"
                     "2,,,99.5,\n"
                     "3,,,,\"one, \"\"two\"\" three\"\n"
                     "4,,inf,,\n");
    free(text);
    run = open_run("csv"); /* knows the columns, quotes and all */
    ls_track(run, 5, {"say \"it\"", 1}, {"a,b", 2});
    ls_track(run, 6, {"new", 3});
    ls_finish(run);
    text = table(FOLDER "/a/b/values.csv");
    CHECK_HAS(text, "step,loss,\"a,b\",accuracy,\"say \"\"it\"\"\",new\n1,0.5,1,,,\n");
    CHECK_HAS(text, "\n4,,inf,,,\n5,,2,,1,\n6,,,,,3\n");
    free(text);
}

static void an_incomplete_line_is_removed(void)
{
    folder_remove(FOLDER);
    ls_run *run = open_run("jsonl,csv");
    ls_track(run, 1, {"loss", 1});
    ls_finish(run);
    char *before = file_text(FOLDER "/a/b/values.jsonl", NULL);
    file_append(FOLDER "/a/b/values.jsonl", "{\"step\":2,\"ti");
    file_append(FOLDER "/a/b/values.csv", "2,17");
    run = open_run("jsonl,csv");
    char *after = file_text(FOLDER "/a/b/values.jsonl", NULL);
    CHECK_TEXT(after, before);
    ls_track(run, 2, {"loss", 2});
    ls_finish(run);
    char *rows = table(FOLDER "/a/b/values.csv");
    CHECK_TEXT(rows, "step,loss\n1,1\n2,2\n");
    free(rows);
    free(before);
    free(after);

    /* An incomplete line longer than the read buffer, and a file that is nothing but one. */
    folder_fresh(FOLDER "/a/b");
    char *tail = malloc(10001);
    memset(tail, 'x', 10000);
    tail[10000] = '\0';
    file_append(FOLDER "/a/b/values.jsonl", "{\"step\":1}\n");
    file_append(FOLDER "/a/b/values.jsonl", tail);
    file_append(FOLDER "/a/b/values.csv", "step,ti");
    run = open_run("jsonl,csv");
    ls_track(run, 9, {"loss", 1});
    ls_finish(run);
    char *lines = file_text(FOLDER "/a/b/values.jsonl", NULL);
    CHECK(strncmp(lines, "{\"step\":1}\n{\"step\":9,", 21) == 0);
    rows = table(FOLDER "/a/b/values.csv");
    CHECK_TEXT(rows, "step,loss\n9,1\n");
    free(lines);
    free(rows);
    free(tail);
}

static void every_call_is_written_at_once(void)
{
    folder_remove(FOLDER);
    ls_run *run = open_run("all");
    ls_track(run, 1, {"loss", 1});
    char *lines = file_text(FOLDER "/a/b/values.jsonl", NULL), *rows = table(FOLDER "/a/b/values.csv");
    CHECK_HAS(lines, "\"loss\":1");
    CHECK_TEXT(rows, "step,loss\n1,1\n");
    CHECK(read_events(event_file(FOLDER "/a/b", 0)).values == 1);
    free(lines);
    free(rows);
    ls_finish(run);
}

static void recording_takes_no_memory(void)
{
    folder_remove(FOLDER);
    ls_run *run = open_run("all");
    uint64_t before = 0;
    for (int i = 0; i < 100; i++) {
        if (i == 10) before = ls_sys_calls();
        ls_track(run, 1000000 + i, {"loss", 1.0 / 3}, {"lr", 1e-300});
    }
    CHECK(ls_sys_calls() == before);
    ls_finish(run);
}

static void settings_are_kept(void)
{
    folder_remove(FOLDER);
    ls_run *run = open_run("jsonl");
    ls_track_config(run, {"lr", 0.5}, {"batch", 64});
    ls_track_config_text(run, "model", "a \"net\"");
    ls_track_config(run, {"lr", 0.25});
    ls_track_config_text(run, "batch", "all");
    ls_finish(run);
    char *text = file_text(FOLDER "/a/b/config.json", NULL);
    CHECK_TEXT(text, "{\n  \"lr\": 0.25,\n  \"batch\": \"all\",\n  \"model\": \"a \\\"net\\\"\"\n}\n");
    free(text);
}

/* A limit on the file size simulates a full disk: write() fails. */
static int records_on_a_full_disk(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_tracker_new(run, "jsonl", .project_dir = FOLDER, .name = ".");
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 0, .rlim_max = RLIM_INFINITY});
    for (int i = 0; i < 3; i++) ls_track(run, i, {"loss", 1});
    return ls_finish(run);
}

static void a_full_disk_does_not_stop_training(void)
{
    char text[2048];
    folder_fresh(FOLDER);
    CHECK(run_captured(NULL, records_on_a_full_disk, text, sizeof text) == 0);
    CHECK_TEXT(text, "lockstep: warning: values are not recorded: " FOLDER
                     "/values.jsonl: File too large; training continues\n");
}

static void refuses(const char *kinds, const char *project, ls_status status, const char *words)
{
    ls_run *run = ls_init(NULL, NULL);
    CHECK(!ls_tracker_new(run, kinds, .project_dir = project, .name = "x"));
    CHECK(ls_error(run) == status);
    CHECK_HAS(ls_error_message(run), words);
    ls_clear_error(run);
    ls_finish(run);
}

static void wrong_trackers_are_refused(void)
{
    folder_fresh(FOLDER);
    refuses("wandb", FOLDER, LS_ERR_VALUE, "\"wandb\" is not a list of tensorboard, jsonl, csv, or all");
    refuses("", FOLDER, LS_ERR_VALUE, "is not a list");
    refuses(NULL, FOLDER, LS_ERR_VALUE, "is not a list");
    file_append(FOLDER "/file", "a,b\n1,2\n");
    refuses("all", FOLDER "/file", LS_ERR_IO, FOLDER "/file");
    mkdir(FOLDER "/x", 0777);
    file_append(FOLDER "/x/values.csv", "a,b\n1,2\n");
    refuses("csv", FOLDER, LS_ERR_IO, "starts with \"a,b\", not with step,time");
}

static void runs_without_a_name_get_their_own_folders(void)
{
    enum { RUNS = 4 };
    ls_run *runs[RUNS];
    const char *folders[RUNS];
    folder_fresh(FOLDER);
    for (int i = 0; i < RUNS; i++) {
        runs[i] = ls_init(NULL, NULL, .device = "cpu");
        folders[i] = ls_tracker_folder(ls_tracker_new(runs[i], "csv", .project_dir = FOLDER));
        for (int j = 0; j < i; j++) CHECK_MSG(strcmp(folders[i], folders[j]) != 0, "%s", folders[i]);
    }
    for (int i = 0; i < RUNS; i++) CHECK(ls_finish(runs[i]) == 0);
}

static void a_format_is_written_once(void)
{
    folder_fresh(FOLDER);
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    ls_tracker *first = ls_tracker_new(run, "csv", .project_dir = FOLDER, .name = "x");
    CHECK(first && ls_tracker_new(run, "jsonl", .project_dir = FOLDER, .name = "x"));
    CHECK(!ls_tracker_new(run, "all", .project_dir = FOLDER, .name = "x") && ls_error(run) == LS_ERR_STATE);
    CHECK_HAS(ls_error_message(run), "another tracker of this run writes jsonl into " FOLDER "/x");
    ls_clear_error(run);
    ls_tracker_free(first);
    CHECK(ls_tracker_new(run, "csv", .project_dir = FOLDER, .name = "x"));
    CHECK(ls_finish(run) == 0);
}

static void names_that_lead_out_of_the_folder_are_refused(void)
{
    static const char *const names[] = {"", "..", "../x", "a/..", "a/../../x", "/x"};
    folder_fresh(FOLDER);
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        CHECK_MSG(!ls_tracker_new(run, "csv", .project_dir = FOLDER "/in", .name = names[i]), "%s", names[i]);
        CHECK(ls_error(run) == LS_ERR_VALUE && strstr(ls_error_message(run), "is not a folder in project_dir"));
        ls_clear_error(run);
    }
    CHECK(access(FOLDER "/in", F_OK) != 0 && access(FOLDER "/x", F_OK) != 0);
    CHECK(ls_tracker_new(run, "csv", .project_dir = FOLDER, .name = "..a/b.."));
    CHECK(ls_finish(run) == 0);
}

static void wrong_values_are_refused(void)
{
    static const ls_value wrong[][2] = {{{"step", 1}, {"x", 1}}, {{"x", 1}, {"time", 1}}, {{"x", 1}, {"x", 2}},
                                        {{"", 1}, {"x", 1}},     {{NULL, 1}, {"x", 1}},   {{"x\ny", 1}, {"z", 1}},
                                        {{"x", 1}, {"\xffy", 1}}};
    folder_remove(FOLDER);
    ls_run *run = open_run("all");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ls_track_n(run, 1, wrong[i], 2);
        CHECK_MSG(ls_error(run) == LS_ERR_VALUE, "case %zu", i);
        ls_clear_error(run);
    }
    static const struct {
        const ls_value *values;
        int64_t count;
        const char *words;
    } lists[] = {{NULL, 2, "2 values of NULL"}, {NULL, -1, "-1 values of NULL"}, {wrong[0], -1, "-1 values"}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        ls_track_n(run, 1, lists[i].values, lists[i].count);
        CHECK_HAS(ls_error_message(run), lists[i].words);
        ls_clear_error(run);
        ls_track_config_n(run, lists[i].values, lists[i].count);
        CHECK_HAS(ls_error_message(run), lists[i].words);
        ls_clear_error(run);
    }
    ls_finish(run);
    char *text = file_text(FOLDER "/a/b/values.jsonl", NULL);
    CHECK_TEXT(text, "");
    free(text);
}

/* As of a language model that stopped inside a character. */
static void texts_are_recorded_as_utf8(void)
{
    folder_remove(FOLDER);
    ls_run *run = open_run("all");
    ls_track_config_text(run, "prompt", "caf\xc3");
    ls_track_text(run, 1, "sample", "\xff na\xc3\xafve \xe2\x82");
    CHECK(ls_finish(run) == 0);
    const char *const files[] = {FOLDER "/a/b/values.jsonl", FOLDER "/a/b/values.csv", event_file(FOLDER "/a/b", 0)};
    for (int i = 0; i < 3; i++) {
        size_t size;
        char *bytes = file_text(files[i], &size);
        static const char sample[] = "\xef\xbf\xbd na\xc3\xafve \xef\xbf\xbd\xef\xbf\xbd", prompt[] = "caf\xef\xbf\xbd";
        CHECK_MSG(bytes && memmem(bytes, size, sample, strlen(sample)), "%s", files[i]);
        CHECK(i < 2 || (bytes && memmem(bytes, size, prompt, strlen(prompt))));
        free(bytes);
    }
}

static void without_a_tracker_nothing_is_recorded(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_track(run, 1, {"loss", 1});
    ls_track_text(run, 1, "note", "x");
    ls_track_config(run, {"lr", 1});
    CHECK_TEXT(ls_tracker_folder(NULL), "");
    ls_tracker_free(NULL);
    CHECK(ls_finish(run) == 0);
}

/* ---- other processes than the main one ---- */

static ls_comm second_of_three = {.rank = 1, .size = 3};

static int speaks_as_second(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_session_join(run, &second_of_three);
    ls_info(run, "of the main process alone");
    ls_log_all(run, LS_LOG_WARN, "of all");
    ls_progress *bar = ls_progress_new(run, 2, .label = "hidden"),
                *shown = ls_progress_new(run, 1, .every_process = true);
    ls_progress_step(bar, 2);
    ls_progress_free(bar);
    ls_progress_free(shown);
    CHECK(!ls_tracker_new(run, "all", .project_dir = FOLDER) && !ls_error(run));
    ls_track(run, 1, {"loss", 1});
    ls_session_join(run, ls_comm_self());
    return ls_finish(run) + check_failures_here;
}

static void other_processes_record_nothing(void)
{
    char text[2048];
    folder_remove(FOLDER);
    CHECK(run_captured(NULL, speaks_as_second, text, sizeof text) == 0);
    CHECK_TEXT(text, "[rank 1] warning: of all\n0 steps in 0:00\n");
    CHECK(access(FOLDER, F_OK) != 0);
}

static void out_of_memory_does_not_crash(void)
{
    for (uint64_t n = 1; n < 60; n++) {
        folder_remove(FOLDER);
        ls_run *run = ls_init(NULL, NULL);
        ls_sys_fail_at(n);
        ls_tracker_new(run, "all", .project_dir = FOLDER, .name = "x");
        ls_track_config(run, {"lr", 1});
        ls_track_config_text(run, "model", "net\xff");
        for (int i = 0; i < 3; i++) ls_track(run, i, {"loss", 1}, {"accuracy", 2});
        ls_sys_fail_at(0);
        CHECK(ls_error(run) == LS_OK || ls_error(run) == LS_ERR_MEMORY || ls_error(run) == LS_ERR_IO);
        ls_clear_error(run);
        ls_finish(run);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(a_full_disk_does_not_stop_training); /* in new processes, before settings are read */
    CHECK_RUN(other_processes_record_nothing);
    CHECK_RUN(checksums_have_their_known_values);
    CHECK_RUN(event_files_contain_what_was_recorded);
    CHECK_RUN(another_session_gets_its_own_file);
    CHECK_RUN(json_lines_are_json);
    CHECK_RUN(columns_are_added_to_tables);
    CHECK_RUN(an_incomplete_line_is_removed);
    CHECK_RUN(every_call_is_written_at_once);
    CHECK_RUN(recording_takes_no_memory);
    CHECK_RUN(settings_are_kept);
    CHECK_RUN(wrong_trackers_are_refused);
    CHECK_RUN(runs_without_a_name_get_their_own_folders);
    CHECK_RUN(a_format_is_written_once);
    CHECK_RUN(names_that_lead_out_of_the_folder_are_refused);
    CHECK_RUN(wrong_values_are_refused);
    CHECK_RUN(texts_are_recorded_as_utf8);
    CHECK_RUN(without_a_tracker_nothing_is_recorded);
    CHECK_RUN(out_of_memory_does_not_crash);
    folder_remove(FOLDER);
    return check_done();
}
