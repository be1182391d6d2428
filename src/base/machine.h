/* machine.h - which machine a process runs on. */
#ifndef LOCKSTEP_BASE_MACHINE_H
#define LOCKSTEP_BASE_MACHINE_H

#include <stdint.h>

/* The same for all processes on one kernel, also in different containers; different on another machine, or after a
 * reboot. */
uint64_t ls_machine_key(void);
/* The same in one container, or on a machine without; containers on one machine may number its devices differently. */
uint64_t ls_host_key(void);

#endif
