/* loss.c - the kernels of losses in use. */
#include "kernels/loss.h"

#include "kernels/kernels.h"

static ls_loss_kernels tables[LS_ISA_COUNT];
static ls_family family = {
    .bytes = sizeof *tables,
    .tables = tables,
    .offers =
        {
            [LS_ISA_REF] = &ls_loss_ref,
        },
};

const ls_loss_kernels *ls_loss_table(void)
{
    return ls_family_table(&family);
}
