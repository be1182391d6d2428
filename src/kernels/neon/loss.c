/* loss.c - losses with NEON. */
#define LS_LOSS_TABLE ls_loss_neon
#include "kernels/loss.inc"
