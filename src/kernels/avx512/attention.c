/* attention.c - attention with AVX-512, on f32 panels. */
#define TABLE ls_attention_avx512
#define GEMM_F32 (ls_gemm_avx512.f32[0])
#define GEMM_BF16 (ls_gemm_avx512.bf16[0])
#include "kernels/attention_panels.inc"
