/* gemm_rows.h - the innermost step of x86 tiles, one row of sums at a time.
 *
 * Inline assembly, because sums fill nearly all registers: compilers that may choose the form of each instruction, or
 * broadcast several units ahead, run out of them and spill. */
#ifndef LOCKSTEP_KERNELS_X86_GEMM_ROWS_H
#define LOCKSTEP_KERNELS_X86_GEMM_ROWS_H

/* row_1_<type>, row_2_<type>(sum, unit, x): sum[v] += *unit * x[v] in each lane of one or two vectors. broadcast and
 * multiply: the instructions that broadcast a unit and that multiply and add. */
#define LS_GEMM_ROWS(type, vector, unit_type, broadcast, multiply)                                                     \
    static inline                                                                                                      \
        __attribute__((always_inline)) void row_1_##type(vector *sum, const unit_type *unit, const vector *x)          \
    {                                                                                                                  \
        vector sum_0 = sum[0], all;                                                                                    \
        __asm__(broadcast " %[unit], %[all]\n\t" multiply " %[x_0], %[all], %[sum_0]"                                  \
                : [sum_0] "+v"(sum_0), [all] "=&v"(all)                                                                \
                : [unit] "m"(*unit), [x_0] "v"(x[0]));                                                                 \
        sum[0] = sum_0;                                                                                                \
    }                                                                                                                  \
    static inline                                                                                                      \
        __attribute__((always_inline)) void row_2_##type(vector *sum, const unit_type *unit, const vector *x)          \
    {                                                                                                                  \
        vector sum_0 = sum[0], sum_1 = sum[1], all;                                                                    \
        __asm__(broadcast " %[unit], %[all]\n\t" multiply " %[x_0], %[all], %[sum_0]\n\t" multiply                     \
                          " %[x_1], %[all], %[sum_1]"                                                                  \
                : [sum_0] "+v"(sum_0), [sum_1] "+v"(sum_1), [all] "=&v"(all)                                           \
                : [unit] "m"(*unit), [x_0] "v"(x[0]), [x_1] "v"(x[1]));                                                \
        sum[0] = sum_0, sum[1] = sum_1;                                                                                \
    }

#endif
