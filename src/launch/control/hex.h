/* hex.h - bytes as text, two digits each, for protocols that carry text alone. */
#ifndef LOCKSTEP_LAUNCH_CONTROL_HEX_H
#define LOCKSTEP_LAUNCH_CONTROL_HEX_H

#include <stdbool.h>
#include <stddef.h>

void ls_hex_write(const void *bytes, size_t size, char *text); /* 2 * size characters and a terminating zero */
bool ls_hex_read(const char *text, void *bytes, size_t size);  /* false: not the text of `size` bytes */

#endif
