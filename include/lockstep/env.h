/* env.h - what the library found on this machine, and what it chose: for bug reports and for `lockstep env`. */
#ifndef LOCKSTEP_ENV_H
#define LOCKSTEP_ENV_H

#include <lockstep/base.h>

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version, machine, threads, instruction sets, settings in force, the launcher's file, transports between hosts and the
 * kernels chosen, as text or as JSON. config_file: a launcher file to use instead of the one in force, or NULL. */
LS_API void ls_env_print(FILE *to, bool json, const char *config_file);

#ifdef __cplusplus
}
#endif
#endif
