/* winograd.c - transforms of 3x3 convolutions with NEON. */
#define WINOGRAD_TABLE ls_winograd_neon
#include "kernels/winograd.inc"
