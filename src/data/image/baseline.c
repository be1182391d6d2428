/* baseline.c - decode baseline JPEG files: one scan, Huffman codes, gray or YCbCr. */
#include "data/image/baseline.h"

#include "data/image/head.h"
#include "data/image/huffman.h"
#include "kernels/jpeg.h"

enum {
    PAD = 16,        /* bytes on both sides of a plane's rows: samples beside the image are read */
    AT_ONCE = 8,     /* units decoded before they are transformed: few enough for the L1 cache */
    MOST_BLOCKS = 6, /* in a unit */
};

/* One colour component. */
typedef struct component {
    int id, h, v; /* blocks per unit of the scan, across and down */
    int steps;
    ls_huff_part codes;
    int64_t block;                  /* samples on each side of a block */
    int64_t across, down_by;        /* pixels per sample */
    int64_t width, height;          /* valid samples */
    int64_t left, right, top, down; /* needed blocks: columns left..right-1, rows top..down-1 */
    uint8_t *plane;                 /* their samples */
    size_t pitch;
} component;

typedef struct decoder {
    int16_t steps[4][64]; /* in row-major order */
    bool has_steps[4];
    component part[3];
    int parts;
    int64_t width, height;    /* in the file */
    int64_t block;            /* samples on each side of a block */
    int64_t unit_height;      /* rows of pixels in a unit of the scan */
    int64_t units, unit_rows; /* in a row, and rows of them */
    int64_t restart;          /* units between restart markers; 0: none */
    bool jfif, adobe;
    int adobe_transform;
    const uint8_t *at, *end; /* the unread rest of the file */
    uint8_t *segment;        /* buffer for the data between markers, without stuffed bytes */
    ls_huff_table *dc, *ac;  /* [4] each */
    bool has_dc[4], has_ac[4];
    ls_huff_part *codes[3]; /* of the parts */
    const ls_jpeg_table *kernels;
    _Alignas(16) ls_huff_block blocks[AT_ONCE * MOST_BLOCKS];
    uint8_t used[AT_ONCE * MOST_BLOCKS];
} decoder;

/* ---- Headers: each returns false for an unsupported file ---- */

static bool read_steps(decoder *d, const uint8_t *p, size_t length)
{
    while (length > 0) {
        int slot = p[0] & 15;
        if (p[0] >> 4 || slot > 3 || length < 65) return false; /* steps of 16 bits are not baseline */
        for (int i = 0; i < 64; i++) d->steps[slot][ls_jpeg_natural[i]] = p[1 + i];
        d->has_steps[slot] = true;
        p += 65;
        length -= 65;
    }
    return true;
}

static bool read_codes(decoder *d, const uint8_t *p, size_t length)
{
    while (length > 0) {
        if (length < 17) return false;
        int slot = p[0] & 15, coefficients = p[0] >> 4, count = 0;
        for (int i = 0; i < 16; i++) count += p[1 + i];
        if (slot > 3 || coefficients > 1 || count > 256 || length < 17 + (size_t)count) return false;
        ls_huff_table *table = coefficients ? &d->ac[slot] : &d->dc[slot];
        if (!ls_huff_make(table, p + 1, p + 17, count, coefficients)) return false;
        *(coefficients ? &d->has_ac[slot] : &d->has_dc[slot]) = true;
        p += 17 + count;
        length -= 17 + (size_t)count;
    }
    return true;
}

static bool read_frame(decoder *d, const uint8_t *p, size_t length)
{
    if (d->parts || length < 6 || p[0] != 8) return false;
    d->height = (int64_t)ls_big_u16(p + 1);
    d->width = (int64_t)ls_big_u16(p + 3);
    d->parts = p[5];
    if ((d->parts != 1 && d->parts != 3) || length != 6 + 3 * (size_t)d->parts) return false;
    if (d->width < 1 || d->height < 1) return false;
    for (int i = 0; i < d->parts; i++) {
        const uint8_t *q = p + 6 + 3 * i;
        d->part[i] = (component){.id = q[0], .h = q[1] >> 4, .v = q[1] & 15, .steps = q[2]};
        if (q[2] > 3) return false;
    }
    return true;
}

static bool read_scan(decoder *d, const uint8_t *p, size_t length)
{
    if (!d->parts || length != 4 + 2 * (size_t)d->parts || p[0] != d->parts) return false;
    for (int i = 0; i < d->parts; i++) {
        component *c = &d->part[i];
        int dc = p[2 + 2 * i] >> 4, ac = p[2 + 2 * i] & 15;
        if (p[1 + 2 * i] != c->id || dc > 3 || ac > 3) return false;
        if (!d->has_dc[dc] || !d->has_ac[ac] || !d->has_steps[c->steps]) return false;
        c->codes = (ls_huff_part){.dc = &d->dc[dc], .ac = &d->ac[ac]};
    }
    const uint8_t *rest = p + 1 + 2 * d->parts;
    return rest[0] == 0 && rest[1] == 63 && rest[2] == 0;
}

/* Read up to the data of the scan. */
static bool read_headers(decoder *d)
{
    enum {
        SOF0 = 0xc0,
        SOF1 = 0xc1,
        DHT = 0xc4,
        SOS = 0xda,
        DQT = 0xdb,
        DRI = 0xdd,
        APP0 = 0xe0,
        APP14 = 0xee,
        COM = 0xfe
    };
    for (d->at += 2;;) {
        while (d->at < d->end && *d->at == 0xff && d->at + 1 < d->end && d->at[1] == 0xff) d->at++;
        if (d->end - d->at < 4 || *d->at != 0xff) return false;
        int marker = d->at[1];
        size_t length = ls_big_u16(d->at + 2);
        const uint8_t *data = d->at + 4;
        if (length < 2 || length > (size_t)(d->end - d->at - 2)) return false;
        d->at += 2 + length;
        length -= 2;
        bool ok = true;
        if (marker == SOF0 || marker == SOF1) ok = read_frame(d, data, length);
        else if (marker == DHT) ok = read_codes(d, data, length);
        else if (marker == DQT) ok = read_steps(d, data, length);
        else if (marker == SOS) return read_scan(d, data, length);
        else if (marker == DRI && length == 2) d->restart = (int64_t)ls_big_u16(data);
        else if (marker == APP0 && length >= 14 && memcmp(data, "JFIF", 5) == 0) d->jfif = true;
        else if (marker == APP14 && length >= 12 && memcmp(data, "Adobe", 5) == 0)
            d->adobe = true, d->adobe_transform = data[11];
        else ok = (marker >= APP0 && marker < 0xf0) || marker == COM;
        if (!ok) return false;
    }
}

/* libjpeg's guess of the colour space of three components; RGB is left to libjpeg. */
static bool is_ycc(const decoder *d)
{
    if (d->jfif) return true;
    if (d->adobe) return d->adobe_transform != 0;
    return !(d->part[0].id == 'R' && d->part[1].id == 'G' && d->part[2].id == 'B');
}

/* ---- Needed parts ---- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t rounded_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* The blocks for a box of pixels. Colour at half resolution needs a neighbour on each side. */
static void want_blocks(component *c, ls_box box)
{
    int64_t x0 = box.x / c->across, x1 = (box.x + box.width - 1) / c->across;
    int64_t y0 = box.y / c->down_by, y1 = (box.y + box.height - 1) / c->down_by;
    if (c->across == 2) x0 -= x0 > 0, x1 = least(x1 + 1, c->width - 1);
    if (c->down_by == 2) y0 -= y0 > 0, y1 = least(y1 + 1, c->height - 1);
    c->left = x0 / c->block;
    c->right = x1 / c->block + 1;
    c->top = y0 / c->block;
    c->down = y1 / c->block + 1;
    c->pitch = (size_t)((c->right - c->left) * c->block) + 2 * PAD;
}

/* Units and components for the box. */
static bool lay_out(decoder *d, ls_box box)
{
    component *first = &d->part[0];
    if (d->parts == 1) first->h = first->v = 1; /* with one component, units are blocks */
    bool full = first->h == 1 && first->v == 1, wide = first->h == 2 && first->v == 1;
    if (!full && !wide && !(first->h == 2 && first->v == 2)) return false;
    d->unit_height = d->block * first->v;
    d->units = rounded_up(d->width, 8 * first->h);
    d->unit_rows = rounded_up(d->height, 8 * first->v);
    for (int i = 0; i < d->parts; i++) {
        component *c = &d->part[i];
        if (i > 0 && (c->h != 1 || c->v != 1)) return false;
        c->codes.blocks = c->h * c->v;
        d->codes[i] = &c->codes;
        c->block = d->block;
        c->across = first->h / c->h;
        c->down_by = first->v / c->v;
        c->width = rounded_up(d->width * c->block, 8 * c->across);
        c->height = rounded_up(d->height * c->block, 8 * c->down_by);
        if (c->block < 8 && c->across == 2 && c->down_by == 2) {
            /* A block of colour at half resolution has enough samples if not all pixels are needed. */
            c->block *= 2;
            c->across = c->down_by = 1;
            c->width = rounded_up(d->width * d->block, 8);
            c->height = rounded_up(d->height * d->block, 8);
        }
        /* libjpeg enlarges images as narrow as this in another way. */
        if (c->across == 2 && c->width <= 2) return false;
        want_blocks(c, box);
    }
    return true;
}

/* Row y of a component, at its sample x. */
static uint8_t *sample_at(const component *c, int64_t x, int64_t y)
{
    return c->plane + (size_t)(y - c->block * c->top) * c->pitch + PAD + (x - c->block * c->left);
}

/* ---- The scan ---- */

/* Copy the bytes up to the next marker, without the zeros that follow an FF, and start the reader there. */
static void load_segment(decoder *d, ls_huff_reader *r)
{
    uint8_t *to = d->segment;
    const uint8_t *from = d->at;
    while (from < d->end) {
        const uint8_t *ff = memchr(from, 0xff, (size_t)(d->end - from));
        const uint8_t *stop = ff ? ff : d->end;
        bool stuffed = ff && ff + 1 < d->end && ff[1] == 0;
        size_t count = (size_t)(stop - from) + stuffed;
        memcpy(to, from, count);
        to += count;
        from = stuffed ? ff + 2 : stop;
        if (!stuffed) break;
    }
    memset(to, 0, LS_HUFF_BEYOND);
    d->at = from;
    *r = (ls_huff_reader){.next = d->segment, .end = to};
    for (int i = 0; i < d->parts; i++) d->part[i].codes.level = 0;
}

/* Read a restart marker and the data after it. */
static bool restart(decoder *d, ls_huff_reader *r, int64_t number)
{
    while (d->end - d->at >= 2 && d->at[1] == 0xff) d->at++;
    if (d->end - d->at < 2 || d->at[1] != 0xd0 + (number & 7)) return false;
    d->at += 2;
    load_segment(d, r);
    return true;
}

/* Compute a block's samples. */
static void put_block(const decoder *d, const component *c, const ls_huff_block *block, int used, uint8_t *to)
{
    const int16_t *steps = d->steps[c->steps];
    if (used > 1) {
        if (c->block == 8) d->kernels->samples(to, c->pitch, block->coefficients, steps, used);
        else d->kernels->few_samples(to, c->pitch, block->coefficients, steps, (int)c->block);
        return;
    }
    int level = ((int16_t)(block->coefficients[0] * steps[0]) + 4) >> 3; /* the transform of a constant */
    level = level < -128 ? 0 : level > 127 ? 255 : level + 128;
    for (int64_t i = 0; i < c->block; i++) memset(to + (size_t)i * c->pitch, level, (size_t)c->block);
}

/* Decode all units that contain needed blocks, then transform those blocks into samples. */
static void take_units(decoder *d, ls_huff_reader *r, int64_t row, int64_t unit, int64_t count)
{
    ls_huff_units(r, d->codes, d->parts, count, d->blocks, d->used);
    const ls_huff_block *block = d->blocks;
    const uint8_t *used = d->used;
    for (int64_t end = unit + count; unit < end; unit++)
        for (int i = 0; i < d->parts; i++) {
            const component *c = &d->part[i];
            for (int64_t y = row * c->v; y < (row + 1) * c->v; y++)
                for (int64_t x = unit * c->h; x < (unit + 1) * c->h; x++, block++, used++)
                    if (x >= c->left && x < c->right && y >= c->top && y < c->down)
                        put_block(d, c, block, *used, sample_at(c, c->block * x, c->block * y));
        }
}

/* Units first..last-1 in this row that contain needed blocks. */
static void wanted_units(const decoder *d, int64_t row, int64_t *first, int64_t *last)
{
    *first = *last = d->units;
    for (int i = 0; i < d->parts; i++) {
        const component *c = &d->part[i];
        if ((row + 1) * c->v <= c->top || row * c->v >= c->down) continue;
        int64_t from = c->left / c->h, to = (c->right + c->h - 1) / c->h;
        if (*first == d->units || to > *last) *last = to;
        if (from < *first) *first = from;
    }
}

/* One row of units. False if the data is invalid. */
static bool scan_row(decoder *d, ls_huff_reader *r, int64_t row)
{
    int64_t first, last;
    wanted_units(d, row, &first, &last);
    for (int64_t unit = 0, until; unit < d->units; unit = until) {
        int64_t number = row * d->units + unit;
        if (d->restart && number && number % d->restart == 0 && !restart(d, r, number / d->restart - 1)) return false;
        bool wanted = unit >= first && unit < last;
        until = wanted ? least(last, unit + AT_ONCE) : unit < first ? first : d->units;
        if (d->restart) until = least(until, unit + d->restart - number % d->restart);
        if (wanted) take_units(d, r, row, unit, until - unit);
        else ls_huff_skip_units(r, d->codes, d->parts, until - unit);
        if (!ls_huff_is_sound(r)) return false;
    }
    return true;
}

/* ---- Pixels ---- */

/* Samples beside the image repeat those at its edge. */
static void repeat_edges(const component *c, int64_t y)
{
    if (c->left == 0) sample_at(c, 0, y)[-1] = *sample_at(c, 0, y);
    if (c->block * c->right >= c->width) *sample_at(c, c->width, y) = *sample_at(c, c->width - 1, y);
}

/* A row of a colour at full width, from pixel box.x on. `line`: memory for it. */
static const uint8_t *color_row(const decoder *d, const component *c, ls_box box, int64_t y, uint8_t *line)
{
    if (c->across == 1) return sample_at(c, box.x, y);
    int64_t x = box.x / 2, n = (box.x + box.width - 1) / 2 - x + 1;
    if (c->down_by == 1) {
        d->kernels->widen(line, sample_at(c, x, y), n);
    } else {
        int64_t near = y / 2, far = y & 1 ? near + 1 : near - 1;
        if (far < 0) far = 0;
        if (far > c->height - 1) far = c->height - 1;
        d->kernels->enlarge(line, sample_at(c, x, near), sample_at(c, x, far), n);
    }
    return line + (box.x & 1);
}

static void pixel_row(const decoder *d, ls_box box, int64_t y, uint8_t *lines[2], uint8_t *to)
{
    const uint8_t *level = sample_at(&d->part[0], box.x, y);
    if (d->parts == 1) {
        for (int64_t i = 0; i < box.width; i++, to += 3) to[0] = to[1] = to[2] = level[i];
        return;
    }
    const uint8_t *cb = color_row(d, &d->part[1], box, y, lines[0]), *cr = color_row(d, &d->part[2], box, y, lines[1]);
    d->kernels->pixels(to, level, cb, cr, box.width);
}

/* Write rows of the box from *done on that are complete after `rows` rows of units. */
static void emit_rows(const decoder *d, ls_box box, int64_t rows, uint8_t *lines[2], int64_t *done, ls_picture *to)
{
    int64_t ready = rows * d->unit_height;
    if (d->parts > 1 && d->part[1].down_by == 2 && rows < d->unit_rows)
        ready -= 1; /* the last row's colour needs the row below */
    for (; *done < box.height && box.y + *done < ready; ++*done)
        pixel_row(d, box, box.y + *done, lines, to->pixels + (size_t)*done * to->stride);
}

/* ---- Entry point ---- */

static bool decode(decoder *d, ls_box box, uint8_t *lines[2], ls_picture *to)
{
    ls_huff_reader r;
    load_segment(d, &r);
    int64_t done = 0;
    for (int64_t row = 0; row < d->unit_rows && done < box.height; row++) {
        if (!scan_row(d, &r, row)) return false;
        for (int i = 1; i < d->parts; i++) {
            const component *c = &d->part[i];
            if (c->across == 1) continue;
            for (int64_t block = row * c->v; block < (row + 1) * c->v; block++)
                for (int64_t y = 0; y < c->block && block >= c->top && block < c->down; y++)
                    repeat_edges(c, block * c->block + y);
        }
        emit_rows(d, box, row + 1, lines, &done, to);
    }
    return done == box.height;
}

bool ls_baseline_decode(const uint8_t *bytes, size_t size, ls_box box, int block, ls_picture *to)
{
    /* Room for the planes of any file: blocks, a neighbour and padding on each side. */
    size_t plane = (size_t)(box.width + 64) * (size_t)(box.height + 64) + LS_JPEG_SLACK;
    size_t line = (size_t)box.width + 64 + LS_JPEG_SLACK;
    char *memory = ls_image_scratch(LS_SLOT_DECODER, sizeof(decoder) + size + LS_HUFF_BEYOND + 3 * plane + 2 * line);
    ls_huff_table *codes = ls_image_scratch(LS_SLOT_CODES, 8 * sizeof *codes);
    if (!memory || !codes) return false;
    decoder *d = (decoder *)(void *)memory;
    memset(d, 0, offsetof(decoder, blocks));
    d->at = bytes;
    d->end = bytes + size;
    d->block = block;
    d->kernels = ls_jpeg_kernels();
    d->dc = codes;
    d->ac = codes + 4;
    d->segment = (uint8_t *)memory + sizeof *d;
    if (!read_headers(d) || (d->parts == 3 && !is_ycc(d)) || !lay_out(d, box)) return false;
    if (box.x + box.width > rounded_up(d->width * block, 8)) return false;
    if (box.y + box.height > rounded_up(d->height * block, 8)) return false;

    uint8_t *planes = d->segment + size + LS_HUFF_BEYOND;
    for (int i = 0; i < d->parts; i++) d->part[i].plane = planes + (size_t)i * plane;
    uint8_t *lines[2] = {planes + 3 * plane, planes + 3 * plane + line};
    return decode(d, box, lines, to);
}
