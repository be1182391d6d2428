/* huffman.h - Huffman codes of a baseline JPEG scan: tables, and a bit reader that decodes blocks with them.
 *
 * Everything here is optimised for valid data. Invalid data (an unknown code, missing bits) sets a flag, and the caller
 * lets libjpeg report the error. */
#ifndef LOCKSTEP_DATA_IMAGE_HUFFMAN_H
#define LOCKSTEP_DATA_IMAGE_HUFFMAN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ---- Tables ---- */

enum { LS_HUFF_PEEK = 10, LS_HUFF_PAIR = 11, LS_HUFF_LONGEST = 16, LS_HUFF_SYMBOLS = 256 };

/* A symbol, packed: from bit 0 its bits including the value bits that follow, from bit 8 the length of its code, from
 * bit 16 the number of value bits, from bit 24, for coefficients, the zeros before it. End of block counts as 63 zeros,
 * which leaves the block. 0: no symbol. */
typedef uint32_t ls_huff_entry;

/* The meaning of the next bits, values included: one coefficient, or two, or one and the end of the block. Packed:
 *   0  bits consumed, repeated at 8: those at 0 can be used as a shift count directly, which shortens the critical path
 *  13  bits of the second part     17  positions that the block advances; 64 ends it
 *  24  zeros before the first      32  positions from the first to the second; if there is none, outside the block
 *  40  value of the first          52  value of the second
 *
 * No bits and 127 positions: too long for a lookup. The end of a block needs a second test anyway. */
typedef uint64_t ls_huff_pair;

/* The meaning of the next bits for skipping: as many symbols as begin in them. Packed: at 0 and 8 the bits consumed
 * with values, at 16 the positions that the block advances, 64 more at its end. No bits and 128 positions: too long for
 * a lookup. */
typedef uint32_t ls_huff_skip_entry;

typedef struct ls_huff_table {
    ls_huff_skip_entry skip[1 << LS_HUFF_PAIR];
    ls_huff_pair pair[1 << LS_HUFF_PAIR];  /* for coefficients */
    ls_huff_entry peek[1 << LS_HUFF_PEEK]; /* by the next bits; 0: the code is longer, or does not exist */
    int32_t last[LS_HUFF_LONGEST + 2];     /* the largest code of each length, left-aligned in 16 bits; -1: none */
    int32_t offset[LS_HUFF_LONGEST + 2];   /* from a code to its index in `symbols` */
    ls_huff_entry symbols[LS_HUFF_SYMBOLS];
    uint8_t made_of[LS_HUFF_LONGEST + LS_HUFF_SYMBOLS]; /* counts and symbols of the file; all 0: not built */
} ls_huff_table;

/* Build from the number of codes per length and the symbols in that order; false if they do not form a code, or contain
 * symbols that an 8-bit image does not have. A table already built from these is left unchanged. */
bool ls_huff_make(ls_huff_table *t, const uint8_t counts[LS_HUFF_LONGEST], const uint8_t *symbols, int count,
                  bool coefficients);

/* ---- Bits ---- */

/* The reader's memory ends with LS_HUFF_BEYOND zeros: the six blocks of a unit, of at most 27 + 63 * 26 bits each,
 * cannot read past them, so the end is checked once per unit. Stuffed bytes have been removed. */
enum { LS_HUFF_BEYOND = 4096 };

typedef struct ls_huff_reader {
    const uint8_t *next, *end;
    uint64_t bits; /* the next ones, from the left */
    int count;     /* number of valid bits */
    bool bad;      /* a code did not exist */
} ls_huff_reader;

/* Were all codes so far valid, and within the data? */
static inline bool ls_huff_is_sound(const ls_huff_reader *r)
{
    return !r->bad && r->next - (r->count >> 3) <= r->end;
}

/* ---- Blocks ---- */

/* The position of the n-th coefficient of a scan in a block, row-major; beyond 63, a position that is never read. */
enum { LS_JPEG_PLACES = 256 };
extern const uint8_t ls_jpeg_natural[LS_JPEG_PLACES];
enum { LS_JPEG_BLOCK = 64 + 8 };

/* The decoding state of a component. */
typedef struct ls_huff_part {
    const ls_huff_table *dc, *ac;
    int32_t level; /* the current first coefficient */
    int blocks;    /* in a unit of the scan */
} ls_huff_part;

/* Decode units of all components. Blocks are stored in scan order: unit by unit, component by component. used: how many
 * coefficients of each, in scan order, may be nonzero. */
typedef struct ls_huff_block {
    int16_t coefficients[LS_JPEG_BLOCK];
} ls_huff_block;
void ls_huff_units(ls_huff_reader *r, ls_huff_part *const *parts, int count, int64_t units, ls_huff_block *blocks,
                   uint8_t *used);
/* Skip units while they are valid. */
void ls_huff_skip_units(ls_huff_reader *r, ls_huff_part *const *parts, int count, int64_t units);

#endif
