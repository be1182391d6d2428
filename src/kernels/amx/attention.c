/* attention.c - attention of bf16 with AMX tiles. */
#define TABLE ls_attention_amx
#define GEMM_BF16 (ls_gemm_amx.bf16[0])
#define TILES
#include "kernels/attention_panels.inc"
