/* prepare.c - register the objects that a run trains and reads, in any order. */
#include "run/prepare.h"

#include <stdio.h>

#include "base/list.h"
#include "base/memory.h"
#include "data/loader/loader.h"
#include "nn/module.h"
#include "optim/optim.h"
#include "run/alike.h"
#include "step/remind.h"

/* Describe an unexpected argument without dereferencing it: it may be anything. */
static const char *describe(const ls_run *run, const void *argument)
{
    if (!argument) return "is NULL";
    if (ls_ring_holds(&run->tensors, argument)) return "is a tensor";
    for (const ls_run *other = ls_run_of(NULL); other; other = other->earlier)
        for (const ls_object *o = other->objects; o; o = o->older)
            if (o == argument) return "belongs to another run";
    return "is not an object of this run";
}

static ls_object *find(const ls_run *run, const void *argument)
{
    for (ls_object *o = run->objects; o; o = o->older)
        if (o == argument) return o;
    return NULL;
}

static bool can_be_prepared(ls_object_kind kind)
{
    return kind == LS_OBJECT_MODULE || kind == LS_OBJECT_OPTIM || kind == LS_OBJECT_SCHEDULE ||
           kind == LS_OBJECT_LOADER;
}

/* If a freed object's memory was reused for this one, its old entry in the list now refers to this one. */
static void forget_freed(ls_session *session, const ls_object *object)
{
    int kept = 0;
    for (int i = 0; i < session->prepared_count; i++)
        if (session->prepared[i] != object) session->prepared[kept++] = session->prepared[i];
    session->prepared_count = kept;
}

static bool add(ls_run *run, ls_object *object)
{
    ls_session *session = run->session;
    if (object->prepared) return true;
    forget_freed(session, object);
    if (session->prepared_count == session->prepared_capacity) {
        int capacity = session->prepared_capacity ? session->prepared_capacity * 2 : 8;
        ls_object **grown = ls_sys_realloc(session->prepared, (size_t)capacity * sizeof *grown);
        if (!grown) return ls_fail(&run->errors, LS_ERR_MEMORY, "ls_prepare: no memory"), false;
        session->prepared = grown;
        session->prepared_capacity = capacity;
    }
    session->prepared[session->prepared_count++] = object;
    object->prepared = true;
    if (object->kind == LS_OBJECT_MODULE) return ls_together_module(run, (ls_module *)object);
    if (object->kind != LS_OBJECT_LOADER) return true;
    return ls_together_loader(run, (ls_loader *)object) && ls_loader_share_out((ls_loader *)object, run->step->share);
}

/* Place parameters, gradients and moments in blocks now, while no batch is in memory: the first one then reuses the
 * memory that parameters leave behind. Processes may share the block of gradients. */
static void lay_out_optims(ls_run *run)
{
    int at = 0;
    for (ls_object *o; (o = ls_prepared_next(run, LS_OBJECT_OPTIM, &at)) && !ls_failed(run);)
        ls_optim_lay_out((ls_optim *)o);
}

void ls_prepare_n(ls_run *run, void *const *objects, int64_t count)
{
    if (!ls_session_of(run) || !ls_list_is_sound(&run->errors, "ls_prepare", "objects", objects, count)) return;
    /* Check all before registering any. */
    for (int64_t i = 0; i < count; i++) {
        const ls_object *object = find(run, objects[i]);
        if (object && can_be_prepared(object->kind)) continue;
        ls_fail(&run->errors, LS_ERR_VALUE,
                "ls_prepare: argument %d of %d %s; expected modules, optimisers, schedules and loaders", (int)i + 1,
                (int)count, object ? "cannot be prepared" : describe(run, objects[i]));
        return;
    }
    int taken = 0;
    for (int64_t i = 0; i < count; i++) {
        taken += !((const ls_object *)objects[i])->prepared;
        if (!add(run, objects[i])) return;
    }
    if (ls_prepared_alike(run, run->session->prepared_count - taken)) lay_out_optims(run);
}

void ls_look_for_full_precision(ls_run *run)
{
    run->step->full_precision_forwards = false;
    for (ls_object *o = run->objects; o; o = o->older) {
        ls_module *module = (ls_module *)o;
        if (o->kind != LS_OBJECT_MODULE || !module->in_full_precision) continue;
        module->in_full_precision = false;
        if (!o->prepared && ls_module_has_gradients(module))
            ls_remind_of_prepare(run, LS_REMIND_PRECISION, "mixed precision is %s, but %s is trained in f32",
                                 ls_dtype_name(run->step->mixed_precision), module->name ? module->name : module->kind);
    }
}

ls_object *ls_prepared_next(const ls_run *run, ls_object_kind kind, int *position)
{
    const ls_session *session = run->session;
    while (*position < session->prepared_count) {
        ls_object *object = find(run, session->prepared[(*position)++]); /* may have been freed */
        if (object && object->prepared && object->kind == kind) return object;
    }
    return NULL;
}

void ls_free_memory(ls_run *run)
{
    ls_session *session = ls_session_of(run);
    if (!session) return;
    for (ls_object *o = run->objects; o; o = o->older) {
        o->prepared = false;
        o->forgotten = true;
    }
    session->prepared_count = 0;
    ls_together_end(run);
    run->step->accumulation.step = 0;
    run->step->accumulation.sync = true;
    run->step->accumulation.last_batch = 0;
    for (ls_device *d = run->devices; d; d = d->next) ls_pool_trim(d->pool);
}
