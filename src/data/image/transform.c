/* transform.c - create transforms: options become steps, invalid ones become an error message. */
#include "data/image/image.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/opts.h"
#include "data/image/steps.h"

/* Pillow's limit: twice the size at which it warns. */
#define DEFAULT_MAX_PIXELS INT64_C(178956970)

LS_PRINTF(1, 2) static ls_transform impossible(const char *format, ...)
{
    ls_transform t = {0};
    va_list args;
    va_start(args, format);
    vsnprintf(t.problem, sizeof t.problem, format, args);
    va_end(args);
    return t;
}

static ls_transform one_step(ls_transform_step step)
{
    return (ls_transform){.count = 1, .step = {step}};
}

static bool side_fits(int side)
{
    return side >= 1 && side <= LS_IMAGE_MAX_SIDE;
}

static bool filter_exists(ls_filter filter)
{
    return (unsigned)filter <= LS_FILTER_LANCZOS;
}

/* A step with an output size, or an error. */
static ls_transform sized_step(const char *name, ls_transform_step step, int width)
{
    step.width = (int32_t)ls_opts_integer(width, step.height);
    if (!step.filter) step.filter = LS_FILTER_BILINEAR;
    if (!side_fits(step.height) || !side_fits(step.width))
        return impossible("%s: size %d x %d: sides must be 1 to %d", name, step.height, step.width, LS_IMAGE_MAX_SIDE);
    if (!filter_exists((ls_filter)step.filter)) return impossible("%s: unknown filter %d", name, step.filter);
    return one_step(step);
}

/* A step that is applied with a probability. */
static ls_transform chance_step(const char *name, ls_step_kind kind, double p)
{
    if (!(p >= 0 && p <= 1)) return impossible("%s: probability %g is not in [0, 1]", name, p);
    return one_step((ls_transform_step){.kind = (int32_t)kind, .value = {p}});
}

ls_transform ls_random_resized_crop_sized(int size, const ls_random_resized_crop_opts *opts, size_t opts_size)
{
    ls_random_resized_crop_opts o = LS_OPTS_READ(ls_random_resized_crop_opts, opts, opts_size);
    double scale[2] = {o.min_scale, o.max_scale}, ratio[2] = {o.min_ratio, o.max_ratio};
    if (!(scale[0] > 0 && scale[0] <= scale[1] && isfinite(scale[1])))
        return impossible("random_resized_crop: scale %g to %g: must be ascending and above 0", scale[0], scale[1]);
    if (!(ratio[0] > 0 && ratio[0] <= ratio[1] && isfinite(ratio[1])))
        return impossible("random_resized_crop: ratio %g to %g: must be ascending and above 0", ratio[0], ratio[1]);
    return sized_step("random_resized_crop",
                      (ls_transform_step){.kind = LS_STEP_RANDOM_RESIZED_CROP,
                                          .filter = (int32_t)o.filter,
                                          .height = size,
                                          .value = {scale[0], scale[1], ratio[0], ratio[1]}},
                      o.width);
}

ls_transform ls_resize_sized(int size, const ls_resize_opts *opts, size_t opts_size)
{
    ls_resize_opts o = LS_OPTS_READ(ls_resize_opts, opts, opts_size);
    return sized_step(
        "resize", (ls_transform_step){.kind = LS_STEP_RESIZE, .filter = (int32_t)o.filter, .height = size}, o.width);
}

ls_transform ls_resize_shorter_sized(int size, const ls_resize_opts *opts, size_t opts_size)
{
    ls_resize_opts o = LS_OPTS_READ(ls_resize_opts, opts, opts_size);
    if (o.width != LS_AUTO) return impossible("resize_shorter: takes one size; the other follows from the image");
    return sized_step("resize_shorter",
                      (ls_transform_step){.kind = LS_STEP_RESIZE_SHORTER, .filter = (int32_t)o.filter, .height = size},
                      LS_AUTO);
}

ls_transform ls_center_crop_sized(int size, const ls_center_crop_opts *opts, size_t opts_size)
{
    ls_center_crop_opts o = LS_OPTS_READ(ls_center_crop_opts, opts, opts_size);
    return sized_step("center_crop", (ls_transform_step){.kind = LS_STEP_CENTER_CROP, .height = size}, o.width);
}

ls_transform ls_random_crop_sized(int size, const ls_random_crop_opts *opts, size_t opts_size)
{
    ls_random_crop_opts o = LS_OPTS_READ(ls_random_crop_opts, opts, opts_size);
    if (o.padding < 0 || o.padding > LS_IMAGE_MAX_SIDE)
        return impossible("random_crop: padding %d must be 0 to %d", o.padding, LS_IMAGE_MAX_SIDE);
    return sized_step("random_crop",
                      (ls_transform_step){.kind = LS_STEP_RANDOM_CROP, .height = size, .value = {o.padding}}, o.width);
}

ls_transform ls_random_flip_sized(const ls_random_flip_opts *opts, size_t opts_size)
{
    ls_random_flip_opts o = LS_OPTS_READ(ls_random_flip_opts, opts, opts_size);
    return chance_step("random_flip", o.vertical ? LS_STEP_FLIP_VERTICAL : LS_STEP_FLIP_HORIZONTAL, o.probability);
}

ls_transform ls_random_rotation_sized(double degrees, const ls_random_rotation_opts *opts, size_t opts_size)
{
    ls_random_rotation_opts o = LS_OPTS_READ(ls_random_rotation_opts, opts, opts_size);
    double least = ls_opts_real(o.min_degrees, -degrees);
    if (!(least <= degrees && isfinite(least) && isfinite(degrees)))
        return impossible("random_rotation: %g to %g degrees: must be ascending", least, degrees);
    if (o.filter != LS_FILTER_DEFAULT && o.filter != LS_FILTER_NEAREST && o.filter != LS_FILTER_BILINEAR)
        return impossible("random_rotation: filter %d: must be nearest or bilinear", (int)o.filter);
    return one_step((ls_transform_step){
        .kind = LS_STEP_ROTATION,
        .filter = o.filter ? (int32_t)o.filter : LS_FILTER_NEAREST,
        .value = {least, degrees, o.fill[0], o.fill[1], o.fill[2]},
    });
}

ls_transform ls_color_jitter_sized(const ls_color_jitter_opts *opts, size_t opts_size)
{
    ls_color_jitter_opts o = LS_OPTS_READ(ls_color_jitter_opts, opts, opts_size);
    double strength[] = {o.brightness, o.contrast, o.saturation, o.hue};
    static const char *const names[] = {"brightness", "contrast", "saturation", "hue"};
    for (int i = 0; i < 4; i++)
        if (!(strength[i] >= 0 && strength[i] <= (i == 3 ? 0.5 : 1e6)))
            return impossible("color_jitter: %s %g must be %s", names[i], strength[i],
                              i == 3 ? "in [0, 0.5]" : "finite and not negative");
    return one_step(
        (ls_transform_step){.kind = LS_STEP_JITTER, .value = {strength[0], strength[1], strength[2], strength[3]}});
}

ls_transform ls_grayscale_sized(const ls_grayscale_opts *opts, size_t opts_size)
{
    ls_grayscale_opts o = LS_OPTS_READ(ls_grayscale_opts, opts, opts_size);
    return chance_step("grayscale", LS_STEP_GRAYSCALE, o.probability);
}

ls_transform ls_to_tensor_sized(const ls_to_tensor_opts *opts, size_t opts_size)
{
    ls_to_tensor_opts o = LS_OPTS_READ(ls_to_tensor_opts, opts, opts_size);
    if (o.dtype != LS_F32 && o.dtype != LS_U8)
        return impossible("to_tensor: %s: images must be f32 or u8", ls_dtype_name(o.dtype));
    return (ls_transform){.dtype = (int32_t)o.dtype};
}

ls_transform ls_normalize_image_sized(const ls_normalize_image_opts *opts, size_t opts_size)
{
    ls_normalize_image_opts o = LS_OPTS_READ(ls_normalize_image_opts, opts, opts_size);
    ls_transform t = {.normalized = 1};
    for (int c = 0; c < 3; c++) {
        t.mean[c] = o.mean[c];
        t.std[c] = o.std[c];
        if (!(t.std[c] > 0) || !isfinite(t.std[c]) || !isfinite(t.mean[c]))
            return impossible("normalize_image: mean %g and std %g of channel %d", (double)t.mean[c], (double)t.std[c],
                              c);
    }
    return t;
}

ls_transform ls_decode_sized(const ls_decode_opts *opts, size_t opts_size)
{
    ls_decode_opts o = LS_OPTS_READ(ls_decode_opts, opts, opts_size);
    if (o.max_pixels != LS_AUTO && o.max_pixels < 1)
        return impossible("decode: max_pixels %lld would refuse every image", (long long)o.max_pixels);
    return (ls_transform){.upright = o.upright, .fast = o.fast, .max_pixels = ls_opts_integer(o.max_pixels, 0)};
}

ls_transform ls_compose_n(const ls_transform *transforms, int64_t count)
{
    ls_transform all = {0};
    for (int64_t i = 0; transforms && i < count; i++) {
        const ls_transform *t = &transforms[i];
        if (t->problem[0]) return *t;
        if (all.count + t->count > LS_MAX_TRANSFORM_STEPS)
            return impossible("compose: more than %d steps", LS_MAX_TRANSFORM_STEPS);
        for (int s = 0; s < t->count; s++) all.step[all.count++] = t->step[s];
        if (t->normalized && all.normalized) return impossible("compose: images would be normalised twice");
        if (t->normalized) {
            all.normalized = 1;
            memcpy(all.mean, t->mean, sizeof all.mean);
            memcpy(all.std, t->std, sizeof all.std);
        }
        if (t->dtype) all.dtype = t->dtype;
        if (t->max_pixels) all.max_pixels = t->max_pixels;
        all.upright |= t->upright;
        all.fast |= t->fast;
    }
    return all;
}

/* ---- For the loader ---- */

ls_status ls_transform_check(const ls_transform *t, ls_message *why)
{
    if (t && t->problem[0]) return ls_explain(why, LS_ERR_VALUE, "%s", t->problem);
    if (t && t->normalized && t->dtype == LS_U8)
        return ls_explain(why, LS_ERR_VALUE, "normalize_image: bytes cannot be normalised; leave out to_tensor's u8");
    return LS_OK;
}

ls_dtype ls_transform_dtype(const ls_transform *t)
{
    return t && t->dtype ? (ls_dtype)t->dtype : LS_F32;
}

void ls_transform_scale(const ls_transform *t, float mean[3], float std[3])
{
    for (int c = 0; c < 3; c++) {
        mean[c] = t && t->normalized ? t->mean[c] : 0;
        std[c] = t && t->normalized ? t->std[c] : 1;
    }
}

bool ls_transform_size(const ls_transform *t, int64_t *height, int64_t *width)
{
    for (int i = t ? t->count - 1 : -1; i >= 0; i--) {
        const ls_transform_step *step = &t->step[i];
        if (step->kind == LS_STEP_RESIZE_SHORTER) return false;
        if (step->kind != LS_STEP_RESIZE && step->kind != LS_STEP_RANDOM_RESIZED_CROP &&
            step->kind != LS_STEP_CENTER_CROP && step->kind != LS_STEP_RANDOM_CROP)
            continue;
        *height = step->height;
        *width = step->width;
        return true;
    }
    return false;
}

int64_t ls_transform_max_pixels(const ls_transform *t)
{
    return t && t->max_pixels ? t->max_pixels : DEFAULT_MAX_PIXELS;
}
