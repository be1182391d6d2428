/* crc.c - four bits at a time, from tables small enough to check by eye; eight bytes at a time,
 * from larger tables computed from these. */
#include "base/crc.h"

#include <string.h>

/* Entry i is the remainder of the four bits i; the polynomials are reflected: 0xedb88320 and 0x82f63b78. */
static const uint32_t remainders[16] = {
    0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
    0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
};
static const uint32_t remainders_castagnoli[16] = {
    0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
    0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

static uint32_t add_nibbles(const uint32_t table[16], uint32_t crc, const unsigned char *bytes, size_t size)
{
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

/* Below this, making the larger tables takes longer than they save. */
enum { MANY_BYTES = 1 << 16 };

/* tables[k][b] is the remainder of byte b followed by k zero bytes. */
static void make_tables(const uint32_t nibbles[16], uint32_t tables[8][256])
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b >> 4 ^ nibbles[b & 15];
        tables[0][b] = crc >> 4 ^ nibbles[crc & 15];
    }
    for (int k = 1; k < 8; k++)
        for (int b = 0; b < 256; b++) tables[k][b] = tables[k - 1][b] >> 8 ^ tables[0][tables[k - 1][b] & 255];
}

static uint32_t crc_of(const uint32_t nibbles[16], uint32_t crc, const unsigned char *bytes, size_t size)
{
    if (size < MANY_BYTES) return add_nibbles(nibbles, crc, bytes, size);
    uint32_t t[8][256];
    make_tables(nibbles, t);
    crc = ~crc;
    for (; size >= 8; size -= 8, bytes += 8) {
        uint64_t eight;
        memcpy(&eight, bytes, 8);
        eight ^= crc;
        crc = t[7][eight & 255] ^ t[6][eight >> 8 & 255] ^ t[5][eight >> 16 & 255] ^ t[4][eight >> 24 & 255] ^
              t[3][eight >> 32 & 255] ^ t[2][eight >> 40 & 255] ^ t[1][eight >> 48 & 255] ^ t[0][eight >> 56];
    }
    return add_nibbles(nibbles, ~crc, bytes, size);
}

uint32_t ls_crc32(uint32_t crc, const void *bytes, size_t size)
{
    return crc_of(remainders, crc, bytes, size);
}

uint32_t ls_crc32c(uint32_t crc, const void *bytes, size_t size)
{
    return crc_of(remainders_castagnoli, crc, bytes, size);
}
