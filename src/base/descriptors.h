/* descriptors.h - 0, 1 and 2 are stdin, stdout and stderr, and never anything else.
 *
 * A program that is started without one of them (`>&-`) would get its number for the next file it opens: what is
 * printed would land in a checkpoint or on a connection. */
#ifndef LOCKSTEP_BASE_DESCRIPTORS_H
#define LOCKSTEP_BASE_DESCRIPTORS_H

#include <sys/types.h>

/* Let those that are closed be /dev/null. Happens by itself when the library is loaded, and again in ls_init(). */
void ls_descriptors_fill(void);

/* open() with O_CLOEXEC for files that are written to: the number is above 2 also where the program has closed one of
 * those meanwhile. -1 and errno on failure. */
int ls_descriptor_open(const char *path, int flags, mode_t mode);

#endif
