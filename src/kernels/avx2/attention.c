/* attention.c - attention with AVX2, on f32 panels. */
#define TABLE ls_attention_avx2
#define GEMM_F32 (ls_gemm_avx2.f32[0])
#define GEMM_BF16 (ls_gemm_avx2.bf16[0])
#include "kernels/attention_panels.inc"
