/* attention.c - attention with NEON, on f32 panels. */
#define TABLE ls_attention_neon
#define GEMM_F32 (ls_gemm_neon.f32[0])
#define GEMM_BF16 (ls_gemm_neon.f32[0])
#include "kernels/attention_panels.inc"
