/* archive.c - the list that readers fill, and the choice of the reader by a file's content. */
#include "formats/archive.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/budget.h"
#include "base/memory.h"
#include "formats/bytes.h"
#include "formats/index.h"

/* ---- pages ---- */

void ls_pages_release(void *object)
{
    ls_pages *pages = object;
    if (--pages->refs > 0) return;
    if (pages->file.bytes) ls_file_unload(&pages->file);
    else ls_sys_free(pages->bytes);
    ls_sys_free(pages);
}

static void hold(ls_archive *a, ls_pages *pages)
{
    pages->refs = 1;
    pages->next = a->pages;
    a->pages = pages;
}

ls_pages *ls_archive_unpack(ls_archive *a, size_t size)
{
    if (!ls_archive_afford(a, size)) return NULL;
    ls_pages *pages = ls_sys_alloc(sizeof *pages);
    char *bytes = pages ? ls_sys_alloc(size) : NULL;
    if (!bytes) {
        ls_sys_free(pages);
        ls_archive_fail_with(a, LS_ERR_MEMORY, "no memory for %zu bytes", size);
        return NULL;
    }
    *pages = (ls_pages){.bytes = bytes, .size = size};
    hold(a, pages);
    return pages;
}

/* ---- failures and memory ---- */

static bool fail(ls_archive *a, ls_status code, const char *format, va_list args)
{
    char text[600];
    vsnprintf(text, sizeof text, format, args);
    ls_fail(a->errors, code, "%s: %s", a->file, text);
    return false;
}

bool ls_archive_fail(ls_archive *a, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(a, LS_ERR_IO, format, args);
    va_end(args);
    return false;
}

bool ls_archive_fail_with(ls_archive *a, ls_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(a, code, format, args);
    va_end(args);
    return false;
}

bool ls_archive_afford(ls_archive *a, uint64_t bytes)
{
    if (ls_budget_draw(&a->taken, bytes, a->file_bytes)) return true;
    return ls_archive_fail(a, "it expands to more than %llu bytes, the most that a file of %llu bytes may",
                           (unsigned long long)ls_budget_of(a->file_bytes), (unsigned long long)a->file_bytes);
}

void *ls_archive_take(ls_archive *a, size_t bytes)
{
    if (!ls_archive_afford(a, bytes)) return NULL;
    void *block = ls_arena_take(&a->arena, bytes);
    if (!block) ls_archive_fail_with(a, LS_ERR_MEMORY, "no memory for its contents");
    return block;
}

char *ls_archive_text(ls_archive *a, const char *text, size_t length)
{
    char *copy = ls_archive_take(a, length + 1);
    return copy ? memcpy(copy, text, length) : NULL;
}

/* Make room for one more item in a list of the archive. */
static bool grow(ls_archive *a, void *list, int64_t count, int64_t *capacity, size_t size)
{
    void **items = list;
    if (count < *capacity) return true;
    int64_t wanted = *capacity ? *capacity * 2 : 32;
    if (!ls_archive_afford(a, (uint64_t)(wanted - *capacity) * size)) return false;
    void *grown = ls_sys_realloc(*items, (size_t)wanted * size);
    if (!grown) return ls_archive_fail_with(a, LS_ERR_MEMORY, "no memory for a list of %lld", (long long)wanted);
    *items = grown;
    *capacity = wanted;
    return true;
}

bool ls_archive_add(ls_archive *a, ls_archive_entry entry)
{
    if (!grow(a, &a->entries, a->count, &a->capacity, sizeof *a->entries)) return false;
    entry.file = a->file;
    a->entries[a->count++] = entry;
    return true;
}

bool ls_archive_add_metadata(ls_archive *a, const char *key, const char *value)
{
    if (!grow(a, &a->metadata, a->metadata_count, &a->metadata_capacity, sizeof *a->metadata)) return false;
    a->metadata[a->metadata_count++] = (ls_metadata){key, value};
    return true;
}

/* ---- opening ---- */

static bool is_safetensors(const char *bytes, size_t size)
{
    return size >= 9 && memcmp(bytes + 4, "\0\0\0\0{", 5) == 0;
}

bool ls_archive_parse(ls_archive *a, const char *path, ls_pages *pages)
{
    hold(a, pages);
    a->file_bytes += pages->size;
    a->file = ls_archive_text(a, path, strlen(path));
    if (!a->file || !grow(a, &a->files, a->file_count, &a->file_capacity, sizeof *a->files)) return false;
    a->files[a->file_count++] = a->file;

    const char *bytes = pages->bytes;
    if (is_safetensors(bytes, pages->size)) return ls_read_safetensors(a, pages);
    if (pages->size >= 4 && memcmp(bytes, "PK\3\4", 4) == 0) return ls_read_zip(a, pages);
    if (pages->size >= 6 && memcmp(bytes, "\x93NUMPY", 6) == 0) return ls_read_npy(a, pages);
    if (pages->size >= 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5) return ls_read_pickle(a, pages);
    return ls_archive_fail(a, pages->size ? "not a file of tensors: neither safetensors, PyTorch nor NumPy"
                                          : "the file is empty");
}

/* Of a safetensors file only the header is read if names are enough: the file may be of any size. */
static bool load(const ls_archive *a, ls_pages *pages, const char *path, ls_message *why)
{
    enum { BEGIN = 9 };
    ls_file_bytes *file = &pages->file;
    if (a->names_only && !ls_file_load(file, path, BEGIN, why)) return false;
    pages->head_only = a->names_only && is_safetensors(file->bytes, file->there);
    size_t header = pages->head_only ? ls_u32(file->bytes) : 0;
    size_t wanted = !pages->head_only ? SIZE_MAX : header <= LS_SAFETENSORS_HEADER ? 8 + header : BEGIN;
    if (a->names_only) ls_file_unload(file);
    if (!ls_file_load(file, path, wanted, why)) return false;
    bool as_before = !pages->head_only || (is_safetensors(file->bytes, file->there) && ls_u32(file->bytes) == header);
    if (!file->changed && as_before) return true;
    ls_message_set(why, "%.200s changed while it was read", path);
    ls_file_unload(file);
    return false;
}

bool ls_archive_open_file(ls_archive *a, const char *path)
{
    ls_message why;
    ls_pages *pages = ls_sys_alloc(sizeof *pages);
    if (!pages) return ls_fail(a->errors, LS_ERR_MEMORY, "%s: no memory", path), false;
    if (!load(a, pages, path, &why)) {
        ls_sys_free(pages);
        return ls_fail(a->errors, LS_ERR_IO, "%s", why.text), false;
    }
    pages->bytes = pages->file.bytes;
    pages->size = pages->file.size;
    return ls_archive_parse(a, path, pages);
}

static int compare_names(const void *x, const void *y)
{
    return strcmp((*(const ls_archive_entry *const *)x)->name, (*(const ls_archive_entry *const *)y)->name);
}

static bool check_names(ls_archive *a)
{
    const ls_archive_entry **sorted = ls_sys_alloc((size_t)(a->count + 1) * sizeof *sorted);
    if (!sorted) return ls_archive_fail_with(a, LS_ERR_MEMORY, "no memory for a list of names");
    for (int64_t i = 0; i < a->count; i++) sorted[i] = &a->entries[i];
    qsort(sorted, (size_t)a->count, sizeof *sorted, compare_names);
    bool ok = true;
    for (int64_t i = 1; ok && i < a->count; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            ok = ls_archive_fail(a, "there are two tensors %s", sorted[i]->name);
    ls_sys_free(sorted);
    return ok;
}

bool ls_archive_open(ls_archive *a, ls_errors *errors, const char *path, bool names_only)
{
    *a = (ls_archive){.errors = errors, .names_only = names_only};
    ls_path_kind kind = ls_path_kind_of(path);
    bool ok = kind == LS_PATH_FOLDER                            ? ls_archive_open_folder(a, path)
              : kind == LS_PATH_FILE && ls_is_shard_index(path) ? ls_archive_open_index(a, path)
                                                                : ls_archive_open_file(a, path);
    return ok && check_names(a);
}

void ls_archive_close(ls_archive *a)
{
    for (ls_pages *pages = a->pages, *next; pages; pages = next) {
        next = pages->next;
        ls_pages_release(pages);
    }
    ls_sys_free(a->entries);
    ls_sys_free(a->metadata);
    ls_sys_free(a->files);
    ls_arena_free(&a->arena);
    *a = (ls_archive){0};
}
