/* cpu.c - dispatch from an opcode to the CPU function that runs it. */
#include "device/cpu/cpu.h"

#include "device/facts.h"

typedef ls_status cpu_op(const ls_call *call, ls_message *why);

static cpu_op *const cpu_ops[LS_OP_COUNT] = {
#define LS_CPU_KERNEL(name) [LS_OP_##name] = ls_cpu_##name,
#define LS_CPU_GRAD(name) LS_CPU_KERNEL(name)
#define LS_CPU_UPDATE(name) LS_CPU_KERNEL(name)
#define LS_CPU_VIEW(name)
#define LS_CPU_BUILT(name)
#define LS_CPU_COLLECTIVE(name)
#define LS_OP(name, kind, policy, gradient, attributes, summary) LS_CPU_##kind(name)
#include <lockstep/ops.def>
#undef LS_OP
};

/* Out of line, to keep the common path short. */
static __attribute__((noinline)) ls_status run_live(cpu_op *op, const ls_call *call, ls_message *why)
{
    ls_call settled = *call;
    ls_call_settle(&settled);
    return op(&settled, why);
}

ls_status ls_cpu_run(const ls_call *call, ls_message *why)
{
    cpu_op *op = (unsigned)call->op < LS_OP_COUNT ? cpu_ops[call->op] : NULL;
    if (!op) return ls_explain(why, LS_ERR_UNSUPPORTED, "opcode %d has no CPU kernel", (int)call->op);
    return call->live ? run_live(op, call, why) : op(call, why);
}
