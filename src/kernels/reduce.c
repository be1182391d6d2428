/* reduce.c - the kernels of folds in use. */
#include "kernels/reduce.h"

#include "kernels/kernels.h"

static ls_reduce_kernels tables[LS_ISA_COUNT];
static ls_family family = {.bytes = sizeof *tables,
                           .tables = tables,
                           .offers = {
                               [LS_ISA_REF] = &ls_reduce_ref,
#if defined(__aarch64__)
                               [LS_ISA_NEON] = &ls_reduce_neon,
#elif defined(__x86_64__)
                               [LS_ISA_AVX2] = &ls_reduce_avx2,
                               [LS_ISA_AVX512] = &ls_reduce_avx512,
#endif
                           }};

const ls_reduce_kernels *ls_reduce_table(void)
{
    return ls_family_table(&family);
}
