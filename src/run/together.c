/* together.c - modules that processes share without reducing gradients: statistics of batches, means of parameters. */
#include <lockstep/comm.h>

#include "nn/layers.h"
#include "run/session.h"

static void synchronise(ls_module *module, ls_comm *comm)
{
    ls_norm_layer *norm = (ls_norm_layer *)ls_as_batch_norm(module);
    if (norm) norm->comm = comm;
    for (int64_t i = 0; i < ls_child_count(module); i++) synchronise(ls_child_at(module, i), comm);
}

void ls_sync_batch_norm(ls_run *run, ls_module *module)
{
    if (!module || ls_failed(run) || ls_world_size(run) == 1) return;
    ls_comm *comm = ls_comm_of(run);
    if (comm) synchronise(module, comm);
}

void ls_average_parameters(ls_run *run, ls_module *module)
{
    if (!module || ls_failed(run) || ls_world_size(run) == 1) return;
    const ls_state *parameters = ls_parameters(module);
    for (int64_t i = 0; i < ls_state_count(parameters) && !ls_failed(run); i++) {
        ls_mark mark = ls_scope_begin(run);
        ls_tensor *parameter = ls_state_tensor(parameters, i);
        ls_assign(parameter, ls_reduce(run, ls_detach(parameter), LS_REDUCE_MEAN));
        ls_scope_end(run, mark, NULL);
    }
}
