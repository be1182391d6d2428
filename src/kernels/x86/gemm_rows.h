/* gemm_rows.h - the innermost step of x86 tiles, one row of sums at a time.
 *
 * Inline assembly, because sums fill nearly all registers: compilers that may choose the form of each instruction, or
 * broadcast several units ahead, run out of them and spill. */
#ifndef LOCKSTEP_KERNELS_X86_GEMM_ROWS_H
#define LOCKSTEP_KERNELS_X86_GEMM_ROWS_H

/* Is a number known when instructions are chosen, so that it can be part of one? Not without optimisation, and clang
 * asks too early. */
#if defined(__OPTIMIZE__) && !defined(__clang__)
#define LS_GEMM_CONSTANT(number) __builtin_constant_p(number)
#else
#define LS_GEMM_CONSTANT(number) 0
#endif
/* An address made of a base, an index times 1, 2, 4 or 8, and a constant; and its operands. */
#define LS_GEMM_ROW_AT " %c[at](%[first],%[distance],%c[times])"
#define LS_GEMM_ROW_AT_OPERANDS(unit_type)                                                                             \
    [first] "r"(first), [distance] "r"(distance), [times] "i"(LS_GEMM_CONSTANT(times) ? times : 1),                    \
        [at] "i"(LS_GEMM_CONSTANT(step) ? step * (int)sizeof(unit_type) : 0), "m"(*(const char(*)[1 << 30]) first)

/* row_1_<type>, row_2_<type>(sum, unit, x): sum[v] += *unit * x[v] in each lane of one or two vectors. broadcast and
 * multiply: the instructions that broadcast a unit and that multiply and add.
 *
 * row_1_at_<type>, row_2_at_<type>(sum, first, distance, times, step, x): the same with unit `step` of the row that
 * begins distance * times bytes after `first`; times is 0, 1, 2, 4 or 8, and a constant like step. Then an instruction
 * can have the whole address. Left to themselves, compilers keep sums of these numbers, too many for the registers, and
 * instructions that compute addresses take ports from those that multiply: tiles were an eighth slower. */
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
    }                                                                                                                  \
    static inline __attribute__((always_inline)) void row_1_at_##type(                                                 \
        vector *sum, const char *first, int64_t distance, int times, int step, const vector *x)                        \
    {                                                                                                                  \
        if (!LS_GEMM_CONSTANT(times) || !LS_GEMM_CONSTANT(step) || !times) {                                           \
            row_1_##type(sum, (const unit_type *)(first + times * distance) + step, x);                                \
            return;                                                                                                    \
        }                                                                                                              \
        vector sum_0 = sum[0], all;                                                                                    \
        __asm__(broadcast LS_GEMM_ROW_AT ", %[all]\n\t" multiply " %[x_0], %[all], %[sum_0]"                           \
                : [sum_0] "+v"(sum_0), [all] "=&v"(all)                                                                \
                : LS_GEMM_ROW_AT_OPERANDS(unit_type), [x_0] "v"(x[0]));                                                \
        sum[0] = sum_0;                                                                                                \
    }                                                                                                                  \
    static inline __attribute__((always_inline)) void row_2_at_##type(                                                 \
        vector *sum, const char *first, int64_t distance, int times, int step, const vector *x)                        \
    {                                                                                                                  \
        if (!LS_GEMM_CONSTANT(times) || !LS_GEMM_CONSTANT(step) || !times) {                                           \
            row_2_##type(sum, (const unit_type *)(first + times * distance) + step, x);                                \
            return;                                                                                                    \
        }                                                                                                              \
        vector sum_0 = sum[0], sum_1 = sum[1], all;                                                                    \
        __asm__(broadcast LS_GEMM_ROW_AT ", %[all]\n\t" multiply " %[x_0], %[all], %[sum_0]\n\t" multiply              \
                                         " %[x_1], %[all], %[sum_1]"                                                   \
                : [sum_0] "+v"(sum_0), [sum_1] "+v"(sum_1), [all] "=&v"(all)                                           \
                : LS_GEMM_ROW_AT_OPERANDS(unit_type), [x_0] "v"(x[0]), [x_1] "v"(x[1]));                               \
        sum[0] = sum_0, sum[1] = sum_1;                                                                                \
    }

#endif
