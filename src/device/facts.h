/* facts.h - properties of operators besides their names: effects on operands, and attributes. */
#ifndef LOCKSTEP_DEVICE_FACTS_H
#define LOCKSTEP_DEVICE_FACTS_H

#include <lockstep/plugin.h>

/* Also exported to plug-ins through ls_host. */
const char *ls_op_name(ls_opcode op);
ls_effects ls_op_effects(const ls_call *call);
size_t ls_op_attrs_size(ls_opcode op);

/* ---- Live values: see ls_call.live ---- */

enum { LS_LIVE_MOST = 4 };
/* Move the values that change from step to step out of the call's attributes; returns how many. 0 if they are a seed
 * and an offset. */
int ls_call_take_live(ls_call *call, double number[LS_LIVE_MOST]);
/* Put live values, which are in host memory, back into the attributes, where kernels read them. */
void ls_call_settle(ls_call *call);

#endif
