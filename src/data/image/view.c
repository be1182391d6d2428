/* view.c - merge steps into views: torchvision's rules for sizes and positions. */
#include "data/image/view.h"

#include <math.h>

static bool is_scaled(const ls_view *v)
{
    return v->filter != LS_FILTER_DEFAULT;
}

static bool window_is_whole(const ls_view *v)
{
    return v->window.x == 0 && v->window.y == 0 && v->window.width == v->width && v->window.height == v->height;
}

/* Make the window the whole view, if the view does not scale and its window stays within its box. */
static bool narrow_to_window(ls_view *v)
{
    const ls_box *w = &v->window;
    if (is_scaled(v) || v->flip_x || v->flip_y) return false;
    if (w->x < 0 || w->y < 0 || w->x + w->width > v->width || w->y + w->height > v->height) return false;
    v->box = (ls_box){v->box.x + w->x, v->box.y + w->y, w->width, w->height};
    v->width = w->width;
    v->height = w->height;
    v->window = (ls_box){0, 0, w->width, w->height};
    return true;
}

static void scale_to(ls_view *v, int64_t width, int64_t height, int32_t filter)
{
    v->width = width;
    v->height = height;
    v->window = (ls_box){0, 0, width, height};
    v->filter = (ls_filter)filter;
}

/* ---- Steps ---- */

static ls_box random_box(int64_t width, int64_t height, const ls_transform_step *s, const ls_draws *draws, int step)
{
    const double *scale = s->value, *ratio = s->value + 2;
    double area = (double)width * (double)height;
    for (int attempt = 0; attempt < 10; attempt++) {
        ls_philox4 bits = ls_draw(draws, step, attempt);
        double part = area * ls_draw_between(bits.lane[0], scale[0], scale[1]);
        double aspect = exp(ls_draw_between(bits.lane[1], log(ratio[0]), log(ratio[1])));
        double w = rint(sqrt(part * aspect)), h = rint(sqrt(part / aspect));
        if (!(w > 0 && w <= (double)width && h > 0 && h <= (double)height)) continue;
        ls_box box = {0, 0, (int64_t)w, (int64_t)h};
        box.y = (int64_t)((uint64_t)bits.lane[2] * (uint64_t)(height - box.height + 1) >> 32);
        box.x = (int64_t)((uint64_t)bits.lane[3] * (uint64_t)(width - box.width + 1) >> 32);
        return box;
    }
    /* No attempt fitted: use the centre, with the closest possible ratio. */
    ls_box box = {0, 0, width, height};
    double in_ratio = (double)width / (double)height;
    if (in_ratio < ratio[0]) box.height = (int64_t)rint((double)width / ratio[0]);
    else if (in_ratio > ratio[1]) box.width = (int64_t)rint((double)height * ratio[1]);
    box.x = (width - box.width) / 2;
    box.y = (height - box.height) / 2;
    return box;
}

static void shorter_side(int64_t *width, int64_t *height, int64_t size)
{
    int64_t *shorter = *width <= *height ? width : height, *longer = *width <= *height ? height : width;
    *longer = (int64_t)((double)(size * *longer) / (double)*shorter);
    *shorter = size;
    if (*longer > LS_IMAGE_MAX_SIDE) *longer = LS_IMAGE_MAX_SIDE;
}

/* The start of a centred part of `size`; negative if it is larger. */
static int64_t middle(int64_t whole, int64_t size)
{
    return size > whole ? -((size - whole) / 2) : (int64_t)rint((double)(whole - size) / 2);
}

/* The start of a random part of `size` in a picture with `padding` on both sides; the middle if it is larger. */
static int64_t random_start(int64_t whole, int64_t size, int64_t padding, uint32_t bits)
{
    int64_t room = whole + 2 * padding - size;
    return room < 0 ? middle(whole, size) : (int64_t)((uint64_t)bits * (uint64_t)(room + 1) >> 32) - padding;
}

static bool collect(ls_view *v, const ls_transform_step *s, const ls_draws *draws, int step)
{
    int64_t width, height;
    ls_philox4 bits = ls_draw(draws, step, 0);
    double chance = (double)ls_uniform_from_bits(bits.lane[0]);
    switch ((ls_step_kind)s->kind) {
    case LS_STEP_RANDOM_RESIZED_CROP:
        if (!narrow_to_window(v)) return false;
        v->window = random_box(v->width, v->height, s, draws, step);
        narrow_to_window(v);
        scale_to(v, s->width, s->height, s->filter);
        return true;
    case LS_STEP_RESIZE:
        if (!narrow_to_window(v)) return false;
        scale_to(v, s->width, s->height, s->filter);
        return true;
    case LS_STEP_RESIZE_SHORTER:
        if (!narrow_to_window(v)) return false;
        width = v->width, height = v->height;
        shorter_side(&width, &height, s->height);
        scale_to(v, width, height, s->filter);
        return true;
    case LS_STEP_CENTER_CROP:
        if (v->flip_x || v->flip_y || (!window_is_whole(v) && !narrow_to_window(v))) return false;
        v->window = (ls_box){middle(v->width, s->width), middle(v->height, s->height), s->width, s->height};
        return true;
    case LS_STEP_RANDOM_CROP:
        if (v->flip_x || v->flip_y || (!window_is_whole(v) && !narrow_to_window(v))) return false;
        v->window =
            (ls_box){random_start(v->width, s->width, (int64_t)s->value[0], bits.lane[1]),
                     random_start(v->height, s->height, (int64_t)s->value[0], bits.lane[0]), s->width, s->height};
        return true;
    case LS_STEP_FLIP_HORIZONTAL: v->flip_x ^= chance < s->value[0]; return true;
    case LS_STEP_FLIP_VERTICAL: v->flip_y ^= chance < s->value[0]; return true;
    default: return false;
    }
}

void ls_transform_size_after(const ls_transform *t, int64_t *height, int64_t *width)
{
    for (int step = 0, next; t && step<t->count; step = next> step ? next : step + 1) {
        ls_view view;
        next = ls_view_collect(&view, *width, *height, t, step, &(ls_draws){0}); /* sizes do not depend on chance */
        *width = view.window.width;
        *height = view.window.height;
    }
}

int ls_view_collect(ls_view *view, int64_t width, int64_t height, const ls_transform *t, int step,
                    const ls_draws *draws)
{
    ls_box whole = {0, 0, width, height};
    *view = (ls_view){.box = whole, .width = width, .height = height, .window = whole};
    while (t && step < t->count && collect(view, &t->step[step], draws, step)) step++;
    return step;
}
