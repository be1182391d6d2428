/* handle.c - handles, storage and scopes: who owns what, and when it is freed. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "device/gpus.h"
#include "tensor/context.h"

/* ---- handles ---- */

enum { HANDLE_STRIDE = 256 };
_Static_assert(sizeof(ls_tensor) <= HANDLE_STRIDE, "handles are cut from pages");

static bool is_living(const void *handle)
{
    return ((const ls_tensor *)handle)->life == LS_LIFE_LIVE;
}

ls_ring ls_handles_ring(void)
{
    return (ls_ring){.stride = HANDLE_STRIDE, .is_living = is_living};
}

ls_tensor *ls_handle_new_owned(ls_run *run)
{
    ls_tensor *t = ls_ring_take(&run->tensors);
    if (!t) return ls_fail(&run->errors, LS_ERR_MEMORY, "no memory for a tensor handle"), NULL;
    t->run = run;
    t->storage = NULL;
    t->node = t->frozen_leaf = NULL;
    t->view.derived = NULL;
    t->output = 0;
    t->refs = 1;
    t->life = LS_LIFE_LIVE;
    t->is_leaf = t->is_gradient = false;
    t->name = NULL;
    t->scope = 0;
    t->next = t->previous = NULL;
    return t;
}

static void enter_scope(ls_scope *scope, ls_tensor *t)
{
    t->scope = scope->serial;
    t->previous = NULL;
    t->next = scope->first;
    if (scope->first) scope->first->previous = t;
    scope->first = t;
}

static ls_scope *scope_of(ls_run *run, const ls_tensor *t)
{
    for (int32_t i = run->scope_count; i-- > 0;)
        if (run->scopes[i].serial == t->scope) return &run->scopes[i];
    return NULL;
}

static void leave_scope(ls_run *run, ls_tensor *t)
{
    if (t->previous) t->previous->next = t->next;
    else {
        ls_scope *scope = scope_of(run, t);
        if (scope) scope->first = t->next;
    }
    if (t->next) t->next->previous = t->previous;
    t->next = t->previous = NULL;
    t->scope = 0;
}

ls_tensor *ls_handle_new(ls_run *run)
{
    ls_tensor *t = ls_handle_new_owned(run);
    if (t) enter_scope(&run->scopes[run->scope_count - 1], t);
    return t;
}

void ls_handle_to_scope(ls_run *run, ls_tensor *owned)
{
    enter_scope(&run->scopes[run->scope_count - 1], owned);
}

static void die(ls_tensor *t, ls_life why)
{
    ls_run *run = t->run;
    t->life = why;
    if (t->node) {
        if (t->is_leaf) ls_leaf_forget(t->node);
        ls_node_release(run, t->node);
        t->node = NULL;
    }
    if (t->frozen_leaf) {
        ls_leaf_forget(t->frozen_leaf);
        ls_node_release(run, t->frozen_leaf);
        t->frozen_leaf = NULL;
    }
    if (t->storage) ls_storage_hide(t);
    ls_ring_give(&run->tensors, t);
}

static inline void drop_reference(ls_tensor *t, ls_life why)
{
    if (--t->refs == 0) die(t, why);
}

void ls_release(ls_tensor *t)
{
    if (t) drop_reference(t, LS_LIFE_RELEASED);
}

/* ---- storage ---- */

ls_storage *ls_storage_new(ls_run *run, ls_device *device, size_t bytes)
{
    ls_storage *storage = ls_slab_take(&run->storages);
    if (!storage) return ls_fail(&run->errors, LS_ERR_MEMORY, "no memory for a tensor's storage record"), NULL;
    *storage = (ls_storage){.refs = 1, .device = device};
    if (bytes) {
        storage->block = ls_pool_take(device->pool, bytes);
        if (!storage->block) {
            ls_pool_stats stats = ls_pool_get_stats(device->pool);
            if (stats.odd)
                ls_fail(&run->errors, LS_ERR_DEVICE,
                        "device %s allocated memory at %p, not a multiple of %u bytes: its plug-in must align what it "
                        "allocates",
                        device->name, stats.odd, LS_POOL_ALIGN);
            else
                ls_fail(&run->errors, LS_ERR_MEMORY,
                        "device %s is out of memory: %zu bytes needed (%zu in use, %zu cached); use a smaller batch",
                        device->name, bytes, stats.in_use, stats.cached);
            ls_slab_give(&run->storages, storage);
            return NULL;
        }
    }
    return storage;
}

ls_storage *ls_storage_wrap(ls_run *run, ls_device *device, ls_memory_release_fn *release, void *user)
{
    ls_storage *storage = ls_storage_new(run, device, 0);
    if (!storage) return NULL;
    storage->release = release;
    storage->user = user;
    return storage;
}

ls_storage *ls_storage_part(ls_run *run, ls_storage *whole)
{
    ls_storage *part = ls_storage_new(run, whole->device, 0);
    if (!part) return NULL;
    part->whole = whole;
    whole->refs++;
    return part;
}

void ls_storage_enter(ls_storage *storage, ls_derived *derived)
{
    derived->next = storage->derived;
    storage->derived = derived;
}

bool ls_storage_leave(ls_storage *storage, ls_derived *derived)
{
    ls_derived **at = &storage->derived;
    while (*at && *at != derived) at = &(*at)->next;
    const bool found = *at;
    if (found) *at = derived->next;
    return found;
}

void ls_storage_release(ls_run *run, ls_storage *storage)
{
    if (--storage->refs > 0) return;
    if (storage->block) ls_pool_give(storage->device->pool, storage->block);
    if (storage->release) storage->release(storage->user);
    if (storage->whole) ls_storage_release(run, storage->whole);
    ls_slab_give(&run->storages, storage);
}

void ls_storage_show(ls_storage *storage, ls_tensor *t)
{
    t->storage = storage;
    t->previous_shown = NULL;
    t->next_shown = storage->handles;
    if (storage->handles) storage->handles->previous_shown = t;
    storage->handles = t;
}

void ls_storage_hide(ls_tensor *t)
{
    ls_storage *storage = t->storage;
    if (t->next_shown) t->next_shown->previous_shown = t->previous_shown;
    if (t->previous_shown) t->previous_shown->next_shown = t->next_shown;
    else storage->handles = t->next_shown;
    t->storage = NULL;
    ls_storage_release(t->run, storage);
}

ls_device *ls_device_named(ls_run *run, const char *name)
{
    if (run->device && ls_device_answers(run->device, name)) return run->device;
    for (ls_device *d = run->devices; d; d = d->next)
        if (ls_device_answers(d, name)) return d;
    ls_status status;
    ls_message why = {{0}};
    ls_device *device = ls_device_open(name, run->peers, &status, &why);
    if (!device) {
        ls_fail(&run->errors, status, "%s", why.text);
        return NULL;
    }
    device->next = run->devices;
    run->devices = device;
    return device;
}

/* ---- scopes ---- */

static bool scope_push(ls_run *run)
{
    if (run->scope_count == run->scope_capacity) {
        int32_t capacity = run->scope_capacity ? run->scope_capacity * 2 : 32;
        ls_scope *scopes = ls_sys_realloc(run->scopes, (size_t)capacity * sizeof *scopes);
        if (!scopes) return ls_fail(&run->errors, LS_ERR_MEMORY, "no memory for a scope"), false;
        run->scopes = scopes;
        run->scope_capacity = capacity;
    }
    run->scopes[run->scope_count++] = (ls_scope){.serial = ++run->scope_serial};
    return true;
}

static void empty_scope(ls_scope *scope)
{
    for (ls_tensor *t; (t = scope->first);) {
        scope->first = t->next;
        if (t->next) t->next->previous = NULL;
        t->next = t->previous = NULL;
        t->scope = 0; /* a list or module may still hold it */
        drop_reference(t, LS_LIFE_ENDED);
    }
}

/* A mark is the low bits of a scope's serial number: that of a closed scope matches no other, even in its place. */
static ls_mark mark_of(uint64_t serial)
{
    return (ls_mark)(serial & INT32_MAX);
}

ls_mark ls_scope_begin(ls_run *run)
{
    return scope_push(run) ? mark_of(run->scope_serial) : 0;
}

/* Close the scopes from this position in the stack on. */
static void close_from(ls_run *run, int32_t place)
{
    while (run->scope_count > place) {
        empty_scope(&run->scopes[run->scope_count - 1]);
        run->scope_count--;
    }
}

void ls_scope_end_n(ls_run *run, ls_mark mark, int n, ls_tensor *const *escape)
{
    int32_t place = run->scope_count - 1;
    while (place > 0 && mark_of(run->scopes[place].serial) != mark) place--;
    if (place < 1) { /* scope 0 is the run's own and closes with it */
        ls_fail(&run->errors, LS_ERR_STATE,
                "ls_scope_end: no open scope has mark %d: it was ended before, by itself or by a scope around it, or "
                "does not come from ls_scope_begin",
                mark);
        return;
    }
    uint64_t closes = run->scopes[place].serial;
    unsigned moved = 0;
    for (int i = 0; i < n; i++) {
        ls_tensor *t = escape[i];
        if (!t || t->life != LS_LIFE_LIVE || t->scope < closes) continue;
        leave_scope(run, t);
        moved |= 1u << i;
    }
    close_from(run, place);
    for (int i = 0; moved >> i; i++)
        if (moved >> i & 1) enter_scope(&run->scopes[place - 1], escape[i]);
}

ls_tensor *ls_scope_end(ls_run *run, ls_mark mark, ls_tensor *escape)
{
    ls_scope_end_n(run, mark, escape != NULL, &escape);
    return escape;
}

void ls_scopes_close(ls_run *run)
{
    close_from(run, 1);
}

uint64_t ls_scope_open(ls_run *run, const char *label)
{
    if (!scope_push(run)) return 0;
    ls_scope *scope = &run->scopes[run->scope_count - 1];
    scope->label = label;
    return scope->serial;
}

void ls_scope_close(ls_run *run, uint64_t serial)
{
    int32_t at = run->scope_count;
    while (at > 0 && run->scopes[at - 1].serial > serial) at--;
    if (at == 0 || run->scopes[--at].serial != serial) return;
    bool labelled_above = false;
    for (int32_t i = at + 1; i < run->scope_count; i++) labelled_above |= run->scopes[i].label != NULL;
    if (!labelled_above) {
        close_from(run, at);
        return;
    }
    empty_scope(&run->scopes[at]);
    memmove(&run->scopes[at], &run->scopes[at + 1], (size_t)(run->scope_count - at - 1) * sizeof *run->scopes);
    run->scope_count--;
}

ls_tensor *ls_keep(ls_tensor *t)
{
    ls_run *run = ls_run_of(t);
    if (!ls_check_live(run, t, "ls_keep")) return &run->poison;
    if (t->scope == run->scopes[0].serial) return t;
    if (t->scope) leave_scope(run, t); /* its reference moves along */
    else ls_retain(t);
    enter_scope(&run->scopes[0], t);
    return t;
}

void ls_drop(ls_tensor *t)
{
    ls_run *run = ls_run_of(t);
    if (t && t->life == LS_LIFE_POISON) return;
    if (!ls_check_live(run, t, "ls_drop") || !t->scope) return; /* without a scope a list or module owns it */
    leave_scope(run, t);
    drop_reference(t, LS_LIFE_DROPPED);
}

/* ---- misuse ---- */

_Thread_local char ls_thread_here;
static _Thread_local ls_run *latest_run;
static atomic_int runs_alive;

void ls_run_begun(ls_run *run)
{
    run->earlier = latest_run;
    run->thread = &ls_thread_here;
    latest_run = run;
    atomic_fetch_add(&runs_alive, 1);
}

void ls_run_ended(ls_run *run)
{
    ls_run **at = &latest_run;
    while (*at && *at != run) at = &(*at)->earlier;
    if (!*at) return;
    *at = run->earlier;
    atomic_fetch_sub(&runs_alive, 1);
}

void ls_run_changes_thread(ls_run *run)
{
    enum { HANDED_OVER = 64 }; /* changes allowed for hand-overs; two concurrent threads exceed it at once */
    run->thread = &ls_thread_here;
    if (++run->thread_changes != HANDED_OVER + 1) return;
    ls_log_line(LS_LOG_WARN, "several threads call operators of one run, which belongs to one of them: if two do so "
                             "at the same time, results and memory are corrupted; ls_init() a run for each thread");
}

int ls_runs_alive(void)
{
    return atomic_load(&runs_alive);
}

/* Stand-in for threads without a run. It has failed already, so nothing is done in it or written to it. */
static ls_run no_run = {.errors = {.code = LS_ERR_STATE, .message = "this thread has no run; ls_init() makes one"},
                        .poison = {.run = &no_run, .life = LS_LIFE_POISON, .view.dtype = LS_F32}};

/* The address of a forgotten handle still identifies its run. */
static ls_run *fallback_run(const ls_tensor *t)
{
    for (ls_run *run = latest_run; t && run; run = run->earlier)
        if (ls_ring_holds(&run->tensors, t)) return run;
    if (latest_run) return latest_run;
    LS_LOG_ONCE(LS_LOG_ERROR, "a tensor or object is NULL, or its run has ended, and %s",
                no_run.errors.message); /* no ls_finish() will report it */
    return &no_run;
}

ls_run *ls_run_of(const ls_tensor *t)
{
    return t && t->run ? t->run : fallback_run(t);
}

/* Report which tensor it was and how it ended, as far as its memory still shows. */
static void report_dead_handle(ls_run *run, const ls_tensor *t, const char *who)
{
    static const char *const ends[] = {
        [LS_LIFE_RELEASED] = "was released with its owner; use ls_keep() to keep a tensor",
        [LS_LIFE_ENDED] = "was released when its scope ended; use ls_keep() to keep it",
        [LS_LIFE_DROPPED] = "was freed by ls_drop()",
    };
    int64_t newer = ls_ring_newer(&run->tensors, t);
    char age[64] = "";
    if (newer >= 0) snprintf(age, sizeof age, ", %lld tensors before the latest", (long long)newer);
    if (t->life == LS_LIFE_FORGOTTEN && ls_ring_was_left(&run->tensors, t))
        ls_fail(&run->errors, LS_ERR_SCOPE, "%s: the run of this tensor has ended; no tensor outlives ls_finish()",
                who);
    else if (t->life == LS_LIFE_FORGOTTEN)
        ls_fail(&run->errors, LS_ERR_SCOPE,
                "%s: this tensor was released long ago (it was made%s); use ls_keep() to keep a tensor", who, age);
    else
        ls_fail(&run->errors, LS_ERR_SCOPE, "%s: tensor %s%s%sof shape %s %s", who, t->name ? "\"" : "",
                t->name ? t->name : "", t->name ? "\" " : "",
                ls_shape_text(ls_view_shape(&t->view), (char[LS_TEXT]){0}), ends[t->life]);
}

bool ls_check_live(ls_run *run, const ls_tensor *t, const char *who)
{
    if (t && t->life == LS_LIFE_LIVE) return true;
    if (!t) ls_fail(&run->errors, LS_ERR_VALUE, "%s: the tensor is NULL", who);
    else if (t->life != LS_LIFE_POISON) report_dead_handle(run, t, who);
    else if (t->run != run) ls_fail(&run->errors, LS_ERR_STATE, "%s: the tensor is poison of another run", who);
    return false;
}

bool ls_check_writable(ls_run *run, const ls_tensor *t, const char *who)
{
    if (!ls_check_live(run, t, who)) return false;
    bool repeats = false;
    for (int d = 0; d < t->view.ndim; d++) repeats |= t->view.stride[d] == 0 && t->view.dim[d] > 1;
    if (!repeats || ls_view_numel(&t->view) == 0) return true;
    ls_fail(&run->errors, LS_ERR_VALUE,
            "%s: elements of %s share memory, as ls_expand() makes them; write to the tensor that was expanded, or to "
            "ls_clone() of this one",
            who, ls_operand_text(&t->view, (char[LS_TEXT]){0}));
    return false;
}

char *ls_shape_text(ls_shape shape, char text[LS_TEXT])
{
    size_t used = (size_t)snprintf(text, LS_TEXT, "[");
    for (int d = 0; d < shape.ndim && d < LS_MAX_DIMS && used < LS_TEXT - 24; d++)
        used += (size_t)snprintf(text + used, LS_TEXT - used, "%s%lld", d ? "," : "", (long long)shape.dim[d]);
    snprintf(text + used, LS_TEXT - used, "]");
    return text;
}

char *ls_operand_text(const ls_operand *x, char text[LS_TEXT])
{
    ls_shape_text(ls_view_shape(x), text);
    size_t used = strlen(text);
    snprintf(text + used, LS_TEXT - used, " %s", ls_dtype_name(x->dtype));
    return text;
}
