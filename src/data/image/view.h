/* view.h - what a run of geometric steps makes of a picture: one crop, one scaling, one more crop, flips.
 *
 * Steps are not carried out one by one. A view collects as many as it can express, and is then carried out in one pass,
 * so that only the pixels that matter are decoded and each is touched once. */
#ifndef LOCKSTEP_DATA_IMAGE_VIEW_H
#define LOCKSTEP_DATA_IMAGE_VIEW_H

#include "base/rng.h"
#include "data/image/rows.h"
#include "data/image/steps.h"

/* ---- Random numbers of a sample ---- */

/* Each step of each sample has blocks of its own, so that no step's numbers depend on what another one drew. */
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
    bool flip_x, flip_y;   /* ... mirrored. */
    /* Where the part that counts begins in the box, and its size, in fractions of pixels; 0: all of the box. */
    double edge_x, edge_y, part_width, part_height;
} ls_view;

/* The view of a whole picture; takes in steps from `step` on and returns the first that it cannot express. */
int ls_view_collect(ls_view *view, int64_t width, int64_t height, const ls_transform *t, int step,
                    const ls_draws *draws);

/* ---- Carrying out ---- */

/* One direction of a view: which inputs each output is made of. */
typedef struct ls_axis {
    int64_t inputs;          /* pixels of the box */
    double edge, part;       /* of them, those from `edge` on, `part` many, are spread over the outputs */
    int64_t from, to;        /* outputs that are visible, counted in the scaled picture */
    int64_t low, high;       /* inputs that matter, counted in the box */
    int64_t taps;            /* 0: output i is input i */
    int32_t *first, *weight; /* [to - from], [to - from, taps]; first counts from `low` */
} ls_axis;

/* Both directions, and working memory; all of it is the work slot's. */
typedef struct ls_view_plan {
    ls_axis across, down;
    bool down_first;      /* columns are scaled before rows */
    uint8_t *between;     /* rows that have been scaled in one direction */
    uint8_t *line;        /* a finished row */
    const uint8_t **rows; /* what a row is made of */
    const ls_image_table *kernels;
} ls_view_plan;

/* Where rows go: bytes, or floats of which each channel may be scaled by a table. */
typedef struct ls_sink {
    uint8_t *bytes;
    float *floats;
    const float (*levels)[256]; /* [3][256]; NULL: level / 255 */
} ls_sink;

ls_status ls_view_plan_make(const ls_view *view, ls_view_plan *plan, ls_message *why);
/* The part of the source that must be there. */
ls_box ls_view_needs(const ls_view *view, const ls_view_plan *plan);
/* source: exactly that part. The sink is of the window's size. */
void ls_view_run(const ls_view *view, const ls_view_plan *plan, const ls_picture *source, const ls_sink *sink);

#endif
