/* optim.c - optimiser kernels for AVX-512. */
#define LS_TABLE ls_optim_avx512
#include "kernels/optim.inc"
