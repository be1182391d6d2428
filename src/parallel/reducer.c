/* reducer.c - the tensors that processes train together: collect, compare and synchronise them. */
#include "parallel/reducer.h"

#include <stdio.h>
#include <string.h>

#include "autograd/tape.h"
#include "base/memory.h"
#include "parallel/inside.h"

/* ---- creating and freeing ---- */

ls_reducer *ls_reducer_new(ls_run *run, ls_comm *comm, ls_reducer_opts opts)
{
    ls_message why = {{0}};
    ls_reducer *p = ls_sys_alloc(sizeof *p);
    if (!p) return ls_fail(&run->errors, LS_ERR_MEMORY, "ls_prepare: no memory"), NULL;
    p->run = run;
    p->opts = opts;
    p->counts = ls_sys_alloc((size_t)comm->size * sizeof *p->counts);
    p->weights = ls_sys_alloc((size_t)comm->size * sizeof *p->weights);
    bool room = p->counts && p->weights;
    if (!room) ls_message_set(&why, "no memory");
    /* A communicator of its own, so that calls of the run do not interleave. */
    ls_comm *own = room ? comm->table->split(comm, 0, comm->rank, &why) : NULL;
    if (own) p->queue = ls_comm_queue_new(own, &opts.workers, &why);
    if (p->queue) return p;
    ls_fail(&run->errors, LS_ERR_PEER, "ls_prepare: %s", why.text);
    ls_reducer_free(p);
    return NULL;
}

/* Release tensors: all, or those with no other owner. */
static void release_tensors(ls_reducer *p, bool all)
{
    int kept = 0;
    for (int i = 0; i < p->slot_count; i++) {
        ls_slot *slot = p->slots[i];
        if (!all && slot->tensor->refs > 1) {
            slot->index = kept;
            p->slots[kept++] = slot;
            continue;
        }
        ls_leaf_watch(slot->tensor, NULL, NULL);
        ls_release(slot->tensor);
        ls_sys_free(slot->name);
        ls_sys_free(slot);
    }
    p->slot_count = kept;
    kept = 0;
    ls_buffers_unpack(p);
    for (int i = 0; i < p->buffer_count; i++) {
        ls_tensor *t = p->buffers[i];
        if (all || t->refs == 1) {
            ls_release(t);
            continue;
        }
        p->buffers[kept++] = t;
    }
    p->buffer_count = kept;
    ls_buckets_free(p);
}

void ls_reducer_clear(ls_reducer *p)
{
    if (p) release_tensors(p, true);
}

void ls_reducer_reset(ls_reducer *p)
{
    if (p) ls_comm_reset(ls_reducer_comm(p));
}

void ls_reducer_free(ls_reducer *p)
{
    if (!p) return;
    ls_comm_queue_free(p->queue);
    release_tensors(p, true);
    ls_release(p->compressed);
    ls_sys_free(p->slots);
    ls_sys_free(p->order);
    ls_sys_free(p->completed);
    for (int i = 0; i < 2; i++) ls_sys_free(p->notices[i].bytes);
    ls_sys_free(p->blocks);
    ls_sys_free(p->counts);
    ls_sys_free(p->weights);
    ls_sys_free(p->buffers);
    ls_sys_free(p);
}

ls_comm *ls_reducer_comm(ls_reducer *p)
{
    return ls_comm_queue_comm(p->queue);
}

bool ls_reducer_check(ls_reducer *p, ls_status status, const ls_message *why, const char *who)
{
    if (status == LS_OK) return true;
    ls_fail(&p->run->errors, status, "%s: %s", who, why->text);
    return false;
}

void ls_reducer_call_off(ls_reducer *p)
{
    ls_comm *comm = ls_reducer_comm(p);
    if (p->run->tolerates_out_of_memory && p->run->errors.code == LS_ERR_MEMORY) comm->table->cancel(comm);
    else comm->table->abort(comm, p->run->errors.message);
}

/* ---- comparing ---- */

/* One line per tensor: name, type, shape, whether it is trained. Freed by the caller; NULL: out of memory. */
static char *describe(const ls_state *tensors)
{
    size_t room = 1, used = 0;
    for (int64_t i = 0; i < tensors->count; i++) room += strlen(tensors->entries[i].name) + LS_TEXT + 16;
    char *text = ls_sys_alloc(room);
    for (int64_t i = 0; text && i < tensors->count; i++) {
        const ls_tensor *t = tensors->entries[i].tensor;
        used += (size_t)snprintf(text + used, room - used, "%s %s%s\n", tensors->entries[i].name,
                                 ls_operand_text(&t->view, (char[LS_TEXT]){0}), ls_requires_grad(t) ? "" : " frozen");
    }
    return text;
}

/* Report the first line in which two descriptions differ. */
static void report_difference(ls_reducer *p, const char *here, const char *there, int rank)
{
    size_t line = 0, i = 0;
    for (; here[i] && here[i] == there[i]; i++)
        if (here[i] == '\n') line = i + 1;
    int mine = (int)strcspn(here + line, "\n"), other = (int)strcspn(there + line, "\n");
    ls_fail(&p->run->errors, LS_ERR_SHAPE, "ls_prepare: models differ: rank 0 has %.*s, rank %d has %.*s",
            other ? other : 7, other ? there + line : "nothing", rank, mine ? mine : 7, mine ? here + line : "nothing");
}

static bool same_everywhere(ls_reducer *p, const ls_state *tensors)
{
    ls_comm *comm = ls_reducer_comm(p);
    ls_message why = {{0}};
    char *here = describe(tensors), *there = NULL;
    uint64_t bytes = here ? strlen(here) + 1 : 0;
    ls_status status = ls_comm_broadcast(comm, &bytes, sizeof bytes, 0, "ls_prepare", &why);
    if (!status && (there = ls_sys_alloc(bytes + 1))) {
        if (comm->rank == 0 && here) memcpy(there, here, bytes);
        status = ls_comm_broadcast(comm, there, bytes, 0, "ls_prepare", &why);
    }
    bool ok = ls_reducer_check(p, status, &why, "ls_prepare");
    if (ok && (!here || !there)) ls_fail(&p->run->errors, LS_ERR_MEMORY, "ls_prepare: no memory to compare models");
    else if (ok && strcmp(here, there) != 0) report_difference(p, here, there, comm->rank);
    ls_sys_free(here);
    ls_sys_free(there);
    if (ls_failed(p->run)) ls_reducer_call_off(p);
    return ok && !ls_failed(p->run);
}

/* ---- collecting ---- */

static bool holds(const ls_reducer *p, const ls_tensor *t)
{
    for (int i = 0; i < p->slot_count; i++)
        if (p->slots[i]->tensor == t) return true;
    for (int i = 0; i < p->buffer_count; i++)
        if (p->buffers[i] == t) return true;
    return false;
}

/* Make room for `more` slots and buffers in all arrays. */
static bool make_room(ls_reducer *p, int64_t more)
{
    size_t slots = (size_t)(p->slot_count + more), buffers = (size_t)(p->buffer_count + more);
    void *grown;
#define GROW(array, count)                                                                                             \
    if (!(grown = ls_sys_realloc(p->array, (count) * sizeof *p->array))) return false;                                 \
    p->array = grown;
    GROW(slots, slots)
    GROW(order, slots)
    GROW(completed, slots)
    GROW(notices[0].bytes, ls_notice_bytes(slots))
    GROW(notices[1].bytes, ls_notice_bytes(slots))
    GROW(buffers, buffers)
#undef GROW
    return true;
}

static bool add_slot(ls_reducer *p, const char *name, ls_tensor *t)
{
    ls_slot *slot = ls_sys_alloc(sizeof *slot);
    char *copy = ls_text_copy(p->run, name);
    if (!slot || !copy) return ls_sys_free(slot), ls_sys_free(copy), false;
    *slot = (ls_slot){.reducer = p, .tensor = ls_retain(t), .name = copy, .index = p->slot_count, .bucket = -1};
    p->slots[p->slot_count++] = slot;
    ls_leaf_watch(t, ls_slot_ready, slot);
    return true;
}

static bool add_tensors(ls_reducer *p, const ls_state *parameters, const ls_state *tensors)
{
    for (int64_t i = 0; i < parameters->count; i++) {
        const ls_state_entry *e = &parameters->entries[i];
        if (!holds(p, e->tensor) && !add_slot(p, e->name, e->tensor)) return false;
    }
    for (int64_t i = 0; i < tensors->count; i++) {
        ls_tensor *t = tensors->entries[i].tensor;
        if (holds(p, t)) continue;
        p->buffers[p->buffer_count++] = ls_retain(t);
    }
    return true;
}

/* All trained tensors must be on one device, where buckets and buffers are packed; counters may stay on the host. */
static bool on_one_device(ls_reducer *p, const ls_state *tensors)
{
    bool beside = !ls_device_is_host(p->run->device);
    if (!p->slot_count && !p->buffer_count) p->device = NULL;
    for (int64_t i = 0; i < tensors->count; i++) {
        const ls_tensor *t = tensors->entries[i].tensor;
        ls_device *device = t->storage->device;
        if (beside && ls_device_is_host(device) && !ls_dtype_is_float(t->view.dtype)) continue;
        if (!p->device) p->device = device;
        if (p->device == device) continue;
        ls_fail(&p->run->errors, LS_ERR_UNSUPPORTED,
                "ls_prepare: %s is on device %s, other tensors are on %s; each process trains on one device",
                tensors->entries[i].name, device->name, p->device->name);
        return false;
    }
    return true;
}

bool ls_reducer_add(ls_reducer *p, const ls_state *parameters, const ls_state *tensors)
{
    if (!same_everywhere(p, tensors)) return false;
    release_tensors(p, false);
    if (!on_one_device(p, tensors)) return false;
    if (!make_room(p, tensors->count + 1) || !add_tensors(p, parameters, tensors)) {
        ls_fail(&p->run->errors, LS_ERR_MEMORY, "ls_prepare: no memory");
        return false;
    }
    /* Guess that layers nearest to the loss come first; a backward pass will tell. */
    for (int i = 0; i < p->slot_count; i++) p->order[i] = p->slot_count - 1 - i;
    p->ordered = false;
    ls_buckets_free(p);
    for (int64_t i = 0; i < tensors->count; i++)
        if (!ls_reducer_send(p, &tensors->entries[i].tensor, 1, 0, "ls_prepare")) return false;
    return true;
}

bool ls_reducer_trains(const ls_reducer *p)
{
    return p && p->slot_count;
}
