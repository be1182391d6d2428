/* jpeg.c - JPEG files through libjpeg-turbo: every kind it knows, only the rows and columns of a box. baseline.c
 * decodes ordinary files; the ones here are unusual or damaged, and libjpeg reports the errors.
 *
 * libjpeg reports errors by a call that must not return, so each function here has a setjmp target. Warnings are
 * ignored, as in Pillow, except those about missing image data. */
#include "base/file.h"
#include "data/image/rows.h"

#ifdef LOCKSTEP_WITH_JPEG

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

enum { MOST_SCANS = 500 }; /* of a progressive file; each costs a pass over the image, normal files have about ten */

typedef struct reader {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    struct jpeg_source_mgr source;
    jmp_buf give_up;
    int64_t missing_from; /* the row being decoded when the data ended; -1: complete */
    char text[JMSG_LENGTH_MAX];
} reader;

static void on_error(j_common_ptr jpeg)
{
    reader *r = jpeg->client_data;
    jpeg->err->format_message(jpeg, r->text);
    longjmp(r->give_up, 1);
}

static void on_message(j_common_ptr jpeg, int level)
{
    reader *r = jpeg->client_data;
    int code = jpeg->err->msg_code;
    if (level < 0 && (code == JWRN_HIT_MARKER || code == JWRN_JPEG_EOF) && r->missing_from < 0)
        r->missing_from = (int64_t)r->jpeg.output_scanline;
}

static void on_progress(j_common_ptr jpeg)
{
    reader *r = jpeg->client_data;
    if (r->jpeg.input_scan_number <= MOST_SCANS) return;
    snprintf(r->text, sizeof r->text, "more than %d scans", MOST_SCANS);
    longjmp(r->give_up, 1);
}

/* All bytes were given at the start. A request for more gets the end of the image and records a warning. */
static boolean out_of_bytes(j_decompress_ptr jpeg)
{
    static const JOCTET end[] = {0xff, JPEG_EOI};
    WARNMS(jpeg, JWRN_JPEG_EOF);
    jpeg->src->next_input_byte = end;
    jpeg->src->bytes_in_buffer = sizeof end;
    return TRUE;
}

static void skip_bytes(j_decompress_ptr jpeg, long count)
{
    struct jpeg_source_mgr *source = jpeg->src;
    if (count <= 0) return;
    if ((size_t)count > source->bytes_in_buffer) {
        out_of_bytes(jpeg);
        return;
    }
    source->next_input_byte += count;
    source->bytes_in_buffer -= (size_t)count;
}

static void nothing(j_decompress_ptr jpeg)
{
    (void)jpeg;
}

/* A reader positioned after the file's header. Call after setjmp. */
static void open_reader(reader *r, const uint8_t *bytes, size_t size)
{
    jpeg_create_decompress(&r->jpeg);
    r->progress.progress_monitor = on_progress;
    r->jpeg.progress = &r->progress;
    r->source = (struct jpeg_source_mgr){.next_input_byte = bytes,
                                         .bytes_in_buffer = size,
                                         .init_source = nothing,
                                         .fill_input_buffer = out_of_bytes,
                                         .skip_input_data = skip_bytes,
                                         .resync_to_restart = jpeg_resync_to_restart,
                                         .term_source = nothing};
    r->jpeg.src = &r->source;
    jpeg_read_header(&r->jpeg, TRUE);
}

static void init_reader(reader *r)
{
    *r = (reader){.missing_from = -1};
    r->jpeg.err = jpeg_std_error(&r->errors);
    r->jpeg.client_data = r;
    r->errors.error_exit = on_error;
    r->errors.emit_message = on_message;
}

/* Pillow treats four channels as inverted CMYK, as Photoshop writes it. */
static void ink_to_rgb(const uint8_t *ink, uint8_t *rgb, int64_t n)
{
    for (int64_t i = 0; i < n; i++, ink += 4, rgb += 3) {
        for (int c = 0; c < 3; c++) {
            int product = (255 - ink[c]) * ink[3] + 128;
            int level = ink[3] - (((product >> 8) + product) >> 8);
            rgb[c] = (uint8_t)(level < 0 ? 0 : level);
        }
    }
}

/* Decode the rows of the box into the picture. The decoder delivers whole columns of blocks, and at the edge of a
 * partially decoded area half-resolution colour lacks its neighbours. So a margin is decoded and discarded. */
static void read_box(reader *r, ls_box box, int block, ls_picture *to)
{
    struct jpeg_decompress_struct *jpeg = &r->jpeg;
    bool ink = jpeg->num_components == 4;
    jpeg->out_color_space = ink ? JCS_CMYK : JCS_RGB;
    jpeg->scale_num = (unsigned)block;
    jpeg->scale_denom = 8;
    jpeg_start_decompress(jpeg);

    int64_t block_width = block * jpeg->max_h_samp_factor, block_height = block * jpeg->max_v_samp_factor;
    int64_t left = box.x < block_width ? 0 : box.x - block_width, right = box.x + box.width + block_width;
    if (right > jpeg->output_width) right = jpeg->output_width;
    JDIMENSION first = (JDIMENSION)left, width = (JDIMENSION)(right - left);
    if (left > 0 || width < jpeg->output_width) jpeg_crop_scanline(jpeg, &first, &width);
    int64_t above = (box.y / block_height - 1) * block_height;
    if (above > 0) jpeg_skip_scanlines(jpeg, (JDIMENSION)above);

    size_t channels = ink ? 4 : 3;
    JSAMPARRAY line = jpeg->mem->alloc_sarray((j_common_ptr)jpeg, JPOOL_IMAGE, (JDIMENSION)(width * channels), 1);
    const uint8_t *begin = line[0] + (size_t)(box.x - first) * channels;
    while ((int64_t)jpeg->output_scanline < box.y + box.height) {
        int64_t y = (int64_t)jpeg->output_scanline - box.y;
        if (jpeg_read_scanlines(jpeg, line, 1) != 1) break;
        if (y < 0) continue;
        uint8_t *row = to->pixels + (size_t)y * to->stride;
        if (ink) ink_to_rgb(begin, row, box.width);
        else memcpy(row, begin, (size_t)box.width * 3);
    }
}

ls_status ls_jpeg_decode(const uint8_t *bytes, size_t size, ls_box box, int block, ls_picture *to, ls_message *why)
{
    reader r;
    init_reader(&r);
    if (setjmp(r.give_up)) {
        jpeg_destroy_decompress(&r.jpeg);
        return ls_explain(why, LS_ERR_IO, "damaged JPEG: %s", r.text);
    }
    open_reader(&r, bytes, size);
    int64_t height = (int64_t)r.jpeg.image_height;
    read_box(&r, box, block, to);
    jpeg_destroy_decompress(&r.jpeg);
    if (r.missing_from >= 0)
        return ls_explain(why, LS_ERR_IO, "JPEG ends early: image data is missing from row %lld of %lld on",
                          (long long)r.missing_from, (long long)height);
    return LS_OK;
}

/* ---- Writing ---- */

typedef struct writer {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    jmp_buf give_up;
    unsigned char *bytes; /* the file, in memory allocated by libjpeg */
    unsigned long size;
    char text[JMSG_LENGTH_MAX];
} writer;

static void on_write_error(j_common_ptr jpeg)
{
    writer *w = jpeg->client_data;
    jpeg->err->format_message(jpeg, w->text);
    longjmp(w->give_up, 1);
}

ls_status ls_jpeg_encode(const char *path, const uint8_t *rgb, int64_t width, int64_t height, int quality,
                         ls_message *why)
{
    writer w = {.text = ""};
    w.jpeg.err = jpeg_std_error(&w.errors);
    w.jpeg.client_data = &w;
    w.errors.error_exit = on_write_error;
    if (setjmp(w.give_up)) {
        jpeg_destroy_compress(&w.jpeg);
        free(w.bytes);
        return ls_explain(why, LS_ERR_IO, "%s: %s", path, w.text);
    }
    jpeg_create_compress(&w.jpeg);
    jpeg_mem_dest(&w.jpeg, &w.bytes, &w.size);
    w.jpeg.image_width = (JDIMENSION)width;
    w.jpeg.image_height = (JDIMENSION)height;
    w.jpeg.input_components = 3;
    w.jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&w.jpeg);
    jpeg_set_quality(&w.jpeg, quality, TRUE);
    jpeg_start_compress(&w.jpeg, TRUE);
    for (int64_t y = 0; y < height; y++) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(rgb + y * width * 3); /* libjpeg reads it, but does not say const */
        jpeg_write_scanlines(&w.jpeg, &row, 1);
    }
    jpeg_finish_compress(&w.jpeg);
    jpeg_destroy_compress(&w.jpeg);
    bool written = ls_file_write(path, w.bytes, w.size, false, why);
    free(w.bytes);
    return written ? LS_OK : LS_ERR_IO;
}

#else

ls_status ls_jpeg_decode(const uint8_t *bytes, size_t size, ls_box box, int block, ls_picture *to, ls_message *why)
{
    (void)bytes, (void)size, (void)box, (void)block, (void)to;
    return ls_explain(why, LS_ERR_UNSUPPORTED,
                      "is a damaged JPEG, or of a kind (progressive, four colours, ...) that this build does not "
                      "support: it was built without libjpeg-turbo (Debian: libjpeg-dev)");
}

ls_status ls_jpeg_encode(const char *path, const uint8_t *rgb, int64_t width, int64_t height, int quality,
                         ls_message *why)
{
    (void)rgb, (void)width, (void)height, (void)quality;
    return ls_explain(
        why, LS_ERR_UNSUPPORTED,
        "%s: this build cannot write JPEG files: it was built without libjpeg-turbo (Debian: libjpeg-dev)", path);
}

#endif
