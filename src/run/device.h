/* device.h - the device that a run trains on. */
#ifndef LOCKSTEP_RUN_DEVICE_H
#define LOCKSTEP_RUN_DEVICE_H

#include "run/session.h"

/* Open the run's device, after its processes have met: the one that the program (`given`, NULL if it does not) or the
 * environment names, else this process's GPU, else the CPU. An error if it cannot be used, or if processes of this host
 * would share a GPU. */
void ls_run_open_device(ls_run *run, const char *given);

#endif
