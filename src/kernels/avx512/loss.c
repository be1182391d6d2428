/* loss.c - losses with AVX-512. */
#define LS_LOSS_TABLE ls_loss_avx512
#include "kernels/loss.inc"
