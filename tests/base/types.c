/* types.c - status names, number types, shapes. */
#include <lockstep/base.h>

#include "check.h"

static void statuses_have_names(void)
{
    CHECK_TEXT(ls_status_name(LS_ERR_SHAPE), "LS_ERR_SHAPE");
    CHECK_TEXT(ls_status_text(LS_OK), "no error");
    CHECK_TEXT(ls_status_name((ls_status)99), "LS_ERR_?");
}

static void dtypes_promote(void)
{
    CHECK(ls_dtype_size(LS_BF16) == 2 && ls_dtype_size(LS_I64) == 8 && ls_dtype_size((ls_dtype)77) == 0);
    CHECK(ls_dtype_promote(LS_F16, LS_BF16) == LS_F32);
    CHECK(ls_dtype_promote(LS_I64, LS_F16) == LS_F16);
    CHECK(ls_dtype_promote(LS_U8, LS_I8) == LS_I32);
    CHECK(ls_dtype_promote(LS_F64, LS_BOOL) == LS_F64);
}

static void shapes_count_elements(void)
{
    CHECK(ls_shape_numel(LS_SCALAR) == 1);
    CHECK(ls_shape_numel(LS_SHAPE(2, 3, 4)) == 24);
    CHECK(ls_shape_numel(LS_SHAPE(2, 0, INT64_MAX, INT64_MAX)) == 0);
    CHECK(ls_shape_numel(LS_SHAPE(INT64_MAX, 3)) == -1);
    CHECK(ls_shape_numel(LS_SHAPE(-1, 3)) == -1);
    CHECK(ls_shape_numel(LS_SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1)) == -1);
    CHECK(ls_shape_equal(LS_SHAPE(2, 3), LS_SHAPE(2, 3)) && !ls_shape_equal(LS_SHAPE(2, 3), LS_SHAPE(2, 3, 1)));
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(statuses_have_names);
    CHECK_RUN(dtypes_promote);
    CHECK_RUN(shapes_count_elements);
    return check_done();
}
