/* loss.c - losses with AVX-512 with bf16 conversions. */
#define LS_LOSS_TABLE ls_loss_avx512_bf16
#include "kernels/loss.inc"
