/* loss.c - losses with AVX2. */
#define LS_LOSS_TABLE ls_loss_avx2
#include "kernels/loss.inc"
