/* tile.h - AMX tile registers: eight of 16 rows of 64 bytes. Numbers of registers must be literals. */
#ifndef LOCKSTEP_KERNELS_AMX_TILE_H
#define LOCKSTEP_KERNELS_AMX_TILE_H

#include <immintrin.h>

/* Configure all eight registers in full size for this thread; release them. */
static inline void tile_begin(void)
{
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } all = {.palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&all);
}

static inline void tile_end(void)
{
    _tile_release();
}

#define TILE_ZERO(t) _tile_zero(t)
/* Rows `stride` bytes apart. */
#define TILE_LOAD(t, from, stride) _tile_loadd(t, from, stride)
/* The same without keeping the data in L1, for what is not needed again soon. */
#define TILE_LOAD_ONCE(t, from, stride) _tile_stream_loadd(t, from, stride)
#define TILE_STORE(t, to, stride) _tile_stored(t, to, stride)
/* sum [16, 16] f32 += a [16, 32] bf16 times b, which holds pairs of k: [16][16][2]. Subnormals are treated as zero. */
#define TILE_MULTIPLY(sum, a, b) _tile_dpbf16ps(sum, a, b)

/* An addition of floats that nobody needs. Where tiles are stored now and then, a core (Granite Rapids) that meets no
 * floating-point instruction in the last 20 or so steps of 32 k multiplies tiles a fifth slower. */
static inline __attribute__((always_inline)) void tile_keep_pace(void)
{
    __m256 zero = _mm256_setzero_ps();
    __asm__ volatile("vaddps %0, %0, %0" : "+x"(zero));
}

#endif
