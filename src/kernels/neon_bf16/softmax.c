/* softmax.c - softmax with NEON with BF16. */
#define LS_SOFTMAX_TABLE ls_softmax_neon_bf16
#include "kernels/softmax.inc"
