/* elementwise.c - dispatch of the elementwise kernels. */
#include "kernels/elementwise.h"

#include "kernels/kernels.h"

static ls_elementwise tables[LS_ISA_COUNT];
static const ls_family_field fields[] = {
    LS_FAMILY_FIELD(ls_elementwise, map),       LS_FAMILY_FIELD(ls_elementwise, convert),
    LS_FAMILY_FIELD(ls_elementwise, where),     LS_FAMILY_FIELD(ls_elementwise, dropout),
    LS_FAMILY_FIELD(ls_elementwise, transpose), LS_FAMILY_FIELD(ls_elementwise, words)};
ls_family ls_family_elementwise = {
    .name = "elementwise",
    .fields = fields,
    .field_count = (int)(sizeof fields / sizeof *fields),
    .bytes = sizeof *tables,
    .tables = tables,
    .offers =
        {
            [LS_ISA_REF] = &ls_elementwise_ref,
#if defined(__aarch64__)
            [LS_ISA_NEON] = &ls_elementwise_neon,
            [LS_ISA_NEON_BF16] = &ls_elementwise_neon_bf16,
#elif defined(__x86_64__)
            [LS_ISA_AVX2] = &ls_elementwise_avx2,
            [LS_ISA_AVX512] = &ls_elementwise_avx512,
            [LS_ISA_AVX512_BF16] = &ls_elementwise_avx512_bf16,
#endif
        },
};

const ls_elementwise *ls_elementwise_kernels(void)
{
    return ls_family_table(&ls_family_elementwise);
}
