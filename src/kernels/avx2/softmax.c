/* softmax.c - softmax with AVX2. */
#define LS_SOFTMAX_TABLE ls_softmax_avx2
#include "kernels/softmax.inc"
