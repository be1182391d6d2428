/* softmax.c - the kernels of softmax in use. */
#include "kernels/softmax.h"

#include "kernels/kernels.h"

static ls_softmax_kernels tables[LS_ISA_COUNT];
static ls_family family = {
    .bytes = sizeof *tables,
    .tables = tables,
    .offers =
        {
            [LS_ISA_REF] = &ls_softmax_ref,
        },
};

const ls_softmax_kernels *ls_softmax_table(void)
{
    return ls_family_table(&family);
}
