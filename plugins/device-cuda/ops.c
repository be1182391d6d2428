/* ops.c - from an opcode to the function that enqueues it. */
#include "cuda.h"

static cuda_op *const functions[LS_OP_COUNT] = {
#define LS_CUDA_KERNEL(name) [LS_OP_##name] = cuda_##name,
#define LS_CUDA_GRAD(name) LS_CUDA_KERNEL(name)
#define LS_CUDA_UPDATE(name) LS_CUDA_KERNEL(name)
#define LS_CUDA_VIEW(name)
#define LS_CUDA_BUILT(name)
#define LS_CUDA_COLLECTIVE(name)
#define LS_OP(name, kind, policy, gradient, attributes, summary) LS_CUDA_##kind(name)
#include <lockstep/ops.def>
#undef LS_OP
};

bool cuda_has(ls_opcode op)
{
    return (unsigned)op < LS_OP_COUNT && functions[op];
}

ls_status cuda_run(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    cuda_count_call(d);
    return (cuda_has(call->op) ? functions[call->op] : cuda_on_host)(d, stream, call, why);
}
