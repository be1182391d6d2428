/* gemm_standin.c - kernels of matrix products for CPUs that are hard to come by, compiled for this one: their few special
 * instructions are replaced by plain C (tests/standin/), so that packing, loops and addresses are those of the real
 * kernels. */
#include "kernels/gemm_check.h"
#include "kernels/kernels.h"

static void avx512_bf16_products(void)
{
    for (int shape = 0; shape < 2; shape++) check_kernel(ls_gemm_avx512_bf16.bf16[shape]);
}

static void amx_products(void)
{
    for (int shape = 0; shape < 2; shape++) check_kernel(ls_gemm_amx.bf16[shape]);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
#if defined(__x86_64__)
    if (!ls_isa_usable(LS_ISA_AVX2)) return 77;
#endif
    CHECK_RUN(avx512_bf16_products);
    CHECK_RUN(amx_products);
    return check_done();
}
