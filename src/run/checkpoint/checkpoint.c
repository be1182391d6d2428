/* checkpoint.c - save and restore a run: prepared objects, folder, registered values, hooks. */
#include "run/checkpoint/checkpoint.h"

#include <lockstep/checkpoint.h>

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/claim.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/opts.h"
#include "checkpoint/folder.h"
#include "checkpoint/training.h"
#include "data/loader/loader.h"
#include "nn/module.h"
#include "optim/optim.h"
#include "run/across.h"
#include "run/checkpoint/gradients.h"
#include "run/prepare.h"
#include "tensor/exchange.h"

/* ---- contents of a checkpoint ---- */

/* Append to a text the names of modules in evaluation mode inside a model that is not. */
static size_t name_evaluating(const ls_module *module, const char *path, char *text, size_t size, size_t used)
{
    for (int i = 0; i < module->child_count && used < size; i++) {
        const ls_module *child = module->children[i].module;
        char below[1024];
        snprintf(below, sizeof below, "%s%s%s", path, *path ? "." : "", module->children[i].name);
        if (child->training) used = name_evaluating(child, below, text, size, used);
        else used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", below);
    }
    return used;
}

/* Record, once, before the first epoch, load or save, how the program starts: names of frozen parameters and of modules
 * in evaluation mode. */
static void note_beginning(ls_run *run)
{
    char text[4096] = "none";
    size_t used = 0;
    int at = 0;
    if (run->session->begun.frozen) return;
    for (ls_object *o; (o = ls_prepared_next(run, LS_OBJECT_MODULE, &at));) {
        const ls_state *parameters = ls_parameters((ls_module *)o);
        for (int64_t p = 0; p < ls_state_count(parameters) && used < sizeof text; p++)
            if (!ls_requires_grad(ls_state_tensor(parameters, p)))
                used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "",
                                         ls_state_name(parameters, p));
    }
    run->session->begun.frozen = ls_text_copy(run, text);
    snprintf(text, sizeof text, "none");
    used = 0;
    at = 0;
    for (ls_object *o; (o = ls_prepared_next(run, LS_OBJECT_MODULE, &at));) {
        const ls_module *module = (const ls_module *)o;
        if (module->training) used = name_evaluating(module, "", text, sizeof text, used);
    }
    run->session->begun.evaluating = ls_text_copy(run, text);
}

void *ls_session_training(ls_run *run, int position, ls_training *t)
{
    static const ls_object_kind kinds[] = {LS_OBJECT_MODULE, LS_OBJECT_OPTIM, LS_OBJECT_SCHEDULE, LS_OBJECT_LOADER};
    enum { KINDS = sizeof kinds / sizeof *kinds };
    ls_session *session = run->session;
    int counts[KINDS] = {0};
    size_t stride = (size_t)session->prepared_count;
    void **block = ls_sys_alloc((KINDS * stride + 1) * sizeof *block);
    if (!block) return ls_fail(&run->errors, LS_ERR_MEMORY, "no memory for the list of prepared objects"), NULL;
    for (int k = 0; k < KINDS; k++) {
        int at = position;
        for (void *o; (o = ls_prepared_next(run, kinds[k], &at));) block[(size_t)k * stride + (size_t)counts[k]++] = o;
    }
    *t = (ls_training){
        .run = run,
        .begun = &session->begun,
        .module_count = counts[0],
        .optim_count = counts[1],
        .schedule_count = counts[2],
        .loader_count = counts[3],
        .modules = (ls_module *const *)block,
        .optims = (ls_optim *const *)(block + stride),
        .schedules = (ls_schedule *const *)(block + 2 * stride),
        .loaders = (ls_loader *const *)(block + 3 * stride),
        .customs = session->customs,
        .rank = ls_rank(run),
        .world = ls_world_size(run),
    };
    return block;
}

/* If all loaders have been read to their end, the epoch is over, and the checkpoint continues with the next. */
static void find_epoch(const ls_run *run, ls_training *t)
{
    const ls_session *session = run->session;
    t->epoch_over = session->in_epoch;
    for (int i = 0; i < t->loader_count; i++) t->epoch_over = t->epoch_over && ls_loader_epoch_done(t->loaders[i]);
    t->epoch = session->epoch + t->epoch_over;
}

/* ---- hooks ---- */

typedef struct checkpoint_hook {
    ls_hook hook;
    bool on_save;
    ls_checkpoint_fn *function;
    void *user;
} checkpoint_hook;

static ls_hook *hook_new(ls_run *run, bool on_save, ls_checkpoint_fn *function, void *user)
{
    if (ls_failed(run)) return NULL;
    if (!function) return ls_fail(&run->errors, LS_ERR_VALUE, "the function of a checkpoint hook is NULL"), NULL;
    checkpoint_hook *hook = ls_object_new(run, LS_OBJECT_HOOK, sizeof *hook, NULL);
    if (!hook) return NULL;
    hook->on_save = on_save;
    hook->function = function;
    hook->user = user;
    return &hook->hook;
}

ls_hook *ls_register_save_hook(ls_run *run, ls_checkpoint_fn *function, void *user)
{
    return hook_new(run, true, function, user);
}

ls_hook *ls_register_load_hook(ls_run *run, ls_checkpoint_fn *function, void *user)
{
    return hook_new(run, false, function, user);
}

/* In registration order. */
static void call_hooks(ls_run *run, bool on_save, const char *folder)
{
    ls_object *o = run->objects, *next;
    while (o && o->older) o = o->older;
    for (; o && !ls_failed(run); o = next) {
        next = o->newer; /* a hook may remove itself */
        const checkpoint_hook *hook = (const checkpoint_hook *)o;
        if (o->kind == LS_OBJECT_HOOK && hook->on_save == on_save) hook->function(run, folder, hook->user);
    }
}

/* Only the main process is in there: its calls must not wait for the others. */
static void call_save_hooks(ls_run *run, const char *folder)
{
    ls_comm *all = run->comm;
    run->comm = ls_comm_self();
    call_hooks(run, true, folder);
    run->comm = all;
}

/* ---- registered objects ---- */

static bool is_name(const char *name)
{
    if (!name || !*name || strlen(name) > 100) return false;
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("_-.", *c)) return false;
    return true;
}

void ls_register_for_checkpointing_sized(ls_run *run, const char *name, const ls_register_for_checkpointing_opts *opts,
                                         size_t opts_size)
{
    ls_session *session = ls_session_of(run);
    if (!session) return;
    ls_register_for_checkpointing_opts o = LS_OPTS_READ(ls_register_for_checkpointing_opts, opts, opts_size);
    const char *why = NULL;
    int ways = (o.data != NULL) + (o.tensors != NULL) + (o.save != NULL);
    if (!is_name(name)) why = "is not a name of letters, digits, _, - and .";
    else if (ways != 1) why = "needs one of .data, .tensors and .save";
    else if (o.data && o.size == 0) why = "has .data without a .size";
    else if (!o.save != !o.load) why = "needs .save and .load together";
    ls_custom **at = &session->customs;
    for (; *at && !why; at = &(*at)->next)
        if (strcmp((*at)->name, name) == 0) why = "is registered already";
    if (why) {
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_register_for_checkpointing: \"%s\" %s", name ? name : "(null)", why);
        return;
    }
    ls_custom *custom = ls_sys_alloc(sizeof *custom);
    char *copy = custom ? ls_text_copy(run, name) : NULL;
    if (!copy) {
        ls_fail(&run->errors, LS_ERR_MEMORY, "ls_register_for_checkpointing: no memory");
        ls_sys_free(custom);
        return;
    }
    *custom = (ls_custom){.name = copy, .opts = o};
    *at = custom;
}

/* ---- folders ---- */

static char *checkpoints_folder(ls_run *run, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/checkpoints", ls_project_dir(run));
    return path;
}

/* The folder's path without a trailing slash; a link is resolved. */
static char *plain_path(ls_run *run, const char *folder)
{
    char meant[PATH_MAX];
    char *copy = ls_text_copy(run, realpath(folder, meant) ? meant : folder);
    for (size_t length = copy ? strlen(copy) : 0; length > 1 && copy[length - 1] == '/'; length--)
        copy[length - 1] = '\0';
    return copy;
}

/* A training that does not resume from the checkpoints in its folder numbers its own after them, and its limit counts
 * both: warn once, before anything is deleted. */
static void warn_of_older_checkpoints(ls_run *run)
{
    ls_session *session = run->session;
    char parent[PATH_MAX], kept[64] = "";
    if (session->known_checkpoints || !ls_is_main(run)) return;
    session->known_checkpoints = true;
    int64_t *numbers, count = ls_folder_numbers(checkpoints_folder(run, parent), &numbers);
    int64_t newest = count ? numbers[count - 1] : -1, limit = session->total_limit;
    ls_sys_free(numbers);
    if (!count) return;
    if (limit != LS_AUTO) snprintf(kept, sizeof kept, ", and only the latest %lld of all are kept", (long long)limit);
    ls_log_of_job(LS_LOG_WARN,
                  "%s holds an older training, up to " LS_CHECKPOINT_STEM
                  "%lld, from which this one does not resume: its own checkpoints start with " LS_CHECKPOINT_STEM
                  "%lld%s; resume from the older one, or use another folder",
                  parent, (long long)newest, (long long)newest + 1, kept);
}

/* Set the writer's paths to a given folder, or to the next numbered one. */
static bool choose_folder(ls_run *run, const char *folder)
{
    ls_writer *w = &run->session->writer;
    char parent[PATH_MAX];
    ls_message why = {{0}};
    if (folder) {
        w->folder = plain_path(run, folder);
    } else {
        if (!ls_folder_make(checkpoints_folder(run, parent), &why))
            return ls_fail(&run->errors, LS_ERR_IO, "ls_save_state: %s", why.text), false;
        if (ls_is_main(run) &&
            !ls_claim_folder(&run->session->claims, ls_project_dir(run), "ls_save_state", &run->errors))
            return false;
        warn_of_older_checkpoints(run);
        int64_t *numbers, count = ls_folder_numbers(checkpoints_folder(run, parent), &numbers);
        int64_t last = count ? numbers[count - 1] : -1;
        if (last < LS_CHECKPOINT_LAST) w->folder = ls_folder_numbered(parent, last + 1);
        else
            ls_fail(&run->errors, LS_ERR_IO,
                    "ls_save_state: %s holds " LS_CHECKPOINT_STEM "%lld, the highest possible number; rename it",
                    parent, (long long)last);
        w->parent = ls_text_copy(run, parent);
        w->limit = run->session->total_limit;
        ls_sys_free(numbers);
    }
    if (!w->folder || ls_failed(run)) return ls_fail(&run->errors, LS_ERR_MEMORY, "ls_save_state: no memory"), false;
    w->part = ls_folder_begin(w->folder, &why);
    if (!w->part) ls_fail(&run->errors, LS_ERR_IO, "ls_save_state: %s", why.text);
    return w->part != NULL;
}

/* ---- saving ---- */

bool ls_wait_for_save(ls_run *run)
{
    if (!run->session) return false;
    ls_message why = {{0}};
    if (!ls_writer_wait(&run->session->writer, &why))
        ls_fail(&run->errors, LS_ERR_IO, "ls_save_state: %s; the previous checkpoint is unchanged", why.text);
    return !ls_failed(run);
}

/* On the main process: collect, let hooks add their files, write. */
static bool save(ls_run *run, const char *folder, const ls_rng_state *randoms, double weights,
                 ls_state *const *gradients)
{
    ls_session *session = run->session;
    ls_writer *w = &session->writer;
    ls_training t;
    void *lists = ls_session_training(run, 0, &t);
    if (!lists) return false;
    t.randoms = randoms;
    t.weights = weights;
    t.gradients = gradients;
    find_epoch(run, &t);
    w->snapshot = (ls_snapshot){.run = run, .copies = session->async_save ? &w->copies : NULL};
    bool ok = choose_folder(run, folder) && ls_training_collect(&t, &w->snapshot);
    if (ok) call_save_hooks(run, w->part);
    ok = ok && !ls_failed(run);
    if (ok) ls_writer_start(w, session->async_save);
    else if (w->folder && w->part) ls_folder_discard(w->folder);
    ls_sys_free(lists);
    if (ok && session->async_save) return true;
    return ls_wait_for_save(run) && ok;
}

/* Collect the optimiser state of all processes on the main one, and release it. */
static bool collect_optims(ls_run *run)
{
    int at = 0;
    for (ls_object *o; (o = ls_prepared_next(run, LS_OBJECT_OPTIM, &at));)
        if (!ls_optim_collect((ls_optim *)o)) return false;
    return true;
}

static void collect_optims_end(ls_run *run)
{
    int at = 0;
    for (ls_object *o; (o = ls_prepared_next(run, LS_OBJECT_OPTIM, &at));) ls_optim_collect_end((ls_optim *)o);
}

/* What each process contributes to a checkpoint. */
typedef struct own_state {
    ls_rng_state random;
    double weights; /* of the batches in its accumulated gradients */
} own_state;

bool ls_save_state(ls_run *run, const char *folder)
{
    if (!ls_session_of(run) || !ls_wait_for_save(run) || !collect_optims(run)) return false;
    note_beginning(run);
    ls_remind_of_unsaved(run);
    ls_state **gradients;
    bool ok = ls_gradients_collect(run, &gradients);
    own_state mine = {run->random, ls_accumulation_sum(run)};
    double weights = 0;
    ls_gathered states = ls_gather_bytes(run, &mine, sizeof mine, "ls_save_state");
    ls_rng_state *randoms = ls_sys_alloc((size_t)(states.count + 1) * sizeof *randoms);
    if (!randoms) ls_fail(&run->errors, LS_ERR_MEMORY, "ls_save_state: no memory");
    for (int r = 0; randoms && r < states.count; r++) {
        memcpy(&mine, states.data[r], sizeof mine);
        randoms[r] = mine.random;
        weights += mine.weights;
    }
    if (states.count) weights /= states.count;
    if (states.count) ok = ls_reducer_compare(run->step->reducer, "ls_save_state") && ok;
    ok = ok && randoms && (!ls_is_main(run) || save(run, folder, randoms, weights, gradients));
    ls_sys_free(randoms);
    ls_gradients_collect_end(run, gradients);
    collect_optims_end(run);
    bool failed;
    if (!ls_exchange_any(run, !ok, &failed, "ls_save_state")) return false;
    if (failed) ls_fail(&run->errors, LS_ERR_PEER, "ls_save_state: the main process could not save");
    return !failed;
}

/* ---- loading ---- */

static bool load(ls_run *run, const char *folder, const ls_manifest *manifest)
{
    ls_training t;
    void *lists = ls_session_training(run, 0, &t);
    if (!lists) return false;
    call_hooks(run, false, folder);
    bool ok = !ls_failed(run) && ls_training_restore(&t, folder, manifest);
    ls_sys_free(lists);
    if (!ok) return false;
    run->session->epoch = (int)manifest->epoch;
    run->session->restored = run->session->known_checkpoints = true;
    ls_sys_free(run->session->resumed_from);
    run->session->resumed_from = ls_text_copy(run, folder);
    ls_log_event("resuming from %s: epoch %lld, step %lld", folder, (long long)manifest->epoch,
                 (long long)manifest->step);
    return !ls_failed(run);
}

/* The newest intact numbered checkpoint, to be freed with ls_sys_free(); NULL if there is none. */
static char *find_latest(ls_run *run, ls_manifest *manifest)
{
    char parent[PATH_MAX];
    int64_t *numbers, count = ls_folder_numbers(checkpoints_folder(run, parent), &numbers);
    char *found = NULL;
    while (!found && count-- > 0) {
        ls_message why = {{0}};
        found = ls_folder_numbered(parent, numbers[count]);
        if (!found || ls_manifest_check(found, manifest, &why)) break;
        ls_log_of_job(LS_LOG_WARN, "%s is damaged and skipped: %s", found, why.text);
        ls_sys_free(found);
        found = NULL;
    }
    ls_sys_free(numbers);
    return found;
}

static bool is_latest(const char *folder)
{
    return !folder || strcmp(folder, "latest") == 0;
}

/* If the folder is not a checkpoint but contains some, fail with the one probably meant. */
static bool point_inside(ls_run *run, const char *folder)
{
    static const char *const places[] = {"", "/checkpoints"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char parent[PATH_MAX + 16];
        snprintf(parent, sizeof parent, "%s%s", folder, places[i]);
        int64_t *numbers, count = ls_folder_numbers(parent, &numbers), newest = count ? numbers[count - 1] : 0;
        ls_sys_free(numbers);
        if (!count) continue;
        ls_fail(&run->errors, LS_ERR_IO,
                "ls_load_state: %s is not a checkpoint, but contains some; the newest is %s/" LS_CHECKPOINT_STEM "%lld",
                folder, parent, (long long)newest);
        return true;
    }
    return false;
}

bool ls_load_state(ls_run *run, const char *folder)
{
    if (!ls_session_of(run) || !ls_wait_for_save(run)) return false;
    note_beginning(run);
    ls_manifest manifest;
    ls_message why = {{0}};
    if (is_latest(folder)) {
        char *latest = find_latest(run, &manifest);
        bool ok = latest && load(run, latest, &manifest);
        if (!latest)
            ls_fail(&run->errors, LS_ERR_IO, "ls_load_state: there is no complete checkpoint in %s/checkpoints",
                    ls_project_dir(run));
        ls_sys_free(latest);
        return ok;
    }
    char parent[PATH_MAX], inside[PATH_MAX];
    ls_path_kind kind = ls_path_kind_of(folder);
    bool is_name = kind == LS_PATH_NONE && !strchr(folder, '/');
    if (is_name) {
        snprintf(inside, sizeof inside, "%.*s/%.250s", PATH_MAX - 256, checkpoints_folder(run, parent), folder);
        kind = ls_path_kind_of(inside);
        if (kind != LS_PATH_NONE) folder = inside;
    }
    if (kind == LS_PATH_NONE)
        ls_fail(&run->errors, LS_ERR_IO, "ls_load_state: there is no folder \"%s\"%s%s", folder,
                is_name ? ", and none of that name in " : "", is_name ? parent : "");
    else if (kind != LS_PATH_FOLDER)
        ls_fail(&run->errors, LS_ERR_IO, "ls_load_state: %s is a file; checkpoints are folders", folder);
    else if (ls_manifest_check(folder, &manifest, &why)) return load(run, folder, &manifest);
    else if (!point_inside(run, folder)) ls_fail(&run->errors, LS_ERR_IO, "ls_load_state: %s: %s", folder, why.text);
    return false;
}

const char *ls_resumed_from(const ls_run *run)
{
    return run && run->session ? run->session->resumed_from : NULL;
}

void ls_session_resume(ls_run *run)
{
    ls_session *session = run->session;
    char *from = session->resume, parent[PATH_MAX];
    if (ls_failed(run)) return;
    note_beginning(run);
    if (!from) {
        warn_of_older_checkpoints(run);
        return;
    }
    session->resume = NULL;
    int64_t *numbers, count = ls_folder_numbers(checkpoints_folder(run, parent), &numbers);
    ls_sys_free(numbers);
    if (is_latest(from) && count == 0)
        ls_log_of_job(LS_LOG_WARN, "no checkpoint in %s yet: starting from the beginning", parent);
    else ls_load_state(run, from);
    ls_sys_free(from);
}
