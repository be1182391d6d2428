/* bytes.h - little-endian numbers at any address. */
#ifndef LOCKSTEP_FORMATS_BYTES_H
#define LOCKSTEP_FORMATS_BYTES_H

#include <stdint.h>
#include <string.h>

static inline uint64_t ls_little_endian(const void *bytes, int count)
{
    const unsigned char *b = bytes;
    uint64_t value = 0;
    while (count-- > 0) value = value << 8 | b[count];
    return value;
}

static inline uint16_t ls_u16(const void *bytes)
{
    return (uint16_t)ls_little_endian(bytes, 2);
}

static inline uint32_t ls_u32(const void *bytes)
{
    return (uint32_t)ls_little_endian(bytes, 4);
}

static inline uint64_t ls_u64(const void *bytes)
{
    return ls_little_endian(bytes, 8);
}

#endif
