/* optim.c - optimiser kernels for AVX2. */
#define LS_TABLE ls_optim_avx2
#include "kernels/optim.inc"
