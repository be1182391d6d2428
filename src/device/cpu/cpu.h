/* cpu.h - the CPU's operators: one function per row of ops.def that enters a device.
 *
 * Each runs one call to completion on operands in host memory, on the thread team of src/base/parallel.h. The operand
 * order of an opcode is documented above its function. Callers have checked shapes and types; errors that depend on
 * data (an index out of range) are checked here and reported through `why`. */
#ifndef LOCKSTEP_DEVICE_CPU_H
#define LOCKSTEP_DEVICE_CPU_H

#include <lockstep/plugin.h>

#include "base/message.h"

/* Run any operator. LS_ERR_UNSUPPORTED for rows that never enter a device. */
ls_status ls_cpu_run(const ls_call *call, ls_message *why);

#define LS_CPU_KERNEL(name) ls_status ls_cpu_##name(const ls_call *call, ls_message *why);
#define LS_CPU_GRAD(name) LS_CPU_KERNEL(name)
#define LS_CPU_UPDATE(name) LS_CPU_KERNEL(name)
#define LS_CPU_VIEW(name)
#define LS_CPU_BUILT(name)
#define LS_CPU_COLLECTIVE(name)
#define LS_OP(name, kind, policy, gradient, attributes, summary) LS_CPU_##kind(name)
#include <lockstep/ops.def>
#undef LS_OP
#undef LS_CPU_KERNEL
#undef LS_CPU_GRAD
#undef LS_CPU_UPDATE
#undef LS_CPU_VIEW
#undef LS_CPU_BUILT
#undef LS_CPU_COLLECTIVE

#endif
