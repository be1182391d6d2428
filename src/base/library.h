/* library.h - shared objects that are opened while a program runs: devices and transports. */
#ifndef LOCKSTEP_BASE_LIBRARY_H
#define LOCKSTEP_BASE_LIBRARY_H

#include "base/message.h"
/* Open plug-in `name`: a path as it is; else liblockstep-<name>.so in the folders of LOCKSTEP_PLUGIN_PATH, then for
 * this library and for this program in its folder, in `lockstep` and `lib/lockstep` below it and in `lib/lockstep`
 * beside it, then where the linker looks. The program's signals stay as they are. `what` names its kind in messages.
 * NULL: not found, or it cannot be loaded. */
void *ls_library_open(const char *what, const char *name, ls_message *why);

/* A function that it exports; NULL: it does not. */
typedef void (*ls_library_fn)(void);
ls_library_fn ls_library_function(void *library, const char *name);

#endif
