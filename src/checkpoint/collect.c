/* collect.c - the state of a training run, file by file. */
#include <math.h>
#include <stdio.h>

#include "checkpoint/training.h"
#include "data/loader/loader.h"
#include "optim/schedule.h"

char *ls_file_numbered(char name[LS_FILE_NAME], const char *stem, int n, const char *extension)
{
    if (n == 0) snprintf(name, LS_FILE_NAME, "%s%s", stem, extension);
    else snprintf(name, LS_FILE_NAME, "%s_%d%s", stem, n, extension);
    return name;
}

char *ls_file_custom(char name[LS_FILE_NAME], const ls_custom *custom)
{
    snprintf(name, LS_FILE_NAME, "custom_%s%s", custom->name, custom->opts.tensors ? ".safetensors" : ".bin");
    return name;
}

/* As text, since JSON numbers cannot hold all 64-bit integers. */
static void put_bits(ls_json_writer *w, const char *key, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    ls_json_put_text(w, key, text);
}

/* ---- optimisers and schedules ---- */

static void put_group(ls_json_writer *w, const ls_group *group)
{
    const ls_optim_group_opts *now = &group->now;
    ls_json_put_object(w, NULL);
    ls_json_put_number(w, "lr", now->lr);
    ls_json_put_number(w, "weight_decay", now->weight_decay);
    ls_json_put_number(w, "momentum", now->momentum);
    ls_json_put_number(w, "dampening", now->dampening);
    ls_json_put_number(w, "beta1", now->beta1);
    ls_json_put_number(w, "beta2", now->beta2);
    ls_json_put_number(w, "eps", now->epsilon);
    if (group->scheduled) ls_json_put_number(w, "initial_lr", group->initial_lr);
    ls_json_put_end(w);
}

static bool collect_optims(const ls_training *t, ls_snapshot *s)
{
    ls_json_writer w = {.indent = 2};
    ls_json_put_array(&w, NULL);
    for (int i = 0; i < t->optim_count; i++) {
        const ls_optim *optim = t->optims[i];
        ls_json_put_object(&w, NULL);
        ls_json_put_text(&w, "kind", optim->rule->name);
        ls_json_put_integer(&w, "steps", optim->steps);
        ls_json_put_array(&w, "param_groups");
        for (int g = 0; g < optim->group_count; g++) put_group(&w, &optim->groups[g]);
        ls_json_put_end(&w);
        ls_json_put_end(&w);
    }
    ls_json_put_end(&w);
    return ls_snapshot_add_json(s, "optimizer.json", &w);
}

static bool collect_schedules(const ls_training *t, ls_snapshot *s)
{
    ls_json_writer w = {.indent = 2};
    ls_json_put_array(&w, NULL);
    for (int i = 0; i < t->schedule_count; i++) {
        ls_json_put_object(&w, NULL);
        const ls_value_progress *progress = &t->schedules[i]->progress;
        ls_json_put_integer(&w, "step", ls_schedule_position(t->schedules[i]));
        if (ls_schedule_follows_value(t->schedules[i])) {
            if (isfinite(progress->best)) ls_json_put_number(&w, "best", progress->best);
            ls_json_put_integer(&w, "waited", progress->waited);
            ls_json_put_integer(&w, "cooling", progress->cooling);
        }
        ls_json_put_end(&w);
    }
    ls_json_put_end(&w);
    return ls_snapshot_add_json(s, "scheduler.json", &w);
}

/* ---- loaders, randomness, loss scale ---- */

static bool collect_loaders(const ls_training *t, ls_snapshot *s)
{
    ls_json_writer w = {.indent = 2};
    ls_json_put_array(&w, NULL);
    for (int i = 0; i < t->loader_count; i++) {
        ls_loader_state state = ls_loader_state_get(t->loaders[i]);
        if (t->epoch_over) {
            state.passes = 0;
            state.finished = false;
        }
        if (t->loaders[i]->loop.outer) { /* a restart cannot resume inside another loop: this one is over */
            state.in_pass = false;
            state.start = 0;
            state.epoch++;
        }
        ls_json_put_object(&w, NULL);
        put_bits(&w, "seed", state.seed);
        ls_json_put_integer(&w, "batch", ls_loader_round(t->loaders[i]));
        ls_json_put_integer(&w, "samples", state.samples);
        ls_json_put_integer(&w, "epoch", state.epoch);
        ls_json_put_integer(&w, "start", state.start);
        ls_json_put_bool(&w, "in_pass", state.in_pass);
        ls_json_put_integer(&w, "passes", state.passes);
        ls_json_put_bool(&w, "finished", state.finished);
        ls_json_put_end(&w);
    }
    ls_json_put_end(&w);
    return ls_snapshot_add_json(s, "dataloader.json", &w);
}

static bool collect_randoms(const ls_training *t, ls_snapshot *s)
{
    for (int rank = 0; rank < t->world; rank++) {
        char name[LS_FILE_NAME];
        snprintf(name, sizeof name, "random_states_%d.json", rank);
        ls_json_writer w = {.indent = 2};
        ls_json_put_object(&w, NULL);
        put_bits(&w, "seed", t->randoms[rank].seed);
        put_bits(&w, "offset", t->randoms[rank].offset);
        ls_json_put_end(&w);
        if (!ls_snapshot_add_json(s, name, &w)) return false;
    }
    return true;
}

static bool collect_scaler(const ls_training *t, ls_snapshot *s)
{
    if (!t->run->step->scaler) return true;
    ls_loss_scaler_state scale = ls_loss_scaler(t->run);
    ls_json_writer w = {.indent = 2};
    ls_json_put_object(&w, NULL);
    ls_json_put_number(&w, "scale", scale.scale);
    ls_json_put_integer(&w, "good_steps", scale.good_steps);
    ls_json_put_end(&w);
    return ls_snapshot_add_json(s, "scaler.json", &w);
}

/* ---- progress of an accumulation ---- */

static bool collect_accumulation(const ls_training *t, ls_snapshot *s)
{
    const ls_accumulation *a = &t->run->step->accumulation;
    ls_json_writer w = {.indent = 2};
    ls_json_put_object(&w, NULL);
    ls_json_put_bool(&w, "sync_gradients", a->sync);
    ls_json_put_integer(&w, "steps", a->steps);
    ls_json_put_integer(&w, "steps_at_the_beginning", t->begun->accumulation);
    ls_json_put_integer(&w, "step", a->step);
    ls_json_put_integer(&w, "planned", a->planned);
    ls_json_put_number(&w, "unit", a->unit);
    ls_json_put_number(&w, "sum", t->weights);
    ls_json_put_number(&w, "measure", a->measure);
    ls_json_put_bool(&w, "weighted", a->weighted);
    ls_json_put_end(&w);
    return ls_snapshot_add_json(s, "accumulation.json", &w);
}

/* ---- registered objects ---- */

static bool collect_custom(const ls_custom *custom, ls_snapshot *s)
{
    const ls_register_for_checkpointing_opts *o = &custom->opts;
    char name[LS_FILE_NAME];
    ls_file_custom(name, custom);
    if (o->tensors) return ls_snapshot_add_tensors(s, name, o->tensors);
    ls_bytes bytes = o->save ? o->save(o->user) : (ls_bytes){o->data, o->size};
    if (bytes.data || bytes.size == 0) return ls_snapshot_add_bytes(s, name, bytes.data, bytes.size);
    ls_fail(&s->run->errors, LS_ERR_VALUE, "ls_save_state: the save function of \"%s\" returned NULL", custom->name);
    return false;
}

/* ---- everything ---- */

/* Tensors come first, in two rounds: the memory for their copies must be known before the first is made. */
static bool collect_tensors(const ls_training *t, ls_snapshot *s)
{
    size_t bytes = 0;
    for (int r = 0; t->gradients && r < t->world; r++) bytes += ls_snapshot_bytes(t->gradients[r]);
    for (int i = 0; i < t->module_count; i++) bytes += ls_snapshot_bytes(ls_state_dict(t->modules[i]));
    for (int i = 0; i < t->optim_count; i++) bytes += ls_snapshot_bytes(ls_optim_state_dict(t->optims[i]));
    for (const ls_custom *c = t->customs; c; c = c->next) bytes += ls_snapshot_bytes(c->opts.tensors);
    char name[LS_FILE_NAME];
    bool ok = !ls_failed(t->run) && ls_snapshot_reserve(s, bytes);
    for (int i = 0; ok && i < t->module_count; i++)
        ok = ls_snapshot_add_tensors(s, ls_file_numbered(name, "model", i, ".safetensors"),
                                     ls_state_dict(t->modules[i]));
    for (int i = 0; ok && i < t->optim_count; i++)
        ok = ls_snapshot_add_tensors(s, ls_file_numbered(name, "optimizer", i, ".safetensors"),
                                     ls_optim_state_dict(t->optims[i]));
    for (int r = 0; ok && t->gradients && r < t->world; r++)
        ok = ls_snapshot_add_tensors(s, ls_file_numbered(name, LS_GRADIENTS, r, ".safetensors"), t->gradients[r]);
    return ok;
}

bool ls_training_collect(const ls_training *t, ls_snapshot *s)
{
    s->manifest = (ls_manifest){
        .epoch = t->epoch,
        .step = t->optim_count ? ls_optim_steps_taken(t->optims[0]) : 0,
        .world = t->world,
        .modules = t->module_count,
        .optims = t->optim_count,
        .schedules = t->schedule_count,
        .loaders = t->loader_count,
    };
    bool ok = collect_tensors(t, s) && collect_optims(t, s) && collect_schedules(t, s) && collect_loaders(t, s) &&
              collect_randoms(t, s) && collect_scaler(t, s) && collect_accumulation(t, s) && ls_settings_collect(t, s);
    for (const ls_custom *c = t->customs; ok && c; c = c->next) ok = collect_custom(c, s);
    return ok;
}
