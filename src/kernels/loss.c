/* loss.c - the kernels of losses in use. */
#include "kernels/loss.h"

#include "kernels/kernels.h"

static ls_loss_kernels tables[LS_ISA_COUNT];
static ls_family family = {.bytes = sizeof *tables,
                           .tables = tables,
                           .offers = {
                               [LS_ISA_REF] = &ls_loss_ref,
#if defined(__aarch64__)
                               [LS_ISA_NEON] = &ls_loss_neon,
                               [LS_ISA_NEON_BF16] = &ls_loss_neon_bf16,
#elif defined(__x86_64__)
                               [LS_ISA_AVX2] = &ls_loss_avx2,
                               [LS_ISA_AVX512] = &ls_loss_avx512,
#endif
                           }};

const ls_loss_kernels *ls_loss_table(void)
{
    return ls_family_table(&family);
}
