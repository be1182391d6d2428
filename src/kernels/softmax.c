/* softmax.c - dispatch of the softmax kernels. */
#include "kernels/softmax.h"

#include "kernels/kernels.h"

static ls_softmax_kernels tables[LS_ISA_COUNT];
static const ls_family_field fields[] = {
    LS_FAMILY_FIELD(ls_softmax_kernels, softmax), LS_FAMILY_FIELD(ls_softmax_kernels, log_softmax),
    LS_FAMILY_FIELD(ls_softmax_kernels, softmax_grad), LS_FAMILY_FIELD(ls_softmax_kernels, log_softmax_grad),
    LS_FAMILY_FIELD(ls_softmax_kernels, log_sum_exp)};
ls_family ls_family_softmax = {
    .name = "softmax",
    .fields = fields,
    .field_count = (int)(sizeof fields / sizeof *fields),
    .bytes = sizeof *tables,
    .tables = tables,
    .offers =
        {
            [LS_ISA_REF] = &ls_softmax_ref,
#if defined(__aarch64__)
            [LS_ISA_NEON] = &ls_softmax_neon,
            [LS_ISA_NEON_BF16] = &ls_softmax_neon_bf16,
#elif defined(__x86_64__)
            [LS_ISA_AVX2] = &ls_softmax_avx2,
            [LS_ISA_AVX512] = &ls_softmax_avx512,
            [LS_ISA_AVX512_BF16] = &ls_softmax_avx512_bf16,
#endif
        },
};

const ls_softmax_kernels *ls_softmax_table(void)
{
    return ls_family_table(&ls_family_softmax);
}
