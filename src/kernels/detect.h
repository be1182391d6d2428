/* detect.h - which ISAs CPU and operating system support together. */
#ifndef LOCKSTEP_KERNELS_DETECT_H
#define LOCKSTEP_KERNELS_DETECT_H

#include "kernels/kernels.h"

/* Sets usable[isa] for every ISA this process can run; LS_ISA_REF always. An ISA needs all lower ones of its
 * architecture. Asks the system for the AMX state, which a process must do before its first use. */
void ls_isa_detect(bool usable[LS_ISA_COUNT]);

/* True when the ISA belongs to the architecture this was compiled for. */
bool ls_isa_is_native(ls_isa isa);

#endif
