/* norm.c - the kernels of normalisation in use. */
#include "kernels/norm.h"

#include "kernels/kernels.h"

static ls_norm_kernels tables[LS_ISA_COUNT];
static ls_family family = {
    .bytes = sizeof *tables,
    .tables = tables,
    .offers =
        {
            [LS_ISA_REF] = &ls_norm_ref,
        },
};

const ls_norm_kernels *ls_norm_table(void)
{
    return ls_family_table(&family);
}
