/* replay.c - segments of the tape that are recomputed in backward. */
#include "autograd/replay.h"

#include <string.h>

#include "base/memory.h"
#include "device/facts.h"

/* Inputs of an operator that have no history: how many tensors, their versions, and, if the host can read them without
 * waiting, the first element of each. */
typedef struct constants {
    int count;
    uint64_t versions, numbers;
} constants;

/* What a segment recorded, in order: nodes and replays inside it. NULL once they are freed. */
typedef struct entry {
    const ls_op_info *op; /* NULL: a replay */
    constants read;
    ls_node *node;
    ls_replay *inner;
} entry;

struct ls_replay {
    ls_run *run;
    int32_t refs;             /* from its nodes, from replays inside it, and from its recorder */
    ls_replay *newer, *older; /* in the list of live replays, or of free ones */
    ls_replay *outer;         /* one reference; NULL: not nested */
    ls_replay *interrupted;   /* while this one is recorded or rerun: the one before */
    int32_t place;            /* index among the entries of the outer */
    ls_replay_fn *again;      /* NULL: its user was freed */
    void *user;
    uint64_t print;

    int32_t n;
    bool has_inputs; /* false: the outer will provide them */
    bool wants[LS_REPLAY_INPUTS];
    ls_tensor *inputs[LS_REPLAY_INPUTS]; /* owned, without history */
    uint64_t version[LS_REPLAY_INPUTS];
    ls_rng_state random;
    ls_dtype autocast;
    char path[sizeof((ls_errors *)NULL)->path];

    entry *entries;
    int32_t count, capacity;
    int32_t next; /* next entry, while it is rerun */
    int32_t odd;  /* the first entry that was called differently then; count: none */
    bool filling; /* it is being rerun */
    bool filled;
};

/* ---- creating and freeing: structs are reused, so that a steady step allocates nothing ---- */

static ls_replay *take(ls_run *run)
{
    ls_replay *r = run->replays.spare;
    if (r) run->replays.spare = r->older;
    else r = ls_sys_alloc(sizeof *r);
    if (!r) return ls_fail(&run->errors, LS_ERR_MEMORY, "no memory for the tape"), NULL;
    entry *entries = r->entries;
    int32_t capacity = r->capacity;
    *r = (ls_replay){.run = run, .refs = 1, .older = run->replays.alive, .entries = entries, .capacity = capacity};
    if (r->older) r->older->newer = r;
    run->replays.alive = r;
    return r;
}

static void drop_inputs(ls_replay *r)
{
    for (int i = 0; r->has_inputs && i < r->n; i++) ls_release(r->inputs[i]);
    r->has_inputs = false;
}

static void release(ls_replay *r)
{
    while (r && --r->refs == 0) {
        ls_run *run = r->run;
        ls_replay *outer = r->outer;
        drop_inputs(r);
        if (outer && outer->entries[r->place].inner == r) outer->entries[r->place].inner = NULL;
        if (r->newer) r->newer->older = r->older;
        else run->replays.alive = r->older;
        if (r->older) r->older->newer = r->newer;
        r->older = run->replays.spare;
        run->replays.spare = r;
        r = outer;
    }
}

void ls_replay_forget(ls_run *run, const void *user)
{
    for (ls_replay *r = run->replays.alive; r; r = r->older)
        if (r->user == user) r->again = NULL;
}

void ls_replay_free_all(ls_run *run)
{
    for (ls_replay *r = run->replays.spare, *next; r; r = next) {
        next = r->older;
        ls_sys_free(r->entries);
        ls_sys_free(r);
    }
    run->replays.spare = NULL;
}

/* ---- the first time ---- */

static entry *append(ls_replay *r)
{
    if (r->count == r->capacity) {
        int32_t capacity = r->capacity ? 2 * r->capacity : 64;
        entry *grown = ls_sys_realloc(r->entries, (size_t)capacity * sizeof *grown);
        if (!grown) return ls_fail(&r->run->errors, LS_ERR_MEMORY, "no memory for the tape"), NULL;
        r->entries = grown;
        r->capacity = capacity;
    }
    r->entries[r->count] = (entry){0};
    return &r->entries[r->count++];
}

static void hold_inputs(ls_replay *r, ls_tensor *const *inputs)
{
    for (int i = 0; i < r->n; i++) {
        bool live = inputs[i] && inputs[i]->life == LS_LIFE_LIVE;
        r->inputs[i] = live ? ls_alias_owned(inputs[i]) : NULL;
        r->version[i] = live ? inputs[i]->storage->version : 0;
    }
    r->has_inputs = true;
}

static void report_other_op(const ls_replay *r, const char *now)
{
    const entry *then = r->next < r->count ? &r->entries[r->next] : NULL;
    const char *first = !then ? "nothing more" : then->op ? then->op->name : "a module that is recomputed";
    ls_fail(&r->run->errors, LS_ERR_STATE,
            "recomputed for its gradients, it did something different (step %d: %s, before it was %s); a forward "
            "function must compute the same from the same inputs",
            (int)r->next, now, first);
}

static void report_other_values(const ls_replay *r, int32_t place, const char *does)
{
    ls_fail(
        &r->run->errors, LS_ERR_STATE,
        "%s, which is recomputed for its gradients, %s different values or sizes than in the forward pass (step %d); "
        "what a forward function uses must not change until ls_backward(): pass it as an input",
        r->entries[place].op->name, does, (int)place);
}

/* Gradients go to the parameters of the first run: the rerun must use the same ones. An input without operator that is
 * not a leaf is an input of the segment. */
static void check_leaves(const ls_node *first, const ls_node *second)
{
    ls_run *run = second->replay->run;
    for (int i = 0; i < first->n_in && i < second->n_in; i++) {
        const ls_node *then = first->in[i].node, *now = second->in[i].node;
        if (!then || !now || then == now) continue;
        if (!now->leaf && (!then->leaf || !now->op)) continue;
        ls_fail(&run->errors, LS_ERR_STATE,
                "%s, which is recomputed for its gradients, takes another tensor as input %d than in the forward "
                "pass (there it was in %s); a forward function must compute the same with the same parameters",
                first->op->name, i, first->site ? first->site : "no module");
        return;
    }
}

/* The recorded entry that corresponds to the current step of the rerun; NULL (and an error) if it is a different
 * one. */
static entry *matching_entry(ls_replay *r, const ls_op_info *op)
{
    entry *then = r->next < r->count ? &r->entries[r->next] : NULL;
    if (then && then->op == op) return r->next++, then;
    report_other_op(r, op ? op->name : "a module that is recomputed");
    return NULL;
}

/* Begin a replay inside another, which will provide its inputs. */
static void nest(ls_replay *r, ls_replay *outer, ls_tensor *const *inputs)
{
    entry *at = outer->filling ? matching_entry(outer, NULL) : append(outer);
    if (!at) return;
    if (!outer->filling) {
        at->inner = r;
        r->outer = outer;
        r->place = outer->count - 1;
        outer->refs++;
    } else if (at->inner && !at->inner->has_inputs && !at->inner->filled) hold_inputs(at->inner, inputs);
}

ls_replay *ls_replay_begin(ls_run *run, ls_replay_fn *again, void *user, uint64_t print, int n,
                           ls_tensor *const *inputs)
{
    if (run->no_grad || ls_failed(run)) return NULL;
    ls_replay *r = take(run), *outer = run->replays.now;
    if (!r) return NULL;
    r->again = again;
    r->user = user;
    r->print = print;
    r->n = n;
    for (int i = 0; i < n; i++) r->wants[i] = inputs[i] && inputs[i]->node;
    r->random = run->random;
    r->autocast = run->autocast_count ? run->autocast[run->autocast_count - 1] : LS_F32;
    memcpy(r->path, run->errors.path, sizeof r->path);
    if (outer) nest(r, outer, inputs);
    else hold_inputs(r, inputs);
    r->interrupted = outer;
    run->replays.now = r;
    return r;
}

void ls_replay_end(ls_replay *r)
{
    r->run->replays.now = r->interrupted;
    release(r);
}

/* ---- nodes ---- */

static uint64_t first_number(const ls_tensor *t)
{
    uint64_t bits = 0;
    if (ls_device_is_host(t->storage->device) && ls_view_numel(&t->view) > 0)
        memcpy(&bits, t->view.data, ls_dtype_size(t->view.dtype));
    return bits;
}

static constants constants_of(int n, ls_tensor *const *in)
{
    constants read = {0};
    for (int i = 0; i < n; i++) {
        if (!in[i] || in[i]->node) continue;
        read.count++;
        read.versions = 31 * read.versions + in[i]->storage->version;
        read.numbers = 31 * read.numbers + first_number(in[i]);
    }
    return read;
}

void ls_replay_record(ls_node *node, ls_tensor *const *in)
{
    ls_replay *r = node->replay;
    r->refs++;
    entry *at = r->filling ? matching_entry(r, node->op) : append(r);
    node->place = at ? (int32_t)(at - r->entries) : -1;
    node->walked = r->run->replays.again > 0; /* the second tape must not be walked, even if a program keeps parts of
                                               * it */
    if (!at) return;
    if (r->filling && at->node && !at->node->walked) check_leaves(at->node, node);
    constants read = constants_of(node->n_in, in);
    memset(&node->attrs, 0, sizeof node->attrs); /* fields set from here on are compared in the rerun */
    memset(node->extra, 0, sizeof node->extra);
    if (r->filling && at->read.count == read.count && at->read.versions != read.versions)
        ls_fail(
            &r->run->errors, LS_ERR_STATE,
            "%s, which is recomputed for its gradients, reads a tensor that was modified in place since the forward "
            "pass: a buffer, or one from outside of the module; change it after ls_backward(), or give the module "
            "a copy (ls_clone)",
            node->op->name);
    else if (r->filling && at->read.count == read.count && at->read.numbers != read.numbers)
        report_other_values(r, node->place, "reads a tensor with");
    if (r->filling) return;
    at->op = node->op;
    at->read = read;
    at->node = node;
}

/* Was the operator called as the first time, with tensors of the same shapes? */
static bool same_call(const ls_node *first, const ls_node *second)
{
    bool same = memcmp(&first->attrs, &second->attrs, ls_op_attrs_size(first->op->code)) == 0 &&
                memcmp(first->extra, second->extra, sizeof first->extra) == 0 && first->n_in == second->n_in;
    for (int i = 0; same && i < first->n_in; i++)
        if (first->in[i].node && second->in[i].node)
            same = first->in[i].dtype == second->in[i].dtype && ls_shape_equal(first->in[i].shape, second->in[i].shape);
    return same;
}

/* A node of the rerun is compared when it is freed: by then its operator has set everything. */
void ls_replay_leave(ls_node *node)
{
    ls_replay *r = node->replay;
    ls_node *first = node->place >= 0 ? r->entries[node->place].node : NULL;
    if (first == node) r->entries[node->place].node = NULL;
    else if (first && r->filling && !first->walked && node->place < r->odd && !same_call(first, node))
        r->odd = node->place;
    release(r);
}

#define NOTHING UINT64_MAX /* the version of a NULL tensor */

/* The first time a node records only the version. In the rerun the tensor goes to the node of the first time. */
void ls_replay_save(ls_node *node, ls_tensor *t)
{
    ls_replay *r = node->replay;
    int slot = node->n_saved++;
    node->saved[slot] = NULL;
    node->saved_version[slot] = t ? t->storage->version : NOTHING;
    if (!r->filling || !t || node->place < 0) return;
    ls_node *first = r->entries[node->place].node;
    if (!first || first->walked || slot >= first->n_saved || first->saved_version[slot] == NOTHING) return;
    ls_release(first->saved[slot]);
    first->saved[slot] = ls_alias_owned(t);
    if (first->saved_version[slot] == t->storage->version) return;
    ls_fail(&r->run->errors, LS_ERR_STATE,
            "%s, which is recomputed for its gradients, needs %s%s%s%s as it was in the forward pass, but it was "
            "modified in place",
            first->op->name, t->name ? "\"" : "", t->name ? t->name : "", t->name ? "\" " : "",
            ls_operand_text(&t->view, (char[LS_TEXT]){0}));
}

/* ---- the rerun ---- */

static bool inputs_untouched(const ls_replay *r)
{
    for (int i = 0; i < r->n; i++) {
        const ls_tensor *t = r->inputs[i];
        if (!t || t->storage->version == r->version[i]) continue;
        ls_fail(&r->run->errors, LS_ERR_STATE,
                "input %d, %s, was modified in place after the forward pass, but is needed to recompute it", i,
                ls_operand_text(&t->view, (char[LS_TEXT]){0}));
        return false;
    }
    return true;
}

/* Does every node have its saved tensors? Not if a different input wants gradients now. */
static bool is_complete(const ls_replay *r)
{
    for (int32_t i = 0; i < r->count; i++) {
        const ls_node *node = r->entries[i].node;
        for (int s = 0; node && s < node->n_saved; s++) {
            if (node->saved[s] || node->saved_version[s] == NOTHING) continue;
            ls_fail(&r->run->errors, LS_ERR_STATE,
                    "recomputed for its gradients, it did something different (step %d: %s has no gradient for "
                    "one of its inputs, but had one); do not freeze or unfreeze parameters before ls_backward()",
                    (int)i, node->op->name);
            return false;
        }
    }
    return true;
}

/* Handles of the inputs that want gradients where the original ones did, so that operators record the same. */
static bool make_inputs(const ls_replay *r, ls_tensor *inputs[LS_REPLAY_INPUTS])
{
    for (int i = 0; i < r->n; i++) {
        inputs[i] = r->inputs[i] ? ls_alias(r->inputs[i]) : NULL;
        if (!inputs[i] || inputs[i]->life != LS_LIFE_LIVE || !r->wants[i]) continue;
        inputs[i]->node = ls_node_blank(r->run);
    }
    return !ls_failed(r->run);
}

static void run_again(ls_replay *r)
{
    ls_run *run = r->run;
    ls_tensor *inputs[LS_REPLAY_INPUTS];
    ls_mark mark = ls_scope_begin(run);
    ls_autocast_begin(run, r->autocast);
    if (make_inputs(r, inputs)) r->again(r->user, r->print, r->n, inputs);
    if (!ls_failed(run) && r->next < r->count) report_other_op(r, "nothing more");
    if (!ls_failed(run)) is_complete(r);
    ls_autocast_end(run);
    ls_scope_end(run, mark, NULL); /* frees the second tape, which compares it */
    if (!ls_failed(run) && r->odd < r->count) report_other_values(r, r->odd, "is given");
}

bool ls_replay_fill(ls_replay *r)
{
    ls_run *run = r->run;
    if (r->filled) return true;
    if (!r->has_inputs && r->outer && !ls_replay_fill(r->outer)) return false;
    char path[sizeof run->errors.path];
    memcpy(path, run->errors.path, sizeof path);
    memcpy(run->errors.path, r->path, sizeof path);
    ls_rng_state random = run->random;
    int32_t no_grad = run->no_grad;
    if (!r->again) ls_fail(&run->errors, LS_ERR_STATE, "the module was freed, but is needed to recompute it");
    else if (inputs_untouched(r)) {
        r->interrupted = run->replays.now;
        run->replays.now = r;
        run->replays.again++;
        run->random = r->random;
        run->no_grad = 0;
        r->filling = true;
        r->next = 0;
        r->odd = r->count;
        run_again(r);
        r->filling = false;
        run->no_grad = no_grad;
        run->random = random;
        run->replays.again--;
        run->replays.now = r->interrupted;
    }
    memcpy(run->errors.path, path, sizeof path);
    if (ls_failed(run)) return false;
    drop_inputs(r);
    return r->filled = true;
}

bool ls_is_recomputing(const ls_run *run)
{
    return run && run->replays.again > 0;
}
