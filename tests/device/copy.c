/* copy.c - copies between all types and layouts, constants, sequences. */
#include "operands.h"

/* What a number becomes when stored in a type. */
static double stored(ls_dtype dtype, double v)
{
    uint64_t room = 0;
    ls_operand o = {.data = &room, .dtype = dtype};
    if (!ls_dtype_is_float(dtype) && dtype != LS_BOOL) v = trunc(v);
    if (dtype == LS_U8) v = (uint8_t)(int64_t)v;
    if (dtype == LS_I8) v = (int8_t)(int64_t)v;
    set_at(&o, 0, v);
    return get_at(&o, 0);
}

static double sample(ls_dtype dtype, int64_t i)
{
    double v = (double)(i * 37 % 251) / 2 - 60;
    return dtype == LS_BOOL ? v > 0 : dtype == LS_U8 ? fabs(v) : v;
}

static void copy_case(ls_dtype to, ls_dtype from, ls_shape shape, ls_shape source, placement out, placement in)
{
    operand y = operand_new(to, shape, out), x = operand_new(from, source, in);
    for (int64_t i = 0; i < numel(&x.view); i++) set(&x, i, sample(from, i));
    ls_call call = {.op = LS_OP_copy, .n_in = 1, .n_out = 1, .in = {&x.view}, .out = {&y.view}};
    run(&call);
    for (int64_t i = 0; i < numel(&y.view); i++) {
        double want = stored(to, get_at(&x.view, broadcast_offset(&x.view, &y.view, i)));
        CHECK_MSG(get(&y, i) == want, "%s from %s, layouts %d %d: element %lld is %g, expected %g", ls_dtype_name(to),
                  ls_dtype_name(from), (int)out, (int)in, (long long)i, get(&y, i), want);
    }
    operand_free(&y);
    operand_free(&x);
}

static void all_types_convert(void)
{
    EACH_ISA(isa) EACH_DTYPE(to) EACH_DTYPE(from)
    {
        for (int64_t n = 0; n < 70; n += 1 + n / 3) copy_case(to, from, LS_SHAPE(n), LS_SHAPE(n), PLAIN, PLAIN);
        copy_case(to, from, LS_SHAPE(3, 5, 7), LS_SHAPE(3, 5, 7), REVERSED, GAPS);
        copy_case(to, from, LS_SHAPE(9, 70), LS_SHAPE(9, 70), PLAIN, REVERSED);
    }
    lift_caps();
}

static void all_layouts_transpose(void)
{
    EACH_ISA(isa) for (int l = 0; l < LAYOUTS * LAYOUTS; l++)
    {
        placement a = (placement)(l % LAYOUTS), b = (placement)(l / LAYOUTS);
        copy_case(LS_F32, LS_F32, LS_SHAPE(2, 9, 5, 13), LS_SHAPE(2, 9, 5, 13), a, b);
        copy_case(LS_BF16, LS_BF16, LS_SHAPE(2, 9, 5, 13), LS_SHAPE(2, 9, 5, 13), a, b);
        copy_case(LS_F32, LS_BF16, LS_SHAPE(131, 67), LS_SHAPE(131, 67), a, b);
        copy_case(LS_I64, LS_I64, LS_SHAPE(4, 131), LS_SHAPE(4, 131), a, b);
        copy_case(LS_U8, LS_U8, LS_SHAPE(3, 1, 17, 2), LS_SHAPE(3, 1, 17, 2), a, b);
    }
    lift_caps();
}

static void sources_broadcast(void)
{
    copy_case(LS_F32, LS_F32, LS_SHAPE(4, 300), LS_SHAPE(300), PLAIN, PLAIN);
    copy_case(LS_F32, LS_I32, LS_SHAPE(4, 300), LS_SHAPE(4, 1), REVERSED, PLAIN);
    copy_case(LS_F64, LS_F32, LS_SHAPE(4, 0, 2), LS_SCALAR, PLAIN, PLAIN);
    copy_case(LS_F64, LS_F32, LS_SCALAR, LS_SCALAR, PLAIN, PLAIN);
}

static void threads_share_large_copies(void)
{
    for (int width = 1; width <= 2; width++) {
        ls_parallel_set_width(width);
        copy_case(LS_F32, LS_F32, LS_SHAPE(400001), LS_SHAPE(400001), PLAIN, PLAIN);
        copy_case(LS_F32, LS_F32, LS_SHAPE(2, 30, 71, 53), LS_SHAPE(2, 30, 71, 53), PLAIN, CHANNELS_LAST);
        copy_case(LS_BF16, LS_F32, LS_SHAPE(501, 901), LS_SHAPE(501, 901), PLAIN, REVERSED);
    }
    lift_caps();
}

static void floats_out_of_range_saturate(void)
{
    double x[4] = {1e300, -1e300, NAN, -3.9};
    int64_t y[4];
    ls_operand in = {.data = x, .dtype = LS_F64, .ndim = 1, .dim = {4}, .stride = {1}}, out = in;
    out.data = y;
    out.dtype = LS_I64;
    ls_call call = {.op = LS_OP_copy, .n_in = 1, .n_out = 1, .in = {&in}, .out = {&out}};
    run(&call);
    CHECK(y[0] == INT64_MAX && y[1] == INT64_MIN && y[2] == 0 && y[3] == -3);
}

static void fills(void)
{
    const double values[] = {0, 1, -2.5, 100};
    EACH_DTYPE(d) for (int c = 0; c < 4 * LAYOUTS; c++)
    {
        operand y = operand_new(d, LS_SHAPE(3, 5, 29), (placement)(c / 4));
        double value = d == LS_U8 ? fabs(values[c % 4]) : values[c % 4];
        ls_call call = {.op = LS_OP_fill, .n_out = 1, .out = {&y.view}, .attrs.affine.shift = value};
        run(&call);
        for (int64_t i = 0; i < numel(&y.view); i++) CHECK(get(&y, i) == stored(d, value));
        operand_free(&y);
    }
}

static void sequences(void)
{
    EACH_DTYPE(d)
    {
        if (d == LS_BOOL || d == LS_U8) continue;
        operand y = operand_new(d, LS_SHAPE(40), d == LS_F32 ? GAPS : PLAIN);
        double step = ls_dtype_is_float(d) ? 0.25 : 3;
        ls_call call = {.op = LS_OP_arange, .n_out = 1, .out = {&y.view}};
        call.attrs.affine.shift = -7, call.attrs.affine.scale = step;
        run(&call);
        for (int64_t i = 0; i < 40; i++) CHECK(get(&y, i) == -7 + step * (double)i);
        operand_free(&y);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(all_types_convert);
    CHECK_RUN(all_layouts_transpose);
    CHECK_RUN(sources_broadcast);
    CHECK_RUN(threads_share_large_copies);
    CHECK_RUN(floats_out_of_range_saturate);
    CHECK_RUN(fills);
    CHECK_RUN(sequences);
    return check_done();
}
