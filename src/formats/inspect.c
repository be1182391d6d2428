/* inspect.c - what `lockstep inspect` shows: the tensors of a file as a table, the state of a training run as a list. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "formats/archive.h"
#include "tensor/context.h"

enum { MAX_STATE = 16 << 20 };

/* ---- words ---- */

/* Text of a file on somebody's terminal: without characters that the terminal would obey. */
static void print_safely(FILE *to, const char *text)
{
    for (size_t left = strlen(text), length; left; text += length, left -= length) {
        length = ls_utf8_length(text, left);
        uint32_t code = length ? ls_utf8_decode(text, length) : 0;
        if (code < 0x20 || (code >= 0x7f && code < 0xa0)) fputc('?', to);
        else fwrite(text, 1, length, to);
        if (!length) length = 1;
    }
}

static const char *size_text(uint64_t bytes, char text[32])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double size = (double)bytes;
    int unit = 0;
    while (size >= 999.5 && unit < 4) size /= 1000, unit++;
    snprintf(text, 32, unit && size < 99.95 ? "%.1f %s" : "%.0f %s", size, units[unit]);
    return text;
}

static void shape_text(const ls_file_tensor *t, char *text, size_t room)
{
    size_t used = (size_t)snprintf(text, room, "[");
    for (int d = 0; d < t->ndim && used < room; d++)
        used += (size_t)snprintf(text + used, room - used, "%s%lld", d ? "," : "", (long long)t->dim[d]);
    if (used < room) snprintf(text + used, room - used, "]");
}

static uint64_t total_bytes(const ls_contents *c)
{
    uint64_t total = 0;
    for (int64_t i = 0; i < c->count; i++) total += c->tensors[i].bytes;
    return total;
}

static int64_t total_numbers(const ls_contents *c)
{
    int64_t total = 0;
    for (int64_t i = 0; i < c->count; i++) {
        int64_t numbers = 1;
        for (int d = 0; d < c->tensors[i].ndim; d++) numbers *= c->tensors[i].dim[d];
        total += numbers;
    }
    return total;
}

/* "bert/model.safetensors" -> "model.safetensors" */
static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- tensors ---- */

static void print_totals(const ls_contents *c, FILE *to)
{
    char size[32];
    fprintf(to, "%lld tensor%s, %lld numbers, %s", (long long)c->count, c->count == 1 ? "" : "s",
            (long long)total_numbers(c), size_text(total_bytes(c), size));
    if (c->file_count > 1) fprintf(to, " in %lld files", (long long)c->file_count);
    fprintf(to, " (%s)\n", c->format);
}

static void print_table(const ls_contents *c, FILE *to)
{
    int widest_name = 4, widest_type = 4, widest_shape = 5;
    char shape[256], size[32];
    for (int64_t i = 0; i < c->count; i++) {
        int name = (int)strlen(c->tensors[i].name), type = (int)strlen(c->tensors[i].type);
        shape_text(&c->tensors[i], shape, sizeof shape);
        if (name > widest_name && name <= 64) widest_name = name;
        if (type > widest_type) widest_type = type;
        if ((int)strlen(shape) > widest_shape) widest_shape = (int)strlen(shape);
    }
    if (c->count)
        fprintf(to, "%-*s  %-*s  %-*s  %10s%s\n", widest_name, "name", widest_type, "type", widest_shape, "shape",
                "size", c->file_count > 1 ? "  file" : "");
    for (int64_t i = 0; i < c->count; i++) {
        const ls_file_tensor *t = &c->tensors[i];
        int name = (int)strlen(t->name);
        shape_text(t, shape, sizeof shape);
        print_safely(to, t->name);
        fprintf(to, "%*s  %-*s  %-*s  %10s", name < widest_name ? widest_name - name : 0, "", widest_type, t->type,
                widest_shape, shape, size_text(t->bytes, size));
        if (c->file_count > 1) fputs("  ", to), print_safely(to, last_part(t->file));
        fputc('\n', to);
    }
    if (c->count) fputc('\n', to);
    print_totals(c, to);
    for (int64_t i = 0; i < c->metadata_count; i++) {
        fputs(i ? "          " : "metadata: ", to);
        print_safely(to, c->metadata[i].key);
        fputs(" = ", to);
        print_safely(to, c->metadata[i].value);
        fputc('\n', to);
    }
}

static void put_contents(ls_json_writer *w, const char *key, const ls_contents *c, bool whole)
{
    ls_json_put_object(w, key);
    ls_json_put_text(w, "format", c->format);
    ls_json_put_integer(w, "tensor_count", c->count);
    ls_json_put_integer(w, "numbers", total_numbers(c));
    ls_json_put_integer(w, "bytes", (int64_t)total_bytes(c));
    ls_json_put_array(w, "files");
    for (int64_t i = 0; i < c->file_count; i++) ls_json_put_text(w, NULL, c->files[i]);
    ls_json_put_end(w);
    ls_json_put_object(w, "metadata");
    for (int64_t i = 0; i < c->metadata_count; i++) ls_json_put_text(w, c->metadata[i].key, c->metadata[i].value);
    ls_json_put_end(w);
    if (whole) ls_json_put_array(w, "tensors");
    for (int64_t i = 0; whole && i < c->count; i++) {
        const ls_file_tensor *t = &c->tensors[i];
        ls_json_put_object(w, NULL);
        ls_json_put_text(w, "name", t->name);
        ls_json_put_text(w, "type", t->type);
        ls_json_put_array(w, "shape");
        for (int d = 0; d < t->ndim; d++) ls_json_put_integer(w, NULL, t->dim[d]);
        ls_json_put_end(w);
        ls_json_put_integer(w, "bytes", (int64_t)t->bytes);
        ls_json_put_text(w, "file", t->file);
        ls_json_put_end(w);
    }
    if (whole) ls_json_put_end(w);
    ls_json_put_end(w);
}

static bool print_json(ls_run *run, ls_json_writer *w, FILE *to)
{
    char *text = ls_json_take(w, NULL);
    if (!text) return ls_fail(&run->errors, LS_ERR_MEMORY, "ls_inspect: no memory for the text"), false;
    fprintf(to, "%s\n", text);
    ls_sys_free(text);
    return true;
}

static bool inspect_tensors(ls_run *run, const char *path, FILE *to, bool json)
{
    const ls_contents *c = ls_contents_read(run, path);
    if (!c) return false;
    bool ok = true;
    ls_json_writer w = {.indent = 1};
    if (json) put_contents(&w, NULL, c, true), ok = print_json(run, &w, to);
    else print_table(c, to);
    ls_contents_free(c);
    return ok;
}

/* ---- the state of a training run ---- */

/* Every value of a tree on a line, under its dotted path. */
static void print_values(const ls_json *value, const char *path, FILE *to)
{
    char below[512];
    int64_t i = 0;
    for (const ls_json *part = ls_json_first(value); part; part = part->next, i++) {
        if (part->key) snprintf(below, sizeof below, "%s%s%s", path, *path ? "." : "", part->key);
        else snprintf(below, sizeof below, "%s%s%lld", path, *path ? "." : "", (long long)i);
        print_values(part, below, to);
    }
    if (ls_json_first(value)) return;
    ls_json_writer w = {0};
    ls_json_put_value(&w, NULL, value);
    char *text = ls_json_take(&w, NULL);
    print_safely(to, path);
    fputs(" = ", to);
    if (text) print_safely(to, text);
    fputc('\n', to);
    ls_sys_free(text);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The safetensors files of a folder, sorted; at most `room`. */
static int files_of_folder(const char *folder, char (*names)[NAME_MAX + 1], int room)
{
    DIR *dir = opendir(folder);
    int count = 0;
    for (struct dirent *item; dir && count < room && (item = readdir(dir));) {
        const char *end = strstr(item->d_name, ".safetensors");
        if (end && end[strlen(".safetensors")] == 0) snprintf(names[count++], NAME_MAX + 1, "%s", item->d_name);
    }
    if (dir) closedir(dir);
    qsort(names, (size_t)count, sizeof *names, compare_names);
    return count;
}

static bool inspect_state(ls_run *run, const char *folder, const ls_json *state, FILE *to, bool json)
{
    enum { MOST_FILES = 1000 };
    char(*names)[NAME_MAX + 1] = ls_sys_alloc(MOST_FILES * sizeof *names), path[PATH_MAX];
    if (!names) return ls_fail(&run->errors, LS_ERR_MEMORY, "ls_inspect: no memory for a list of files"), false;
    int count = files_of_folder(folder, names, MOST_FILES);
    ls_json_writer w = {.indent = 1};
    if (json) {
        ls_json_put_object(&w, NULL);
        ls_json_put_value(&w, "state", state);
        ls_json_put_object(&w, "files");
    } else {
        print_values(state, "", to);
        if (count) fputc('\n', to);
    }
    for (int i = 0; i < count && !ls_failed(run); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        const ls_contents *c = ls_contents_read(run, path);
        if (!c) break;
        if (json) put_contents(&w, names[i], c, false);
        else print_safely(to, names[i]), fputs(": ", to), print_totals(c, to);
        ls_contents_free(c);
    }
    ls_sys_free(names);
    if (json) {
        ls_json_put_end(&w);
        ls_json_put_end(&w);
    }
    if (ls_failed(run)) return ls_sys_free(ls_json_take(&w, NULL)), false;
    return !json || print_json(run, &w, to);
}

bool ls_inspect(ls_run *run, const char *path, FILE *to, bool json)
{
    if (ls_failed(run)) return false;
    if (!path) return ls_fail(&run->errors, LS_ERR_VALUE, "ls_inspect: the path is NULL"), false;
    char manifest[PATH_MAX];
    int length = snprintf(manifest, sizeof manifest, "%s/state.json", path);
    if (length >= PATH_MAX || ls_path_kind_of(manifest) != LS_PATH_FILE) return inspect_tensors(run, path, to, json);
    ls_message why;
    size_t size;
    char *text = ls_file_read(manifest, MAX_STATE, &size, &why);
    if (!text) return ls_fail(&run->errors, LS_ERR_IO, "%s", why.text), false;
    ls_json *state = ls_json_read(text, size, &why);
    ls_sys_free(text);
    if (!state) return ls_fail(&run->errors, LS_ERR_IO, "%s: %s", manifest, why.text), false;
    bool ok = inspect_state(run, path, state, to, json);
    ls_json_free(state);
    return ok;
}
