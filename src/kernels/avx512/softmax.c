/* softmax.c - softmax with AVX-512. */
#define LS_SOFTMAX_TABLE ls_softmax_avx512
#include "kernels/softmax.inc"
