/* draw_pets.c - generate a folder of pet pictures to learn from, named like photos: beagle_32.jpg.
 *      draw_pets FOLDER [COUNT]
 *
 * Six kinds of animals, COUNT pictures of each (100). An animal is a short table of ellipses and triangles. Pictures
 * vary in position, size, rotation, mirroring, proportions, colours (shared by all kinds), background, light, noise, an
 * object in front, picture size and JPEG quality. */
#include <lockstep.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_SIDE = 192, MAX_PARTS = 16 };

/* The paint of a part. The coats vary, the others are the same for every animal. */
typedef enum paint { COAT, PALE, SHADE, WHITE, BLACK, ROSE, GOLD, PAINTS } paint;

/* In the animal's own coordinates, about -1 to 1, x right and y down. A triangle points up in its box. */
typedef struct part {
    enum { NOTHING, ELLIPSE, TRIANGLE } shape;
    float x, y, half_width, half_height, turn; /* turn in radians, clockwise */
    paint paint;
} part;

typedef struct kind {
    const char *name;
    part parts[MAX_PARTS]; /* back to front */
} kind;

static const kind kinds[] = {
    {"abyssinian_cat",
     {{TRIANGLE, -0.42f, -0.62f, 0.24f, 0.34f, -0.25f, COAT},
      {TRIANGLE, 0.42f, -0.62f, 0.24f, 0.34f, 0.25f, COAT},
      {TRIANGLE, -0.41f, -0.55f, 0.12f, 0.20f, -0.25f, ROSE},
      {TRIANGLE, 0.41f, -0.55f, 0.12f, 0.20f, 0.25f, ROSE},
      {ELLIPSE, 0, 0, 0.70f, 0.62f, 0, COAT},
      {ELLIPSE, -0.28f, -0.10f, 0.15f, 0.13f, 0, GOLD},
      {ELLIPSE, 0.28f, -0.10f, 0.15f, 0.13f, 0, GOLD},
      {ELLIPSE, -0.28f, -0.10f, 0.04f, 0.12f, 0, BLACK},
      {ELLIPSE, 0.28f, -0.10f, 0.04f, 0.12f, 0, BLACK},
      {ELLIPSE, 0, 0.28f, 0.26f, 0.18f, 0, PALE},
      {TRIANGLE, 0, 0.20f, 0.08f, 0.07f, 3.14f, ROSE},
      {ELLIPSE, -0.55f, 0.28f, 0.28f, 0.012f, 0.12f, WHITE},
      {ELLIPSE, 0.55f, 0.28f, 0.28f, 0.012f, -0.12f, WHITE}}},
    {"beagle",
     {{ELLIPSE, 0, 0, 0.58f, 0.66f, 0, PALE},
      {ELLIPSE, -0.60f, 0.02f, 0.20f, 0.52f, 0.22f, SHADE},
      {ELLIPSE, 0.60f, 0.02f, 0.20f, 0.52f, -0.22f, SHADE},
      {ELLIPSE, -0.28f, -0.24f, 0.24f, 0.34f, 0.2f, COAT},
      {ELLIPSE, 0.28f, -0.24f, 0.24f, 0.34f, -0.2f, COAT},
      {ELLIPSE, -0.24f, -0.14f, 0.10f, 0.10f, 0, BLACK},
      {ELLIPSE, 0.24f, -0.14f, 0.10f, 0.10f, 0, BLACK},
      {ELLIPSE, -0.27f, -0.17f, 0.03f, 0.03f, 0, WHITE},
      {ELLIPSE, 0.21f, -0.17f, 0.03f, 0.03f, 0, WHITE},
      {ELLIPSE, 0, 0.34f, 0.30f, 0.26f, 0, WHITE},
      {ELLIPSE, 0, 0.20f, 0.14f, 0.10f, 0, BLACK},
      {ELLIPSE, 0.02f, 0.58f, 0.09f, 0.14f, 0, ROSE}}},
    {"dutch_rabbit",
     {{ELLIPSE, -0.24f, -0.78f, 0.14f, 0.52f, -0.14f, COAT},
      {ELLIPSE, 0.24f, -0.78f, 0.14f, 0.52f, 0.14f, COAT},
      {ELLIPSE, -0.24f, -0.76f, 0.07f, 0.40f, -0.14f, ROSE},
      {ELLIPSE, 0.24f, -0.76f, 0.07f, 0.40f, 0.14f, ROSE},
      {ELLIPSE, 0, 0.12f, 0.52f, 0.56f, 0, COAT},
      {ELLIPSE, 0, 0.12f, 0.16f, 0.54f, 0, WHITE},
      {ELLIPSE, -0.30f, 0.02f, 0.10f, 0.12f, 0, BLACK},
      {ELLIPSE, 0.30f, 0.02f, 0.10f, 0.12f, 0, BLACK},
      {ELLIPSE, 0, 0.42f, 0.26f, 0.18f, 0, WHITE},
      {ELLIPSE, 0, 0.34f, 0.06f, 0.05f, 0, ROSE},
      {ELLIPSE, 0, 0.58f, 0.07f, 0.08f, 0, WHITE}}},
    {"goldfish",
     {{TRIANGLE, 0.72f, 0, 0.38f, 0.36f, -1.57f, SHADE},
      {TRIANGLE, 0.05f, -0.48f, 0.30f, 0.24f, 0.4f, SHADE},
      {TRIANGLE, 0.10f, 0.44f, 0.18f, 0.20f, 2.8f, SHADE},
      {ELLIPSE, -0.10f, 0, 0.66f, 0.42f, 0, COAT},
      {ELLIPSE, -0.16f, 0.14f, 0.50f, 0.24f, 0, PALE},
      {ELLIPSE, 0.00f, 0.02f, 0.10f, 0.22f, 0.3f, SHADE},
      {ELLIPSE, -0.48f, -0.08f, 0.12f, 0.12f, 0, WHITE},
      {ELLIPSE, -0.50f, -0.08f, 0.06f, 0.06f, 0, BLACK},
      {ELLIPSE, -0.74f, 0.08f, 0.06f, 0.04f, 0, ROSE}}},
    {"grey_parrot",
     {{ELLIPSE, 0.26f, 0.80f, 0.16f, 0.40f, -0.4f, ROSE},
      {ELLIPSE, 0.08f, 0.26f, 0.44f, 0.62f, -0.2f, COAT},
      {ELLIPSE, 0.26f, 0.30f, 0.22f, 0.50f, -0.3f, SHADE},
      {ELLIPSE, -0.14f, -0.46f, 0.36f, 0.34f, 0, COAT},
      {ELLIPSE, -0.26f, -0.46f, 0.18f, 0.18f, 0, WHITE},
      {ELLIPSE, -0.26f, -0.48f, 0.08f, 0.08f, 0, GOLD},
      {ELLIPSE, -0.26f, -0.48f, 0.04f, 0.04f, 0, BLACK},
      {TRIANGLE, -0.54f, -0.36f, 0.13f, 0.22f, 3.6f, BLACK},
      {ELLIPSE, -0.06f, 0.90f, 0.09f, 0.05f, 0, SHADE},
      {ELLIPSE, 0.14f, 0.92f, 0.09f, 0.05f, 0, SHADE}}},
    {"tortoise",
     {{ELLIPSE, -0.76f, 0.06f, 0.22f, 0.18f, -0.3f, PALE},
      {ELLIPSE, -0.42f, 0.48f, 0.14f, 0.20f, 0.3f, PALE},
      {ELLIPSE, 0.44f, 0.48f, 0.14f, 0.20f, -0.3f, PALE},
      {TRIANGLE, 0.76f, 0.32f, 0.07f, 0.16f, 1.9f, PALE},
      {ELLIPSE, 0, 0.10f, 0.68f, 0.44f, 0, SHADE},
      {ELLIPSE, 0, 0.02f, 0.17f, 0.15f, 0, COAT},
      {ELLIPSE, -0.36f, 0.08f, 0.14f, 0.15f, 0.3f, COAT},
      {ELLIPSE, 0.36f, 0.08f, 0.14f, 0.15f, -0.3f, COAT},
      {ELLIPSE, -0.18f, 0.32f, 0.13f, 0.11f, 0, COAT},
      {ELLIPSE, 0.18f, 0.32f, 0.13f, 0.11f, 0, COAT},
      {ELLIPSE, -0.16f, -0.20f, 0.12f, 0.09f, 0, COAT},
      {ELLIPSE, 0.18f, -0.20f, 0.12f, 0.09f, 0, COAT},
      {ELLIPSE, -0.84f, 0.02f, 0.04f, 0.04f, 0, BLACK}}},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* ---- Random numbers: one small generator, so that every machine draws the same pictures ---- */

static uint64_t chance_state;

/* Uniform in [low, high). */
static float between(float low, float high)
{
    chance_state = chance_state * 6364136223846793005u + 1442695040888963407u;
    uint64_t mixed = chance_state ^ (chance_state >> 29);
    return low + (high - low) * ((float)((mixed * 0x9e3779b97f4a7c15u) >> 40) / (float)(1 << 24));
}

/* ---- Painting ---- */

typedef struct colour {
    float r, g, b;
} colour;

static colour mix(colour a, colour b, float t)
{
    return (colour){a.r + (b.r - a.r) * t, a.g + (b.g - a.g) * t, a.b + (b.b - a.b) * t};
}

static colour any_colour(float low, float high)
{
    float r = between(low, high), g = between(low, high), b = between(low, high);
    return (colour){r, g, b};
}

typedef struct picture {
    int width, height;
    colour pixels[MAX_SIDE * MAX_SIDE];
} picture;

/* The distance of a point from the unit shape, in its own units: negative inside. */
static float outside(const part *p, float x, float y)
{
    if (p->shape == ELLIPSE) return sqrtf(x * x + y * y) - 1;
    float slope = (2 * fabsf(x) - y - 1) * 0.4472136f; /* 1 / sqrt(5): the sides run from (0,-1) to (+-1,1) */
    return fmaxf(slope, y - 1);
}

/* From the animal's coordinates to the picture's: rotation, size and position. */
typedef struct pose {
    float x, y, size, cosine, sine, mirror;
} pose;

static void paint_part(picture *to, const part *p, const pose *at, colour with)
{
    float cosine = cosf(p->turn), sine = sinf(p->turn);
    float edge = 1 / (at->size * fminf(p->half_width, p->half_height)); /* a pixel, in the part's own units */
    for (int row = 0; row < to->height; row++) {
        for (int column = 0; column < to->width; column++) {
            float dx = ((float)column - at->x) / at->size, dy = ((float)row - at->y) / at->size;
            float x = at->mirror * (dx * at->cosine + dy * at->sine) - p->x;
            float y = -dx * at->sine + dy * at->cosine - p->y;
            float u = (x * cosine + y * sine) / p->half_width, v = (-x * sine + y * cosine) / p->half_height;
            float cover = 0.5f - outside(p, u, v) / edge;
            if (cover <= 0) continue;
            colour *pixel = &to->pixels[row * to->width + column];
            *pixel = mix(*pixel, with, fminf(cover, 1));
        }
    }
}

/* A lawn, a carpet, a wall: a gradient of two colours, and a few blurred spots. */
static void paint_background(picture *to)
{
    colour above = any_colour(0.15f, 0.95f), below = any_colour(0.1f, 0.85f);
    float tilt = between(-0.5f, 0.5f);
    for (int row = 0; row < to->height; row++)
        for (int column = 0; column < to->width; column++) {
            float t = (float)row / (float)to->height + tilt * (float)column / (float)to->width;
            to->pixels[row * to->width + column] = mix(above, below, fminf(fmaxf(t, 0), 1));
        }
    for (int spots = (int)between(2, 7); spots > 0; spots--) {
        part spot = {ELLIPSE, 0, 0, between(0.05f, 0.5f), between(0.05f, 0.5f), between(0, 3), COAT};
        pose at = {between(0, (float)to->width), between(0, (float)to->height), (float)to->width / 2, 1, 0, 1};
        paint_part(to, &spot, &at, any_colour(0.1f, 0.9f));
    }
}

static void paint_animal(picture *to, const kind *which)
{
    float side = (float)(to->width < to->height ? to->width : to->height);
    float turn = between(-0.5f, 0.5f);
    pose at = {.size = side * between(0.30f, 0.46f), .cosine = cosf(turn), .sine = sinf(turn)};
    at.mirror = between(0, 1) < 0.5f ? -1 : 1;
    at.x = (float)to->width * between(0.40f, 0.60f);
    at.y = (float)to->height * between(0.42f, 0.58f);

    /* Coats: ginger, brown, grey, cream, black, white-ish, olive; shared by all kinds. */
    static const colour coats[] = {{0.85f, 0.50f, 0.18f}, {0.48f, 0.31f, 0.18f}, {0.55f, 0.56f, 0.60f},
                                   {0.90f, 0.82f, 0.66f}, {0.20f, 0.19f, 0.21f}, {0.80f, 0.78f, 0.76f},
                                   {0.45f, 0.50f, 0.25f}};
    colour coat = mix(coats[(int)between(0, sizeof coats / sizeof coats[0])], any_colour(0, 1), between(0, 0.3f));
    colour black = {0, 0, 0}, white = {1, 1, 1};
    colour paints[PAINTS] = {
        [COAT] = coat,
        [PALE] = mix(coat, white, 0.45f),
        [SHADE] = mix(coat, black, 0.35f),
        [WHITE] = {0.96f, 0.95f, 0.92f},
        [BLACK] = {0.07f, 0.06f, 0.07f},
        [ROSE] = {0.90f, 0.55f, 0.55f},
        [GOLD] = {0.86f, 0.74f, 0.22f},
    };
    for (const part *p = which->parts; p < which->parts + MAX_PARTS && p->shape; p++) {
        part jittered = *p;
        jittered.half_width *= between(0.88f, 1.12f);
        jittered.half_height *= between(0.88f, 1.12f);
        jittered.x += between(-0.03f, 0.03f);
        jittered.y += between(-0.03f, 0.03f);
        paint_part(to, &jittered, &at, paints[p->paint]);
    }
}

/* Grass or a lead across the picture, in one picture of three. */
static void paint_foreground(picture *to)
{
    if (between(0, 1) > 0.33f) return;
    part bar = {ELLIPSE, 0, 0, 1.5f, between(0.02f, 0.07f), between(-1, 1), COAT};
    pose at = {(float)to->width / 2, (float)to->height * between(0.2f, 0.95f), (float)to->width / 2, 1, 0, 1};
    paint_part(to, &bar, &at, any_colour(0.1f, 0.8f));
}

static void develop(const picture *from, uint8_t *rgb)
{
    float light = between(0.7f, 1.2f), noise = between(0.01f, 0.06f);
    for (int i = 0; i < from->width * from->height; i++) {
        const float channels[3] = {from->pixels[i].r, from->pixels[i].g, from->pixels[i].b};
        for (int c = 0; c < 3; c++) {
            float level = 255 * (channels[c] * light + between(-noise, noise));
            rgb[3 * i + c] = (uint8_t)fminf(fmaxf(level, 0), 255);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3 || (argc == 3 && atoi(argv[2]) < 1)) {
        fprintf(stderr, "usage: draw_pets FOLDER [PICTURES OF EACH KIND]\n");
        return 2;
    }
    const char *folder = argv[1];
    int count = argc > 2 ? atoi(argv[2]) : 100;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "draw_pets: %s: %s\n", folder, strerror(errno));
        return 1;
    }
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    static picture canvas;
    static uint8_t rgb[3 * MAX_SIDE * MAX_SIDE];
    for (int k = 0; k < KINDS; k++) {
        for (int i = 1; i <= count && !ls_error(run); i++) {
            chance_state = (uint64_t)(k * 100003 + i) * 0x9e3779b97f4a7c15u;
            canvas.width = (int)between(112, MAX_SIDE);
            canvas.height = (int)between(112, MAX_SIDE);
            paint_background(&canvas);
            paint_animal(&canvas, &kinds[k]);
            paint_foreground(&canvas);
            develop(&canvas, rgb);
            char path[4096];
            snprintf(path, sizeof path, "%s/%s_%d.jpg", folder, kinds[k].name, i);
            ls_jpeg_write(run, path, rgb, canvas.height, canvas.width, (int)between(70, 95));
        }
    }
    if (!ls_error(run)) printf("%d pictures of %d kinds of pets in %s\n", count * KINDS, (int)KINDS, folder);
    return ls_finish(run);
}
