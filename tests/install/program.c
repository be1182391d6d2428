/* program.c - a user's program, built against the installed tree alone. */
#include <lockstep/base.h>
#include <lockstep/version.h>

#include <stdio.h>

int main(void)
{
    printf("lockstep %s: %lld elements of %s\n", ls_version(), (long long)ls_shape_numel(LS_SHAPE(2, 3)),
           ls_dtype_name(LS_BF16));
    return ls_shape_numel(LS_SHAPE(2, 3)) == 6 ? 0 : 1;
}
