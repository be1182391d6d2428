/* data_parallel.c - prepared modules and optimisers of several processes train as one. */
#include "base/memory.h"
#include "data/loader/loader.h"
#include "optim/schedule.h"
#include "run/prepare.h"
#include "tensor/exchange.h"

static bool alone(const ls_run *run)
{
    return run->step->share.world <= 1;
}

bool ls_together_begin(ls_run *run)
{
    if (alone(run) || run->step->reducer) return true;
    ls_reducer_opts opts = {.compress = run->session->compression,
                            .shard = run->step->share.optimizer,
                            .bucket_bytes = (size_t)run->session->bucket_cap_mb << 20};
    if (!ls_session_workers(run, "ls_prepare", &opts.workers)) return false;
    if (ls_device_records(run->device)) opts.workers.count = 0; /* another thread would change the order */
    run->step->reducer = ls_reducer_new(run, run->comm, opts);
    return run->step->reducer != NULL;
}

bool ls_together_module(ls_run *run, ls_module *module)
{
    if (alone(run)) return true;
    if (!ls_together_begin(run)) return false;
    return ls_reducer_add(run->step->reducer, ls_parameters(module), ls_state_dict(module));
}

/* Processes that see different files or were given different options would read inconsistent parts; processes that seed
 * their random numbers by rank would read some samples twice and others never. */
typedef struct reading {
    uint64_t seed;
    int64_t samples, batch;
    uint64_t contents; /* of the dataset; 0: unknown */
} reading;

/* The file of a dataset, or of the first one it is made of. */
static const char *source_of(const ls_dataset *set)
{
    while (!set->source && set->base_count) set = set->bases[0];
    return set->source ? set->source : "a dataset";
}

/* Does process `rank` read what process 0 does? If not, an error says what differs. */
static bool reads_the_same(ls_run *run, const ls_loader *loader, const reading *first, const reading *other, int rank)
{
    if (other->samples != first->samples || other->batch != first->batch)
        ls_fail(
            &run->errors, LS_ERR_VALUE,
            "ls_prepare: a loader reads %lld samples in batches of %lld in process 0, but %lld in batches of %lld in "
            "process %d: all must see the same data",
            (long long)first->samples, (long long)first->batch, (long long)other->samples, (long long)other->batch,
            rank);
    else if (other->contents != first->contents)
        ls_fail(&run->errors, LS_ERR_VALUE,
                "ls_prepare: the samples of %s differ in processes 0 and %d, though both have %lld: give all processes "
                "the same files, or copies of them",
                source_of(loader->set), rank, (long long)first->samples);
    return !ls_failed(run);
}

bool ls_together_loader(ls_run *run, ls_loader *loader)
{
    if (alone(run)) return true;
    /* Samples that one process reads for all need not be the same elsewhere. */
    uint64_t contents = run->step->share.dispatch ? 0 : ls_dataset_contents(loader->set);
    reading mine = {loader->opts.seed, loader->shard.samples, loader->opts.batch, contents};
    reading *all = ls_sys_alloc((size_t)run->step->share.world * sizeof *all);
    if (!all) return ls_fail(&run->errors, LS_ERR_MEMORY, "ls_prepare: no memory"), false;
    bool ok = ls_exchange_all(run, &mine, all, sizeof mine, "ls_prepare");
    for (int r = 1; ok && r < run->step->share.world; r++) ok = reads_the_same(run, loader, &all[0], &all[r], r);
    if (ok) loader->opts.seed = all[0].seed;
    ls_sys_free(all);
    return ok;
}

void ls_together_end(ls_run *run)
{
    ls_reducer_clear(run->step->reducer);
}

bool ls_join_uneven_inputs_begin(ls_run *run)
{
    if (ls_session_of(run)) ls_reducer_join_begin(run->step->reducer);
    return true;
}

/* Processes that ended earlier have taken fewer steps: their optimisers and schedules continue as those of the others.
 * */
bool ls_join_uneven_inputs_end(ls_run *run)
{
    int from = ls_session_of(run) ? ls_reducer_join_end(run->step->reducer) : -1;
    for (ls_object *o = run->objects; from >= 0 && o && !ls_failed(run); o = o->older)
        if (o->kind == LS_OBJECT_OPTIM) ls_optim_follow((ls_optim *)o, from);
        else if (o->kind == LS_OBJECT_SCHEDULE) ls_schedule_follow((ls_schedule *)o, from);
    return false;
}
