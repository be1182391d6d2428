/* norm.c - dispatch of the normalisation kernels. */
#include "kernels/norm.h"

#include "kernels/kernels.h"

static ls_norm_kernels tables[LS_ISA_COUNT];
static const ls_family_field fields[] = {
    LS_FAMILY_FIELD(ls_norm_kernels, add_picked),      LS_FAMILY_FIELD(ls_norm_kernels, layer_norm),
    LS_FAMILY_FIELD(ls_norm_kernels, layer_norm_grad), LS_FAMILY_FIELD(ls_norm_kernels, apply),
    LS_FAMILY_FIELD(ls_norm_kernels, totals),          LS_FAMILY_FIELD(ls_norm_kernels, slope)};
ls_family ls_family_norm = {
    .name = "norm",
    .fields = fields,
    .field_count = (int)(sizeof fields / sizeof *fields),
    .bytes = sizeof *tables,
    .tables = tables,
    .offers =
        {
            [LS_ISA_REF] = &ls_norm_ref,
#if defined(__aarch64__)
            [LS_ISA_NEON] = &ls_norm_neon,
            [LS_ISA_NEON_BF16] = &ls_norm_neon_bf16,
#elif defined(__x86_64__)
            [LS_ISA_AVX2] = &ls_norm_avx2,
            [LS_ISA_AVX512] = &ls_norm_avx512,
            [LS_ISA_AVX512_BF16] = &ls_norm_avx512_bf16,
#endif
        },
};

const ls_norm_kernels *ls_norm_table(void)
{
    return ls_family_table(&ls_family_norm);
}
