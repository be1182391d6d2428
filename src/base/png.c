/* png.c - PNG for drawings: each row as its difference from the row above, runs of equal bytes as one symbol.
 *
 * The deflate stream is one block with the fixed Huffman codes of RFC 1951. Matches only have distance 1: nearly all
 * bytes of the differences of a drawing are zero, and a run of 258 of them takes 13 bits. */
#include "base/png.h"

#include <string.h>

#include "base/crc.h"
#include "base/memory.h"

/* ---- deflate ---- */

typedef struct bits {
    ls_byte_buffer *to;
    uint32_t held; /* bits not yet written, first bit lowest */
    int count;
} bits;

static void put_bits(bits *b, uint32_t value, int count)
{
    b->held |= value << b->count;
    for (b->count += count; b->count >= 8; b->count -= 8) {
        unsigned char byte = (unsigned char)b->held;
        ls_byte_buffer_put(b->to, &byte, 1);
        b->held >>= 8;
    }
}

/* Huffman codes are packed from their highest bit. */
static void put_code(bits *b, uint32_t code, int count)
{
    uint32_t reversed = 0;
    for (int i = 0; i < count; i++) reversed |= (code >> i & 1) << (count - 1 - i);
    put_bits(b, reversed, count);
}

/* Literal bytes are symbols 0..255, 256 ends the block, lengths of matches follow. */
static void put_symbol(bits *b, uint32_t symbol)
{
    if (symbol < 144) put_code(b, 0x30 + symbol, 8);
    else if (symbol < 256) put_code(b, 0x190 + symbol - 144, 9);
    else if (symbol < 280) put_code(b, symbol - 256, 7);
    else put_code(b, 0xc0 + symbol - 280, 8);
}

/* A match of 3 to 258 bytes at distance 1: symbols 257..284 stand for ranges of lengths, which double in width every
 * four symbols, with extra bits for the length within; 285 is 258. */
static void put_run(bits *b, uint32_t length)
{
    if (length == 258) {
        put_symbol(b, 285);
    } else {
        int extra = 0;
        while (extra < 5 && length - 3 >= 8u << extra) extra++;
        uint32_t offset = length - 3, group = extra ? 4 * (uint32_t)extra + 4 : 0, base = extra ? 4u << extra : 0;
        put_symbol(b, 257 + group + ((offset - base) >> extra));
        put_bits(b, (offset - base) & ((1u << extra) - 1), extra);
    }
    put_code(b, 0, 5); /* distance 1 */
}

static void deflate(ls_byte_buffer *to, const unsigned char *bytes, size_t size)
{
    bits b = {.to = to};
    put_bits(&b, 1, 1); /* the last block */
    put_bits(&b, 1, 2); /* fixed codes */
    for (size_t i = 0; i < size;) {
        put_symbol(&b, bytes[i]);
        size_t run = 0;
        while (i + 1 + run < size && run < 258 && bytes[i + 1 + run] == bytes[i]) run++;
        if (run >= 3) put_run(&b, (uint32_t)run);
        i += 1 + (run >= 3 ? run : 0);
    }
    put_symbol(&b, 256);
    if (b.count) put_bits(&b, 0, 8 - b.count);
}

static uint32_t adler32(const unsigned char *bytes, size_t size)
{
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < size; i++) {
        a = (a + bytes[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

/* ---- chunks ---- */

static void put_u32(ls_byte_buffer *to, uint32_t value)
{
    unsigned char bytes[4] = {(unsigned char)(value >> 24), (unsigned char)(value >> 16), (unsigned char)(value >> 8),
                              (unsigned char)value};
    ls_byte_buffer_put(to, bytes, sizeof bytes);
}

static size_t begin_chunk(ls_byte_buffer *to, const char *type)
{
    put_u32(to, 0); /* its length, filled in later */
    ls_byte_buffer_put(to, type, 4);
    return to->length;
}

static void end_chunk(ls_byte_buffer *to, size_t begin)
{
    if (to->failed) return;
    size_t end = to->length;
    to->length = begin - 8;
    put_u32(to, (uint32_t)(end - begin));
    to->length = end;
    put_u32(to, ls_crc32(0, to->bytes + begin - 4, end - begin + 4));
}

/* The rows with their filter byte: the difference from the row above. */
static unsigned char *filtered(const unsigned char *pixels, size_t row_bytes, size_t rows)
{
    enum { FILTER_UP = 2 };
    unsigned char *out = ls_sys_alloc(rows * (row_bytes + 1) + 1);
    for (size_t y = 0; out && y < rows; y++) {
        unsigned char *to = out + y * (row_bytes + 1);
        const unsigned char *row = pixels + y * row_bytes;
        *to++ = FILTER_UP;
        for (size_t i = 0; i < row_bytes; i++) to[i] = (unsigned char)(row[i] - (y ? row[i - row_bytes] : 0));
    }
    return out;
}

void ls_png_put(ls_byte_buffer *to, const unsigned char *pixels, int width, int height)
{
    size_t row_bytes = (size_t)width * 3, size = (row_bytes + 1) * (size_t)height;
    unsigned char *rows = filtered(pixels, row_bytes, (size_t)height);
    to->failed = to->failed || !rows;
    ls_byte_buffer_put(to, "\x89PNG\r\n\x1a\n", 8);
    size_t chunk = begin_chunk(to, "IHDR");
    put_u32(to, (uint32_t)width);
    put_u32(to, (uint32_t)height);
    ls_byte_buffer_put(to, "\x08\x02\x00\x00\x00", 5); /* 8 bits, RGB, deflate, five filters, not interlaced */
    end_chunk(to, chunk);
    if (rows) {
        chunk = begin_chunk(to, "IDAT");
        ls_byte_buffer_put(to, "\x78\x01", 2); /* zlib's header: 32 KiB window, fastest */
        deflate(to, rows, size);
        put_u32(to, adler32(rows, size));
        end_chunk(to, chunk);
    }
    end_chunk(to, begin_chunk(to, "IEND"));
    ls_sys_free(rows);
}
