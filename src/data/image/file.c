/* file.c - single image files: for predictions, and for programs that create their own. */
#include <string.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/opts.h"
#include "data/image/rows.h"
#include "data/image/steps.h"
#include "tensor/context.h"

/* ---- Reading ---- */

/* Host memory for the pixels, allocated when their number is known. */
typedef struct pixels {
    void *memory;
    int64_t height, width;
    ls_dtype dtype;
} pixels;

static void *room_for_pixels(void *user, int64_t height, int64_t width, ls_message *why)
{
    pixels *p = user;
    p->height = height;
    p->width = width;
    p->memory = ls_sys_alloc((size_t)(height * width) * 3 * ls_dtype_size(p->dtype));
    if (!p->memory) ls_image_out_of_memory(why, width, height);
    return p->memory;
}

/* Pixels as a tensor [1,3,H,W] with memory order H, W, channels: without a copy. */
static ls_tensor *tensor_of(ls_run *run, const pixels *p)
{
    ls_tensor *t = ls_from(run, p->dtype, LS_SHAPE(1, p->height, p->width, 3), p->memory);
    if (t->life != LS_LIFE_LIVE) return t;
    const int64_t dim[] = {1, 3, p->height, p->width}, stride[] = {p->height * p->width * 3, 1, p->width * 3, 3};
    memcpy(t->view.dim, dim, sizeof dim);
    memcpy(t->view.stride, stride, sizeof stride);
    return t;
}

ls_tensor *ls_image_read_sized(ls_run *run, const char *path, const ls_image_read_opts *opts, size_t opts_size)
{
    if (!run) return NULL;
    if (ls_failed(run)) return &run->poison;
    if (!path) return LS_POISON(run, LS_ERR_VALUE, "image_read: no path");
    ls_image_read_opts o = LS_OPTS_READ(ls_image_read_opts, opts, opts_size);
    ls_message why = {{0}};
    ls_file_bytes file;
    if (!ls_file_load(&file, path, SIZE_MAX, &why)) return LS_POISON(run, LS_ERR_IO, "%s", why.text);

    /* A separate key: images and operators must not share random numbers. */
    const uint64_t random[2] = {run->random.seed ^ UINT64_C(0x696d616765), run->random.offset++};
    pixels p = {.dtype = ls_transform_dtype(&o.transform)};
    ls_status status = ls_image_decode_transform(file.bytes, file.size, &o.transform, random,
                                                 (ls_image_out){.room = room_for_pixels, .user = &p}, &why);
    ls_file_unload(&file);
    ls_tensor *t = &run->poison;
    if (status == LS_OK) t = tensor_of(run, &p);
    else ls_fail(&run->errors, status, "%s: %s", path, why.text);
    ls_sys_free(p.memory);
    return t;
}

bool ls_image_size(ls_run *run, const char *path, int64_t *height, int64_t *width)
{
    if (!run || ls_failed(run)) return false;
    if (!path || !width || !height)
        return ls_fail(&run->errors, LS_ERR_VALUE, "image_size: an argument is NULL"), false;
    ls_message why = {{0}};
    ls_file_bytes file;
    if (!ls_file_load(&file, path, SIZE_MAX, &why)) return ls_fail(&run->errors, LS_ERR_IO, "%s", why.text), false;
    ls_status status = ls_image_measure(file.bytes, file.size, width, height, &why);
    ls_file_unload(&file);
    if (status != LS_OK) ls_fail(&run->errors, status, "%s: %s", path, why.text);
    return status == LS_OK;
}

/* ---- Writing ---- */

/* A picture that can be written; the failure is recorded otherwise. */
static bool is_writable(ls_run *run, const char *caller, const char *path, const uint8_t *rgb, int64_t height,
                        int64_t width)
{
    if (!run || ls_failed(run)) return false;
    bool fits = width >= 1 && height >= 1 && width <= LS_IMAGE_MAX_SIDE && height <= LS_IMAGE_MAX_SIDE;
    if (!path || !rgb) ls_fail(&run->errors, LS_ERR_VALUE, "%s: an argument is NULL", caller);
    else if (!fits)
        ls_fail(&run->errors, LS_ERR_VALUE, "%s: %s: %lld x %lld pixels: sides must be 1 to %d", caller, path,
                (long long)width, (long long)height, LS_IMAGE_MAX_SIDE);
    return !ls_failed(run);
}

bool ls_png_write(ls_run *run, const char *path, const uint8_t *rgb, int64_t height, int64_t width)
{
    if (!is_writable(run, "png_write", path, rgb, height, width)) return false;
    ls_message why = {{0}};
    ls_status status = ls_png_encode(path, rgb, width, height, &why);
    if (status != LS_OK) ls_fail(&run->errors, status, "%s", why.text);
    return status == LS_OK;
}

bool ls_jpeg_write(ls_run *run, const char *path, const uint8_t *rgb, int64_t height, int64_t width, int quality)
{
    if (!is_writable(run, "jpeg_write", path, rgb, height, width)) return false;
    if (quality < 1 || quality > 100)
        return ls_fail(&run->errors, LS_ERR_VALUE, "jpeg_write: %s: quality %d is not from 1 to 100", path, quality),
               false;
    ls_message why = {{0}};
    ls_status status = ls_jpeg_encode(path, rgb, width, height, quality, &why);
    if (status != LS_OK) ls_fail(&run->errors, status, "%s", why.text);
    return status == LS_OK;
}
