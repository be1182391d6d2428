/* combine.c - dispatch of the kernels that combine rows. */
#include "kernels/combine.h"

#include "kernels/kernels.h"

static ls_combine_table tables[LS_ISA_COUNT];
static const ls_family_field fields[] = {LS_FAMILY_FIELD(ls_combine_table, add_rows),
                                         LS_FAMILY_FIELD(ls_combine_table, fold_rows),
                                         LS_FAMILY_FIELD(ls_combine_table, sum), LS_FAMILY_FIELD(ls_combine_table, max),
                                         LS_FAMILY_FIELD(ls_combine_table, chosen)};
ls_family ls_family_combine = {
    .name = "combine",
    .fields = fields,
    .field_count = (int)(sizeof fields / sizeof *fields),
    .bytes = sizeof *tables,
    .tables = tables,
    .offers =
        {
            [LS_ISA_REF] = &ls_combine_ref,
#if defined(__aarch64__)
            [LS_ISA_NEON] = &ls_combine_neon,
            [LS_ISA_NEON_BF16] = &ls_combine_neon_bf16,
#elif defined(__x86_64__)
            [LS_ISA_AVX2] = &ls_combine_avx2,
            [LS_ISA_AVX512] = &ls_combine_avx512,
            [LS_ISA_AVX512_BF16] = &ls_combine_avx512_bf16,
#endif
        },
};

const ls_combine_table *ls_combine_kernels(void)
{
    return ls_family_table(&ls_family_combine);
}
