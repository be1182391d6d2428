/* version.h - the release: of the headers at compile time, of the library at run time.
 *
 * The build reads the numbers from here. Programs linked with one major version run with every later library of the
 * same major version; the major number is also that of liblockstep.so.N. */
#ifndef LOCKSTEP_VERSION_H
#define LOCKSTEP_VERSION_H

#include <lockstep/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LS_VERSION_MAJOR 0
#define LS_VERSION_MINOR 1
#define LS_VERSION_PATCH 0

/* "0.1.0" of the library that was loaded; static, never NULL. */
LS_API const char *ls_version(void);

#ifdef __cplusplus
}
#endif
#endif
