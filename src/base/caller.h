/* caller.h - where in the user's program a call into the library came from. */
#ifndef LOCKSTEP_BASE_CALLER_H
#define LOCKSTEP_BASE_CALLER_H

#include <stddef.h>

/* The first stack frame outside the library: "train_epoch in ./pets+0x1a2b", which addr2line -e turns into a line.
 * Empty if unknown: in a program with the library linked statically, or without backtrace().
 * Slow, and not for signal handlers. */
void ls_caller_text(char *text, size_t size);

#endif
