/* tpus.h - TPU chips of this host, counted without opening them: the process may still fork. */
#ifndef LOCKSTEP_DEVICE_TPUS_H
#define LOCKSTEP_DEVICE_TPUS_H

#include <lockstep/base.h>

#define LS_TPU_PLUGIN "xla"

/* The chips that the system lists among its PCI devices; 0: there are none, or the driver or the plug-in is missing.
 * `kind`, which may be NULL, gets what they are: "TPU v5e". */
int ls_tpus_count(const char **kind);

#endif
