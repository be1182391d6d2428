/* image.c - dispatch of the kernels on rows of pictures. */
#include "kernels/image.h"

#include "kernels/kernels.h"

static ls_image_table tables[LS_ISA_COUNT];
static const ls_family_field fields[] = {LS_FAMILY_FIELD(ls_image_table, across), LS_FAMILY_FIELD(ls_image_table, down),
                                         LS_FAMILY_FIELD(ls_image_table, to_float)};
ls_family ls_family_image = {
    .name = "image",
    .fields = fields,
    .field_count = (int)(sizeof fields / sizeof *fields),
    .bytes = sizeof *tables,
    .tables = tables,
    .offers =
        {
            [LS_ISA_REF] = &ls_image_ref,
#if defined(__aarch64__)
            [LS_ISA_NEON] = &ls_image_neon,
#elif defined(__x86_64__)
            [LS_ISA_AVX2] = &ls_image_avx2,
#endif
        },
};

const ls_image_table *ls_image_kernels(void)
{
    return ls_family_table(&ls_family_image);
}
