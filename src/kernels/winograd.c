/* winograd.c - forms of 3x3 convolutions, and dispatch of their transforms. */
#include "kernels/winograd.h"

#include "kernels/kernels.h"

static ls_winograd_table tables[LS_ISA_COUNT];
static const ls_family_field fields[] = {
    LS_FAMILY_FIELD(ls_winograd_table, pixels),          LS_FAMILY_FIELD(ls_winograd_table, weights),
    LS_FAMILY_FIELD(ls_winograd_table, points),          LS_FAMILY_FIELD(ls_winograd_table, dpoints),
    LS_FAMILY_FIELD(ls_winograd_table, dweights),        LS_FAMILY_FIELD(ls_winograd_table, strided_pixels),
    LS_FAMILY_FIELD(ls_winograd_table, strided_weights), LS_FAMILY_FIELD(ls_winograd_table, strided_points)};
ls_family ls_family_winograd = {
    .name = "winograd",
    .fields = fields,
    .field_count = (int)(sizeof fields / sizeof *fields),
    .bytes = sizeof *tables,
    .tables = tables,
    .offers =
        {
            [LS_ISA_REF] = &ls_winograd_ref,
#if defined(__aarch64__)
            [LS_ISA_NEON] = &ls_winograd_neon,
#elif defined(__x86_64__)
            [LS_ISA_AVX2] = &ls_winograd_avx2,
            [LS_ISA_AVX512] = &ls_winograd_avx512,
#endif
        },
};

const ls_winograd_table *ls_winograd(void)
{
    return ls_family_table(&ls_family_winograd);
}

const ls_winograd_form ls_winograd_unstrided = {
    .stride = 1,
    .side = LS_WINOGRAD_SIDE,
    .terms = LS_WINOGRAD_TERMS,
    .sums = LS_WINOGRAD_TERMS,
    .first = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
};

const ls_winograd_form ls_winograd_strided = {
    .stride = 2, .side = 5, .terms = 25, .sums = 9, .first = {0, 4, 6, 10, 12, 13, 15, 19, 21, 25}};

const ls_winograd_form *ls_winograd_form_of(const int64_t stride[2])
{
    if (stride[0] == 1 && stride[1] == 1) return &ls_winograd_unstrided;
    if (stride[0] == 2 && stride[1] == 2) return &ls_winograd_strided;
    return NULL;
}

ls_winograd_transforms ls_winograd_transforms_of(const ls_winograd_form *form)
{
    const ls_winograd_table *table = ls_winograd();
    if (form == &ls_winograd_strided)
        return (ls_winograd_transforms){table->strided_pixels, table->strided_weights, table->strided_points};
    return (ls_winograd_transforms){table->pixels, table->weights, table->points};
}
