/* softmax.c - softmax with AVX-512 with bf16 conversions. */
#define LS_SOFTMAX_TABLE ls_softmax_avx512_bf16
#include "kernels/softmax.inc"
