/* reduce.c - folds with NEON. */
#define LS_REDUCE_TABLE ls_reduce_neon
#include "kernels/reduce.inc"
