/* facts.h - what is to be known of an operator besides its name: what it does to its operands, and its attributes. */
#ifndef LOCKSTEP_DEVICE_FACTS_H
#define LOCKSTEP_DEVICE_FACTS_H

#include <lockstep/plugin.h>

/* As ls_host has them. */
const char *ls_op_name(ls_opcode op);
ls_effects ls_op_effects(const ls_call *call);
size_t ls_op_attrs_size(ls_opcode op);

/* ---- Live values: see ls_call.live ---- */

enum { LS_LIVE_MOST = 3 };
/* Move the numbers that change from step to step out of the call's attributes; returns how many. None where they are a
 * seed and an offset. */
int ls_call_take_live(ls_call *call, double number[LS_LIVE_MOST]);
/* Put live values back where kernels look for them; they are in host memory. */
void ls_call_settle(ls_call *call);

#endif
