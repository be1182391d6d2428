/* descriptors.h - 0, 1 and 2 are stdin, stdout and stderr, and never anything else.
 *
 * In a program that is started without one of them (`>&-`) the next file it opens would get that number, and printed
 * text would end up in a checkpoint or on a connection. */
#ifndef LOCKSTEP_BASE_DESCRIPTORS_H
#define LOCKSTEP_BASE_DESCRIPTORS_H

#include <sys/types.h>

/* Open /dev/null for those that are closed. Called when the library is loaded, and again by ls_init(). */
void ls_descriptors_fill(void);

/* open() with O_CLOEXEC for files that are written to: the number is above 2 even if the program has closed one of
 * those meanwhile. -1 and errno on failure. */
int ls_descriptor_open(const char *path, int flags, mode_t mode);

#endif
