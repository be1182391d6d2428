/* png.c - PNG files through libpng, read and written. Every kind is read as 8-bit RGB, alpha is dropped.
 *
 * Like Pillow's convert("RGB"), except that 16-bit gray keeps its upper byte; Pillow makes all but the darkest
 * white. */
#include "data/image/rows.h"

#include "base/buffer.h"
#include "base/file.h"
#include "base/png.h"

#ifdef LOCKSTEP_WITH_PNG

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <png.h>

typedef struct reader {
    const uint8_t *bytes;
    size_t left;
    ls_message *why;
} reader;

static void on_error(png_structp png, png_const_charp text)
{
    reader *r = png_get_error_ptr(png);
    ls_explain(r->why, LS_ERR_IO, "damaged PNG: %s", text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png, (void)text;
}

static void read_bytes(png_structp png, png_bytep to, size_t count)
{
    reader *r = png_get_io_ptr(png);
    if (count > r->left) png_error(png, "it ends early");
    memcpy(to, r->bytes, count);
    r->bytes += count;
    r->left -= count;
}

/* Read rows of the box into the picture. Interlaced files deliver their pixels in seven passes over whole rows, so all
 * rows are kept: `lines` holds one row, or all of them. */
static void read_box(png_structp png, png_infop info, ls_box box, ls_picture *to, uint8_t *lines)
{
    size_t row_bytes = png_get_rowbytes(png, info);
    int64_t height = (int64_t)png_get_image_height(png, info);
    bool interlaced = png_get_interlace_type(png, info) != PNG_INTERLACE_NONE;
    int passes = interlaced ? 7 : 1;
    for (int pass = 0; pass < passes; pass++) {
        int64_t rows = interlaced ? height : box.y + box.height;
        for (int64_t y = 0; y < rows; y++) {
            uint8_t *line = interlaced ? lines + (size_t)y * row_bytes : lines;
            png_read_row(png, line, NULL);
            if (pass == passes - 1 && y >= box.y && y < box.y + box.height)
                memcpy(to->pixels + (size_t)(y - box.y) * to->stride, line + 3 * box.x, (size_t)box.width * 3);
        }
    }
}

static void ask_for_rgb(png_structp png)
{
    png_set_expand(png);
    png_set_strip_16(png);
    png_set_strip_alpha(png);
    png_set_gray_to_rgb(png);
    png_set_interlace_handling(png);
}

ls_status ls_png_decode(const uint8_t *bytes, size_t size, ls_box box, ls_picture *to, ls_message *why)
{
    ls_message none;
    reader r = {bytes, size, why ? why : &none};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info) {
        png_destroy_read_struct(&png, NULL, NULL);
        return ls_explain(why, LS_ERR_MEMORY, "libpng could not be started");
    }
    if (setjmp(png_jmpbuf(png))) {
        png_destroy_read_struct(&png, &info, NULL);
        return LS_ERR_IO;
    }
    png_set_read_fn(png, &r, read_bytes);
    png_read_info(png, info);
    ask_for_rgb(png);
    png_read_update_info(png, info);
    if (png_get_channels(png, info) != 3 || png_get_bit_depth(png, info) != 8) png_error(png, "unknown kind of pixels");

    size_t height = png_get_image_height(png, info), row_bytes = png_get_rowbytes(png, info);
    bool interlaced = png_get_interlace_type(png, info) != PNG_INTERLACE_NONE;
    uint8_t *lines = ls_image_scratch(LS_SLOT_DECODER, interlaced ? height * row_bytes : row_bytes);
    if (!lines) {
        png_destroy_read_struct(&png, &info, NULL);
        return ls_image_out_of_memory(why, box.width, box.height);
    }
    read_box(png, info, box, to, lines);
    png_destroy_read_struct(&png, &info, NULL);
    return LS_OK;
}

/* Append the file to `to`. */
static ls_status compress(ls_byte_buffer *to, const uint8_t *rgb, int64_t width, int64_t height, ls_message *why)
{
    png_image image = {
        .version = PNG_IMAGE_VERSION, .width = (uint32_t)width, .height = (uint32_t)height, .format = PNG_FORMAT_RGB};
    size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
    char *room = ls_byte_buffer_room(to, size);
    if (!room) return ls_explain(why, LS_ERR_MEMORY, "out of memory");
    if (!png_image_write_to_memory(&image, room, &size, 0, rgb, 0, NULL))
        return ls_explain(why, LS_ERR_IO, "libpng refuses to write it: %s", image.message);
    to->length += size;
    return LS_OK;
}

#else

ls_status ls_png_decode(const uint8_t *bytes, size_t size, ls_box box, ls_picture *to, ls_message *why)
{
    (void)bytes, (void)size, (void)box, (void)to;
    return ls_explain(
        why, LS_ERR_UNSUPPORTED,
        "is a PNG image, which this build does not support: it was built without libpng (Debian: libpng-dev)");
}

/* Larger files than libpng's. */
static ls_status compress(ls_byte_buffer *to, const uint8_t *rgb, int64_t width, int64_t height, ls_message *why)
{
    ls_png_put(to, rgb, (int)width, (int)height);
    return to->failed ? ls_explain(why, LS_ERR_MEMORY, "out of memory") : LS_OK;
}

#endif

ls_status ls_png_encode(const char *path, const uint8_t *rgb, int64_t width, int64_t height, ls_message *why)
{
    ls_byte_buffer file = {0};
    ls_message reason = {{0}};
    ls_status status = compress(&file, rgb, width, height, &reason);
    if (status) ls_explain(why, status, "%s: %s", path, reason.text);
    else if (!ls_file_write(path, file.bytes, file.length, false, why)) status = LS_ERR_IO;
    ls_byte_buffer_free(&file);
    return status;
}
