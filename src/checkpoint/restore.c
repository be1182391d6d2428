/* restore.c - restore the state of a training run from the files of a checkpoint. */
#include <lockstep/formats.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/training.h"
#include "data/loader/loader.h"
#include "nn/module.h"
#include "optim/schedule.h"

typedef struct restoring {
    const ls_training *training;
    const char *folder;
} restoring;

enum { JSON_LIMIT = 1 << 26 };

static char *path_of(const restoring *r, const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s", r->folder, name);
    return path;
}

static bool fail(const restoring *r, ls_status code, const char *name, const char *reason)
{
    ls_fail(&r->training->run->errors, code, "ls_load_state: %s: %s", name, reason);
    return false;
}

/* ---- reading ---- */

static ls_json *read_json(const restoring *r, const char *name)
{
    char path[PATH_MAX];
    ls_message why = {{0}};
    size_t length;
    char *text = ls_file_read(path_of(r, name, path), JSON_LIMIT, &length, &why);
    ls_json *root = text ? ls_json_read(text, length, &why) : NULL;
    if (!root) fail(r, LS_ERR_IO, name, why.text);
    ls_sys_free(text);
    return root;
}

static uint64_t bits_of(const ls_json *object, const char *key)
{
    const char *text = ls_json_text(ls_json_get(object, key));
    return text ? strtoull(text, NULL, 10) : 0;
}

/* Call `each` with the elements of the array in a file, in order; there must be `count`. */
typedef bool element_fn(const restoring *r, int i, const ls_json *element);

static bool each_element(const restoring *r, const char *name, int count, element_fn *each)
{
    ls_json *root = read_json(r, name);
    if (!root) return false;
    bool ok = root->type == LS_JSON_ARRAY && root->count == count;
    if (!ok) fail(r, LS_ERR_IO, name, "its length differs from that in state.json");
    const ls_json *element = ls_json_first(root);
    for (int i = 0; ok && element; i++, element = element->next) ok = each(r, i, element);
    ls_json_free(root);
    return ok;
}

/* ---- settings ---- */

static bool is_listed(const ls_json *names, const char *name)
{
    for (const ls_json *n = ls_json_first(names); n; n = n->next) {
        const char *text = ls_json_text(n);
        if (text && strcmp(text, name) == 0) return true;
    }
    return false;
}

/* Train what was trained then, regardless of what the program has frozen so far. */
static void restore_frozen(const ls_training *t, const ls_json *names)
{
    for (int i = 0; names && i < t->module_count; i++) {
        const ls_state *parameters = ls_parameters(t->modules[i]);
        for (int64_t p = 0; p < ls_state_count(parameters); p++) {
            char name[1024];
            snprintf(name, sizeof name, "%d.%s", i, parameters->entries[p].name);
            bool trained = !is_listed(names, name);
            if (trained != ls_requires_grad(parameters->entries[p].tensor))
                ls_set_requires_grad(parameters->entries[p].tensor, trained);
        }
    }
}

static void restore_modes(ls_module *module, const char *path, const ls_json *evaluating)
{
    module->training = !is_listed(evaluating, path);
    for (int i = 0; i < module->child_count; i++) {
        char below[1024];
        snprintf(below, sizeof below, "%s.%s", path, module->children[i].name);
        restore_modes(module->children[i].module, below, evaluating);
    }
}

/* Restore the parts that were in evaluation mode inside a model in training. A model that is in another mode now is
 * used for something else; then the program decides. */
static void restore_evaluating(const ls_training *t, const ls_json *evaluating)
{
    for (int i = 0; evaluating && i < t->module_count; i++) {
        char path[16];
        snprintf(path, sizeof path, "%d", i);
        if (t->modules[i]->training && !is_listed(evaluating, path)) restore_modes(t->modules[i], path, evaluating);
    }
}

/* Checkpoints of earlier versions have no such file. */
static bool restore_settings(const restoring *r)
{
    char path[PATH_MAX];
    if (ls_path_kind_of(path_of(r, LS_SETTINGS, path)) != LS_PATH_FILE) return true;
    ls_json *saved = read_json(r, LS_SETTINGS);
    bool ok = saved && ls_settings_compare(r->training, r->folder, saved);
    if (ok) restore_frozen(r->training, ls_json_get(saved, LS_SETTINGS_FROZEN));
    if (ok) restore_evaluating(r->training, ls_json_get(saved, LS_SETTINGS_EVALUATING));
    ls_json_free(saved);
    return ok && !ls_failed(r->training->run);
}

/* ---- modules, optimisers, schedules ---- */

/* Compares names only: shapes are compared when tensors are loaded. */
static bool same_names(const restoring *r, const char *file, const ls_state *saved, const ls_state *mine)
{
    const char *lacking = NULL;
    for (int64_t i = 0; !lacking && i < ls_state_count(mine); i++)
        if (!ls_state_find(saved, ls_state_name(mine, i))) lacking = ls_state_name(mine, i);
    if (!lacking && ls_state_count(saved) == ls_state_count(mine)) return true;
    char reason[300];
    snprintf(reason, sizeof reason, "it belongs to another model, with %lld tensors instead of %lld%s%.200s",
             (long long)ls_state_count(saved), (long long)ls_state_count(mine), lacking ? " and no " : "",
             lacking ? lacking : "");
    return fail(r, LS_ERR_STATE, file, reason);
}

static bool restore_modules(const restoring *r)
{
    char path[PATH_MAX], name[LS_FILE_NAME];
    for (int i = 0; i < r->training->module_count; i++) {
        ls_file_numbered(name, "model", i, ".safetensors");
        ls_state *state = ls_state_read(r->training->run, path_of(r, name, path));
        if (state && same_names(r, name, state, ls_state_dict(r->training->modules[i])))
            ls_load_state_dict(r->training->modules[i], state);
        ls_state_free(state);
        if (ls_failed(r->training->run)) return false;
    }
    return true;
}

static bool restore_moments(const restoring *r)
{
    char path[PATH_MAX], name[LS_FILE_NAME];
    for (int i = 0; i < r->training->optim_count; i++) {
        ls_file_numbered(name, "optimizer", i, ".safetensors");
        ls_state *state = ls_state_read(r->training->run, path_of(r, name, path));
        if (!state) return false;
        ls_optim_forget(r->training->optims[i]);
        ls_optim_load_state_dict(r->training->optims[i], state);
        ls_state_free(state);
        if (ls_failed(r->training->run)) return false;
    }
    return true;
}

static bool restore_optim(const restoring *r, int i, const ls_json *element)
{
    ls_optim *optim = r->training->optims[i];
    const ls_json *groups = ls_json_get(element, "param_groups"), *g = ls_json_first(groups);
    const char *kind = ls_json_text(ls_json_get(element, "kind"));
    if (!kind || strcmp(kind, optim->rule->name) != 0)
        return fail(r, LS_ERR_STATE, "optimizer.json", "it was saved from another kind of optimiser");
    if (!groups || groups->count != optim->group_count)
        return fail(r, LS_ERR_STATE, "optimizer.json", "it has a different number of parameter groups");
    for (int k = 0; g; k++, g = g->next) {
        ls_group *group = &optim->groups[k];
        ls_optim_group_opts *now = &group->now;
        now->lr = ls_json_number(ls_json_get(g, "lr"), now->lr);
        now->weight_decay = ls_json_number(ls_json_get(g, "weight_decay"), now->weight_decay);
        now->momentum = ls_json_number(ls_json_get(g, "momentum"), now->momentum);
        now->dampening = ls_json_number(ls_json_get(g, "dampening"), now->dampening);
        now->beta1 = ls_json_number(ls_json_get(g, "beta1"), now->beta1);
        now->beta2 = ls_json_number(ls_json_get(g, "beta2"), now->beta2);
        now->epsilon = ls_json_number(ls_json_get(g, "eps"), now->epsilon);
        group->initial_lr = ls_json_number(ls_json_get(g, "initial_lr"), group->initial_lr);
    }
    optim->steps = ls_json_integer(ls_json_get(element, "steps"), optim->steps);
    return true;
}

static bool restore_schedule(const restoring *r, int i, const ls_json *element)
{
    ls_schedule *schedule = r->training->schedules[i];
    if (ls_schedule_follows_value(schedule)) {
        ls_value_progress *progress = &schedule->progress;
        *progress = ls_value_progress_none(&schedule->plateau); /* whose best is not a number of JSON */
        progress->best = ls_json_number(ls_json_get(element, "best"), progress->best);
        progress->waited = ls_json_integer(ls_json_get(element, "waited"), 0);
        progress->cooling = ls_json_integer(ls_json_get(element, "cooling"), 0);
    }
    ls_schedule_set_position(schedule, ls_json_integer(ls_json_get(element, "step"), 0));
    return !ls_failed(r->training->run);
}

/* Schedules compute rates from initial rates, which must be restored first. The rates in force when the checkpoint was
 * saved, perhaps set by hand, are restored last. */
static bool restore_rates(const restoring *r)
{
    const ls_training *t = r->training;
    return each_element(r, "optimizer.json", t->optim_count, restore_optim) &&
           each_element(r, "scheduler.json", t->schedule_count, restore_schedule) &&
           each_element(r, "optimizer.json", t->optim_count, restore_optim);
}

/* ---- loaders, randomness, loss scale ---- */

static bool restore_loader(const restoring *r, int i, const ls_json *element)
{
    ls_loader_state state = {
        .seed = bits_of(element, "seed"),
        .samples = ls_json_integer(ls_json_get(element, "samples"), 0),
        .epoch = ls_json_integer(ls_json_get(element, "epoch"), 0),
        .start = ls_json_integer(ls_json_get(element, "start"), 0),
        .in_pass = ls_json_bool(ls_json_get(element, "in_pass"), false),
        .passes = ls_json_integer(ls_json_get(element, "passes"), 0),
        .finished = ls_json_bool(ls_json_get(element, "finished"), false),
    };
    int64_t batch = ls_json_integer(ls_json_get(element, "batch"), 0), now = ls_loader_round(r->training->loaders[i]);
    if (batch && batch != now)
        ls_log_of_job(
            LS_LOG_WARN,
            "%s was saved with batches of %lld samples; this run continues with %lld, after the %lld samples of "
            "the pass that were read",
            r->folder, (long long)batch, (long long)now, (long long)state.start);
    return ls_loader_state_set(r->training->loaders[i], &state);
}

/* A process that did not exist then continues from the random state of rank 0. */
static bool restore_random(const restoring *r, int world)
{
    char name[LS_FILE_NAME];
    int rank = r->training->rank < world ? r->training->rank : 0;
    snprintf(name, sizeof name, "random_states_%d.json", rank);
    ls_json *root = read_json(r, name);
    if (!root) return false;
    r->training->run->random = (ls_rng_state){.seed = bits_of(root, "seed"), .offset = bits_of(root, "offset")};
    ls_json_free(root);
    return true;
}

static bool restore_scaler(const restoring *r)
{
    char path[PATH_MAX];
    bool saved = ls_path_kind_of(path_of(r, "scaler.json", path)) == LS_PATH_FILE;
    if (saved != (r->training->run->step->scaler != NULL))
        ls_log_of_job(LS_LOG_WARN, "%s was saved %s a loss scaler; this run continues %s one", r->folder,
                      saved ? "with" : "without", saved ? "without" : "with a fresh");
    if (!saved || !r->training->run->step->scaler) return true;
    ls_json *root = read_json(r, "scaler.json");
    if (!root) return false;
    ls_set_loss_scaler(r->training->run,
                       (ls_loss_scaler_state){.scale = ls_json_number(ls_json_get(root, "scale"), 0),
                                              .good_steps = ls_json_integer(ls_json_get(root, "good_steps"), 0)});
    ls_json_free(root);
    return !ls_failed(r->training->run);
}

/* ---- progress of an accumulation ---- */

static bool restore_accumulation(const restoring *r, const ls_manifest *manifest)
{
    ls_json *root = read_json(r, "accumulation.json");
    ls_accumulation *a = &r->training->run->step->accumulation;
    a->first_walk = r->training->run->walk_serial + 1; /* gradients from here on belong to the group */
    a->last_batch = 0;
    if (!root || !ls_gradients_restore(r->training, r->folder, manifest)) return ls_json_free(root), false;
    int64_t steps = ls_json_integer(ls_json_get(root, "steps"), a->steps);
    int64_t begun = ls_json_integer(ls_json_get(root, "steps_at_the_beginning"), steps);
    if (begun == r->training->begun->accumulation) a->steps = steps; /* the program may have changed it along the way */
    else
        ls_log_of_job(
            LS_LOG_WARN,
            "%s was saved with gradient_accumulation_steps: %lld; this run continues with %lld, and schedules that "
            "count steps end at another batch",
            r->folder, (long long)begun, (long long)a->steps);
    a->sync = ls_json_bool(ls_json_get(root, "sync_gradients"), true);
    a->step = ls_json_integer(ls_json_get(root, "step"), 0);
    a->planned = ls_json_integer(ls_json_get(root, "planned"), 1);
    a->unit = ls_json_number(ls_json_get(root, "unit"), 1);
    a->batches = a->weights = ls_json_number(ls_json_get(root, "sum"), 0);
    a->measure = ls_json_number(ls_json_get(root, "measure"), 1);
    a->weighted = ls_json_bool(ls_json_get(root, "weighted"), false);
    a->shared_sum = 0;
    a->held = a->scoped = a->has_held = false;
    ls_json_free(root);
    return true;
}

/* ---- registered objects ---- */

static bool restore_tensors(const restoring *r, const char *name, const ls_state *to)
{
    ls_run *run = r->training->run;
    char path[PATH_MAX];
    ls_state *from = ls_state_read(run, path_of(r, name, path));
    if (!from) return false;
    if (ls_state_count(from) != ls_state_count(to)) fail(r, LS_ERR_STATE, name, "it has a different number of tensors");
    for (int64_t i = 0; i < ls_state_count(to) && !ls_failed(run); i++) {
        ls_tensor *tensor = ls_state_tensor(to, i), *saved = ls_state_find(from, ls_state_name(to, i));
        if (!saved || !ls_shape_equal(ls_shape_of(saved), ls_shape_of(tensor)))
            fail(r, LS_ERR_STATE, name, "a tensor is missing in it or has another shape");
        else ls_assign(tensor, saved);
    }
    ls_state_free(from);
    return !ls_failed(run);
}

static bool restore_custom(const restoring *r, const ls_custom *custom)
{
    char path[PATH_MAX], name[LS_FILE_NAME];
    ls_file_custom(name, custom);
    const ls_register_for_checkpointing_opts *o = &custom->opts;
    if (o->tensors) return restore_tensors(r, name, o->tensors);
    ls_message why = {{0}};
    size_t size;
    char *bytes = ls_file_read(path_of(r, name, path), SIZE_MAX, &size, &why);
    if (!bytes) return fail(r, LS_ERR_IO, name, why.text);
    bool ok = o->load ? o->load(bytes, size, o->user) : size == o->size;
    if (!ok) fail(r, LS_ERR_STATE, name, o->load ? "its load function refused it" : "it was saved with another size");
    else if (!o->load) memcpy(o->data, bytes, size);
    ls_sys_free(bytes);
    return ok;
}

/* ---- everything ---- */

/* Exactly the registered objects must be there: check before anything is changed. */
static bool check_customs(const restoring *r)
{
    char path[PATH_MAX], name[LS_FILE_NAME];
    for (const ls_custom *c = r->training->customs; c; c = c->next)
        if (ls_path_kind_of(path_of(r, ls_file_custom(name, c), path)) != LS_PATH_FILE)
            return fail(r, LS_ERR_STATE, name, "it is registered for checkpoints, but was not when this one was saved");
    return true;
}

static bool counts_agree(const restoring *r, const ls_manifest *m)
{
    const ls_training *t = r->training;
    if (m->modules == t->module_count && m->optims == t->optim_count && m->schedules == t->schedule_count &&
        m->loaders == t->loader_count)
        return true;
    ls_fail(
        &t->run->errors, LS_ERR_STATE,
        "ls_load_state: it has %d modules, %d optimisers, %d schedules and %d loaders; %d, %d, %d and %d are prepared",
        m->modules, m->optims, m->schedules, m->loaders, t->module_count, t->optim_count, t->schedule_count,
        t->loader_count);
    return false;
}

bool ls_training_restore(const ls_training *training, const char *folder, const ls_manifest *manifest)
{
    restoring r = {training, folder};
    /* Errors while restoring should name this folder. */
    char *path = training->run->errors.path, before[sizeof training->run->errors.path];
    memcpy(before, path, sizeof before);
    snprintf(path, sizeof before, "%s", folder);
    bool ok = counts_agree(&r, manifest) && check_customs(&r) && restore_modules(&r) && restore_settings(&r) &&
              restore_moments(&r) && restore_rates(&r) &&
              each_element(&r, "dataloader.json", training->loader_count, restore_loader) && restore_scaler(&r) &&
              restore_accumulation(&r, manifest);
    for (const ls_custom *c = training->customs; ok && c; c = c->next) ok = restore_custom(&r, c);
    ok = ok && restore_random(&r, manifest->world);
    memcpy(path, before, sizeof before);
    return ok;
}
