/* library.h - shared objects that are opened at run time: devices and transports. */
#ifndef LOCKSTEP_BASE_LIBRARY_H
#define LOCKSTEP_BASE_LIBRARY_H

#include "base/message.h"
/* Open plug-in `name`: a path is used as it is; else liblockstep-<name>.so is searched in the folders of
 * LOCKSTEP_PLUGIN_PATH, then in the folder of this library and of this program, in `lockstep` and `lib/lockstep` below
 * it and in `lib/lockstep` beside it, then where the linker looks. Signal handlers are preserved. `what` names its kind
 * in messages. NULL: not found, or it cannot be loaded. */
void *ls_library_open(const char *what, const char *name, ls_message *why);

/* Is there a file of this name in one of these folders? It is not loaded, and the linker is not asked. */
bool ls_library_installed(const char *name);

/* A function that it exports; NULL if it does not. */
typedef void (*ls_library_fn)(void);
ls_library_fn ls_library_function(void *library, const char *name);

#endif
