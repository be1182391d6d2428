/* loss.c - dispatch of the loss kernels. */
#include "kernels/loss.h"

#include "kernels/kernels.h"

static ls_loss_kernels tables[LS_ISA_COUNT];
static const ls_family_field fields[] = {LS_FAMILY_FIELD(ls_loss_kernels, cross_entropy_slope),
                                         LS_FAMILY_FIELD(ls_loss_kernels, weighted_sum),
                                         LS_FAMILY_FIELD(ls_loss_kernels, mse),
                                         LS_FAMILY_FIELD(ls_loss_kernels, smooth_l1),
                                         LS_FAMILY_FIELD(ls_loss_kernels, bce),
                                         LS_FAMILY_FIELD(ls_loss_kernels, mse_slope),
                                         LS_FAMILY_FIELD(ls_loss_kernels, smooth_l1_slope),
                                         LS_FAMILY_FIELD(ls_loss_kernels, bce_slope)};
ls_family ls_family_loss = {
    .name = "loss",
    .fields = fields,
    .field_count = (int)(sizeof fields / sizeof *fields),
    .bytes = sizeof *tables,
    .tables = tables,
    .offers =
        {
            [LS_ISA_REF] = &ls_loss_ref,
#if defined(__aarch64__)
            [LS_ISA_NEON] = &ls_loss_neon,
            [LS_ISA_NEON_BF16] = &ls_loss_neon_bf16,
#elif defined(__x86_64__)
            [LS_ISA_AVX2] = &ls_loss_avx2,
            [LS_ISA_AVX512] = &ls_loss_avx512,
            [LS_ISA_AVX512_BF16] = &ls_loss_avx512_bf16,
#endif
        },
};

const ls_loss_kernels *ls_loss_table(void)
{
    return ls_family_table(&ls_family_loss);
}
