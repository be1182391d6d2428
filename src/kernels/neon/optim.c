/* optim.c - optimiser kernels for NEON. */
#define LS_TABLE ls_optim_neon
#include "kernels/optim.inc"
