/* settings.c - settings that affect the results of training: kept in settings.json, compared on resume.
 *
 * One walk lists them all, key and value as text. Saving writes what the walk lists; loading compares it with what was
 * written. A key that the file lacks (saved by an earlier version) is not compared. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/denormals.h"
#include "base/hash.h"
#include "base/log.h"
#include "checkpoint/training.h"
#include "data/loader/loader.h"
#include "nn/module.h"
#include "optim/optim.h"
#include "optim/schedule.h"

/* What to do if a value differs. */
typedef enum effect {
    CONTINUES, /* the program's value is used from here on: a warning */
    RESTORED,  /* the saved value is restored, and the program's has no effect: a warning */
    REFUSED,
} effect;

typedef struct walk {
    const ls_training *training;
    ls_json_writer *to;  /* saving: where settings are written */
    const ls_json *from; /* comparing: the root of the file */
    const char *folder;
    bool among_processes; /* compare processes instead of a checkpoint */
    bool refuses;         /* comparing: first pass, which only looks for refusals; warnings follow if there are none */
} walk;

enum { SHOWN = 160 };

#define OR_RESTART                                                                                                     \
    "or start a new training from the model alone: ls_load_model() reads model.safetensors of this folder"

static void report(const walk *w, effect e, const char *key, const char *saved, const char *mine)
{
    if (w->refuses != (e == REFUSED)) return;
    if (e == CONTINUES)
        ls_log_of_job(LS_LOG_WARN, "%s was saved with %s: %.*s; this run continues with %.*s", w->folder, key, SHOWN,
                      saved, SHOWN, mine);
    if (e == RESTORED)
        ls_log_of_job(LS_LOG_WARN,
                      "%s was saved with %s: %.*s, which is restored; this program's value has no effect: %.*s",
                      w->folder, key, SHOWN, saved, SHOWN, mine);
    if (e == REFUSED)
        ls_fail(&w->training->run->errors, LS_ERR_STATE,
                "ls_load_state: saved with %s: %.*s, here it is %.*s; continue with the same, " OR_RESTART, key, SHOWN,
                saved, SHOWN, mine);
}

/* Save it, or compare it. True if it differs from the saved one. */
LS_PRINTF(4, 5) static bool setting(const walk *w, effect e, const char *key, const char *format, ...)
{
    char value[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof value, format, args);
    va_end(args);
    if (w->to) {
        ls_json_put_text(w->to, key, value);
        return false;
    }
    const char *saved = ls_json_text(ls_json_get(w->from, key));
    bool differs = saved && strcmp(saved, value) != 0;
    if (differs) report(w, e, key, saved, value);
    return differs;
}

static const char *yes_no(bool on)
{
    return on ? "yes" : "no";
}

static const char *type_name(ls_dtype type)
{
    return !type || type == LS_F32 ? "no" : ls_dtype_name(type);
}

/* ---- the run ---- */

/* Everything random before the first epoch used the program's seed: with another one, ls_random_split() would move
 * samples of the evaluation to the training. The seed of the main process is compared; others may have their own. */
static void list_seed(const walk *w)
{
    unsigned long long mine = w->training->begun->seed;
    const char *saved = w->to ? NULL : ls_json_text(ls_json_get(w->from, "seed"));
    if (w->to) setting(w, REFUSED, "seed", "%llu", mine);
    if (!saved || w->training->rank != 0 || strtoull(saved, NULL, 10) == mine) return;
    ls_fail(&w->training->run->errors, LS_ERR_STATE,
            "ls_load_state: saved with seed %.20s, but this run started with seed %llu, which ls_random_split() and "
            "everything "
            "else random have already used; continue with --seed %.20s, " OR_RESTART,
            saved, mine, saved);
}

static void list_run(const walk *w)
{
    static const char *const policies[] = {"per step", "per process", "per call"};
    const ls_run *run = w->training->run;
    const ls_begun *begun = w->training->begun;
    list_seed(w);
    setting(w, CONTINUES, "mixed_precision", "%s", type_name(begun->precision));
    if (begun->epochs) setting(w, CONTINUES, "epochs", "%lld", (long long)begun->epochs);
    setting(w, CONTINUES, "flush_denormals", "%s", yes_no(ls_denormals_flushed()));
    setting(w, CONTINUES, "LOCKSTEP_WINOGRAD", "%s", yes_no(ls_config_switch(LS_SETTING_WINOGRAD)));
    setting(w, CONTINUES, "LOCKSTEP_CUDA_TF32", "%s", yes_no(ls_config_switch(LS_SETTING_CUDA_TF32)));
    setting(w, CONTINUES, "accumulate_across_epochs", "%s", yes_no(run->step->accumulation.across_epochs));
    setting(w, CONTINUES, "schedule_policy", "%s", policies[run->step->schedule_policy]);
    setting(w, CONTINUES, "split_batches", "%s", yes_no(run->step->share.split_batches));
    setting(w, CONTINUES, "uneven_batches", "%s", yes_no(run->step->share.uneven));
    setting(w, CONTINUES, "dispatch_batches", "%s", yes_no(run->step->share.dispatch));
    setting(w, CONTINUES, "shard_optimizer", "%s", yes_no(run->step->share.optimizer));
    setting(w, CONTINUES, "gradient_compression", "%s", type_name(begun->compression));
    if (begun->frozen) setting(w, RESTORED, "parameters frozen at the beginning", "%s", begun->frozen);
    if (begun->evaluating) setting(w, RESTORED, "parts in evaluation at the beginning", "%s", begun->evaluating);
}

/* ---- prepared objects ---- */

/* Kinds and settings of layers, by path. Names and shapes of parameters are compared when tensors are loaded. */
static int list_layers(const walk *w, const char *path, const ls_module *module)
{
    int count = 1;
    setting(w, CONTINUES, path, "%s%s%s", module->kind, module->says[0] ? " " : "", module->says);
    for (int i = 0; i < module->child_count; i++) {
        char below[600];
        snprintf(below, sizeof below, "%s%s%s", path, module->parent ? "." : " ", module->children[i].name);
        count += list_layers(w, below, module->children[i].module);
    }
    return count;
}

static void list_group(const walk *w, const char *name, const ls_optim_group_opts *made)
{
    const struct {
        const char *key;
        double value;
    } rows[] = {
        {"lr", made->lr},
        {"weight_decay", made->weight_decay},
        {"momentum", made->momentum},
        {"dampening", made->dampening},
        {"beta1", made->beta1},
        {"beta2", made->beta2},
        {"epsilon", made->epsilon},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char key[100];
        snprintf(key, sizeof key, "%.80s %s", name, rows[i].key);
        setting(w, RESTORED, key, "%.9g", rows[i].value);
    }
}

static void list_optim(const walk *w, const char *name, const ls_optim *optim)
{
    char key[700];
    if (w->among_processes) {
        snprintf(key, sizeof key, "%s rule", name);
        setting(w, REFUSED, key, "%s for %lld parameters", optim->rule->name, (long long)optim->slot_count);
    }
    snprintf(key, sizeof key, "%s options", name);
    setting(w, CONTINUES, key, "nesterov %s, maximize %s, decoupled %s, master_weights %s", yes_no(optim->nesterov),
            yes_no(optim->maximize), yes_no(optim->decoupled), yes_no(optim->master_weights));
    for (int g = 0; g < optim->group_count; g++) {
        snprintf(key, sizeof key, "%s group %d", name, g);
        list_group(w, key, &optim->groups[g].made);
        snprintf(key, sizeof key, "%s group %d current", name, g);
        if (w->among_processes) list_group(w, key, &optim->groups[g].now);
    }
    for (int64_t i = 0; optim->group_count > 1 && i < optim->slot_count; i++) {
        snprintf(key, sizeof key, "%s group of %.600s", name, optim->slots[i].name);
        setting(w, REFUSED, key, "%d", optim->slots[i].group);
    }
}

/* Does it call the program's function, which may not accept every step? */
static bool calls_program(const ls_schedule *schedule)
{
    bool asks = schedule->factor != NULL;
    for (int i = 0; !asks && i < schedule->part_count; i++) asks = calls_program(schedule->parts[i]);
    return asks;
}

/* The rate of a group at a step, for an initial rate of 1, since that of the checkpoint is restored later; and the
 * momentum. True if one differs. */
static bool list_rate(const walk *w, const char *name, const ls_schedule *schedule, int group, int64_t step)
{
    char key[100], momentum[40] = "as it is";
    ls_rates rates = schedule->rates_at(schedule, step, group, 1);
    bool fixed = rates.lr == schedule->rates_at(schedule, step, group, 2).lr; /* independent of the initial rate */
    int used = snprintf(key, sizeof key, "%s at step %lld", name, (long long)step);
    if (group) snprintf(key + used, sizeof key - (size_t)used, " of group %d", group);
    if (setting(w, CONTINUES, key, "%s%.6g%s", fixed ? "a rate of " : "", rates.lr,
                fixed ? "" : " times the initial rate"))
        return true;
    if (group) return false; /* the same for all groups */
    if (rates.has_momentum) snprintf(momentum, sizeof momentum, "%.6g", rates.momentum);
    snprintf(key, sizeof key, "%s momentum at step %lld", name, (long long)step);
    return setting(w, CONTINUES, key, "%s", momentum);
}

/* A function of the program can be called for the current step only. It is not compared if it may depend on registered
 * objects, which are restored later. */
static void list_answer(const walk *w, const char *name, const ls_schedule *schedule)
{
    char key[100];
    int64_t step = schedule->step;
    snprintf(key, sizeof key, "%s rate", name);
    const char *saved = w->to ? NULL : ls_json_text(ls_json_get(w->from, key));
    if (saved && sscanf(saved, "at step %" SCNd64, &step) != 1) return;
    if (saved && w->training->customs) return;
    setting(w, CONTINUES, key, "at step %" PRId64 ": %.6g times the initial rate", step,
            schedule->rates_at(schedule, step, 0, 1).lr);
}

/* Kind and length; if those match, rates at some steps, up to the first that differs. */
static void list_schedule(const walk *w, const char *name, const ls_schedule *schedule)
{
    char key[100], text[LS_SCHEDULE_TEXT];
    snprintf(key, sizeof key, "%s formula", name);
    if (setting(w, CONTINUES, key, "%s", ls_schedule_describe(schedule, text))) return;
    if (calls_program(schedule)) {
        list_answer(w, name, schedule);
        return;
    }
    for (int64_t step = 1; step <= 1000000; step *= 10) {
        bool last = schedule->limit && step >= schedule->limit, differs = false;
        for (int g = 0; g < schedule->group_count && !differs; g++)
            differs = list_rate(w, name, schedule, g, last ? schedule->limit : step);
        if (differs || last) break;
    }
}

/* The parameters of a sampler, except for functions of the program; per-process samplers differ in nothing else. */
static void list_sampler(const walk *w, const char *name, const ls_sampler *s)
{
    char key[100], draws[32] = "all", contents[32] = "none";
    if (s->draws != LS_AUTO) snprintf(draws, sizeof draws, "%lld", (long long)s->draws);
    if (s->weights)
        snprintf(contents, sizeof contents, "weights %016" PRIx64,
                 ls_hash_of(s->weights, (size_t)s->weight_count * sizeof *s->weights));
    if (s->listed) {
        ls_hash hash;
        ls_hash_begin(&hash);
        ls_hash_add(&hash, s->lists, (size_t)(s->list_count + 1) * sizeof *s->lists);
        ls_hash_add(&hash, s->listed, (size_t)s->draws * sizeof *s->listed);
        snprintf(contents, sizeof contents, "batches %016" PRIx64, ls_hash_end(&hash));
    }
    if (s->by_length)
        snprintf(contents, sizeof contents, "lengths %016" PRIx64,
                 ls_hash_of(s->by_length, (size_t)s->length_count * sizeof *s->by_length) ^
                     ((uint64_t)s->batch << 32 | (uint64_t)s->pool));
    snprintf(key, sizeof key, "%s sampler", name);
    setting(w, CONTINUES, key, "draws: %s, replacement: %s, shuffle: %s, drop_last: %s, contents: %s", draws,
            yes_no(s->replacement), yes_no(s->shuffle), yes_no(s->drop_last), contents);
}

static void list_loader(const walk *w, const char *name, const ls_loader *loader)
{
    const ls_loader_opts *o = &loader->opts;
    char key[100], text[2000];
    snprintf(key, sizeof key, "%s order", name);
    setting(w, REFUSED, key, "%s", o->sampler ? o->sampler->kind : o->shuffle ? "shuffled" : "as in the dataset");
    if (o->sampler) list_sampler(w, name, o->sampler);
    snprintf(key, sizeof key, "%s choice of samples", name);
    if (loader->set->choice)
        setting(w, REFUSED, key, "%016" PRIx64 " (ls_random_split, ls_subset_new)", loader->set->choice);
    else setting(w, REFUSED, key, "all");
    snprintf(key, sizeof key, "%s contents of samples", name);
    if (!w->among_processes && ls_dataset_contents(loader->set))
        setting(w, CONTINUES, key, "%016" PRIx64, ls_dataset_contents(loader->set));
    snprintf(key, sizeof key, "%s seed", name);
    if (!w->among_processes) setting(w, RESTORED, key, "%" PRIu64, o->seed);
    snprintf(key, sizeof key, "%s drop_last", name);
    setting(w, CONTINUES, key, "%s", yes_no(o->drop_last));
    size_t used = (size_t)snprintf(text, sizeof text, "%d steps", (int)o->transform.count);
    for (int i = 0; i < o->transform.count; i++) {
        const ls_transform_step *s = &o->transform.step[i];
        used += (size_t)snprintf(text + used, sizeof text - used, ", %d: %dx%d filter %d", (int)s->kind, (int)s->height,
                                 (int)s->width, (int)s->filter);
        for (int v = 0; v < 6; v++)
            if (s->value[v] != 0) used += (size_t)snprintf(text + used, sizeof text - used, " %.6g", s->value[v]);
    }
    snprintf(key, sizeof key, "%s transform", name);
    setting(w, CONTINUES, key, "%s", text);
}

/* What programs may change between ls_init() and ls_prepare(), and the number of objects. */
static void list_prepared(const walk *w)
{
    const ls_training *t = w->training;
    setting(w, REFUSED, "gradient_accumulation_steps", "%lld", (long long)t->run->step->accumulation.steps);
    setting(w, REFUSED, "prepared objects", "modules: %d, optimisers: %d, schedules: %d, loaders: %d", t->module_count,
            t->optim_count, t->schedule_count, t->loader_count);
}

static void list_all(const walk *w)
{
    const ls_training *t = w->training;
    char name[64];
    if (w->among_processes) list_prepared(w);
    else list_run(w);
    for (int i = 0; i < t->module_count; i++) {
        snprintf(name, sizeof name, "model %d", i);
        int layers = list_layers(w, name, t->modules[i]);
        snprintf(name, sizeof name, "model %d number of layers", i);
        setting(w, CONTINUES, name, "%d", layers);
    }
    for (int i = 0; i < t->optim_count; i++) {
        snprintf(name, sizeof name, "optimizer %d", i);
        list_optim(w, name, t->optims[i]);
    }
    for (int i = 0; i < t->schedule_count; i++) {
        snprintf(name, sizeof name, "schedule %d", i);
        list_schedule(w, name, t->schedules[i]);
    }
    for (int i = 0; i < t->loader_count; i++) {
        snprintf(name, sizeof name, "loader %d", i);
        list_loader(w, name, t->loaders[i]);
    }
}

/* The frozen parameters of all modules at present: "0.fc.weight". */
static void put_frozen(const ls_training *t, ls_json_writer *to)
{
    ls_json_put_array(to, LS_SETTINGS_FROZEN);
    for (int i = 0; i < t->module_count; i++) {
        const ls_state *parameters = ls_parameters(t->modules[i]);
        for (int64_t p = 0; p < ls_state_count(parameters); p++) {
            char name[1024];
            snprintf(name, sizeof name, "%d.%s", i, parameters->entries[p].name);
            if (!ls_requires_grad(parameters->entries[p].tensor)) ls_json_put_text(to, NULL, name);
        }
    }
    ls_json_put_end(to);
}

/* Paths of all modules in evaluation mode: "0.backbone", or "0" for the whole model. */
static void put_evaluating(ls_json_writer *to, const ls_module *module, const char *path)
{
    if (!module->training) ls_json_put_text(to, NULL, path);
    for (int i = 0; i < module->child_count; i++) {
        char below[1024];
        snprintf(below, sizeof below, "%s.%s", path, module->children[i].name);
        put_evaluating(to, module->children[i].module, below);
    }
}

bool ls_settings_collect(const ls_training *training, ls_snapshot *snapshot)
{
    ls_json_writer to = {.indent = 2};
    ls_json_put_object(&to, NULL);
    list_all(&(walk){.training = training, .to = &to});
    put_frozen(training, &to);
    ls_json_put_array(&to, LS_SETTINGS_EVALUATING);
    for (int i = 0; i < training->module_count; i++) {
        char path[16];
        snprintf(path, sizeof path, "%d", i);
        put_evaluating(&to, training->modules[i], path);
    }
    ls_json_put_end(&to);
    ls_json_put_end(&to);
    return ls_snapshot_add_json(snapshot, LS_SETTINGS, &to);
}

void ls_settings_describe(const ls_training *training, ls_json_writer *to)
{
    ls_json_put_object(to, NULL);
    list_all(&(walk){.training = training, .to = to, .among_processes = true});
    ls_json_put_end(to);
}

bool ls_settings_compare(const ls_training *training, const char *folder, const ls_json *saved)
{
    walk w = {.training = training, .from = saved, .folder = folder, .refuses = true};
    list_all(&w);
    w.refuses = false;
    if (!ls_failed(training->run)) list_all(&w);
    const char *epochs = ls_json_text(ls_json_get(saved, "epochs"));
    training->begun->epochs_before = epochs ? strtoll(epochs, NULL, 10) : 0;
    return !ls_failed(training->run);
}
