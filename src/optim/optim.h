/* optim.h - the internals of an optimiser.
 *
 * An optimiser is a rule (SGD, Adam, ...), groups of settings, and slots: one per parameter, with its moments and its
 * step count. Before the first step f32 parameters, their gradients and moments move into contiguous blocks of memory,
 * so that a device is called once per group and not once per parameter.
 *
 * If several processes shard the state of an optimiser, each has a slice of every block: it has the moments of only
 * that slice, gets the mean of its gradients there, updates it, and receives the rest of the parameters from others. */
#ifndef LOCKSTEP_OPTIM_OPTIM_H
#define LOCKSTEP_OPTIM_OPTIM_H

#include <lockstep/optim.h>

#include "base/memory.h"
#include "base/opts.h"
#include "parallel/reducer.h"
#include "step/step.h"
#include "tensor/state.h"

enum { LS_MAX_MOMENTS = 3 };

typedef struct ls_optim_slot {
    char *name;
    ls_tensor *parameter; /* one reference: it may outlive its module */
    int group;
    int64_t step;                       /* updates so far */
    bool due;                           /* takes part in the current step */
    int block;                          /* its block, from 1; 0: not moved */
    int64_t offset, room;               /* in elements of the block: its start, its size including the gap */
    ls_tensor *grad_memory;             /* memory of its gradient */
    ls_tensor *moments[LS_MAX_MOMENTS]; /* of the part updated by this process (ls_slot_own); NULL until needed */
    bool moments_hold[LS_MAX_MOMENTS];  /* have a value, not only memory; the same on all processes */
    ls_tensor *master;                  /* f32 copy of a half-precision parameter; NULL: none */
    ls_tensor *half;                    /* half-precision copy of an f32 parameter (half.c); NULL: none */
    ls_tensor *step_tensor;             /* for ls_optim_state_dict() */
} ls_optim_slot;

/* Memory of the parameters of one group, in order, each starting on a cache line. Gradients are in one of the same
 * layout, moments in one for each. A call may run across the gaps: those of gradients and moments are zero and stay so,
 * under every operation on gradients (gradients.c) and every rule; those of parameters are never read. */
typedef struct ls_optim_block {
    int64_t numel;
    ls_range own; /* elements that this process updates */
    bool shared_out;
    ls_tensor *parameters, *gradients;    /* f32 [numel] */
    ls_tensor *half;                      /* the parameters in the run's mixed precision, */
    int64_t half_begin;                   /* from this element on; NULL: not used */
    ls_tensor *moments[LS_MAX_MOMENTS];   /* f32 [own]; NULL until needed */
    ls_tensor *collected[LS_MAX_MOMENTS]; /* f32 [numel], of all processes; NULL except while being listed */
} ls_optim_block;

typedef struct ls_group {
    ls_optim_group_opts now, made; /* current, and as created by the program */
    double initial_lr;             /* when the first schedule was created */
    bool scheduled;
} ls_group;

/* Memory that is updated by one call: one parameter, or several adjacent ones. */
typedef struct ls_optim_span {
    ls_operand parameter, gradient, moments[LS_MAX_MOMENTS];
    ls_operand half; /* no address: none */
    int64_t step;    /* the current step: 1, 2, ... */
    bool first;      /* the moments have no value yet */
} ls_optim_span;

typedef struct ls_rule {
    const char *name;
    const char *moment_names[LS_MAX_MOMENTS]; /* PyTorch's names; NULL after the last */
    int most_moments;                         /* outputs of the step between the parameter and its half copy */
    const char *options;                      /* of groups, besides lr and weight_decay: "beta1 beta2 epsilon" */
    int (*moment_count)(const ls_optim_group_opts *settings);
    void (*fill_call)(const ls_optim *optim, const ls_optim_group_opts *settings, const ls_optim_span *span,
                      ls_call *call);
} ls_rule;

/* The host's copy of ls_optim.found (verdict.c). */
typedef struct ls_verdict {
    float *memory;   /* pinned; NULL until needed */
    ls_event *event; /* stands for the copy */
    bool requested;
} ls_verdict;

struct ls_optim {
    ls_object object;
    const ls_rule *rule;
    ls_optim_group_opts defaults;
    bool nesterov, maximize, decoupled, master_weights, scattered;
    double lr_decay;   /* Adagrad */
    ls_device *device; /* of all parameters; NULL: no parameters yet */

    int group_count, group_capacity;
    ls_group *groups;
    int64_t slot_count, slot_capacity;
    ls_optim_slot *slots;

    int block_count;
    ls_optim_block *blocks;
    int64_t steps;
    int64_t skipped_steps;                          /* by the loss scaler, in this run */
    bool skipped;                                   /* the last step */
    bool had_gradients;                             /* some step found one, or a warning was given */
    bool warned_stale, warned_again, warned_shared; /* warnings of other mistakes (mistakes.c) */
    const void *follows;                            /* the schedule stepped last; only compared */
    int followed;                                   /* how often that changed */
    bool apart;                                     /* no warning (any more) about processes that train independently */
    uint64_t own_values;                            /* after this exchange (step.h) no parameter had its average */
    uint64_t unscaled;                              /* the backward pass after which gradients were last unscaled */
    uint64_t used;    /* backward passes up to this one have had their step, taken or skipped */
    uint64_t asked;   /* ls_step() was called after backward passes up to this one, even if it was not due */
    ls_tensor *found; /* f32 [1], owned: nonzero if they were not finite then; NULL: not checked */
    ls_tensor *owed;  /* f32 [1], owned: gradients are still to be multiplied by it (run->debt); NULL: by nothing */
    ls_verdict verdict;
    bool collected; /* moments of all processes were collected, and are kept */
    ls_state *state;
    ls_state *trained; /* its parameters; NULL: nobody asked */
};

/* optim.c: an optimiser with a rule for these parameters. NULL after a failure. */
ls_optim *ls_optim_new(ls_run *run, const ls_rule *rule, const ls_state *parameters, const ls_optim *settings);

/* Do groups of such an optimiser have this option? */
bool ls_rule_has(const ls_rule *rule, const char *option);

/* mistakes.c: do averages take the place of its parameters (ls_ema_apply)? That is an error. */
bool ls_optim_has_averages(ls_optim *optim);
/* A step was submitted but not counted yet: warn, once, if it cannot be intended. */
void ls_optim_look_for_mistakes(ls_optim *optim);
/* Training is over: warn if gradients were computed and no step used them. */
void ls_optim_over(const ls_optim *optim);

/* apart.c: before the first step with several processes, warn if nothing synchronises their training. */
void ls_optim_look_for_others(ls_optim *optim);

/* Does it train parameters whose gradients are reduced over processes? */
bool ls_optim_trains_together(const ls_optim *optim);

/* follow.c: if processes that train together have taken different numbers of steps, all continue with the count,
 * settings and moments of rank `from`. All must call. False (and an error) on failure. */
bool ls_optim_follow(ls_optim *optim, int from);

/* state.c: reset to the state before the first step. Groups are unchanged. */
void ls_optim_forget(ls_optim *optim);
/* Collect the moments of all processes for ls_optim_state_dict() on rank 0, and release them. All must call; does
 * nothing if state is not sharded. */
bool ls_optim_collect(ls_optim *optim);
void ls_optim_collect_end(ls_optim *optim);

/* half.c: if the device requests it, give a slot a half-precision copy that steps update. */
bool ls_slot_need_half(ls_optim *optim, ls_optim_slot *slot);
/* The copy is up to date after a step. Release it. */
void ls_slot_half_written(ls_optim_slot *slot);
void ls_slot_half_free(ls_optim_slot *slot);

/* verdict.c: the flag `found` was computed: request a copy of it, so that the host learns the result while the device
 * takes the step. */
void ls_verdict_request(ls_optim *optim);
/* After the step was submitted: was a gradient not finite? Waits for the flag, not for the step. */
bool ls_verdict_read(ls_optim *optim);
void ls_verdict_free(ls_optim *optim);

/* layout.c: move trained parameters that have no block yet, and their gradients, into one. */
bool ls_optim_lay_out(ls_optim *optim);
/* The block of a slot; NULL: not moved. */
ls_optim_block *ls_slot_block(const ls_optim *optim, const ls_optim_slot *slot);
/* The elements of a slot's parameter that this process updates. */
ls_range ls_slot_own(const ls_optim *optim, const ls_optim_slot *slot);
bool ls_slot_shared_out(const ls_optim *optim, const ls_optim_slot *slot);
bool ls_optim_shared_out(const ls_optim *optim); /* is any of its slots sharded? */
/* Memory for moment k of a slot, zeroed; false if out of memory. */
bool ls_slot_need_moment(ls_optim *optim, ls_optim_slot *slot, int k);
/* Does this slot use an f32 master copy? Creates it if missing; false if out of memory. */
bool ls_slot_keeps_master(const ls_optim *optim, const ls_optim_slot *slot);
bool ls_slot_need_master(ls_optim_slot *slot);
/* A new handle on a part of a block. NULL (and an error) if out of memory. */
ls_tensor *ls_block_piece(ls_tensor *block, int64_t offset, const ls_operand *like);
/* Consecutive elements of a tensor, in the innermost scope: a view if it is contiguous. */
ls_tensor *ls_elements_of(ls_tensor *t, ls_range which);
/* Is the gradient of a slot with sharded state in the memory where it is reduced? Otherwise fails. */
bool ls_slot_check_home(const ls_optim *optim, const ls_optim_slot *slot, const ls_tensor *gradient);

/* Are two slots with gradients adjacent in a block, so that one call may update both? */
bool ls_slots_adjoin(const ls_optim_slot *a, const ls_tensor *grad_a, const ls_optim_slot *b, const ls_tensor *grad_b);

/* gradients.c: the operand as n consecutive elements, if it is contiguous; else unchanged. */
ls_operand ls_operand_flat(const ls_operand *x);
/* A range of a flat operand. */
ls_operand ls_operand_part(ls_operand flat, ls_range which);
/* Extend x to the end of y, both flat and in one block. */
void ls_operand_join(ls_operand *x, const ls_operand *y);
/* Clipping puts its multiplication off where steps can do it. Forget it: the gradients are no longer needed. */
void ls_optim_owe_nothing(ls_optim *optim);
/* Divide the gradients by the loss scale and by the excess weight of their group of batches, once after each backward
 * pass. With a loss scaler it sets `finite` and waits for the device. */
bool ls_optim_unscale(ls_optim *optim);

#endif
