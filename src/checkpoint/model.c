/* model.c - save models to folders and load them. */
#include <lockstep/checkpoint.h>

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/opts.h"
#include "formats/index.h"
#include "formats/unwrap.h"
#include "nn/module.h"
#include "parallel/reducer.h"
#include "step/step.h"
#include "tensor/exchange.h"
#include "tensor/state.h"

/* ---- tensors under several names ---- */

/* Are these the same elements in the same memory? */
static bool same_memory(const ls_tensor *a, const ls_tensor *b)
{
    return a == b || (a->storage == b->storage && a->view.data == b->view.data && ls_numel(a) > 0 &&
                      a->view.dtype == b->view.dtype && ls_shape_equal(ls_shape_of(a), ls_shape_of(b)));
}

/* The first entry with the same tensor as entry i: usually i itself. */
static int64_t first_alias(const ls_state *state, int64_t i)
{
    int64_t first = 0;
    while (!same_memory(state->entries[first].tensor, state->entries[i].tensor)) first++;
    return first;
}

/* The list without further names of a tensor already in it. */
static ls_state *without_aliases(ls_run *run, const ls_state *all, ls_log_level level)
{
    char dropped[600] = "";
    size_t used = 0;
    ls_state *state = ls_state_new(run);
    for (int64_t i = 0; state && i < all->count; i++) {
        const ls_state_entry *entry = &all->entries[i];
        if (first_alias(all, i) == i) {
            if (!ls_state_append(state, entry->name, entry->tensor)) return NULL;
        } else if (used < sizeof dropped) {
            used += (size_t)snprintf(dropped + used, sizeof dropped - used, "%s%s", used ? ", " : "", entry->name);
        }
    }
    if (used)
        ls_log_of_job(level,
                      "%s %s not written: shared with a tensor that is written under another name; loading restores it",
                      dropped, strchr(dropped, ',') ? "are" : "is");
    return state;
}

/* config.json beside the weights, where the model has one. */
static bool write_config(ls_run *run, const ls_module *model, const char *folder, bool sync)
{
    if (!model->config) return true;
    char path[4096];
    ls_message why = {0};
    snprintf(path, sizeof path, "%s/config.json", folder);
    bool ok = ls_file_write(path, model->config, strlen(model->config), sync, &why);
    if (!ok) ls_fail(&run->errors, LS_ERR_IO, "ls_save_model: %s", why.text);
    return ok;
}

static bool write_model(ls_run *run, ls_module *model, const char *folder, const ls_save_model_opts *opts)
{
    const ls_state *all = ls_state_dict(model);
    ls_state *state = all ? without_aliases(run, all, model->config ? LS_LOG_INFO : LS_LOG_WARN) : NULL;
    ls_state_write_opts how = {.max_shard_size = opts->max_shard_size, .metadata = opts->metadata, .sync = opts->sync};
    bool ok = state && ls_state_write_shards(state, folder, how, "ls_save_model");
    ls_state_free(state);
    return ok && write_config(run, model, folder, opts->sync);
}

/* All processes learn whether the main process could write it: none returns before the files are there. */
static bool share_outcome(ls_run *run, bool ok)
{
    struct {
        ls_status code;
        char message[256];
    } cause = {0};
    if (!ok) {
        cause.code = run->errors.code;
        snprintf(cause.message, sizeof cause.message, "%.255s", run->errors.message);
    }
    if (!ls_exchange_broadcast(run, &cause, sizeof cause, 0, "ls_save_model")) return false;
    if (cause.code && run->step->share.rank != 0)
        ls_fail(&run->errors, LS_ERR_PEER, "ls_save_model: the main process cannot write it: %s", cause.message);
    return !cause.code;
}

/* The main process's model is written; warn if another process has a different one. In a save hook, which only the main
 * process runs, nothing is compared. */
static bool same_model(ls_run *run)
{
    return run->comm->size == 1 || ls_reducer_compare(run->step->reducer, "ls_save_model");
}

bool ls_save_model_sized(ls_run *run, ls_module *model, const char *folder, const ls_save_model_opts *given,
                         size_t opts_size)
{
    ls_save_model_opts opts = LS_OPTS_READ(ls_save_model_opts, given, opts_size);
    if (!model || ls_failed(run)) return false;
    return share_outcome(run,
                         same_model(run) && (run->step->share.rank != 0 || write_model(run, model, folder, &opts)));
}

/* ---- loading ---- */

/* Give every name of a shared tensor what the file has under any of them. */
static bool add_aliases(ls_state *given, const ls_state *mine)
{
    for (int64_t i = 0; i < mine->count; i++) {
        if (ls_state_find(given, mine->entries[i].name)) continue;
        ls_tensor *found = NULL;
        for (int64_t j = 0; !found && j < mine->count; j++)
            if (j != i && same_memory(mine->entries[i].tensor, mine->entries[j].tensor))
                found = ls_state_find(given, mine->entries[j].name);
        if (found && !ls_state_append(given, mine->entries[i].name, found)) return false;
    }
    return true;
}

/* Keep only the unexpected entries, to which the report points; the others are freed with the file. */
static void keep_unexpected(ls_state *given, const ls_load_report *report)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < given->count; i++) {
        bool named = false;
        for (int64_t u = 0; !named && u < report->unexpected_count; u++)
            named = report->unexpected[u] == given->entries[i].name;
        if (!named) continue;
        ls_state_entry entry = given->entries[kept];
        given->entries[kept++] = given->entries[i];
        given->entries[i] = entry;
    }
    if (kept) ls_state_truncate(given, kept);
    else ls_state_free(given);
}

ls_load_report ls_load_model_sized(ls_run *run, ls_module *model, const char *path,
                                   const ls_load_model_opts *given_opts, size_t opts_size)
{
    ls_load_report report = {0};
    ls_load_model_opts opts = LS_OPTS_READ(ls_load_model_opts, given_opts, opts_size);
    if (!model || ls_failed(run)) return report;
    const ls_state *mine = ls_state_dict(model);
    ls_state *given = ls_state_read(run, path, .only = opts.only, .strip = opts.strip, .prefix = opts.prefix);
    if (!mine || !given) return report;
    ls_state_unwrap(given, mine);
    if (add_aliases(given, mine)) {
        /* Errors of the list should name this file. */
        char before[sizeof run->errors.path];
        memcpy(before, run->errors.path, sizeof before);
        snprintf(run->errors.path, sizeof run->errors.path, "%s", path);
        report = ls_load_state_dict(model, given, .partial = opts.partial, .skip_mismatched = opts.skip_mismatched,
                                    .optional = opts.optional);
        memcpy(run->errors.path, before, sizeof before);
    }
    keep_unexpected(given, &report);
    return report;
}
