/* head.c - recognise files, and read the headers of JPEG and PNG files without the decoding libraries. */
#include "data/image/head.h"

#include <string.h>

/* ---- Other formats, recognised for better error messages ---- */

typedef struct signature {
    const char *name, *bytes;
    size_t length, offset;
} signature;

static const signature others[] = {
    {"a GIF", "GIF8", 4, 0},
    {"a BMP image", "BM", 2, 0},
    {"a WebP image", "WEBP", 4, 8},
    {"an AVIF image", "ftypavif", 8, 4},
    {"a HEIC image", "ftyphei", 7, 4},
    {"a HEIF image", "ftypmif1", 8, 4},
    {"a TIFF image", "II*\0", 4, 0},
    {"a TIFF image", "MM\0*", 4, 0},
    {"a JPEG 2000 image", "\0\0\0\x0cjP  ", 8, 0},
    {"a JPEG XL image", "\xff\x0a", 2, 0},
    {"a JPEG XL image", "\0\0\0\x0cJXL ", 8, 0},
    {"a Photoshop image", "8BPS", 4, 0},
    {"an icon", "\0\0\1\0", 4, 0},
    {"a PDF document", "%PDF", 4, 0},
    {"an SVG drawing", "<svg", 4, 0},
    {"an HTML page", "<!DOCTYPE", 9, 0},
    {"an HTML page", "<html", 5, 0},
    {"an XML document", "<?xml", 5, 0},
    {"a zip archive", "PK\3\4", 4, 0},
    {"a gzip file", "\x1f\x8b", 2, 0},
    {"a MATLAB file", "MATLAB", 6, 0},
};

static ls_status refuse_other(const uint8_t *bytes, size_t size, ls_message *why)
{
    if (size == 0) return ls_explain(why, LS_ERR_IO, "is empty");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const signature *s = &others[i];
        if (size >= s->offset + s->length && memcmp(bytes + s->offset, s->bytes, s->length) == 0)
            return ls_explain(why, LS_ERR_IO, "is %s; only JPEG and PNG images are supported", s->name);
    }
    char start[3 * 8 + 1] = "";
    for (size_t i = 0; i < size && i < 8; i++) {
        static const char digits[] = "0123456789abcdef";
        memcpy(start + 3 * i, (char[]){' ', digits[bytes[i] >> 4], digits[bytes[i] & 15], 0}, 4);
    }
    return ls_explain(why, LS_ERR_IO, "is neither a JPEG nor a PNG image: its first bytes are%s", start);
}

/* ---- EXIF ---- */

typedef struct tiff {
    const uint8_t *bytes;
    size_t size;
    bool little;
} tiff;

static uint32_t tiff_number(const tiff *t, size_t at, int bytes)
{
    uint32_t value = 0;
    if (at > t->size || t->size - at < (size_t)bytes) return 0;
    for (int i = 0; i < bytes; i++) value |= (uint32_t)t->bytes[at + (size_t)i] << 8 * (t->little ? i : bytes - 1 - i);
    return value;
}

/* The orientation in the first directory of a TIFF structure; 1 if missing or invalid. */
static int tiff_orientation(const uint8_t *bytes, size_t size)
{
    enum { ORIENTATION = 0x112, SHORT = 3, ENTRY = 12 };
    if (size < 8) return 1;
    tiff t = {bytes, size, bytes[0] == 'I'};
    if (tiff_number(&t, 2, 2) != 42) return 1;
    size_t at = tiff_number(&t, 4, 4), count = tiff_number(&t, at, 2);
    for (size_t i = 0; i < count && at + 2 + ENTRY * i < size; i++) {
        size_t entry = at + 2 + ENTRY * i;
        if (tiff_number(&t, entry, 2) != ORIENTATION || tiff_number(&t, entry + 2, 2) != SHORT) continue;
        uint32_t value = tiff_number(&t, entry + 8, 2);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

/* ---- JPEG: segments of marker, length, data, until the frame header ---- */

static ls_status read_jpeg(const uint8_t *bytes, size_t size, ls_image_head *head, ls_message *why)
{
    enum { APP1 = 0xe1, SOS = 0xda, EOI = 0xd9 };
    head->format = LS_IMAGE_JPEG;
    head->orientation = 1;
    size_t at = 2;
    for (;;) {
        while (at < size && bytes[at] != 0xff) at++; /* skip bytes between segments */
        while (at < size && bytes[at] == 0xff) at++;
        if (size - at < 3 || bytes[at] == EOI)
            return ls_explain(why, LS_ERR_IO, "JPEG ends early: it contains no image");
        uint8_t marker = bytes[at++];
        if (marker < 0xc0 || (marker >= 0xd0 && marker <= 0xd8)) continue; /* has no data */
        size_t length = ls_big_u16(bytes + at);
        if (marker == SOS) return ls_explain(why, LS_ERR_IO, "damaged JPEG: image data without a frame header");
        if (length < 2 || length > size - at)
            return ls_explain(why, LS_ERR_IO, "JPEG ends early: it contains no image");
        const uint8_t *data = bytes + at + 2;
        if (marker == APP1 && length >= 8 && memcmp(data, "Exif\0", 6) == 0)
            head->orientation = tiff_orientation(data + 6, length - 8);
        bool frame = marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
        if (frame && length < 8) return ls_explain(why, LS_ERR_IO, "damaged JPEG: frame header of %zu bytes", length);
        if (frame) {
            head->height = (int64_t)ls_big_u16(data + 1);
            head->width = (int64_t)ls_big_u16(data + 3);
            return LS_OK;
        }
        at += length;
    }
}

/* ---- PNG: chunks of length, name, data, check sum ---- */

typedef struct png_chunk {
    const uint8_t *name, *data;
    size_t length;
} png_chunk;

/* The chunk at *at, which is advanced past it; false if no whole chunk is left. */
static bool next_chunk(const uint8_t *bytes, size_t size, size_t *at, png_chunk *chunk)
{
    if (size - *at < 12) return false;
    chunk->length = ls_big_u32(bytes + *at);
    if (chunk->length > size - *at - 12) return false;
    chunk->name = bytes + *at + 4;
    chunk->data = bytes + *at + 8;
    *at += 12 + chunk->length;
    return true;
}

static ls_status read_png(const uint8_t *bytes, size_t size, ls_image_head *head, ls_message *why)
{
    head->format = LS_IMAGE_PNG;
    head->orientation = 1;
    if (size < 33) return ls_explain(why, LS_ERR_IO, "PNG ends early: it contains no image");
    if (memcmp(bytes + 12, "IHDR", 4) != 0) return ls_explain(why, LS_ERR_IO, "damaged PNG: no header");
    head->width = (int64_t)ls_big_u32(bytes + 16);
    head->height = (int64_t)ls_big_u32(bytes + 20);
    size_t at = 8;
    for (png_chunk chunk; next_chunk(bytes, size, &at, &chunk);)
        if (memcmp(chunk.name, "eXIf", 4) == 0) head->orientation = tiff_orientation(chunk.data, chunk.length);
    return LS_OK;
}

ls_status ls_image_head_read(const uint8_t *bytes, size_t size, ls_image_head *head, ls_message *why)
{
    ls_status status;
    if (size >= 3 && memcmp(bytes, "\xff\xd8\xff", 3) == 0) status = read_jpeg(bytes, size, head, why);
    else if (size >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0) status = read_png(bytes, size, head, why);
    else return refuse_other(bytes, size, why);
    if (status == LS_OK && (head->width < 1 || head->height < 1))
        return ls_explain(why, LS_ERR_IO, "damaged %s: an image of %lld x %lld pixels",
                          head->format == LS_IMAGE_JPEG ? "JPEG" : "PNG", (long long)head->width,
                          (long long)head->height);
    return status;
}

/* ---- Complete or truncated ---- */

bool ls_image_is_whole(const uint8_t *bytes, size_t size, ls_image_format format)
{
    if (format == LS_IMAGE_JPEG) {
        /* Image data contains FF D9 only at its end, and anything after that is ignored. */
        for (const uint8_t *last = bytes + size; (last = memrchr(bytes, 0xd9, (size_t)(last - bytes))) && last > bytes;)
            if (last[-1] == 0xff) return true;
        return false;
    }
    size_t at = 8;
    for (png_chunk chunk; next_chunk(bytes, size, &at, &chunk);)
        if (memcmp(chunk.name, "IEND", 4) == 0) return true;
    return at == size; /* all chunks are complete */
}

ls_status ls_image_measure(const void *bytes, size_t size, int64_t *width, int64_t *height, ls_message *why)
{
    ls_image_head head;
    ls_status status = ls_image_head_read(bytes, size, &head, why);
    if (status != LS_OK) return status;
    *width = head.width;
    *height = head.height;
    return LS_OK;
}
