/* optim.c - optimiser kernels for AVX-512 with bf16 conversions. */
#define LS_TABLE ls_optim_avx512_bf16
#include "kernels/optim.inc"
