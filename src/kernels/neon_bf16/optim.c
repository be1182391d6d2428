/* optim.c - optimiser kernels for NEON with BF16 conversions. */
#define LS_TABLE ls_optim_neon_bf16
#include "kernels/optim.inc"
