/* gradients.c - operations on all gradients at once: unscale, clip by norm, clip by value.
 *
 * Gradients that are adjacent in memory are processed as one, with the gaps between them. Gaps contain zeros and must
 * stay so, or every later norm would be wrong: every operation here must map zero to zero. So factors are finite and
 * limits are not negative. */
#include <math.h>

#include "autograd/tape.h"
#include "optim/optim.h"
#include "optim/scaler.h"
#include "tensor/live.h"

/* ---- adjacent gradients ---- */

ls_operand ls_operand_flat(const ls_operand *x)
{
    ls_operand flat = *x;
    flat.derived = NULL;
    if (!ls_view_dense(x)) return flat;
    flat.ndim = 1;
    flat.dim[0] = ls_view_numel(x);
    flat.stride[0] = 1;
    return flat;
}

ls_operand ls_operand_part(ls_operand flat, ls_range which)
{
    flat.data = (char *)flat.data + (size_t)which.begin * ls_dtype_size(flat.dtype);
    flat.dim[0] = which.end - which.begin;
    return flat;
}

void ls_operand_join(ls_operand *x, const ls_operand *y)
{
    x->dim[0] = ((const char *)y->data - (const char *)x->data) / (ptrdiff_t)sizeof(float) + y->dim[0];
}

/* ---- iteration ---- */

/* `part`: other processes have the other parts of the same gradients. */
typedef bool each_fn(void *user, const ls_operand *gradient, bool part);

/* Call `each` for the gradients that this process handles, adjacent ones as one. Stops when it returns false. */
static bool each_of_optim(const ls_optim *optim, each_fn *each, void *user)
{
    for (int group = 0; group < optim->group_count; group++) {
        ls_operand open;
        const ls_optim_slot *last = NULL;
        const ls_tensor *last_gradient = NULL;
        bool part = false; /* of the open one */
        for (int64_t i = 0; i < optim->slot_count; i++) {
            const ls_optim_slot *slot = &optim->slots[i];
            ls_tensor *gradient =
                slot->group == group && ls_requires_grad(slot->parameter) ? ls_leaf_grad(slot->parameter) : NULL;
            if (!gradient) continue;
            if (!ls_is_valid(gradient) || !ls_slot_check_home(optim, slot, gradient)) return false;
            ls_range own = ls_slot_own(optim, slot);
            ls_operand flat = ls_operand_flat(&gradient->view);
            if (own.begin == own.end) continue;
            if (ls_slot_shared_out(optim, slot)) flat = ls_operand_part(flat, own);
            if (last && ls_slots_adjoin(last, last_gradient, slot, gradient)) {
                ls_operand_join(&open, &flat);
            } else {
                if (last && !each(user, &open, part)) return false;
                open = flat;
                part = ls_slot_shared_out(optim, slot);
            }
            last = slot;
            last_gradient = gradient;
        }
        if (last && !each(user, &open, part)) return false;
    }
    return true;
}

static bool each_of_list(const ls_state *list, const ls_device *device, each_fn *each, void *user)
{
    for (int64_t i = 0; i < ls_state_count(list); i++) {
        ls_tensor *parameter = list->entries[i].tensor;
        ls_tensor *gradient = ls_requires_grad(parameter) ? ls_leaf_grad(parameter) : NULL;
        if (!gradient) continue;
        if (!ls_is_valid(gradient)) return false;
        if (gradient->storage->device != device) {
            ls_fail(&gradient->run->errors, LS_ERR_DEVICE, "clipping: gradients are on devices %s and %s", device->name,
                    gradient->storage->device->name);
            return false;
        }
        ls_operand flat = ls_operand_flat(&gradient->view);
        if (!each(user, &flat, false)) return false;
    }
    return true;
}

/* An optimiser or a list. */
typedef struct gradients {
    ls_run *run;
    ls_device *device;
    const ls_optim *optim;
    const ls_state *list;
} gradients;

static gradients gradients_of_optim(const ls_optim *optim)
{
    return (gradients){optim->object.run, optim->device, optim, NULL};
}

static gradients gradients_of_list(const ls_state *list)
{
    ls_device *device = list->count ? list->entries[0].tensor->storage->device : list->object.run->device;
    return (gradients){list->object.run, device, NULL, list};
}

static bool each_of(const gradients *g, each_fn *each, void *user)
{
    return g->optim ? each_of_optim(g->optim, each, user) : each_of_list(g->list, g->device, each, user);
}

/* Zero, [1], on the device of the gradients. */
static ls_tensor *zero_on(ls_run *run, ls_device *device, ls_dtype dtype)
{
    ls_tensor *t = ls_tensor_new(run, device, dtype, LS_SHAPE(1));
    return ls_is_valid(t) && ls_raw_fill(t, 0) ? t : &run->poison;
}

/* ---- unscale ---- */

typedef struct unscaling {
    const ls_optim *optim;
    double factor;
    ls_tensor *found; /* f32 [1]: nonzero if a gradient is not finite */
} unscaling;

/* in: -  out: gradient, found */
static bool unscale_one(void *user, const ls_operand *gradient, bool part)
{
    (void)part;
    const unscaling *u = user;
    ls_call call = {
        .op = LS_OP_unscale, .n_out = 2, .out = {gradient, &u->found->view}, .attrs.scalar = {.value = u->factor}};
    return ls_submit_live(u->optim->object.run, u->optim->device, &call);
}

/* If each process checked its part of the gradients, combine their results. */
static bool share_found(const ls_optim *optim, ls_tensor *found)
{
    ls_run *run = optim->object.run;
    if (!ls_optim_shared_out(optim)) return true;
    double sum = ls_item(found);
    return ls_reducer_sum(run->step->reducer, &sum) && ls_raw_fill(found, sum);
}

bool ls_optim_unscale(ls_optim *optim)
{
    ls_run *run = optim->object.run;
    ls_scaler *scaler = ls_scaler_of(run);
    double factor = ls_accumulation_correction(run) / ls_scaler_scale(scaler);
    if ((!scaler && factor == 1) || optim->unscaled == run->walk_serial) return true;
    ls_mark mark = ls_scope_begin(run);
    unscaling u = {optim, factor, zero_on(run, optim->device, LS_F32)};
    ls_release(optim->found);
    optim->found = NULL;
    if (ls_is_valid(u.found) && each_of_optim(optim, unscale_one, &u) && (!scaler || share_found(optim, u.found))) {
        if (scaler) optim->found = ls_alias_owned(u.found);
        if (scaler) ls_verdict_request(optim);
        optim->unscaled = run->walk_serial;
    }
    ls_scope_end(run, mark, NULL);
    return !ls_failed(run);
}

/* ---- clip by norm ---- */

/* Sums of squares, [1]: of gradients that every process has, and of parts. */
typedef struct squares {
    ls_tensor *whole, *parts;
} squares;

/* in: gradient  out: total */
static bool add_squares(void *user, const ls_operand *gradient, bool part)
{
    const squares *s = user;
    ls_tensor *total = part ? s->parts : s->whole;
    ls_call call = {.op = LS_OP_sum_squares, .n_in = 1, .n_out = 1, .in = {gradient}, .out = {&total->view}};
    return ls_submit(total->run, total->storage->device, &call);
}

/* norm = the sum of the squares of all gradients, f32 [1]; on the host it is rounded once. */
static bool sum_squares(const gradients *g, ls_tensor *norm)
{
    ls_run *run = g->run;
    ls_dtype dtype = ls_device_is_host(g->device) ? LS_F64 : LS_F32;
    squares s = {zero_on(run, g->device, dtype), zero_on(run, g->device, dtype)};
    if (ls_failed(run) || !each_of(g, add_squares, &s)) return false;
    if (g->optim && ls_optim_shared_out(g->optim)) {
        double sum = ls_item(s.parts);
        if (!ls_reducer_sum(run->step->reducer, &sum) || !ls_raw_fill(s.parts, sum) ||
            !ls_raw_add(s.whole, s.whole, s.parts))
            return false;
    }
    return ls_raw_copy(norm, s.whole);
}

/* The norm of another power, put together by sums of powers, or by maxima. */
typedef struct powers {
    const gradients *of;
    double power;
    ls_tensor *total; /* f32 [1] */
} powers;

static bool add_powers(void *user, const ls_operand *gradient, bool part)
{
    const powers *s = user;
    ls_run *run = s->of->run;
    if (part)
        return ls_fail(&run->errors, LS_ERR_UNSUPPORTED,
                       "ls_clip_grad_norm: with .shard_optimizer gradients are clipped by .norm_type = 2 only"),
               false;
    ls_mark mark = ls_scope_begin(run);
    ls_tensor *sizes = ls_tensor_new(run, s->of->device, LS_F32, ls_view_shape(gradient));
    ls_tensor *one = zero_on(run, s->of->device, LS_F32);
    bool largest = isinf(s->power), ok = ls_is_valid(sizes) && ls_is_valid(one);
    ls_operand reduced = one->view; /* as many dimensions as the gradient, all of size 1 */
    reduced.ndim = gradient->ndim;
    for (int d = 0; d < gradient->ndim; d++) reduced.dim[d] = reduced.stride[d] = 1;
    ls_call calls[] = {
        {.op = LS_OP_copy, .n_in = 1, .n_out = 1, .in = {gradient}, .out = {&sizes->view}},
        {.op = LS_OP_abs, .n_in = 1, .n_out = 1, .in = {&sizes->view}, .out = {&sizes->view}},
        {.op = LS_OP_pow_scalar,
         .n_in = 1,
         .n_out = 1,
         .in = {&sizes->view},
         .out = {&sizes->view},
         .attrs.scalar = {s->power}},
        {.op = largest ? LS_OP_max : LS_OP_sum,
         .n_in = 1,
         .n_out = 1,
         .in = {&sizes->view},
         .out = {&reduced},
         .attrs.reduce = {.mask = (1u << gradient->ndim) - 1}},
        {.op = largest ? LS_OP_maximum : LS_OP_add,
         .n_in = 2,
         .n_out = 1,
         .in = {&s->total->view, &one->view},
         .out = {&s->total->view}},
    };
    for (size_t i = 0; ok && i < sizeof calls / sizeof *calls; i++)
        if (!(largest && calls[i].op == LS_OP_pow_scalar)) ok = ls_submit(run, s->of->device, &calls[i]);
    ls_scope_end(run, mark, NULL);
    return ok;
}

static bool scale_one(void *user, const ls_operand *gradient, bool part)
{
    (void)part;
    ls_tensor *factor = user;           /* f32 [1] */
    ls_operand repeated = factor->view; /* broadcast to the gradient's shape */
    repeated.ndim = gradient->ndim;
    for (int d = 0; d < gradient->ndim; d++) {
        repeated.dim[d] = gradient->dim[d];
        repeated.stride[d] = 0;
    }
    ls_call call = {.op = LS_OP_mul, .n_in = 2, .n_out = 1, .in = {gradient, &repeated}, .out = {gradient}};
    return ls_submit(factor->run, factor->storage->device, &call);
}

/* out = op(in), both [1] */
static bool on_scalar(ls_opcode op, ls_tensor *in, ls_tensor *out, ls_attrs attrs)
{
    ls_call call = {.op = op, .n_in = 1, .n_out = 1, .in = {&in->view}, .out = {&out->view}, .attrs = attrs};
    return ls_submit(out->run, out->storage->device, &call);
}

/* factor = 0 unless the norm is finite: NaN times the zero of a gap would be NaN. */
static bool zero_unless_finite(ls_tensor *norm, ls_tensor *factor)
{
    ls_run *run = norm->run;
    ls_tensor *finite = zero_on(run, norm->storage->device, LS_BOOL),
              *zero = zero_on(run, norm->storage->device, LS_F32);
    if (ls_failed(run)) return false;
    ls_call call = {.op = LS_OP_where,
                    .n_in = 3,
                    .n_out = 1,
                    .in = {&finite->view, &factor->view, &zero->view},
                    .out = {&factor->view}};
    return on_scalar(LS_OP_isfinite, norm, finite, (ls_attrs){.affine = {0}}) &&
           ls_submit(run, norm->storage->device, &call);
}

/* min(max_norm / (norm + 1e-6), 1), and 0 if the norm is not finite */
static bool clip_factor(ls_tensor *norm, double max_norm, ls_tensor *factor)
{
    return on_scalar(LS_OP_affine, norm, factor, (ls_attrs){.affine = {.scale = 1, .shift = 1e-6}}) &&
           on_scalar(LS_OP_reciprocal, factor, factor, (ls_attrs){.affine = {0}}) &&
           on_scalar(LS_OP_affine, factor, factor, (ls_attrs){.affine = {.scale = max_norm}}) &&
           on_scalar(LS_OP_clamp, factor, factor, (ls_attrs){.range = {.low = 0, .high = 1}}) &&
           zero_unless_finite(norm, factor);
}

/* ---- multiplication that is put off ---- */

void ls_optim_owe_nothing(ls_optim *optim)
{
    ls_run *run = optim->object.run;
    if (optim->owed && run->debt.debtor == optim) run->debt = (ls_debt){0};
    ls_release(optim->owed);
    optim->owed = NULL;
}

static void multiply_after_all(void *debtor)
{
    ls_optim *optim = debtor;
    ls_run *run = optim->object.run;
    ls_mark mark = ls_scope_begin(run);
    ls_tensor *factor = ls_alias(optim->owed);
    ls_optim_owe_nothing(optim);
    if (ls_is_valid(factor)) each_of_optim(optim, scale_one, factor);
    ls_scope_end(run, mark, NULL);
}

/* Does the program hold a gradient, and could look at it unnoticed? Otherwise only leaves do, and slots those in
 * blocks. */
static bool are_held(const ls_optim *optim)
{
    for (int64_t i = 0; i < optim->slot_count; i++) {
        const ls_optim_slot *slot = &optim->slots[i];
        const ls_node *node = slot->parameter->node;
        const ls_storage *memory = node && node->leaf && node->leaf->holds ? node->leaf->grad->storage : NULL;
        bool in_block = slot->grad_memory && slot->grad_memory->storage == memory;
        if (memory && memory->refs > 1 + in_block) return true;
    }
    return false;
}

/* Multiply the gradients by a factor: at the next step if the device can, or as soon as somebody looks. */
static bool multiply_by(const gradients *g, ls_optim *stepped, ls_tensor *factor)
{
    if (!stepped) return each_of(g, scale_one, factor);
    ls_debt_pay(g->run);
    if (!(stepped->owed = ls_alias_owned(factor))) return false;
    g->run->debt = (ls_debt){multiply_after_all, stepped};
    return true;
}

/* The step these gradients belong to, from 1. */
static int64_t step_of(const gradients *g)
{
    return g->optim ? g->optim->steps + g->optim->skipped_steps + 1 : (int64_t)g->run->walk_serial;
}

/* norm = that of all gradients, f32 [1] */
static bool norm_of(const gradients *g, double power, ls_tensor *norm)
{
    if (power == 2) return sum_squares(g, norm) && on_scalar(LS_OP_sqrt, norm, norm, (ls_attrs){.affine = {0}});
    if (!each_of(g, add_powers, &(powers){g, power, norm})) return false;
    return isinf(power) || on_scalar(LS_OP_pow_scalar, norm, norm, (ls_attrs){.scalar = {1 / power}});
}

/* `stepped`: the optimiser whose next step may multiply; NULL: none. */
static ls_tensor *clip_norm(const gradients *g, ls_optim *stepped, double max_norm, double power)
{
    ls_run *run = g->run;
    ls_mark mark = ls_scope_begin(run);
    ls_tensor *norm = zero_on(run, g->device, LS_F32), *factor = zero_on(run, g->device, LS_F32);
    bool ok = !ls_failed(run) && norm_of(g, power, norm);
    bool limited = ok && !isinf(max_norm) && clip_factor(norm, max_norm, factor);
    /* Reading the factor is free on the host and often saves a pass; elsewhere it would have to wait. */
    if (limited && !(ls_device_is_host(g->device) && ls_item(factor) >= 1)) multiply_by(g, stepped, factor);
    if (ok && !run->step->scaler && !ls_finite_look(run, norm))
        ls_finite_note(run, "the norm of the gradients", step_of(g), run->step->share.rank);
    return ls_scope_end(run, mark, ls_failed(run) ? &run->poison : norm);
}

/* Zero clips everything, infinity nothing. */
static bool limit_sound(ls_run *run, double limit, const char *who)
{
    if (!ls_failed(run) && !(limit >= 0))
        ls_fail(&run->errors, LS_ERR_VALUE, "%s: the limit is %g; it must be 0 or more", who, limit);
    return !ls_failed(run);
}

static bool power_sound(ls_run *run, double power, const char *who)
{
    if (!ls_failed(run) && !(power > 0))
        ls_fail(&run->errors, LS_ERR_VALUE, "%s: .norm_type = %g; it must be above 0", who, power);
    return !ls_failed(run);
}

ls_tensor *ls_clip_grad_norm_sized(ls_optim *optim, double max_norm, const ls_clip_grad_norm_opts *opts,
                                   size_t opts_size)
{
    static const char who[] = "ls_clip_grad_norm";
    double power = LS_OPTS_READ(ls_clip_grad_norm_opts, opts, opts_size).norm_type;
    if (!optim) return &ls_run_of(NULL)->poison;
    ls_run *run = optim->object.run;
    if (!limit_sound(run, max_norm, who) || !power_sound(run, power, who)) return &run->poison;
    if (!run->step->accumulation.sync) return zero_on(run, optim->device, LS_F32);
    if (!ls_optim_lay_out(optim) || !ls_optim_unscale(optim)) return &run->poison;
    gradients g = gradients_of_optim(optim);
    bool may_wait = optim->device && ls_device_has(optim->device, LS_TRAIT_STEP_FACTOR) && !are_held(optim);
    return clip_norm(&g, may_wait ? optim : NULL, max_norm, power);
}

/* A list does not know which part of a gradient is the mean over all processes. */
static bool can_clip_list(ls_run *run, const char *who)
{
    if (!ls_failed(run) && run->step->reducer && run->step->share.optimizer)
        ls_fail(&run->errors, LS_ERR_UNSUPPORTED,
                "%s: with .shard_optimizer each process has only its part of the gradients; use the optimiser's "
                "clipping functions",
                who);
    return !ls_failed(run);
}

ls_tensor *ls_state_clip_grad_norm_sized(const ls_state *parameters, double max_norm,
                                         const ls_clip_grad_norm_opts *opts, size_t opts_size)
{
    static const char who[] = "ls_state_clip_grad_norm";
    double power = LS_OPTS_READ(ls_clip_grad_norm_opts, opts, opts_size).norm_type;
    if (!parameters) return &ls_run_of(NULL)->poison;
    ls_run *run = parameters->object.run;
    if (!limit_sound(run, max_norm, who) || !power_sound(run, power, who) || !can_clip_list(run, who))
        return &run->poison;
    gradients g = gradients_of_list(parameters);
    return clip_norm(&g, NULL, max_norm, power);
}

/* ---- clip by value ---- */

typedef struct limiting {
    const gradients *gradients;
    double limit;
} limiting;

static bool limit_one(void *user, const ls_operand *gradient, bool part)
{
    (void)part;
    const limiting *l = user;
    ls_call call = {.op = LS_OP_clamp,
                    .n_in = 1,
                    .n_out = 1,
                    .in = {gradient},
                    .out = {gradient},
                    .attrs.range = {.low = -l->limit, .high = l->limit}};
    return ls_submit(l->gradients->run, l->gradients->device, &call);
}

static void clip_value(const gradients *g, double limit)
{
    ls_mark mark = ls_scope_begin(g->run);
    each_of(g, limit_one, &(limiting){g, limit});
    ls_scope_end(g->run, mark, NULL);
}

void ls_clip_grad_value(ls_optim *optim, double limit)
{
    if (!optim || !limit_sound(optim->object.run, limit, "ls_clip_grad_value")) return;
    if (!optim->object.run->step->accumulation.sync) return;
    if (!ls_optim_lay_out(optim) || !ls_optim_unscale(optim)) return;
    gradients g = gradients_of_optim(optim);
    clip_value(&g, limit);
}

void ls_state_clip_grad_value(const ls_state *parameters, double limit)
{
    if (!parameters || !limit_sound(parameters->object.run, limit, "ls_state_clip_grad_value")) return;
    if (!can_clip_list(parameters->object.run, "ls_state_clip_grad_value")) return;
    gradients g = gradients_of_list(parameters);
    clip_value(&g, limit);
}
