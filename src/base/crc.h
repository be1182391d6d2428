/* crc.h - cyclic redundancy checks of 32 bits: that of PNG, gzip and zip, and Castagnoli's, which TensorBoard uses.
 *
 * Start with 0 and pass the result to the next call to continue: ls_crc32(ls_crc32(0, a, n), b, m) covers both. */
#ifndef LOCKSTEP_BASE_CRC_H
#define LOCKSTEP_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

uint32_t ls_crc32(uint32_t crc, const void *bytes, size_t size);
uint32_t ls_crc32c(uint32_t crc, const void *bytes, size_t size);

#endif
