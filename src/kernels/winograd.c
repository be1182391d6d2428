/* winograd.c - dispatch of the transforms of 3x3 convolutions. */
#include "kernels/winograd.h"

#include "kernels/kernels.h"

static ls_winograd_table tables[LS_ISA_COUNT];
static const ls_family_field fields[] = {
    LS_FAMILY_FIELD(ls_winograd_table, pixels), LS_FAMILY_FIELD(ls_winograd_table, weights),
    LS_FAMILY_FIELD(ls_winograd_table, points), LS_FAMILY_FIELD(ls_winograd_table, dpoints),
    LS_FAMILY_FIELD(ls_winograd_table, dweights)};
ls_family ls_family_winograd = {
    .name = "winograd",
    .fields = fields,
    .field_count = (int)(sizeof fields / sizeof *fields),
    .bytes = sizeof *tables,
    .tables = tables,
    .offers =
        {
            [LS_ISA_REF] = &ls_winograd_ref,
#if defined(__aarch64__)
            [LS_ISA_NEON] = &ls_winograd_neon,
#elif defined(__x86_64__)
            [LS_ISA_AVX2] = &ls_winograd_avx2,
            [LS_ISA_AVX512] = &ls_winograd_avx512,
#endif
        },
};

const ls_winograd_table *ls_winograd(void)
{
    return ls_family_table(&ls_family_winograd);
}
