/* color.c - colour operations, computed as in Pillow: in bytes, with single precision in between. */
#include <math.h>
#include <string.h>

#include "data/image/pixels.h"

static uint8_t gray_of(const uint8_t *rgb)
{
    return (uint8_t)((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

/* Blend from a to b by a factor, which may be outside 0..1. */
static uint8_t blend(int a, int b, float factor)
{
    float level = (float)a + factor * (float)(b - a);
    return (uint8_t)(level <= 0 ? 0 : level >= 255 ? 255 : (int)level);
}

static uint8_t *row_of(ls_picture *p, int64_t y)
{
    return p->pixels + (size_t)y * p->stride;
}

/* Blend every level with one other. */
static void blend_all(ls_picture *p, int other, float factor)
{
    uint8_t table[256];
    for (int i = 0; i < 256; i++) table[i] = blend(other, i, factor);
    for (int64_t y = 0; y < p->height; y++) {
        uint8_t *row = row_of(p, y);
        for (int64_t i = 0; i < 3 * p->width; i++) row[i] = table[row[i]];
    }
}

void ls_picture_brightness(ls_picture *p, float factor)
{
    blend_all(p, 0, factor);
}

void ls_picture_contrast(ls_picture *p, float factor)
{
    uint64_t sum = 0;
    for (int64_t y = 0; y < p->height; y++)
        for (const uint8_t *rgb = row_of(p, y), *end = rgb + 3 * p->width; rgb < end; rgb += 3) sum += gray_of(rgb);
    double mean = (double)sum / ((double)p->width * (double)p->height);
    blend_all(p, (int)(mean + 0.5), factor);
}

void ls_picture_saturation(ls_picture *p, float factor)
{
    for (int64_t y = 0; y < p->height; y++)
        for (uint8_t *rgb = row_of(p, y), *end = rgb + 3 * p->width; rgb < end; rgb += 3) {
            int gray = gray_of(rgb);
            for (int c = 0; c < 3; c++) rgb[c] = blend(gray, rgb[c], factor);
        }
}

void ls_picture_grayscale(ls_picture *p)
{
    for (int64_t y = 0; y < p->height; y++)
        for (uint8_t *rgb = row_of(p, y), *end = rgb + 3 * p->width; rgb < end; rgb += 3) memset(rgb, gray_of(rgb), 3);
}

/* ---- Hue, as in Python's colorsys ---- */

static uint8_t to_byte(int level)
{
    return (uint8_t)(level < 0 ? 0 : level > 255 ? 255 : level);
}

static void rgb_to_hsv(const uint8_t *rgb, uint8_t *hsv)
{
    uint8_t r = rgb[0], g = rgb[1], b = rgb[2];
    uint8_t most = r > g ? r : g, least = r < g ? r : g;
    if (b > most) most = b;
    if (b < least) least = b;
    hsv[0] = hsv[1] = 0;
    hsv[2] = most;
    if (most == least) return;
    float range = (float)(most - least);
    float from_r = (float)(most - r) / range, from_g = (float)(most - g) / range, from_b = (float)(most - b) / range;
    float saturation = range / (float)most, hue;
    if (r == most) hue = from_b - from_g;
    else if (g == most) hue = (float)(2.0 + (double)from_r - (double)from_b);
    else hue = (float)(4.0 + (double)from_g - (double)from_r);
    hue = (float)fmod((double)hue / 6.0 + 1.0, 1.0);
    hsv[0] = to_byte((int)((double)hue * 255.0));
    hsv[1] = to_byte((int)((double)saturation * 255.0));
}

static void hsv_to_rgb(const uint8_t *hsv, uint8_t *rgb)
{
    uint8_t v = hsv[2];
    if (hsv[1] == 0) {
        memset(rgb, v, 3);
        return;
    }
    int sector = (int)floor((double)(float)hsv[0] * 6.0 / 255.0);
    float part = (float)((double)(float)hsv[0] * 6.0 / 255.0 - (double)(float)sector);
    float saturation = (float)((double)(float)hsv[1] / 255.0);
    double value = (double)(float)v, s = (double)saturation, f = (double)part;
    uint8_t p = to_byte((int)round(value * (1.0 - s)));
    uint8_t q = to_byte((int)round(value * (1.0 - s * f)));
    uint8_t t = to_byte((int)round(value * (1.0 - s * (1.0 - f))));
    const uint8_t sectors[6][3] = {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}};
    memcpy(rgb, sectors[sector % 6], 3);
}

void ls_picture_hue(ls_picture *p, double part)
{
    int turn = (int)(part * 255);
    for (int64_t y = 0; y < p->height; y++)
        for (uint8_t *rgb = row_of(p, y), *end = rgb + 3 * p->width; rgb < end; rgb += 3) {
            uint8_t hsv[3];
            rgb_to_hsv(rgb, hsv);
            hsv[0] = (uint8_t)(hsv[0] + turn);
            hsv_to_rgb(hsv, rgb);
        }
}
