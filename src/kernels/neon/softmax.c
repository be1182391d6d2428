/* softmax.c - softmax with NEON. */
#define LS_SOFTMAX_TABLE ls_softmax_neon
#include "kernels/softmax.inc"
