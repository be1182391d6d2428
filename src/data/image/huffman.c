/* huffman.c - build the code tables, and decode the codes that are too long for a table lookup. */
#include "data/image/huffman.h"

#define OUTSIDE 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64
const uint8_t ls_jpeg_natural[LS_JPEG_PLACES] = {
    0,       1,       8,       16,      9,       2,       3,       10,      17,      24,      32,      25, 18,
    11,      4,       5,       12,      19,      26,      33,      40,      48,      41,      34,      27, 20,
    13,      6,       7,       14,      21,      28,      35,      42,      49,      56,      57,      50, 43,
    36,      29,      22,      15,      23,      30,      37,      44,      51,      58,      59,      52, 45,
    38,      31,      39,      46,      53,      60,      61,      54,      47,      55,      62,      63, OUTSIDE,
    OUTSIDE, OUTSIDE, OUTSIDE, OUTSIDE, OUTSIDE, OUTSIDE, OUTSIDE, OUTSIDE, OUTSIDE, OUTSIDE, OUTSIDE,
};

/* ---- Tables ---- */

/* The meaning of a symbol in the file; 0 if an 8-bit image cannot contain it. */
static ls_huff_entry entry_of(uint32_t symbol, uint32_t length, bool coefficients)
{
    enum { LARGEST_DC = 11, LARGEST_AC = 10, END_OF_BLOCK = 0x00, SIXTEEN_ZEROS = 0xf0 };
    uint32_t size = coefficients ? symbol & 15 : symbol;
    uint32_t run = coefficients ? symbol == END_OF_BLOCK ? 63 : symbol >> 4 : 0;
    bool sound = size <= (coefficients ? LARGEST_AC : LARGEST_DC);
    if (coefficients && size == 0) sound = symbol == END_OF_BLOCK || symbol == SIXTEEN_ZEROS;
    return sound ? (length + size) | length << 8 | size << 16 | run << 24 : 0;
}

/* The value of the bits after a code: the upper half of the range is positive, the lower half negative. */
static inline int32_t number(uint64_t bits, ls_huff_entry e)
{
    uint64_t at = bits << (e >> 8 & 63);
    uint32_t size = e >> 16 & 15;
    int32_t magnitude = (int32_t)(at >> 1 >> (63 - size)), negative = (int32_t)(~(int64_t)at >> 63);
    return magnitude + (negative & (1 - (1 << size)));
}

enum { NO_SECOND = 128 };                  /* positions: outside every block */
#define TOO_LONG ((ls_huff_pair)127 << 17) /* an invalid pair */
enum { TOO_LONG_TO_SKIP = 128 << 16 };

/* A single symbol as a pair; `value` is its number. */
static inline ls_huff_pair single(ls_huff_entry e, int32_t value)
{
    uint64_t run = e >> 24;
    uint64_t bits = e & 63;
    return bits | bits << 8 | (run + 1) << 17 | run << 24 | (uint64_t)NO_SECOND << 32 | (uint64_t)(value & 0xfff) << 40;
}

static inline int pair_bits(ls_huff_pair p)
{
    return (int)(p >> 8 & 31);
}

static inline int pair_places(ls_huff_pair p)
{
    return (int)(p >> 17 & 127);
}

/* First each symbol alone, then combined with the one that follows it, as far as the bits reach. */
static void make_pairs(ls_huff_table *t)
{
    enum { COUNT = 1 << LS_HUFF_PAIR };
    ls_huff_pair alone[COUNT];
    for (uint64_t i = 0; i < COUNT; i++) {
        ls_huff_entry e = t->peek[i >> (LS_HUFF_PAIR - LS_HUFF_PEEK)];
        bool fits = e && (e & 63) <= LS_HUFF_PAIR;
        alone[i] = fits ? single(e, number(i << (64 - LS_HUFF_PAIR), e)) : 0;
    }
    for (uint64_t i = 0; i < COUNT; i++) {
        ls_huff_pair a = alone[i], b = alone[i << pair_bits(a) & (COUNT - 1)];
        t->pair[i] = a ? a : TOO_LONG;
        int bits = pair_bits(a) + pair_bits(b);
        if (a == 0 || pair_places(a) >= 64 || b == 0 || bits > LS_HUFF_PAIR) continue;
        uint64_t places = (uint64_t)(pair_places(a) + pair_places(b));
        uint64_t second = pair_places(b) >= 64 ? NO_SECOND : (b >> 24 & 255) + 1, zeros = a >> 24 & 255;
        t->pair[i] = (uint64_t)bits | (uint64_t)bits << 8 | (uint64_t)pair_bits(b) << 13 | places << 17 | zeros << 24 |
                     second << 32 | (a >> 40 & 0xfff) << 40 | (b >> 40 & 0xfff) << 52;
    }
}

/* As many symbols as begin within the bits; the value bits of the last one may lie beyond. A run of symbols that would
 * fill the block without its end code is left to the pairs, which stop there correctly. */
static void make_skips(ls_huff_table *t)
{
    enum { COUNT = 1 << LS_HUFF_PAIR };
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t bits = 0, places = 0;
        while (bits < LS_HUFF_PAIR && places < 64) {
            ls_huff_entry e = t->peek[(i << bits & (COUNT - 1)) >> (LS_HUFF_PAIR - LS_HUFF_PEEK)];
            uint32_t run = e >> 24, length = e >> 8 & 63;
            if (e == 0 || bits + length > LS_HUFF_PAIR || (run != 63 && places + run + 1 > 63)) break;
            bits += e & 63;
            places += run + 1;
        }
        t->skip[i] = bits ? bits | bits << 8 | places << 16 : TOO_LONG_TO_SKIP;
    }
}

static bool make_codes(ls_huff_table *t, const uint8_t counts[LS_HUFF_LONGEST], const uint8_t *symbols, int count,
                       bool coefficients)
{
    memset(t->peek, 0, sizeof t->peek);
    int32_t code = 0;
    int at = 0;
    for (int length = 1; length <= LS_HUFF_LONGEST; length++, code <<= 1) {
        t->offset[length] = at - code;
        for (int i = 0; i < counts[length - 1]; i++, code++, at++) {
            if (at >= count || code >= 1 << length) return false;
            ls_huff_entry e = t->symbols[at] = entry_of(symbols[at], (uint32_t)length, coefficients);
            if (e == 0) return false;
            if (length > LS_HUFF_PEEK) continue;
            int spare = LS_HUFF_PEEK - length;
            for (int k = 0; k < 1 << spare; k++) t->peek[(code << spare) + k] = e;
        }
        t->last[length] = counts[length - 1] ? (code << (LS_HUFF_LONGEST - length)) - 1 : -1;
    }
    return at > 0;
}

bool ls_huff_make(ls_huff_table *t, const uint8_t counts[LS_HUFF_LONGEST], const uint8_t *symbols, int count,
                  bool coefficients)
{
    uint8_t made_of[sizeof t->made_of] = {0};
    memcpy(made_of, counts, LS_HUFF_LONGEST);
    memcpy(made_of + LS_HUFF_LONGEST, symbols, (size_t)count);
    if (count > 0 && memcmp(made_of, t->made_of, sizeof made_of) == 0) return true;
    memset(t->made_of, 0, sizeof t->made_of);
    if (!make_codes(t, counts, symbols, count, coefficients)) return false;
    if (coefficients) {
        make_pairs(t);
        make_skips(t);
    }
    memcpy(t->made_of, made_of, sizeof made_of);
    return true;
}

/* ---- Bits ---- */

#define HUFF static inline __attribute__((always_inline))

/* Load at least 56 bits. */
HUFF void fill(ls_huff_reader *r)
{
    uint64_t word;
    memcpy(&word, r->next, sizeof word);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    r->bits |= word >> (r->count & 63);
    r->next += (63 - r->count) >> 3;
    r->count |= 56;
}

/* A code that is not in the lookup table. */
static __attribute__((noinline)) ls_huff_entry find_long_code(const ls_huff_table *t, uint64_t bits)
{
    int32_t code = (int32_t)(bits >> (64 - LS_HUFF_LONGEST));
    for (int length = LS_HUFF_PEEK + 1; length <= LS_HUFF_LONGEST; length++)
        if (code <= t->last[length]) return t->symbols[t->offset[length] + (code >> (LS_HUFF_LONGEST - length))];
    return 0;
}

HUFF ls_huff_entry long_code(ls_huff_reader *r, const ls_huff_table *t)
{
    ls_huff_entry e = find_long_code(t, r->bits);
    r->bad |= e == 0;
    return e;
}

/* ---- Blocks ----
 *
 * Decoding has one critical path from lookup to lookup: the next bits index a table, and its entry shifts them. Bits
 * are refilled off that path, between a lookup and the resulting shift. Readers are copied so that they stay in
 * registers. */

/* Small loops with different steps: unrolled completely. */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 4")
#endif

/* The first coefficient of a block: a difference of brightness. */
HUFF void next_level(ls_huff_reader *r, ls_huff_part *part)
{
    ls_huff_entry e = part->dc->peek[r->bits >> (64 - LS_HUFF_PEEK)];
    fill(r);
    if (__builtin_expect(e == 0, 0)) e = long_code(r, part->dc);
    part->level = (int32_t)((uint32_t)part->level + (uint32_t)number(r->bits, e)); /* any number, in damaged data */
    r->bits <<= e & 63;
    r->count -= (int)(e & 63);
}

/* The next coefficients, if they are in the lookup table. */
HUFF ls_huff_pair look(const ls_huff_reader *r, const ls_huff_table *t)
{
    return t->pair[r->bits >> (64 - LS_HUFF_PAIR)];
}

/* The same for a code that is too long for it. */
HUFF ls_huff_pair look_closely(ls_huff_reader *r, const ls_huff_table *t)
{
    fill(r);
    ls_huff_entry e = t->peek[r->bits >> (64 - LS_HUFF_PEEK)];
    if (e == 0) e = long_code(r, t);
    return single(e, number(r->bits, e));
}

HUFF void take_pair(ls_huff_reader *r, ls_huff_pair p)
{
    r->bits <<= p & 63;
    r->count -= pair_bits(p);
}

HUFF void put_pair(ls_huff_pair p, int k, int16_t *coefficients)
{
    const uint8_t *place = ls_jpeg_natural + k + (p >> 24 & 255);
    coefficients[place[0]] = (int16_t)((int64_t)(p << 12) >> 52);
    coefficients[place[p >> 32 & 255]] = (int16_t)((int64_t)p >> 52);
}

/* The block is full: if its last coefficient was the first of a pair, the second of that pair belongs to the next
 * block. `k` is the position before the pair; returns the position after it. */
HUFF int settle_end(ls_huff_reader *r, ls_huff_pair p, int k)
{
    int back = (int)(p >> 13 & 15), unread = r->count + back;
    if (__builtin_expect(back == 0 || k + (int)(p >> 24 & 255) != 63, 1)) return k + pair_places(p);
    r->next -= (unread + 7) >> 3;
    r->bits = 0;
    r->count = 0;
    fill(r);
    r->bits <<= -unread & 7;
    r->count -= -unread & 7;
    return 64;
}

/* Decode pairs while they stay in the block, four per refill; returns the one that does not. */
HUFF ls_huff_pair take_pairs(ls_huff_reader *r, const ls_huff_table *t, int *k, int16_t *coefficients)
{
    for (;;) {
        UNROLL for (int i = 0; i < 4; i++)
        {
            ls_huff_pair p = look(r, t);
            if (*k + pair_places(p) >= 64) return p;
            if (i == 0) fill(r);
            put_pair(p, *k, coefficients);
            take_pair(r, p);
            *k += pair_places(p);
        }
    }
}

/* Decode one block; returns how many of its coefficients may be nonzero. */
HUFF int take_block(ls_huff_reader *r, ls_huff_part *part, int16_t *coefficients)
{
    memset(coefficients, 0, sizeof(ls_huff_block));
    next_level(r, part);
    coefficients[0] = (int16_t)part->level;
    for (int k = 1;;) {
        ls_huff_pair p = take_pairs(r, part->ac, &k, coefficients);
        if (__builtin_expect(pair_bits(p) == 0, 0)) p = look_closely(r, part->ac);
        put_pair(p, k, coefficients);
        fill(r);
        take_pair(r, p);
        if (k + pair_places(p) >= 64) {
            k = settle_end(r, p, k);
            return k > 64 ? k - 64 : 64;
        }
        k += pair_places(p);
    }
}

void ls_huff_units(ls_huff_reader *reader, ls_huff_part *const *parts, int count, int64_t units, ls_huff_block *blocks,
                   uint8_t *used)
{
    ls_huff_reader r = *reader;
    fill(&r); /* from here on there are always enough bits for a lookup */
    for (int64_t unit = 0; unit < units && ls_huff_is_sound(&r); unit++)
        for (int i = 0; i < count; i++)
            for (int block = 0; block < parts[i]->blocks; block++)
                *used++ = (uint8_t)take_block(&r, parts[i], (blocks++)->coefficients);
    *reader = r;
}

/* ---- Skipping ---- */

/* Skip from position k on, symbol by symbol. */
static __attribute__((noinline)) ls_huff_reader finish_skip(ls_huff_reader r, const ls_huff_table *t, int k)
{
    for (;;) {
        fill(&r);
        ls_huff_pair p = look(&r, t);
        if (pair_bits(p) == 0) p = look_closely(&r, t);
        take_pair(&r, p);
        if (k + pair_places(p) >= 64) {
            settle_end(&r, p, k);
            return r;
        }
        k += pair_places(p);
    }
}

HUFF void take_skip(ls_huff_reader *r, ls_huff_skip_entry w)
{
    r->bits <<= w & 63;
    r->count -= (int)(w >> 8 & 255);
}

/* Skip symbols while they stay in the block; returns those that do not. They take at most 21 bits: two per refill. */
HUFF ls_huff_skip_entry take_skips(ls_huff_reader *r, const ls_huff_table *t, int *k)
{
    for (;;) {
        UNROLL for (int i = 0; i < 2; i++)
        {
            ls_huff_skip_entry w = t->skip[r->bits >> (64 - LS_HUFF_PAIR)];
            if (*k + (int)(w >> 16) >= 64) return w;
            if (i == 0) fill(r);
            take_skip(r, w);
            *k += (int)(w >> 16);
        }
    }
}

HUFF void skip_block(ls_huff_reader *r, ls_huff_part *part)
{
    int k = 1;
    next_level(r, part);
    ls_huff_skip_entry w = take_skips(r, part->ac, &k);
    fill(r);
    /* Valid if the end of the block was among the symbols and nothing before it left the block. */
    if (__builtin_expect(w >> 16 < 64 || k + (int)(w >> 16) >= 128, 0)) *r = finish_skip(*r, part->ac, k);
    else take_skip(r, w);
}

void ls_huff_skip_units(ls_huff_reader *reader, ls_huff_part *const *parts, int count, int64_t units)
{
    ls_huff_reader r = *reader;
    fill(&r); /* from here on there are always enough bits for a lookup */
    for (int64_t unit = 0; unit < units && ls_huff_is_sound(&r); unit++)
        for (int i = 0; i < count; i++)
            for (int block = 0; block < parts[i]->blocks; block++) skip_block(&r, parts[i]);
    *reader = r;
}
