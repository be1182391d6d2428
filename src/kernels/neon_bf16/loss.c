/* loss.c - losses with NEON with BF16. */
#define LS_LOSS_TABLE ls_loss_neon_bf16
#include "kernels/loss.inc"
