/* course.c - compare steps and settings of optimisers among processes. */
#include "run/course.h"

#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "optim/optim.h"
#include "run/across.h"

/* ---- progress of an optimiser ---- */

static const char *const settings[] = {"lr", "weight_decay", "momentum", "dampening", "beta1", "beta2", "epsilon"};

enum { SETTINGS = sizeof settings / sizeof *settings };

/* The settings of a group, and the number of steps its optimiser has taken. */
typedef struct group_progress {
    int64_t steps, optim, group; /* optimisers are numbered from the newest */
    double value[SETTINGS];
} group_progress;

static group_progress progress_of(const ls_optim *optim, int64_t number, int group)
{
    ls_group_numbers now = ls_optim_group(optim, group);
    return (group_progress){
        .steps = optim->steps,
        .optim = number,
        .group = group,
        .value = {now.lr, now.weight_decay, now.momentum, now.dampening, now.beta1, now.beta2, now.epsilon}};
}

typedef void each_fn(void *user, const ls_optim *optim, const group_progress *s);

/* Groups of optimisers that train together with other processes. */
static void each_group(const ls_run *run, each_fn *each, void *user)
{
    int64_t number = 0;
    for (const ls_object *o = run->objects; o; o = o->older) {
        const ls_optim *optim = (const ls_optim *)o;
        if (o->kind != LS_OBJECT_OPTIM || !ls_optim_trains_together(optim)) continue;
        for (int group = 0; group < optim->group_count; group++) {
            group_progress s = progress_of(optim, number, group);
            each(user, optim, &s);
        }
        number++;
    }
}

static void add_to_hash(void *user, const ls_optim *optim, const group_progress *s)
{
    (void)optim;
    ls_hash_add(user, s, sizeof *s);
}

uint64_t ls_course_of(const ls_run *run)
{
    ls_hash hash;
    if (!ls_reducer_trains(run->step->reducer)) return 0;
    ls_hash_begin(&hash);
    each_group(run, add_to_hash, &hash);
    return ls_hash_end(&hash);
}

/* ---- comparison ---- */

typedef struct progress_list {
    int64_t count;
    group_progress *list; /* NULL: only count */
    const ls_optim **optims;
} progress_list;

static void add_to_list(void *user, const ls_optim *optim, const group_progress *s)
{
    progress_list *all = user;
    if (all->list) all->list[all->count] = *s;
    if (all->optims) all->optims[all->count] = optim;
    all->count++;
}

/* Report the difference between two; false: none. */
static bool report_difference(ls_run *run, const ls_optim *optim, const group_progress *first,
                              const group_progress *other, int rank)
{
    const char *rule = optim->rule->name;
    if (first->steps != other->steps) {
        ls_fail(
            &run->errors, LS_ERR_STATE,
            "ls_backward: process 0 has taken %lld steps with %s, process %d %lld: the decision to call ls_step() must "
            "be the same in all processes; use ls_reduce() or ls_broadcast()",
            (long long)first->steps, rule, rank, (long long)other->steps);
        return true;
    }
    int i = 0;
    while (i < SETTINGS && first->value[i] == other->value[i]) i++;
    if (i == SETTINGS) return false;
    ls_fail(&run->errors, LS_ERR_STATE,
            "ls_backward: %s of %s is %g in process 0, but %g in process %d: set it to the same value in all "
            "processes, and give a plateau schedule the same number; use ls_reduce() or ls_broadcast()",
            settings[i], rule, first->value[i], other->value[i], rank);
    return true;
}

/* Report the first difference between processes 0 and `rank`; false: none. */
static bool report_first(ls_run *run, const progress_list *mine, const ls_gathered *all, int rank)
{
    int64_t here = (int64_t)(all->size[0] / sizeof(group_progress)),
            there = (int64_t)(all->size[rank] / sizeof(group_progress));
    if (here != there) {
        ls_fail(&run->errors, LS_ERR_STATE,
                "ls_backward: %lld optimisers and groups are prepared in process 0, but %lld in process %d: "
                "prepare the same in all processes",
                (long long)here, (long long)there, rank);
        return true;
    }
    for (int64_t i = 0; i < mine->count && i < here; i++) {
        group_progress first, other; /* gathered data is not aligned */
        memcpy(&first, (const char *)all->data[0] + (size_t)i * sizeof first, sizeof first);
        memcpy(&other, (const char *)all->data[rank] + (size_t)i * sizeof other, sizeof other);
        if (report_difference(run, mine->optims[i], &first, &other, rank)) return true;
    }
    return false;
}

void ls_course_compare(ls_run *run)
{
    progress_list counted = {0}, mine = {0};
    each_group(run, add_to_list, &counted);
    mine.list = ls_sys_alloc((size_t)(counted.count + 1) * sizeof *mine.list);
    mine.optims = ls_sys_alloc((size_t)(counted.count + 1) * sizeof *mine.optims);
    if (!mine.list || !mine.optims)
        ls_fail(&run->errors, LS_ERR_MEMORY, "ls_backward: no memory to compare optimisers");
    else each_group(run, add_to_list, &mine);
    ls_gathered all = ls_gather_bytes(run, mine.list, (size_t)mine.count * sizeof *mine.list, "ls_backward");
    bool told = false;
    for (int r = 1; r < all.count && !told; r++) told = report_first(run, &mine, &all, r);
    ls_sys_free(mine.list);
    ls_sys_free(mine.optims);
}
