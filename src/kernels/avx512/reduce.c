/* reduce.c - folds with AVX-512. */
#define LS_REDUCE_TABLE ls_reduce_avx512
#include "kernels/reduce.inc"
