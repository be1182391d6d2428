/* snapshot.c - collect the contents of a checkpoint, and write it. */
#include "checkpoint/snapshot.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/parallel.h"

enum { ALIGN = 64, COPY_GRAIN = 1 << 20 };

/* Is it row-major in host-readable memory? */
static bool is_plain(const ls_tensor *t)
{
    return ls_device_is_host(t->storage->device) && ls_view_contiguous(&t->view);
}

static size_t room_for(const ls_tensor *t)
{
    size_t bytes = (size_t)ls_view_numel(&t->view) * ls_dtype_size(t->view.dtype);
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

size_t ls_snapshot_bytes(const ls_state *state)
{
    size_t sum = 0;
    for (int64_t i = 0; i < ls_state_count(state); i++) sum += room_for(state->entries[i].tensor);
    return sum;
}

static bool out_of_memory(ls_snapshot *snapshot)
{
    ls_fail(&snapshot->run->errors, LS_ERR_MEMORY, "ls_save_state: no memory for the checkpoint");
    return false;
}

bool ls_snapshot_reserve(ls_snapshot *snapshot, size_t bytes)
{
    ls_copies *copies = snapshot->copies;
    if (!copies) return true;
    copies->used = 0;
    if (bytes <= copies->size) return true;
    ls_copies_free(copies);
    ls_device *device = snapshot->run->device;
    *copies = (ls_copies){.device = device, .memory = ls_device_host_alloc(device, bytes), .size = bytes};
    if (copies->memory) return true;
    copies->size = 0;
    return out_of_memory(snapshot);
}

void ls_copies_free(ls_copies *copies)
{
    if (copies->memory) ls_device_host_release(copies->device, copies->memory, copies->size);
    *copies = (ls_copies){0};
}

static ls_snapshot_file *add_file(ls_snapshot *snapshot, const char *name)
{
    ls_snapshot_file *file = ls_arena_take(&snapshot->arena, sizeof *file);
    char *copy = file ? ls_arena_text(&snapshot->arena, name, strlen(name)) : NULL;
    if (!copy) return out_of_memory(snapshot), NULL;
    file->name = copy;
    file->count = -1;
    if (snapshot->last) snapshot->last->next = file;
    else snapshot->first = file;
    return snapshot->last = file;
}

typedef struct copying {
    char *to;
    const char *from;
} copying;

static void copy_range(void *user, int64_t begin, int64_t end)
{
    const copying *c = user;
    memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

/* Training waits for this, so all threads take part. Downloads from a device are complete after wait_for_copies(). */
static bool copy_data(ls_tensor *t, char *to)
{
    ls_message why = {{0}};
    size_t bytes = (size_t)ls_view_numel(&t->view) * ls_dtype_size(t->view.dtype);
    if (!ls_view_contiguous(&t->view)) return ls_read(t, to, bytes);
    if (ls_device_is_host(t->storage->device)) {
        ls_parallel_for((int64_t)bytes, COPY_GRAIN, copy_range, &(copying){to, t->view.data});
        return true;
    }
    ls_status status = ls_device_download_begin(t->storage->device, to, t->view.data, bytes, &why);
    if (status) ls_fail(&t->run->errors, status, "ls_save_state: %s", why.text);
    return status == LS_OK;
}

static void wait_for_copies(ls_run *run)
{
    ls_message why = {{0}};
    for (ls_device *d = run->devices; d && !ls_failed(run); d = d->next) {
        ls_status status = ls_device_sync(d, &why);
        if (status) ls_fail(&run->errors, status, "ls_save_state: %s", why.text);
    }
}

/* The data of a tensor: a copy, its own memory, or NULL: to be fetched later. */
static const void *data_of(ls_snapshot *snapshot, ls_tensor *t)
{
    ls_copies *copies = snapshot->copies;
    size_t room = room_for(t);
    if (copies) {
        char *to = copies->memory + copies->used;
        copies->used += room;
        return copy_data(t, to) ? to : NULL;
    }
    return is_plain(t) ? t->view.data : NULL;
}

bool ls_snapshot_add_tensors(ls_snapshot *snapshot, const char *name, const ls_state *state)
{
    ls_snapshot_file *file = add_file(snapshot, name);
    int64_t count = ls_state_count(state);
    ls_plain_tensor *tensors = file ? ls_arena_take(&snapshot->arena, (size_t)(count + 1) * sizeof *tensors) : NULL;
    if (!tensors) return out_of_memory(snapshot);
    for (int64_t i = 0; i < count; i++) {
        const ls_state_entry *entry = &state->entries[i];
        const char *copy = ls_arena_text(&snapshot->arena, entry->name, strlen(entry->name));
        if (!copy) return out_of_memory(snapshot);
        tensors[i] = (ls_plain_tensor){.name = copy,
                                       .dtype = entry->tensor->view.dtype,
                                       .shape = ls_view_shape(&entry->tensor->view),
                                       .data = data_of(snapshot, entry->tensor)};
    }
    if (snapshot->copies) wait_for_copies(snapshot->run);
    file->count = count;
    file->tensors = tensors;
    file->source = state;
    return !ls_failed(snapshot->run);
}

bool ls_snapshot_add_bytes(ls_snapshot *snapshot, const char *name, const void *bytes, size_t size)
{
    ls_snapshot_file *file = add_file(snapshot, name);
    char *copy = file ? ls_arena_take(&snapshot->arena, size + 1) : NULL;
    if (!copy) return out_of_memory(snapshot);
    if (size) memcpy(copy, bytes, size);
    file->bytes = copy;
    file->size = size;
    return true;
}

bool ls_snapshot_add_json(ls_snapshot *snapshot, const char *name, ls_json_writer *writer)
{
    size_t length;
    char *text = ls_json_take(writer, &length);
    bool ok = text ? ls_snapshot_add_bytes(snapshot, name, text, length) : out_of_memory(snapshot);
    ls_sys_free(text);
    return ok;
}

/* ---- writing ---- */

static bool fetch(void *user, int64_t i, void *to, size_t bytes, ls_message *why)
{
    const ls_state *state = user;
    if (ls_read(state->entries[i].tensor, to, bytes)) return true;
    ls_message_set(why, "%.200s", state->object.run->errors.message);
    return false;
}

static bool write_file(const ls_snapshot_file *file, const char *folder, ls_message *why)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, file->name);
    if (file->count < 0) return ls_file_write(path, file->bytes, file->size, false, why);
    ls_plain_list list = {
        .count = file->count, .tensors = file->tensors, .fetch = fetch, .user = (void *)(uintptr_t)file->source};
    return ls_safetensors_write(path, &list, false, why);
}

bool ls_snapshot_write(const ls_snapshot *snapshot, const char *folder, ls_message *why)
{
    for (const ls_snapshot_file *file = snapshot->first; file; file = file->next)
        if (!write_file(file, folder, why)) return false;
    return ls_manifest_write(folder, &snapshot->manifest, why);
}

void ls_snapshot_clear(ls_snapshot *snapshot)
{
    ls_arena_free(&snapshot->arena);
    *snapshot = (ls_snapshot){.run = snapshot->run, .copies = snapshot->copies};
}
