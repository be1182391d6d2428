/* fault.c - the host side of fault.h: memory that the device writes and the host reads without a copy. */
#include "fault.h"

#include <stdio.h>

ls_status cuda_fault_new(cuda_device *d, ls_message *why)
{
    void *memory = NULL;
    CUDA_TRY(cuda_check(cudaHostAlloc(&memory, sizeof *d->fault, cudaHostAllocDefault), "memory for faults", why));
    memset(memory, 0, sizeof *d->fault);
    d->fault = memory;
    CUDA_TRY(cuda_check(cudaMalloc((void **)&d->fault->taken, sizeof *d->fault->taken), "memory for faults", why));
    return cuda_check(cudaMemset(d->fault->taken, 0, sizeof *d->fault->taken), "memory for faults", why);
}

void cuda_fault_free(cuda_device *d)
{
    if (!d->fault) return;
    cudaFree(d->fault->taken);
    cudaFreeHost(d->fault);
    d->fault = NULL;
}

cuda_fault_site cuda_fault_at(const cuda_device *d, const ls_call *call)
{
    return (cuda_fault_site){
        .taken = d->fault->taken, .written = d->fault, .site = call->site, .op = (int32_t)call->op};
}

ls_status cuda_fault_read(cuda_device *d, void (*blame)(const char *site, ls_opcode op, ls_message *why),
                          ls_message *why)
{
    cuda_fault *fault = d->fault;
    if (!__atomic_exchange_n(&fault->there, 0, __ATOMIC_ACQUIRE)) return LS_OK; /* only one thread reports it */
    bool is_target = fault->op == LS_OP_cross_entropy || fault->op == LS_OP_cross_entropy_grad ||
                     fault->op == LS_OP_nll_loss || fault->op == LS_OP_nll_loss_grad;
    cuda_refuse(why, LS_ERR_VALUE,
                is_target ? "target %lld is out of range for %lld classes" : "index %lld is out of range for %lld rows",
                (long long)fault->index, (long long)fault->limit);
    if (why && blame) blame(fault->site, (ls_opcode)fault->op, why);
    cudaMemset(fault->taken, 0, sizeof *fault->taken);
    return LS_ERR_VALUE;
}
