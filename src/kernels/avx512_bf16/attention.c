/* attention.c - attention of bf16 with AVX-512, on panels of pairs of bf16. */
#define TABLE ls_attention_avx512_bf16
#define GEMM_BF16 (ls_gemm_avx512_bf16.bf16[0])
#include "kernels/attention_panels.inc"
