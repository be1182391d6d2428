/* huffman.h - the codes of a baseline JPEG scan: tables, and a reader of bits that decodes blocks with them.
 *
 * Everything here is for sound data and speed. What does not fit (a code that does not exist, bits that run out) sets a
 * flag, and the caller lets libjpeg say what is wrong. */
#ifndef LOCKSTEP_DATA_IMAGE_HUFFMAN_H
#define LOCKSTEP_DATA_IMAGE_HUFFMAN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ---- Tables ---- */

enum { LS_HUFF_PEEK = 10, LS_HUFF_PAIR = 11, LS_HUFF_LONGEST = 16, LS_HUFF_SYMBOLS = 256 };

/* A symbol, packed: from bit 0 the bits it takes with the number that follows it, from bit 8 the length of its code,
 * from bit 16 the size of the number, from bit 24, for coefficients, the zeros before it. End of block counts as 63
 * zeros, which leaves the block. 0: no symbol. */
typedef uint32_t ls_huff_entry;

/* What the next bits say, numbers included: one coefficient, or two, or one and the end of the block. Packed:
 *   0  bits that it takes, and once more at 8: those at 0 can shift as they are, which is a step less from look to look
 *  13  bits of the second part     17  places that the block advances; 64 ends it
 *  24  zeros before the first      32  places from the first to the second; without one, so many that it falls outside
 *  40  value of the first          52  value of the second
 *
 * No bits and 127 places: too long for a quick look. Whoever sees a block end has to look twice anyway. */
typedef uint64_t ls_huff_pair;

/* What the next bits say to someone who only walks past: as many symbols as begin in them. Packed: at 0 and 8 the bits
 * they take with their numbers, at 16 the places that the block advances, 64 more at its end. No bits and 128 places:
 * as above. */
typedef uint32_t ls_huff_walk;

typedef struct ls_huff_table {
    ls_huff_walk walk[1 << LS_HUFF_PAIR];
    ls_huff_pair pair[1 << LS_HUFF_PAIR];  /* of coefficients */
    ls_huff_entry peek[1 << LS_HUFF_PEEK]; /* by the next bits; 0: the code is longer, or does not exist */
    int32_t last[LS_HUFF_LONGEST + 2];     /* the greatest code of each length, from the left in 16 bits; -1: none */
    int32_t offset[LS_HUFF_LONGEST + 2];   /* from a code to its place in `symbols` */
    ls_huff_entry symbols[LS_HUFF_SYMBOLS];
    uint8_t
        made_of[LS_HUFF_LONGEST + LS_HUFF_SYMBOLS]; /* counts and symbols as the file has them; all 0: nothing yet */
} ls_huff_table;

/* From the counts of codes by length and the symbols in that order; false when these make no code, or one with symbols
 * that a picture of 8 bits does not have. A table that is already made of these is left as it is. */
bool ls_huff_make(ls_huff_table *t, const uint8_t counts[LS_HUFF_LONGEST], const uint8_t *symbols, int count,
                  bool coefficients);

/* ---- Bits ---- */

/* The reader's memory ends with LS_HUFF_BEYOND zeros: the six blocks of a unit, of at most 27 + 63 * 26 bits each,
 * cannot leave them, so the end is looked for once a unit. Stuffed bytes have been taken out. */
enum { LS_HUFF_BEYOND = 4096 };

typedef struct ls_huff_reader {
    const uint8_t *next, *end;
    uint64_t bits; /* the next ones, from the left */
    int count;     /* of them that are valid */
    bool bad;      /* a code did not exist */
} ls_huff_reader;

/* Was everything so far a code, and in the data? */
static inline bool ls_huff_is_sound(const ls_huff_reader *r)
{
    return !r->bad && r->next - (r->count >> 3) <= r->end;
}

/* ---- Blocks ---- */

/* Where the n-th coefficient of a scan stands in a block, in reading order; beyond 63, in a place that nobody reads. */
enum { LS_JPEG_PLACES = 256 };
extern const uint8_t ls_jpeg_natural[LS_JPEG_PLACES];
enum { LS_JPEG_BLOCK = 64 + 8 };

/* What the blocks of a component are decoded with. */
typedef struct ls_huff_part {
    const ls_huff_table *dc, *ac;
    int32_t level; /* the running first coefficient */
    int blocks;    /* in a unit of the scan */
} ls_huff_part;

/* Decode units of all parts. Blocks stand in the order of the scan: unit by unit, part by part. used: how many
 * coefficients of each, in the order of the scan, may differ from zero. */
typedef struct ls_huff_block {
    int16_t coefficients[LS_JPEG_BLOCK];
} ls_huff_block;
void ls_huff_units(ls_huff_reader *r, ls_huff_part *const *parts, int count, int64_t units, ls_huff_block *blocks,
                   uint8_t *used);
/* Walk past units, as long as they are sound. */
void ls_huff_skip_units(ls_huff_reader *r, ls_huff_part *const *parts, int count, int64_t units);

#endif
