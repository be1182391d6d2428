/* inspect.c - the output of `lockstep inspect`: the tensors of a file, a summary of a run's checkpoint, or
 * the checkpoints of a folder. */
#include <lockstep/checkpoint.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "checkpoint/folder.h"
#include "checkpoint/manifest.h"
#include "tensor/context.h"

enum { MAX_STATE = 16 << 20 };

/* ---- text ---- */

static void print_safely(FILE *to, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = ls_sys_alloc(size);
    fputs(copy ? ls_printable(copy, size, text) : "?", to);
    ls_sys_free(copy);
}

static void print_count(FILE *to, const char *before, int64_t count, const char *noun)
{
    fprintf(to, "%s%lld %s%s", before, (long long)count, noun, count == 1 ? "" : "s");
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
    print_count(to, "", c->count, "tensor");
    print_count(to, ", ", total_numbers(c), "number");
    fprintf(to, ", %s", size_text(total_bytes(c), size));
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

/* ---- the checkpoint of a run ---- */

static bool is_safetensors(const char *name)
{
    size_t length = strlen(name), end = strlen(".safetensors");
    return length > end && strcmp(name + length - end, ".safetensors") == 0;
}

/* The contents of a file of tensors in the folder; NULL (and an error) if it cannot be read. */
static const ls_contents *contents_in(ls_run *run, const char *folder, const char *name)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_MAX) return ls_contents_read(run, path);
    return ls_fail(&run->errors, LS_ERR_IO, "%s: the path is too long", name), NULL;
}

static bool print_checkpoint(ls_run *run, const char *folder, const ls_manifest *m, const ls_json *state, FILE *to)
{
    char size[32];
    int widest = 0;
    fprintf(to, "a run in epoch %lld, step %lld, of ", (long long)m->epoch, (long long)m->step);
    fprintf(to, m->world == 1 ? "one process" : "%d processes", m->world);
    print_count(to, ": ", m->modules, "model");
    print_count(to, ", ", m->optims, "optimiser");
    print_count(to, ", ", m->schedules, "schedule");
    print_count(to, ", ", m->loaders, "loader");
    fputs("\nall files match their checksums\n\n", to);
    const ls_json *files = ls_json_first(ls_json_get(state, "files"));
    for (const ls_json *f = files; f; f = f->next) {
        int length = (int)strlen(ls_json_text(ls_json_get(f, "name")));
        if (length > widest) widest = length;
    }
    for (const ls_json *f = files; f; f = f->next) {
        const char *name = ls_json_text(ls_json_get(f, "name"));
        print_safely(to, name);
        fprintf(to, "%*s  %10s", widest - (int)strlen(name), "",
                size_text((uint64_t)ls_json_integer(ls_json_get(f, "bytes"), 0), size));
        if (is_safetensors(name)) {
            const ls_contents *c = contents_in(run, folder, name);
            if (!c) return false;
            fputs("  ", to);
            print_count(to, "", c->count, "tensor");
            print_count(to, ", ", total_numbers(c), "number");
            ls_contents_free(c);
        }
        fputc('\n', to);
    }
    return true;
}

static bool print_checkpoint_json(ls_run *run, const char *folder, const ls_json *state, FILE *to)
{
    ls_json_writer w = {.indent = 1};
    ls_json_put_object(&w, NULL);
    ls_json_put_value(&w, "state", state);
    ls_json_put_object(&w, "files");
    for (const ls_json *f = ls_json_first(ls_json_get(state, "files")); f && !ls_failed(run); f = f->next) {
        const char *name = ls_json_text(ls_json_get(f, "name"));
        const ls_contents *c = is_safetensors(name) ? contents_in(run, folder, name) : NULL;
        if (c) put_contents(&w, name, c, false);
        ls_contents_free(c);
    }
    ls_json_put_end(&w);
    ls_json_put_end(&w);
    if (!ls_failed(run)) return print_json(run, &w, to);
    ls_sys_free(ls_json_take(&w, NULL));
    return false;
}

static bool inspect_checkpoint(ls_run *run, const char *folder, const char *path, FILE *to, bool json)
{
    ls_message why;
    ls_manifest manifest;
    size_t size;
    if (!ls_manifest_check(folder, &manifest, &why))
        return ls_fail(&run->errors, LS_ERR_IO, "%s: %s", folder, why.text), false;
    char *text = ls_file_read(path, MAX_STATE, &size, &why);
    ls_json *state = text ? ls_json_read(text, size, &why) : NULL; /* the text that was checked */
    ls_sys_free(text);
    if (!state) return ls_fail(&run->errors, LS_ERR_IO, "%s: %s", folder, why.text), false;
    bool ok =
        json ? print_checkpoint_json(run, folder, state, to) : print_checkpoint(run, folder, &manifest, state, to);
    ls_json_free(state);
    return ok;
}

/* ---- a folder of checkpoints ---- */

/* Only epoch and step: files are verified when a single checkpoint is inspected. NULL: it cannot be read. */
static ls_json *state_in(const char *folder, ls_message *why)
{
    char path[PATH_MAX];
    size_t size;
    snprintf(path, sizeof path, "%s/" LS_MANIFEST, folder);
    char *text = ls_file_read(path, MAX_STATE, &size, why);
    ls_json *state = text ? ls_json_read(text, size, why) : NULL;
    ls_sys_free(text);
    return state;
}

static void print_line(FILE *to, const char *folder, int widest, const ls_json *state, const ls_message *why)
{
    int length = (int)strlen(last_part(folder));
    fprintf(to, "%s%*s  ", last_part(folder), widest - length, "");
    if (state)
        fprintf(to, "epoch %lld, step %lld\n", (long long)ls_json_integer(ls_json_get(state, "epoch"), 0),
                (long long)ls_json_integer(ls_json_get(state, "step"), 0));
    else print_safely(to, why->text), fputc('\n', to);
}

static bool inspect_numbered(ls_run *run, const char *parent, const int64_t *numbers, int64_t count, FILE *to,
                             bool json)
{
    ls_json_writer w = {.indent = 1};
    int widest = snprintf(NULL, 0, LS_CHECKPOINT_STEM "%lld", (long long)numbers[count - 1]);
    if (json) ls_json_put_array(&w, NULL);
    for (int64_t i = 0; i < count; i++) {
        ls_message why = {{0}};
        char *folder = ls_folder_numbered(parent, numbers[i]);
        if (!folder) return ls_fail(&run->errors, LS_ERR_MEMORY, "ls_inspect: no memory for a path"), false;
        ls_json *state = state_in(folder, &why);
        if (json) {
            ls_json_put_object(&w, NULL);
            ls_json_put_text(&w, "name", last_part(folder));
            if (state) ls_json_put_value(&w, "state", state);
            else ls_json_put_text(&w, "error", why.text);
            ls_json_put_end(&w);
        } else print_line(to, folder, widest, state, &why);
        ls_json_free(state);
        ls_sys_free(folder);
    }
    if (!json) return true;
    ls_json_put_end(&w);
    return print_json(run, &w, to);
}

bool ls_inspect(ls_run *run, const char *path, FILE *to, bool json)
{
    if (ls_failed(run)) return false;
    if (!path) return ls_fail(&run->errors, LS_ERR_VALUE, "ls_inspect: the path is NULL"), false;
    char manifest[PATH_MAX];
    int length = snprintf(manifest, sizeof manifest, "%s/" LS_MANIFEST, path);
    if (length < PATH_MAX && ls_path_kind_of(manifest) == LS_PATH_FILE)
        return inspect_checkpoint(run, path, manifest, to, json);
    int64_t *numbers, count = ls_folder_numbers(path, &numbers);
    bool ok = count ? inspect_numbered(run, path, numbers, count, to, json) : inspect_tensors(run, path, to, json);
    ls_sys_free(numbers);
    return ok;
}
