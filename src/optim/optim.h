/* optim.h - the inside of an optimiser.
 *
 * An optimiser is a rule (SGD, Adam, AdamW), groups of settings, and slots: one for each parameter, with its moments
 * and its own count of steps. Before the first step f32 parameters, their gradients and moments move into blocks of
 * memory, one after the other, so that a device is called once per group and not once per parameter.
 *
 * Where several processes share out the state of an optimiser, each has a slice of every block: it holds the moments of
 * that alone, finds the mean of its gradients there, updates it, and gets the rest of the parameters from others. */
#ifndef LOCKSTEP_OPTIM_OPTIM_H
#define LOCKSTEP_OPTIM_OPTIM_H

#include <lockstep/optim.h>

#include "base/memory.h"
#include "base/opts.h"
#include "parallel/reducer.h"
#include "step/step.h"
#include "tensor/state.h"

enum { LS_MAX_MOMENTS = 2 };

typedef struct ls_optim_slot {
    char *name;
    ls_tensor *parameter; /* one reference: it outlives its module here */
    int group;
    int64_t step;                       /* updates it has had */
    bool due;                           /* takes part in the step being taken */
    int block;                          /* where it was moved to, from 1; 0: it stays where it is */
    int64_t offset, room;               /* elements of the block: where it begins, how many it takes with its gap */
    ls_tensor *grad_home;               /* its gradient's place */
    ls_tensor *moments[LS_MAX_MOMENTS]; /* of what this process updates of it (ls_slot_own); NULL until needed */
    bool moments_hold[LS_MAX_MOMENTS];  /* have a value, not only memory; on all processes alike */
    ls_tensor *master;                  /* f32 copy of a half precision parameter; NULL without */
    ls_tensor *half;                    /* half precision copy of an f32 parameter (half.c); NULL without */
    ls_tensor *step_tensor;             /* for ls_optim_state_dict() */
} ls_optim_slot;

/* Memory of parameters of one group, in order, each beginning on a cache line. Gradients are in one of the same layout,
 * moments in one for each. A call may run across the gaps: those of gradients and moments are zero and stay so,
 * whatever is done to a gradient (gradients.c) and under every rule; those of parameters are never looked at. */
typedef struct ls_optim_block {
    int64_t numel;
    ls_range own; /* elements that this process updates */
    bool shared_out;
    ls_tensor *parameters, *gradients;    /* f32 [numel] */
    ls_tensor *half;                      /* [numel], the parameters in the run's mixed precision; NULL: not wanted */
    ls_tensor *moments[LS_MAX_MOMENTS];   /* f32 [own]; NULL until needed */
    ls_tensor *collected[LS_MAX_MOMENTS]; /* f32 [numel], of all processes; NULL but while they are listed */
} ls_optim_block;

typedef struct ls_group {
    ls_optim_group_opts now, made; /* at the moment, and as the program made it */
    double initial_lr;             /* when the first schedule was made */
    bool scheduled;
} ls_group;

/* Memory that is updated by one call: one parameter, or several that follow each other. */
typedef struct ls_optim_span {
    ls_operand parameter, gradient, moments[LS_MAX_MOMENTS];
    ls_operand half; /* no address: there is none */
    int64_t step;    /* this one: 1, 2, ... */
    bool first;      /* the moments have no value yet */
} ls_optim_span;

typedef struct ls_rule {
    const char *name;
    const char *moment_names[LS_MAX_MOMENTS]; /* PyTorch's; NULL where there are fewer */
    int most_moments;                         /* outputs of the step between the parameter and its half copy */
    bool has_betas;                           /* OneCycle moves beta1, else momentum */
    int (*moment_count)(const ls_optim_group_opts *settings);
    void (*fill_call)(const ls_optim *optim, const ls_optim_group_opts *settings, const ls_optim_span *span,
                      ls_call *call);
} ls_rule;

struct ls_optim {
    ls_object object;
    const ls_rule *rule;
    ls_optim_group_opts defaults;
    bool nesterov, maximize, decoupled, master_weights, scattered;
    ls_device *device; /* of all parameters; NULL while there are none */

    int group_count, group_capacity;
    ls_group *groups;
    int64_t slot_count, slot_capacity;
    ls_optim_slot *slots;

    int block_count;
    ls_optim_block *blocks;
    int64_t steps;
    int64_t skipped_steps;                    /* by the loss scaler, in this run */
    bool skipped;                             /* the last step */
    bool had_gradients;                       /* some step found one, or the user was told that none did */
    bool told_stale, told_again, told_shared; /* of other mistakes (mistakes.c) */
    const void *follows;                      /* the schedule that was stepped last; compared alone */
    int followed;                             /* how often that was another one than before */
    bool apart;        /* nothing is to be said (any more) of processes that train without each other */
    uint64_t unscaled; /* after which walk of the run the gradients last were */
    uint64_t used;     /* walks up to this one: gradients of them have had their step, taken or skipped */
    uint64_t asked;    /* walks up to this one: ls_step() was called after them, even if it was not due */
    ls_tensor *found;  /* f32 [1], owned: not 0 where they were not finite then; NULL: nothing was looked for */
    bool collected;    /* moments of all processes were got, and are kept */
    ls_state *state;
};

/* optim.c: an optimiser of a rule for these parameters. NULL after a failure. */
ls_optim *ls_optim_new(ls_run *run, const ls_rule *rule, const ls_state *parameters, const ls_optim *settings);

/* mistakes.c: a step has been submitted, and is not yet counted: warn, once, where it cannot be what was meant. */
void ls_optim_look_for_mistakes(ls_optim *optim);
/* Training is over: warn where gradients came and no step used them. */
void ls_optim_over(const ls_optim *optim);

/* apart.c: before the first step of one of several processes, warn where nobody brings their training together. */
void ls_optim_look_for_others(ls_optim *optim);

/* Does it train parameters whose gradients are reduced over processes? */
bool ls_optim_trains_together(const ls_optim *optim);

/* follow.c: of processes that train together and have not taken the same number of steps, all go on with the count, the
 * settings and the moments of rank `from`. All must call. False (and an error) on failure. */
bool ls_optim_follow(ls_optim *optim, int from);

/* state.c: no step was ever taken. Groups stay as they are. */
void ls_optim_forget(ls_optim *optim);
/* Get the moments of all processes for ls_optim_state_dict() on rank 0, and let go of them. All must call; nothing is
 * done where state is not shared out. */
bool ls_optim_collect(ls_optim *optim);
void ls_optim_collect_end(ls_optim *optim);

/* half.c: where the device asks for it, give a slot a half precision copy that steps keep up to date. */
bool ls_slot_need_half(ls_optim *optim, ls_optim_slot *slot);
/* The copy is as new as the parameter: after a step. Let it go. */
void ls_slot_half_written(ls_optim_slot *slot);
void ls_slot_half_free(ls_optim_slot *slot);

/* layout.c: give trained parameters that have none yet, and their gradients, a place in a block. */
bool ls_optim_lay_out(ls_optim *optim);
/* The block of a slot; NULL: it stays where it is. */
ls_optim_block *ls_slot_block(const ls_optim *optim, const ls_optim_slot *slot);
/* The elements of a slot's parameter that this process updates. */
ls_range ls_slot_own(const ls_optim *optim, const ls_optim_slot *slot);
bool ls_slot_shared_out(const ls_optim *optim, const ls_optim_slot *slot);
bool ls_optim_shared_out(const ls_optim *optim); /* any of its slots */
/* Memory for moment k of a slot, zero; false when memory is out. */
bool ls_slot_need_moment(ls_optim *optim, ls_optim_slot *slot, int k);
/* Is an f32 copy of its half precision parameter updated? Make it, if it is not there; false when memory is out. */
bool ls_slot_keeps_master(const ls_optim *optim, const ls_optim_slot *slot);
bool ls_slot_need_master(ls_optim_slot *slot);
/* An own handle on a part of a block. NULL (and an error) when memory is out. */
ls_tensor *ls_block_piece(ls_tensor *block, int64_t offset, const ls_operand *like);
/* Some elements of a tensor in a row, in the innermost scope: a view, where it is contiguous. */
ls_tensor *ls_elements_of(ls_tensor *t, ls_range which);
/* Is a gradient that came to be in a slot whose state is shared out where it is reduced? Else fails. */
bool ls_slot_check_home(const ls_optim *optim, const ls_optim_slot *slot, const ls_tensor *gradient);

/* Do two slots with gradients follow each other in a block, so that one call may run across both? */
bool ls_slots_adjoin(const ls_optim_slot *a, const ls_tensor *grad_a, const ls_optim_slot *b, const ls_tensor *grad_b);

/* gradients.c: the operand as n elements in a row, where it is contiguous; else unchanged. */
ls_operand ls_operand_flat(const ls_operand *x);
/* Some elements of a flat one. */
ls_operand ls_operand_part(ls_operand flat, ls_range which);
/* Let x reach to the end of y, both flat and in one block. */
void ls_operand_join(ls_operand *x, const ls_operand *y);
/* Divide the gradients by the loss scale and by what their group of batches was weighted too much, once after each walk
 * back. Sets `finite`, and waits for the device, where a loss scaler runs. */
bool ls_optim_unscale(ls_optim *optim);

#endif
