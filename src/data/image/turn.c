/* turn.c - rotate images: by any angle as in Pillow, and upright by EXIF orientation. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/image/pixels.h"

/* ---- Rotation ---- */

/* The source of output (x, y): (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]). */
typedef struct affine {
    double m[6];
} affine;

static double round_to_15_digits(double v)
{
    char text[32];
    snprintf(text, sizeof text, "%.15f", v);
    return strtod(text, NULL);
}

static affine rotation(double degrees, double width, double height)
{
    double angle = -degrees * (M_PI / 180), c = round_to_15_digits(cos(angle)), s = round_to_15_digits(sin(angle));
    double x = width / 2, y = height / 2;
    return (affine){{c, s, c * -x + s * -y + 0.0 + x, -s, c, -s * -x + c * -y + 0.0 + y}};
}

/* Nearest neighbour in fixed point with 16 fractional bits, stepping through rows and columns as in Pillow. */
static void rotate_nearest(const ls_picture *from, ls_picture *to, const affine *a)
{
    const double *m = a->m;
    int64_t step[4] = {(int64_t)floor(m[0] * 65536 + 0.5), (int64_t)floor(m[1] * 65536 + 0.5),
                       (int64_t)floor(m[3] * 65536 + 0.5), (int64_t)floor(m[4] * 65536 + 0.5)};
    int64_t row_x = (int64_t)floor((m[2] + m[0] * 0.5 + m[1] * 0.5) * 65536 + 0.5);
    int64_t row_y = (int64_t)floor((m[5] + m[3] * 0.5 + m[4] * 0.5) * 65536 + 0.5);
    for (int64_t y = 0; y < to->height; y++, row_x += step[1], row_y += step[3]) {
        uint8_t *out = to->pixels + (size_t)y * to->stride;
        int64_t fixed_x = row_x, fixed_y = row_y;
        for (int64_t x = 0; x < to->width; x++, out += 3, fixed_x += step[0], fixed_y += step[2]) {
            int64_t in_x = fixed_x >> 16, in_y = fixed_y >> 16;
            if (in_x < 0 || in_x >= from->width || in_y < 0 || in_y >= from->height) continue;
            memcpy(out, from->pixels + (size_t)in_y * from->stride + 3 * in_x, 3);
        }
    }
}

static int64_t clip(int64_t i, int64_t count)
{
    return i < 0 ? 0 : i < count ? i : count - 1;
}

static void rotate_bilinear(const ls_picture *from, ls_picture *to, const affine *a)
{
    const double *m = a->m;
    for (int64_t y = 0; y < to->height; y++) {
        uint8_t *out = to->pixels + (size_t)y * to->stride;
        for (int64_t x = 0; x < to->width; x++, out += 3) {
            double at_x = m[0] * ((double)x + 0.5) + m[1] * ((double)y + 0.5) + m[2];
            double at_y = m[3] * ((double)x + 0.5) + m[4] * ((double)y + 0.5) + m[5];
            if (at_x < 0 || at_x >= (double)from->width || at_y < 0 || at_y >= (double)from->height) continue;
            int64_t left = (int64_t)floor(at_x - 0.5), top = (int64_t)floor(at_y - 0.5);
            double dx = at_x - 0.5 - (double)left, dy = at_y - 0.5 - (double)top;
            const uint8_t *upper = from->pixels + (size_t)clip(top, from->height) * from->stride;
            const uint8_t *lower = top + 1 < from->height ? from->pixels + (size_t)(top + 1) * from->stride : upper;
            int64_t x0 = 3 * clip(left, from->width), x1 = 3 * clip(left + 1, from->width);
            for (int c = 0; c < 3; c++) {
                double v1 = upper[x0 + c] + (upper[x1 + c] - upper[x0 + c]) * dx;
                double v2 = lower[x0 + c] + (lower[x1 + c] - lower[x0 + c]) * dx;
                out[c] = (uint8_t)(v1 + (v2 - v1) * dy);
            }
        }
    }
}

void ls_picture_rotate(const ls_picture *from, ls_picture *to, double degrees, ls_filter filter, const uint8_t fill[3])
{
    degrees = fmod(degrees, 360);
    if (degrees < 0) degrees += 360;
    /* Quarter turns only move pixels. */
    int orientation = degrees == 0 ? 1 : degrees == 180 ? 3 : 0;
    if (from->width == from->height && degrees == 90) orientation = 8;
    if (from->width == from->height && degrees == 270) orientation = 6;
    if (orientation) {
        ls_picture_upright(from, to, orientation);
        return;
    }
    for (int64_t y = 0; y < to->height; y++)
        for (int64_t x = 0; x < to->width; x++) memcpy(to->pixels + (size_t)y * to->stride + 3 * x, fill, 3);
    affine a = rotation(degrees, (double)from->width, (double)from->height);
    if (filter == LS_FILTER_BILINEAR) rotate_bilinear(from, to, &a);
    else rotate_nearest(from, to, &a);
}

/* ---- Orientation ---- */

/* The stored position of an upright pixel: exchange its coordinates, then count from the other end. */
static const struct {
    bool turns, from_right, from_bottom;
} orientations[9] = {
    [2] = {false, true, false}, [3] = {false, true, true}, [4] = {false, false, true}, [5] = {true, false, false},
    [6] = {true, false, true},  [7] = {true, true, true},  [8] = {true, true, false}};

bool ls_orientation_turns(int orientation)
{
    return orientations[orientation].turns;
}

ls_box ls_orientation_stored(int orientation, ls_box upright, int64_t width, int64_t height)
{
    ls_box b = upright;
    if (orientations[orientation].turns) b = (ls_box){upright.y, upright.x, upright.height, upright.width};
    if (orientations[orientation].from_right) b.x = width - b.x - b.width;
    if (orientations[orientation].from_bottom) b.y = height - b.y - b.height;
    return b;
}

void ls_picture_upright(const ls_picture *from, ls_picture *to, int orientation)
{
    for (int64_t y = 0; y < to->height; y++) {
        uint8_t *out = to->pixels + (size_t)y * to->stride;
        for (int64_t x = 0; x < to->width; x++, out += 3) {
            ls_box at = ls_orientation_stored(orientation, (ls_box){x, y, 1, 1}, from->width, from->height);
            memcpy(out, from->pixels + (size_t)at.y * from->stride + 3 * at.x, 3);
        }
    }
}
