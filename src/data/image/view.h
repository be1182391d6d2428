/* view.h - the combined effect of geometric steps on an image: one crop, one scaling, one more crop, flips.
 *
 * Steps are not executed one by one. A view collects as many as it can express and is then executed in one pass, so
 * that only the needed pixels are decoded and each is processed once. */
#ifndef LOCKSTEP_DATA_IMAGE_VIEW_H
#define LOCKSTEP_DATA_IMAGE_VIEW_H

#include "base/rng.h"
#include "data/image/rows.h"
#include "data/image/steps.h"

/* ---- Random numbers of a sample ---- */

/* Each step of each sample has its own blocks of random numbers, independent of what other steps draw. */
enum { LS_DRAWS_PER_STEP = 16, LS_DRAWS_PER_SAMPLE = 256 };

typedef struct ls_draws {
    uint64_t key, sample;
} ls_draws;

static inline ls_philox4 ls_draw(const ls_draws *draws, int step, int block)
{
    return ls_philox(draws->key, draws->sample * LS_DRAWS_PER_SAMPLE + (uint64_t)(step * LS_DRAWS_PER_STEP + block));
}

static inline double ls_draw_between(uint32_t bits, double low, double high)
{
    return low + (high - low) * (double)ls_uniform_from_bits(bits);
}

/* ---- Views ---- */

typedef struct ls_view {
    ls_box box;            /* this part of the source ... */
    int64_t width, height; /* ... scaled to this size ... */
    ls_filter filter;      /* ... with this filter (LS_FILTER_DEFAULT: the size stays) ... */
    ls_box window;         /* ... and of that this part, with black where it reaches beyond, ... */
    bool flip_x, flip_y;   /* ... flipped. */
    /* Start and size of the part that counts in the box, in fractions of pixels; 0: the whole box. */
    double edge_x, edge_y, part_width, part_height;
} ls_view;

/* The view of a whole image; takes in steps from `step` on and returns the first that it cannot express. */
int ls_view_collect(ls_view *view, int64_t width, int64_t height, const ls_transform *t, int step,
                    const ls_draws *draws);

/* ---- Execution ---- */

/* One direction of a view: which inputs each output depends on. */
typedef struct ls_axis {
    int64_t inputs;          /* pixels of the box */
    double edge, part;       /* inputs from `edge` on, `part` of them, are mapped to the outputs */
    int64_t from, to;        /* visible outputs, counted in the scaled image */
    int64_t low, high;       /* needed inputs, counted in the box */
    int64_t taps;            /* 0: output i is input i */
    int32_t *first, *weight; /* [to - from], [to - from, taps]; first counts from `low` */
} ls_axis;

/* Both directions, and working memory; all in the work slot. */
typedef struct ls_view_plan {
    ls_axis across, down;
    bool down_first;      /* columns are scaled before rows */
    uint8_t *between;     /* rows scaled in one direction */
    uint8_t *line;        /* a finished row */
    const uint8_t **rows; /* input rows of an output row */
    const ls_image_table *kernels;
} ls_view_plan;

/* The destination of rows: bytes, or floats, each channel mapped by a table. */
typedef struct ls_sink {
    uint8_t *bytes;
    float *floats;
    const float (*levels)[256]; /* [3][256]; NULL: level / 255 */
} ls_sink;

ls_status ls_view_plan_make(const ls_view *view, ls_view_plan *plan, ls_message *why);
/* The needed part of the source. */
ls_box ls_view_needs(const ls_view *view, const ls_view_plan *plan);
/* source: exactly that part. The sink has the window's size. */
void ls_view_run(const ls_view *view, const ls_view_plan *plan, const ls_picture *source, const ls_sink *sink);

#endif
