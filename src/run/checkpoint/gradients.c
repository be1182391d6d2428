/* gradients.c - collect partially accumulated gradients on the main process, which writes the checkpoint. */
#include "run/checkpoint/gradients.h"

#include <stdio.h>
#include <string.h>

#include "autograd/tape.h"
#include "base/memory.h"
#include "run/across.h"
#include "run/prepare.h"
#include "tensor/exchange.h"

static const char who[] = "ls_save_state";

static bool holds_tensor(const ls_state *list, const ls_tensor *t)
{
    for (int64_t i = 0; i < list->count; i++)
        if (list->entries[i].tensor == t) return true;
    return false;
}

/* Parameters of prepared modules that collect gradients; one shared by several modules is listed once. */
static ls_state *list_trained(ls_run *run)
{
    ls_state *list = ls_state_new(run);
    int at = 0, module = 0;
    for (ls_object *o; list && (o = ls_prepared_next(run, LS_OBJECT_MODULE, &at)); module++) {
        const ls_state *parameters = ls_parameters((ls_module *)o);
        for (int64_t p = 0; p < ls_state_count(parameters); p++) {
            ls_tensor *t = ls_state_tensor(parameters, p);
            char name[1024];
            snprintf(name, sizeof name, "%d.%s", module, ls_state_name(parameters, p));
            if (ls_requires_grad(t) && !holds_tensor(list, t)) ls_state_add(list, name, t);
        }
    }
    return list;
}

/* ---- the parts of all ranks ---- */

typedef struct gathering {
    ls_run *run;
    const ls_state *trained;
    const ls_gathered *held; /* [rank][parameter]: has a gradient */
    ls_state **parts;
} gathering;

static bool is_held_by(const gathering *g, int rank, int64_t i)
{
    return ((const uint8_t *)g->held->data[rank])[i];
}

static bool is_held(const gathering *g, int64_t i)
{
    for (int r = 0; r < g->held->count; r++)
        if (is_held_by(g, r, i)) return true;
    return false;
}

/* Gradient i of every rank to the main one, into its own block. */
static bool gather_one(const gathering *g, int64_t i)
{
    ls_run *run = g->run;
    ls_tensor *gradient = ls_leaf_room(g->trained->entries[i].tensor), *all = NULL;
    if (!gradient) return false;
    ls_shape shape = ls_shape_of(gradient);
    ls_dtype dtype = gradient->view.dtype;
    int64_t numel = ls_shape_numel(shape);
    size_t bytes = (size_t)numel * ls_dtype_size(dtype);
    ls_device *device = gradient->storage->device;
    ls_tensor *mine = ls_raw_contiguous(gradient);
    if (ls_is_main(run)) all = ls_tensor_new(run, device, dtype, LS_SHAPE(g->held->count, numel));
    if (!ls_session_of(run)) return false;
    ls_message why = {{0}};
    ls_comm_call call = {.kind = LS_COMM_GATHER, .dtype = dtype, .count = numel, .in = mine->view.data, .site = who};
    call.out = all ? all->view.data : NULL;
    ls_status status = ls_comm_run_on(run->comm, device, &call, &why);
    if (status) ls_fail(&run->errors, status, "%s: %s", who, why.text);
    for (int r = 0; !status && all && r < g->held->count; r++) {
        if (!is_held_by(g, r, i)) continue;
        ls_tensor *part = ls_tensor_over(run, all->storage, (char *)all->view.data + (size_t)r * bytes, dtype, shape);
        ls_state_add(g->parts[r], g->trained->entries[i].name, part);
    }
    return !ls_failed(run);
}

static bool gather_all(const gathering *g)
{
    ls_mark mark = ls_scope_begin(g->run);
    bool ok = true;
    for (int64_t i = 0; ok && i < g->trained->count; i++) ok = !is_held(g, i) || gather_one(g, i);
    ls_scope_end(g->run, mark, NULL);
    return ok;
}

/* A single process lists the gradients themselves. */
static bool list_own(const gathering *g)
{
    for (int64_t i = 0; i < g->trained->count; i++)
        if (is_held(g, i))
            ls_state_add(g->parts[0], g->trained->entries[i].name, ls_leaf_grad(g->trained->entries[i].tensor));
    return !ls_failed(g->run);
}

/* ---- presence ---- */

/* Which gradients each rank holds; count is 0 after a failure. */
static ls_gathered gather_held(ls_run *run, const ls_state *trained)
{
    int64_t count = ls_state_count(trained);
    uint8_t *mine = ls_sys_alloc((size_t)count + 1);
    if (!mine) ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory", who);
    for (int64_t i = 0; mine && i < count; i++)
        mine[i] = !run->step->accumulation.sync && ls_leaf_holds(trained->entries[i].tensor);
    ls_gathered held = ls_gather_bytes(run, mine, (size_t)count, who);
    ls_sys_free(mine);
    for (int r = 0; r < held.count; r++) {
        if (held.size[r] == (size_t)count) continue;
        ls_fail(&run->errors, LS_ERR_STATE,
                "%s: %lld parameters are trained here, but %lld in process %d: freeze the same", who, (long long)count,
                (long long)held.size[r], r);
        return (ls_gathered){0};
    }
    return held;
}

static ls_state **lists_new(ls_run *run)
{
    ls_state **parts = ls_sys_alloc((size_t)ls_world_size(run) * sizeof *parts);
    if (!parts) ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory", who);
    for (int r = 0; parts && r < ls_world_size(run); r++) parts[r] = ls_state_new(run);
    return parts;
}

bool ls_gradients_collect(ls_run *run, ls_state ***parts)
{
    *parts = NULL;
    ls_state *trained = list_trained(run);
    ls_gathered held = gather_held(run, trained);
    gathering g = {run, trained, &held, NULL};
    bool any = false;
    for (int64_t i = 0; held.count && !any && i < trained->count; i++) any = is_held(&g, i);
    if (any) *parts = g.parts = lists_new(run);
    bool ok = held.count && !ls_failed(run) && (!any || (held.count > 1 ? gather_all(&g) : list_own(&g)));
    ls_state_free(trained);
    return ok;
}

void ls_gradients_collect_end(ls_run *run, ls_state **parts)
{
    for (int r = 0; parts && r < ls_world_size(run); r++) ls_state_free(parts[r]);
    ls_sys_free(parts);
}
