/* reduce.c - dispatch of the fold kernels. */
#include "kernels/reduce.h"

#include "kernels/kernels.h"

static ls_reduce_kernels tables[LS_ISA_COUNT];
static const ls_family_field fields[] = {LS_FAMILY_FIELD(ls_reduce_kernels, run),
                                         LS_FAMILY_FIELD(ls_reduce_kernels, columns)};
ls_family ls_family_reduce = {
    .name = "reduce",
    .fields = fields,
    .field_count = (int)(sizeof fields / sizeof *fields),
    .bytes = sizeof *tables,
    .tables = tables,
    .offers =
        {
            [LS_ISA_REF] = &ls_reduce_ref,
#if defined(__aarch64__)
            [LS_ISA_NEON] = &ls_reduce_neon,
#elif defined(__x86_64__)
            [LS_ISA_AVX2] = &ls_reduce_avx2,
            [LS_ISA_AVX512] = &ls_reduce_avx512,
#endif
        },
};

const ls_reduce_kernels *ls_reduce_table(void)
{
    return ls_family_table(&ls_family_reduce);
}
