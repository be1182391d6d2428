/* caller.h - where in the user's program a call into the library came from. */
#ifndef LOCKSTEP_BASE_CALLER_H
#define LOCKSTEP_BASE_CALLER_H

#include <stddef.h>

/* The first frame of the stack outside of the library: "train_epoch in ./pets+0x1a2b", where addr2line -e finds the
 * line. Empty where that cannot be told: in a program that has the library linked into it, or without backtrace().
 * Slow, and not for signal handlers. */
void ls_caller_text(char *text, size_t size);

#endif
