/* tile.h - replaces the header of this name in src/: AMX in plain C. Using registers without tile_begin is an
 * error. */
#ifndef LOCKSTEP_KERNELS_AMX_TILE_H
#define LOCKSTEP_KERNELS_AMX_TILE_H

#include "base/half.h"

#include <stdlib.h>
#include <string.h>

/* The registers of a thread, the same ones in every file. */
__attribute__((weak)) _Thread_local char (*standin_tiles)[16][64];

static inline void tile_begin(void)
{
    standin_tiles = calloc(8, sizeof *standin_tiles);
}

static inline void tile_end(void)
{
    free(standin_tiles);
    standin_tiles = NULL;
}

static inline void TILE_ZERO(int t)
{
    memset(standin_tiles[t], 0, sizeof *standin_tiles);
}

static inline void TILE_LOAD(int t, const void *from, int64_t stride)
{
    for (int row = 0; row < 16; row++) memcpy(standin_tiles[t][row], (const char *)from + row * stride, 64);
}

static inline void TILE_LOAD_ONCE(int t, const void *from, int64_t stride)
{
    TILE_LOAD(t, from, stride);
}

static inline void TILE_STORE(int t, void *to, int64_t stride)
{
    for (int row = 0; row < 16; row++) memcpy((char *)to + row * stride, standin_tiles[t][row], 64);
}

static inline void TILE_MULTIPLY(int sum, int a, int b)
{
    for (int row = 0; row < 16; row++) {
        float sums[16];
        memcpy(sums, standin_tiles[sum][row], sizeof sums);
        for (int column = 0; column < 16; column++) {
            for (int k = 0; k < 32; k++) {
                ls_bf16 x, y;
                memcpy(&x, standin_tiles[a][row] + 2 * k, sizeof x);
                memcpy(&y, standin_tiles[b][k / 2] + 4 * column + 2 * (k % 2), sizeof y);
                sums[column] += ls_bf16_to_f32(x) * ls_bf16_to_f32(y);
            }
        }
        memcpy(standin_tiles[sum][row], sums, sizeof sums);
    }
}

static inline void tile_keep_pace(void)
{
}

#endif
