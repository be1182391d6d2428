/* norm.c - the kernels of normalisation in use. */
#include "kernels/norm.h"

#include "kernels/kernels.h"

static ls_norm_kernels tables[LS_ISA_COUNT];
static ls_family family = {.bytes = sizeof *tables,
                           .tables = tables,
                           .offers = {
                               [LS_ISA_REF] = &ls_norm_ref,
#if defined(__aarch64__)
                               [LS_ISA_NEON] = &ls_norm_neon,
                               [LS_ISA_NEON_BF16] = &ls_norm_neon_bf16,
#elif defined(__x86_64__)
                               [LS_ISA_AVX2] = &ls_norm_avx2,
                               [LS_ISA_AVX512] = &ls_norm_avx512,
#endif
                           }};

const ls_norm_kernels *ls_norm_table(void)
{
    return ls_family_table(&family);
}
