/* column.h - what columns of tiles of any type have in common: sizes, and memory fetched while tiles are multiplied. */
#ifndef LOCKSTEP_KERNELS_AMX_COLUMN_H
#define LOCKSTEP_KERNELS_AMX_COLUMN_H

#include "kernels/amx/tile.h"
#include "kernels/gemm.h"

#define TILE_UNITS 256 /* of four bytes */
#define TILE_ROWS 16
#define TILE_ROW 64  /* bytes */
#define TILE_SIDE 32 /* rows and columns of four tiles, two by two */
#define SUMS (TILE_SIDE * TILE_SIDE)

/* Products of f32. */
extern const ls_gemm_kernel ls_gemm_amx_f32;

/* Prefetch this many cache lines of two streams in every step. */
typedef struct fetching {
    const char *panel, *sums;
    int64_t panel_lines, sum_lines;
} fetching;

/* All of `ahead` within so many steps. */
static inline fetching fetching_of(ls_gemm_ahead ahead, int64_t steps)
{
    return (fetching){.panel = ahead.at, .panel_lines = (ahead.lines + steps - 1) / steps};
}

static inline __attribute__((always_inline)) void fetch_sums(fetching *f)
{
    for (int64_t i = 0; i < f->sum_lines; i++, f->sums += 64) __builtin_prefetch(f->sums, 1, 3);
}

static inline __attribute__((always_inline)) void fetch(fetching *f)
{
    for (int64_t i = 0; i < f->panel_lines; i++, f->panel += 64) __builtin_prefetch(f->panel, 0, 2);
    fetch_sums(f);
}

/* A quarter of the lines of the panel that belong to a step. */
static inline __attribute__((always_inline)) void fetch_part(fetching *f, int part)
{
    for (int64_t i = (f->panel_lines + 3 - part) / 4; i > 0; i--, f->panel += 64) __builtin_prefetch(f->panel, 0, 2);
}

#endif
