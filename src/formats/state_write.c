/* state_write.c - write lists of tensors to one or several safetensors files, or to one of PyTorch's. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/memory.h"
#include "base/opts.h"
#include "formats/index.h"
#include "formats/safetensors.h"
#include "tensor/state.h"

/* ---- tensors as plain memory ---- */

static ls_plain_tensor plain(const ls_state_entry *entry)
{
    const ls_operand *view = &entry->tensor->view;
    bool direct = ls_device_is_host(entry->tensor->storage->device) && ls_view_contiguous(view);
    return (ls_plain_tensor){entry->name, view->dtype, ls_view_shape(view), direct ? view->data : NULL};
}

/* ---- shards ---- */

typedef struct shard {
    char name[40];
    ls_file_out out;
} shard;

typedef struct job {
    const ls_state *state;
    const ls_metadata *metadata;
    bool sync;
    const char *folder; /* for several files */
    uint64_t *bytes;    /* of each tensor */
    uint64_t total;
    int64_t *shard_of; /* of each tensor */
    int64_t shard_count;
    shard *shards;
    int64_t *entry;           /* tensors of the shard being written: positions in the list, */
    ls_plain_tensor *tensors; /* and their descriptions */
    ls_arena arena;
    ls_message why;
} job;

/* Fetch elements that are not plain host memory, just before they are written. */
static bool fetch(void *user, int64_t i, void *to, size_t bytes, ls_message *why)
{
    const job *j = user;
    ls_tensor *t = j->state->entries[j->entry[i]].tensor;
    if (ls_read(t, to, bytes)) return true;
    ls_message_set(why, "%.*s", (int)sizeof why->text - 1, t->run->errors.message);
    return false;
}

static bool joined(char path[PATH_MAX], const char *folder, const char *name, ls_message *why)
{
    int length = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    if (length > 0 && length < PATH_MAX) return true;
    ls_message_set(why, "the path of %s is too long", name);
    return false;
}

/* Does the name end like those of PyTorch's files? */
static bool is_torch_name(const char *path)
{
    const char *end = strrchr(path, '.');
    return end && (strcmp(end, ".pt") == 0 || strcmp(end, ".pth") == 0 || strcmp(end, ".bin") == 0);
}

/* Write shard s under its temporary name. */
static bool put_shard(job *j, int64_t s, const char *path)
{
    ls_plain_list list = {.tensors = j->tensors, .metadata = j->metadata, .fetch = fetch, .user = j};
    for (int64_t i = 0; i < j->state->count; i++) {
        if (j->shard_of[i] != s) continue;
        j->entry[list.count] = i;
        j->tensors[list.count++] = plain(&j->state->entries[i]);
    }
    return (is_torch_name(path) ? ls_torch_put : ls_safetensors_put)(&j->shards[s].out, path, &list, j->sync, &j->why);
}

static bool put_shards(job *j)
{
    char path[PATH_MAX];
    for (int64_t s = 0; s < j->shard_count; s++) {
        shard *this = &j->shards[s];
        if (j->shard_count == 1) snprintf(this->name, sizeof this->name, "model.safetensors");
        else
            snprintf(this->name, sizeof this->name, "model-%05d-of-%05d.safetensors", (int)(s + 1),
                     (int)j->shard_count);
        if (!joined(path, j->folder, this->name, &j->why) || !put_shard(j, s, path)) return false;
    }
    return true;
}

static bool put_index(job *j, ls_file_out *out)
{
    int64_t count = j->state->count;
    const char **names = ls_arena_take(&j->arena, (size_t)count * sizeof *names);
    const char **files = ls_arena_take(&j->arena, (size_t)count * sizeof *files);
    for (int64_t i = 0; names && files && i < count; i++) {
        names[i] = j->state->entries[i].name;
        files[i] = j->shards[j->shard_of[i]].name;
    }
    size_t length;
    char path[PATH_MAX], *text = names && files ? ls_shard_index(count, names, files, j->total, &length) : NULL;
    if (!text) ls_message_set(&j->why, "no memory for an index of %lld tensors", (long long)count);
    bool ok = text && joined(path, j->folder, "model.safetensors.index.json", &j->why) &&
              ls_file_create(out, path, j->sync, &j->why) && ls_file_put(out, text, length, &j->why) &&
              ls_file_seal(out, &j->why);
    ls_sys_free(text);
    return ok;
}

/* Remove files of an earlier save that are not part of the new one. Failing to remove one does no harm. */
static void remove_stale(const job *j)
{
    DIR *dir = opendir(j->folder);
    for (struct dirent *item; dir && (item = readdir(dir));) {
        const char *name = item->d_name;
        bool single = strcmp(name, "model.safetensors") == 0, index = strcmp(name, "model.safetensors.index.json") == 0;
        if (!single && !index && !ls_is_shard_name(name, "model", ".safetensors")) continue;
        bool ours = index && j->shard_count > 1;
        for (int64_t s = 0; !ours && s < j->shard_count; s++) ours = strcmp(name, j->shards[s].name) == 0;
        if (!ours) unlinkat(dirfd(dir), name, 0);
    }
    if (dir) closedir(dir);
}

/* All files are written before the first is renamed: a failure before that changes nothing. */
static bool write_shards(job *j)
{
    ls_file_out index = {.descriptor = -1};
    bool ok = put_shards(j) && (j->shard_count == 1 || put_index(j, &index));
    for (int64_t s = 0; s < j->shard_count; s++) {
        if (ok) ok = ls_file_publish(&j->shards[s].out, &j->why);
        else ls_file_discard(&j->shards[s].out);
    }
    if (ok && index.path) ok = ls_file_publish(&index, &j->why);
    ls_file_discard(&index);
    if (ok) remove_stale(j);
    return ok;
}

/* ---- jobs ---- */

/* Set up one file with all tensors; the caller may split it. */
static bool begin_job(job *j, const ls_state *state, const ls_state_write_opts *opts)
{
    *j = (job){.state = state, .metadata = opts->metadata, .sync = opts->sync, .shard_count = 1};
    size_t count = (size_t)state->count;
    j->bytes = ls_arena_take(&j->arena, count * sizeof *j->bytes);
    j->shard_of = ls_arena_take(&j->arena, count * sizeof *j->shard_of);
    j->entry = ls_arena_take(&j->arena, count * sizeof *j->entry);
    j->tensors = ls_arena_take(&j->arena, count * sizeof *j->tensors);
    j->shards = ls_arena_take(&j->arena, (count + 1) * sizeof *j->shards);
    if (!j->bytes || !j->shard_of || !j->entry || !j->tensors || !j->shards) {
        ls_message_set(&j->why, "no memory for a list of %zu tensors", count);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        ls_plain_tensor t = plain(&state->entries[i]);
        j->total += j->bytes[i] = ls_plain_bytes(&t);
    }
    return true;
}

static bool end_job(job *j, bool ok, const char *who)
{
    ls_errors *errors = &j->state->object.run->errors;
    if (!ok && !errors->code) ls_fail(errors, LS_ERR_IO, "%s: %s", who, j->why.text);
    ls_arena_free(&j->arena);
    return ok;
}

static bool ready(const ls_state *state, const char *path, const char *who)
{
    if (!state || ls_failed(state->object.run)) return false;
    if (path && *path) return true;
    ls_fail(&state->object.run->errors, LS_ERR_VALUE, "%s: the path is %s", who, path ? "empty" : "NULL");
    return false;
}

bool ls_state_write_sized(const ls_state *state, const char *path, const ls_state_write_opts *given, size_t opts_size)
{
    if (!ready(state, path, "ls_state_write")) return false;
    ls_state_write_opts opts = LS_OPTS_READ(ls_state_write_opts, given, opts_size);
    job j;
    bool ok = begin_job(&j, state, &opts) && put_shard(&j, 0, path) && ls_file_publish(&j.shards[0].out, &j.why);
    return end_job(&j, ok, "ls_state_write");
}

bool ls_state_write_sharded_sized(const ls_state *state, const char *folder, const ls_state_write_opts *given,
                                  size_t opts_size)
{
    ls_state_write_opts opts = LS_OPTS_READ(ls_state_write_opts, given, opts_size);
    return ls_state_write_shards(state, folder, opts, "ls_state_write_sharded");
}

bool ls_state_write_shards(const ls_state *state, const char *folder, ls_state_write_opts opts, const char *who)
{
    if (!ready(state, folder, who)) return false;
    int64_t limit = ls_size_from_text(opts.max_shard_size ? opts.max_shard_size : "10GB");
    if (limit < 0)
        return ls_fail(&state->object.run->errors, LS_ERR_VALUE,
                       "%s: .max_shard_size = \"%s\" is not a size; write \"10GB\", \"500MB\" or \"2GiB\"", who,
                       opts.max_shard_size),
               false;
    job j;
    bool ok = begin_job(&j, state, &opts);
    j.folder = folder;
    if (ok && state->count) j.shard_count = ls_shard_split(state->count, j.bytes, (uint64_t)limit, j.shard_of);
    ok = ok && ls_folder_make(folder, &j.why) && write_shards(&j);
    return end_job(&j, ok, who);
}
