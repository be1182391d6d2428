/* jpeg.c - dispatch of the kernels of the JPEG decoder. */
#include "kernels/jpeg.h"

#include "kernels/kernels.h"

static ls_jpeg_table tables[LS_ISA_COUNT];
static const ls_family_field fields[] = {LS_FAMILY_FIELD(ls_jpeg_table, samples),
                                         LS_FAMILY_FIELD(ls_jpeg_table, few_samples),
                                         LS_FAMILY_FIELD(ls_jpeg_table, widen), LS_FAMILY_FIELD(ls_jpeg_table, enlarge),
                                         LS_FAMILY_FIELD(ls_jpeg_table, pixels)};
ls_family ls_family_jpeg = {
    .name = "jpeg",
    .fields = fields,
    .field_count = (int)(sizeof fields / sizeof *fields),
    .bytes = sizeof *tables,
    .tables = tables,
    .offers =
        {
            [LS_ISA_REF] = &ls_jpeg_ref,
#if defined(__aarch64__)
            [LS_ISA_NEON] = &ls_jpeg_neon,
#elif defined(__x86_64__)
            [LS_ISA_AVX2] = &ls_jpeg_avx2,
#endif
        },
};

const ls_jpeg_table *ls_jpeg_kernels(void)
{
    return ls_family_table(&ls_family_jpeg);
}
