/* machine.h - which machine a process runs on. */
#ifndef LOCKSTEP_BASE_MACHINE_H
#define LOCKSTEP_BASE_MACHINE_H

#include <stdint.h>

/* The same for all processes on one kernel, also in different containers; different on another machine, or after a
 * reboot. */
uint64_t ls_machine_key(void);

#endif
