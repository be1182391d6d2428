/* gemm.c - matrix products with AVX-512: 24 of 32 registers hold sums, 28 if rows are multiplied in place. */
#include "kernels/gemm.h"

/* L2 is large and feeds a tile fast enough: panels of B need not stay in L1, and blocks of A are larger, so that
 * weights come from further away less often and sums are put aside less often. */
static const ls_gemm_blocks large = {
    .rows = 192,
    .own_rows = 192,
    .own_depth_bytes = 4608,
    .own_task_rows = 4096,
    .block_bytes = 576 << 10,
    .depth_bytes = 4096,
    .panel_bytes = 128 << 10,
    .cut_bytes = INT64_MAX,
    .strip = 64,
    .tasks = 4,
    .shared_bytes = 64 << 20,
    .shared_size = 1 << 20,
    .in_place_stream_bytes = 32 << 20,
    .meeting_bytes = 4096,
    .meeting_columns = 768,
};

#define ISA "avx512"
#define TABLE ls_gemm_avx512
#define ROWS 12
#define IN_PLACE_ROWS 14
#define IN_PLACE_RUN 7 /* divides rows of points of the photos that networks are made for: 112, 56, 28, 14, 7 */
#define POINT_ROWS 13  /* five, ten or twenty of these waste least for powers of two */
#define POINT_CHANNELS 1280
#define FETCHES 1
#define EXTRAS .blocks = &large,
#define IN_PLACE_COLUMNS INT64_MAX
#define COPIED_COLUMNS 256
#include "kernels/x86/gemm_fma.inc"
