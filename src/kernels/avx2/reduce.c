/* reduce.c - folds with AVX2. */
#define LS_REDUCE_TABLE ls_reduce_avx2
#include "kernels/reduce.inc"
