/* gemm_rows.h - stands in for the innermost step of x86 tiles (src/kernels/x86/gemm_rows.h), in plain C. */
#ifndef LOCKSTEP_KERNELS_X86_GEMM_ROWS_H
#define LOCKSTEP_KERNELS_X86_GEMM_ROWS_H

#include <math.h>
#include <stdint.h>

#define LS_STANDIN_ROW static inline __attribute__((always_inline)) void
/* The functions that the real header makes. */
#define LS_GEMM_ROWS(type, vector, unit_type, broadcast, multiply)                                                     \
    LS_STANDIN_ROW row_1_##type(vector *sum, const unit_type *unit, const vector *x)                                   \
    {                                                                                                                  \
        for (size_t i = 0; i < sizeof *x / sizeof *unit; i++)                                                          \
            sum[0][i] = (unit_type)fma((double)*unit, (double)x[0][i], (double)sum[0][i]);                             \
    }                                                                                                                  \
    LS_STANDIN_ROW row_2_##type(vector *sum, const unit_type *unit, const vector *x)                                   \
    {                                                                                                                  \
        row_1_##type(sum, unit, x);                                                                                    \
        row_1_##type(sum + 1, unit, x + 1);                                                                            \
    }                                                                                                                  \
    LS_STANDIN_ROW row_1_at_##type(vector *sum, const char *first, int64_t distance, int times, int step,              \
                                   const vector *x)                                                                    \
    {                                                                                                                  \
        row_1_##type(sum, (const unit_type *)(first + times * distance) + step, x);                                    \
    }                                                                                                                  \
    LS_STANDIN_ROW row_2_at_##type(vector *sum, const char *first, int64_t distance, int times, int step,              \
                                   const vector *x)                                                                    \
    {                                                                                                                  \
        row_2_##type(sum, (const unit_type *)(first + times * distance) + step, x);                                    \
    }

#endif
