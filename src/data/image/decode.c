/* decode.c - from the bytes of a file, or plain pixels, to a finished image: alternating views and pixel steps. */
#include <string.h>

#include "base/budget.h"
#include "data/image/baseline.h"
#include "data/image/head.h"
#include "data/image/pixels.h"
#include "data/image/view.h"

/* An image being processed. */
typedef struct job {
    const uint8_t *bytes;
    size_t size;
    const ls_transform *t;
    ls_draws draws;
    ls_image_head head;
    ls_message *why;
    ls_picture picture; /* the latest intermediate result */
    ls_image_slot slot; /* where it is stored */
} job;

/* A picture in the other slot than the latest one. */
static bool new_picture(job *j, int64_t width, int64_t height, ls_picture *picture)
{
    j->slot = j->slot == LS_SLOT_PICTURE ? LS_SLOT_OTHER_PICTURE : LS_SLOT_PICTURE;
    *picture = ls_picture_in(j->slot, width, height);
    return picture->pixels != NULL;
}

/* How many samples per block the decoder must produce if it may skip some: the image stays at least as large as the
 * view's result. The view is adapted to the smaller image. */
static int fewer_samples(job *j, ls_view *v)
{
    int block = 8;
    if (!j->t || !j->t->fast || j->head.format != LS_IMAGE_JPEG) return block;
    if (v->filter == LS_FILTER_DEFAULT || v->filter == LS_FILTER_NEAREST) return block;
    while (block > 1 && v->box.width * block >= 16 * v->width && v->box.height * block >= 16 * v->height) block /= 2;
    if (block == 8) return block;
    double scale = block / 8.0;
    int64_t left = v->box.x * block / 8, top = v->box.y * block / 8;
    v->edge_x = (double)v->box.x * scale - (double)left;
    v->edge_y = (double)v->box.y * scale - (double)top;
    v->part_width = (double)v->box.width * scale;
    v->part_height = (double)v->box.height * scale;
    int64_t right = ((v->box.x + v->box.width) * block + 7) / 8, bottom = ((v->box.y + v->box.height) * block + 7) / 8;
    v->box = (ls_box){left, top, right - left, bottom - top};
    j->head.width = (j->head.width * block + 7) / 8;
    j->head.height = (j->head.height * block + 7) / 8;
    return block;
}

/* The part of the stored image that a view needs, upright. */
static ls_status decode_box(job *j, ls_box box, int block)
{
    const ls_image_head *head = &j->head;
    int orientation = head->orientation;
    ls_box stored = ls_orientation_stored(orientation, box, head->width, head->height);
    ls_picture as_stored, upright;
    if (!new_picture(j, stored.width, stored.height, &as_stored))
        return ls_image_out_of_memory(j->why, stored.width, stored.height);
    ls_status status = LS_OK;
    if (head->format == LS_IMAGE_PNG) status = ls_png_decode(j->bytes, j->size, stored, &as_stored, j->why);
    else if (!ls_baseline_decode(j->bytes, j->size, stored, block, &as_stored))
        status = ls_jpeg_decode(j->bytes, j->size, stored, block, &as_stored, j->why);
    j->picture = as_stored;
    if (status != LS_OK || orientation == 1) return status;
    if (!new_picture(j, box.width, box.height, &upright)) return ls_image_out_of_memory(j->why, box.width, box.height);
    ls_picture_upright(&as_stored, &upright, orientation);
    j->picture = upright;
    return LS_OK;
}

/* ---- Steps on pixels ---- */

static void jitter(ls_picture *p, const ls_transform_step *s, const ls_draws *draws, int step)
{
    ls_philox4 order_bits = ls_draw(draws, step, 0), bits = ls_draw(draws, step, 1);
    int order[4] = {0, 1, 2, 3};
    for (int i = 3; i > 0; i--) {
        int k = (int)((uint64_t)order_bits.lane[i] * (uint64_t)(i + 1) >> 32), kept = order[i];
        order[i] = order[k];
        order[k] = kept;
    }
    for (int i = 0; i < 4; i++) {
        int what = order[i];
        double strength = s->value[what];
        if (strength == 0) continue;
        double factor = ls_draw_between(bits.lane[what], strength < 1 ? 1 - strength : 0, 1 + strength);
        switch (what) {
        case 0: ls_picture_brightness(p, (float)factor); break;
        case 1: ls_picture_contrast(p, (float)factor); break;
        case 2: ls_picture_saturation(p, (float)factor); break;
        default: ls_picture_hue(p, ls_draw_between(bits.lane[what], -strength, strength)); break;
        }
    }
}

/* Apply a step to the latest picture; *done: it was a pixel step. */
static ls_status pixel_step(job *j, int step, bool *done)
{
    const ls_transform_step *s = &j->t->step[step];
    ls_philox4 bits = ls_draw(&j->draws, step, 0);
    ls_picture turned;
    *done = true;
    switch ((ls_step_kind)s->kind) {
    case LS_STEP_JITTER: jitter(&j->picture, s, &j->draws, step); return LS_OK;
    case LS_STEP_GRAYSCALE:
        if ((double)ls_uniform_from_bits(bits.lane[0]) < s->value[0]) ls_picture_grayscale(&j->picture);
        return LS_OK;
    case LS_STEP_ROTATION:
        if (!new_picture(j, j->picture.width, j->picture.height, &turned))
            return ls_image_out_of_memory(j->why, j->picture.width, j->picture.height);
        ls_picture_rotate(&j->picture, &turned, ls_draw_between(bits.lane[0], s->value[0], s->value[1]),
                          (ls_filter)s->filter,
                          (uint8_t[]){(uint8_t)s->value[2], (uint8_t)s->value[3], (uint8_t)s->value[4]});
        j->picture = turned;
        return LS_OK;
    default: *done = false; return LS_OK;
    }
}

/* ---- All steps ---- */

static ls_status open_job(job *j)
{
    ls_status status = ls_transform_check(j->t, j->why);
    if (status == LS_OK) status = ls_image_head_read(j->bytes, j->size, &j->head, j->why);
    if (status != LS_OK) return status;
    int64_t most = ls_transform_max_pixels(j->t), width = j->head.width, height = j->head.height;
    if (width > most / height)
        return ls_explain(
            j->why, LS_ERR_IO,
            "contains an image of %lld x %lld pixels, more than the limit of %lld (ls_decode(.max_pixels))",
            (long long)width, (long long)height, (long long)most);
    /* A small file may declare a huge image: a program that expects such files raises the limit. */
    uint64_t bytes = 3 * (uint64_t)width * (uint64_t)height;
    if (!(j->t && j->t->max_pixels) && bytes > ls_budget_of(j->size))
        return ls_explain(j->why, LS_ERR_IO,
                          "declares an image of %lld x %lld pixels in %zu bytes, more than allowed for this file size; "
                          "ls_decode(.max_pixels = %lld) allows it",
                          (long long)width, (long long)height, j->size, (long long)(width * height));
    if (!ls_image_is_whole(j->bytes, j->size, j->head.format))
        return ls_explain(j->why, LS_ERR_IO, "%s ends early: the end of the image is missing",
                          j->head.format == LS_IMAGE_JPEG ? "JPEG" : "PNG");
    if (!j->t || !j->t->upright) j->head.orientation = 1;
    return LS_OK;
}

/* Get the memory for the result. */
static ls_status open_sink(const job *j, int64_t width, int64_t height, ls_image_out *out, ls_sink *sink)
{
    if (out->room) {
        out->memory = out->room(out->user, height, width, j->why);
        if (!out->memory) return LS_ERR_SHAPE;
    } else if (out->height != height || out->width != width) {
        return ls_explain(j->why, LS_ERR_SHAPE, "becomes %lld x %lld pixels; expected %lld x %lld", (long long)width,
                          (long long)height, (long long)out->width, (long long)out->height);
    }
    if (out->bytes || ls_transform_dtype(j->t) == LS_U8) sink->bytes = out->memory;
    else sink->floats = out->memory;
    return LS_OK;
}

static void fill_levels(const ls_transform *t, float levels[3][256])
{
    float mean[3], std[3];
    ls_transform_scale(t, mean, std);
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 256; i++) levels[c][i] = ((float)i / 255 - mean[c]) / std[c];
}

void ls_transform_widen(const ls_transform *t, const uint8_t *pixels, int64_t count, float *to)
{
    float levels[3][256];
    fill_levels(t, levels);
    for (int64_t i = 0; i < count; i++) to[i] = levels[i % 3][pixels[i]];
}

/* Apply one view of the source (first the file, then the latest picture) into the sink; NULL: into a new picture. */
static ls_status run_view(job *j, ls_view *view, bool of_file, const ls_sink *sink)
{
    ls_view_plan plan;
    int block = of_file ? fewer_samples(j, view) : 8;
    ls_status status = ls_view_plan_make(view, &plan, j->why);
    if (status != LS_OK) return status;
    ls_box needs = ls_view_needs(view, &plan);
    if (of_file && (status = decode_box(j, needs, block)) != LS_OK) return status;
    ls_picture source = j->picture;
    if (!of_file) {
        source.pixels += (size_t)needs.y * source.stride + (size_t)needs.x * 3;
        source.width = needs.width;
        source.height = needs.height;
    }
    if (!sink) {
        if (!new_picture(j, view->window.width, view->window.height, &j->picture))
            return ls_image_out_of_memory(j->why, view->window.width, view->window.height);
        ls_view_run(view, &plan, &source, &(ls_sink){.bytes = j->picture.pixels});
        return LS_OK;
    }
    ls_view_run(view, &plan, &source, sink);
    return LS_OK;
}

/* Apply all steps to an image of this size: of the file, or the latest picture. */
static ls_status run_steps(job *j, bool of_file, int64_t width, int64_t height, ls_image_out out)
{
    const ls_transform *t = j->t;
    int steps = t ? t->count : 0, step = 0;
    for (;; of_file = false) {
        ls_view view;
        step = ls_view_collect(&view, width, height, t, step, &j->draws);
        width = view.window.width;
        height = view.window.height;
        if (step == steps) {
            ls_sink sink = {0};
            float levels[3][256];
            if (t && t->normalized && !out.bytes) {
                fill_levels(t, levels);
                sink.levels = (const float(*)[256])levels;
            }
            ls_status status = open_sink(j, width, height, &out, &sink);
            return status == LS_OK ? run_view(j, &view, of_file, &sink) : status;
        }
        /* The following steps work on pixels in memory. */
        ls_status status = run_view(j, &view, of_file, NULL);
        for (bool done = true; status == LS_OK && step < steps; step++) {
            status = pixel_step(j, step, &done);
            if (!done) break;
        }
        if (status != LS_OK) return status;
    }
}

ls_status ls_image_decode_transform(const void *bytes, size_t size, const ls_transform *t, const uint64_t random[2],
                                    ls_image_out out, ls_message *why)
{
    job j = {.bytes = bytes, .size = size, .t = t, .why = why};
    if (random) j.draws = (ls_draws){random[0], random[1]};
    ls_status status = open_job(&j);
    if (status != LS_OK) return status;
    bool turned = ls_orientation_turns(j.head.orientation);
    return run_steps(&j, true, turned ? j.head.height : j.head.width, turned ? j.head.width : j.head.height, out);
}

/* ---- Plain pixels ---- */

/* Gray pixels are transformed as colours that are all alike; one of them is kept. */
static ls_status keep_one_channel(job *j, int64_t width, int64_t height, ls_image_out out)
{
    bool as_bytes = out.bytes || ls_transform_dtype(j->t) == LS_U8;
    size_t count = (size_t)(out.width * out.height), size = as_bytes ? 1 : sizeof(float);
    char *colours = ls_image_scratch(LS_SLOT_DECODER, count * 3 * size), *to = out.memory;
    if (!colours) return ls_image_out_of_memory(j->why, out.width, out.height);
    ls_image_out three = out;
    three.memory = colours;
    ls_status status = run_steps(j, false, width, height, three);
    for (size_t i = 0; status == LS_OK && i < count; i++) memcpy(to + i * size, colours + 3 * i * size, size);
    return status;
}

ls_status ls_image_transform_pixels(const uint8_t *pixels, int64_t height, int64_t width, int64_t channels,
                                    const ls_transform *t, const uint64_t random[2], ls_image_out out, ls_message *why)
{
    job j = {.t = t, .why = why};
    if (random) j.draws = (ls_draws){random[0], random[1]};
    /* A copy: steps change it, and kernels read a little beyond its end. */
    if (!new_picture(&j, width, height, &j.picture)) return ls_image_out_of_memory(why, width, height);
    int64_t count = width * height;
    if (channels == 3) memcpy(j.picture.pixels, pixels, (size_t)count * 3);
    for (int64_t i = 0; channels == 1 && i < count; i++) memset(j.picture.pixels + 3 * i, pixels[i], 3);
    return channels == 3 ? run_steps(&j, false, width, height, out) : keep_one_channel(&j, width, height, out);
}
