/* elementwise.c - what must not differ from the CPU by a single bit: copies between all types and layouts, constants,
 * sequences, random numbers, dropout, exact arithmetic; on sizes and addresses that reach every kernel. */
#include <lockstep.h>

#include "check.h"

typedef ls_tensor *make_fn(ls_run *run, int variant);

typedef struct made {
    uint8_t *bytes;
    size_t count;
    char what[64];
} made;

/* The elements of all variants, made on a device by the same seed. */
static made *made_on(const char *device, make_fn *make, int variants)
{
    ls_run *run = ls_init(NULL, NULL, .device = device);
    made *all = calloc((size_t)variants, sizeof *all);
    for (int v = 0; v < variants; v++) {
        ls_mark mark = ls_scope_begin(run);
        ls_set_seed(run, 17);
        ls_tensor *t = make(run, v);
        all[v].count = ls_is_valid(t) ? (size_t)ls_numel(t) * ls_dtype_size(ls_dtype_of(t)) : 0;
        all[v].bytes = malloc(all[v].count + 1);
        snprintf(all[v].what, sizeof all[v].what, "%s, %lld elements", ls_dtype_name(ls_dtype_of(t)),
                 (long long)ls_numel(t));
        if (all[v].count) ls_read(t, all[v].bytes, all[v].count);
        CHECK_MSG(ls_error(run) == LS_OK, "variant %d on %s: %s", v, device, ls_error_message(run));
        ls_clear_error(run);
        ls_scope_end(run, mark, NULL);
    }
    ls_finish(run);
    return all;
}

static void same_bits(make_fn *make, int variants)
{
    made *here = made_on("cpu", make, variants), *there = made_on(CUDA_DEVICE, make, variants);
    for (int v = 0; v < variants; v++) {
        CHECK(here[v].count == there[v].count);
        for (size_t i = 0; i < here[v].count && here[v].count == there[v].count; i++)
            if (here[v].bytes[i] != there[v].bytes[i]) {
                check_fail(__FILE__, __LINE__, "variant %d (%s): byte %zu is %02x, on the CPU %02x", v, here[v].what, i,
                           there[v].bytes[i], here[v].bytes[i]);
                break;
            }
        free(here[v].bytes);
        free(there[v].bytes);
    }
    free(here);
    free(there);
}

enum { TYPES = LS_F64 };

static ls_dtype type_of(int i)
{
    return (ls_dtype)(LS_BOOL + i % TYPES);
}

/* Numbers that every type has its own opinion of: fractions, negatives, large ones. */
static ls_tensor *numbers(ls_run *run, ls_dtype dtype, int64_t n)
{
    ls_tensor *x = ls_arange(run, LS_F32, n, -40.375, 0.8125);
    return ls_cast(ls_mul(x, x), dtype);
}

static ls_tensor *converted(ls_run *run, int v)
{
    static const int64_t sizes[] = {1, 7, 8, 1029};
    ls_tensor *x = numbers(run, type_of(v / TYPES % TYPES), sizes[v / (TYPES * TYPES)]);
    return ls_cast(x, type_of(v));
}

static void every_type_converts_as_on_the_cpu(void)
{
    same_bits(converted, TYPES * TYPES * 4);
}

static ls_tensor *laid_out(ls_run *run, int v)
{
    ls_dtype from = type_of(v), to = v / TYPES % 2 ? LS_BF16 : from;
    ls_tensor *x = numbers(run, from, 2 * 70 * 9 * 13);
    switch (v / (2 * TYPES)) {
    case 0: return ls_cast(ls_contiguous(ls_transpose(ls_reshape(x, 18, 70 * 13), 0, 1)), to);
    case 1: return ls_cast(ls_transpose(ls_reshape(x, 126, 130), 0, 1), to);
    case 2: return ls_cast(ls_channels_last(ls_reshape(x, 2, 70, 9, 13)), to);
    case 3: return ls_contiguous(ls_cast(ls_channels_last(ls_reshape(x, 2, 70, 9, 13)), to));
    case 4: return ls_contiguous(ls_channels_last(ls_cast(ls_reshape(x, 70 * 2, 3, 3, 13), to)));
    case 5: return ls_cast(ls_contiguous(ls_permute(ls_reshape(x, 14, 10, 9, 13), 2, 0, 3, 1)), to);
    case 6: return ls_cast(ls_contiguous(ls_permute(ls_reshape(x, 14, 9, 10, 13), 0, 2, 1, 3)), to);
    case 7: return ls_contiguous(ls_permute(ls_reshape(ls_slice(x, 0, 0, 15360, 1), 8, 15, 2, 64), 0, 2, 1, 3));
    case 8: return ls_cast(ls_slice(x, 0, 3, 5000, 1), to);
    case 9: return ls_cast(ls_slice(ls_reshape(x, 126, 130), 1, 2, 99, 3), to);
    case 10: return ls_cast(ls_contiguous(ls_expand(ls_reshape(ls_slice(x, 0, 0, 33, 1), 33, 1), 33, 65)), to);
    case 11: return ls_concat(1, ls_reshape(x, 126, 130), ls_slice(ls_reshape(x, 126, 130), 1, 1, 4, 1));
    default: return ls_contiguous(ls_transpose(ls_reshape(x, 4, 4095), 0, 1));
    }
}

static void every_layout_is_copied(void)
{
    same_bits(laid_out, 2 * TYPES * 13);
}

static ls_tensor *created(ls_run *run, int v)
{
    ls_dtype dtype = type_of(v);
    bool floating = ls_dtype_is_float(dtype);
    switch (v / TYPES) {
    case 0: return ls_full(run, dtype, floating ? -3.7 : 1, 1003);
    case 1: return ls_full(run, dtype, floating ? 1e30 : 0, 5);
    case 2: return ls_zeros(run, dtype, 77);
    case 3: return ls_arange(run, dtype, 333, 5, -2);
    case 4: return ls_arange(run, dtype, 333, 0.1, 0.3);
    default: {
        ls_tensor *x = ls_zeros(run, dtype, 31, 17), *part = ls_slice(ls_slice(x, 0, 1, 30, 3), 1, 5, 17, 2);
        ls_assign(part, ls_ones(run, LS_F32, 1));
        return x;
    }
    }
}

static void constants_and_sequences_are_equal(void)
{
    same_bits(created, TYPES * 6);
}

static ls_tensor *drawn(ls_run *run, int v)
{
    static const ls_dtype floats[] = {LS_F32, LS_F16, LS_BF16, LS_F64};
    ls_dtype dtype = floats[v % 4];
    ls_rand(run, LS_F32, 5); /* the offset is not 0 */
    switch (v / 4) {
    case 0: return ls_rand(run, dtype, 10007);
    case 1: return ls_uniform_shape(run, dtype, -3, 5.5, LS_SHAPE(33, 7));
    case 2: return ls_randn(run, dtype, 100003);
    case 3: return ls_normal_shape(run, dtype, 2, 0.02, LS_SHAPE(9));
    case 4: return ls_bernoulli_shape(run, dtype, 0.3, LS_SHAPE(4099));
    case 5: return ls_dropout(ls_randn(run, dtype, 8200), 0.1);
    case 6: return ls_dropout(ls_slice(ls_randn(run, dtype, 1003), 0, 1, 1003, 1), 0.5);
    case 7: return ls_dropout(ls_transpose(ls_randn(run, dtype, 65, 31), 0, 1), 0.25);
    case 8: return ls_dropout(ls_randn(run, dtype, 100), 1);
    case 9: { /* beyond the largest number drawn: nothing is kept */
        ls_tensor *ones = ls_ones(run, dtype, 1, 2, 40, 32);
        return ls_ne_scalar(ls_attention(ones, ones, ones, .dropout = 0.99999995), 0);
    }
    default: return ls_randperm(run, 1000 + v);
    }
}

static void a_seed_gives_the_numbers_of_the_cpu(void)
{
    same_bits(drawn, 4 * 10 + 1);
}

/* Sums, differences, products and comparisons of one rounding each. */
static ls_tensor *computed(ls_run *run, int v)
{
    static const int64_t columns[] = {1, 7, 64, 1024};
    ls_dtype dtype = type_of(v);
    int64_t n = columns[v / TYPES % 4];
    /* No infinities: the bits of their difference, NaN, are up to the device. */
    ls_tensor *few = ls_cast(ls_clamp(numbers(run, LS_F32, 37 * n), -6e4, 6e4), dtype);
    ls_tensor *a = ls_reshape(few, 37, n), *b = ls_slice(few, 0, 0, n, 1);
    switch (v / (TYPES * 4)) {
    case 0: return ls_add(a, a);
    case 1: return ls_mul(a, b);
    case 2: return ls_sub(b, a);
    case 3: return ls_maximum(a, ls_slice(b, 0, 0, 1, 1));
    case 4: return ls_le(a, b);
    case 5: return ls_where(ls_gt(a, b), a, b);
    case 6: return ls_relu(ls_neg(a));
    case 7: return ls_add(ls_transpose(a, 0, 1), ls_reshape(b, n, 1));
    case 8: return ls_add(a, ls_cast(b, LS_F32));
    case 9: return ls_mul(a, ls_slice(a, 1, 0, 1, 1));
    case 10: return ls_where(ls_le(a, b), a, ls_relu(a));
    default: return ls_mul(ls_slice(a, 0, 1, 37, 1), ls_slice(a, 0, 0, 36, 1));
    }
}

static void exact_arithmetic_is_equal(void)
{
    same_bits(computed, TYPES * 4 * 12);
}

/* ---- more elements than 32 bits can count ---- */

/* Element i of x, for some i near the end, is as f(i) says. */
static void check_end(ls_tensor *x, const char *what, int64_t (*f)(int64_t i))
{
    enum { LAST = 5 };
    float got[LAST] = {0};
    int64_t n = ls_numel(x);
    ls_tensor *end = ls_cast(ls_slice(ls_reshape(x, -1), 0, n - LAST, n, 1), LS_F32);
    if (!ls_read(end, got, sizeof got)) return;
    for (int k = 0; k < LAST; k++)
        CHECK_MSG(got[k] == (float)f(n - LAST + k), "%s: element %lld is %g, expected %lld", what,
                  (long long)(n - LAST + k), (double)got[k], (long long)f(n - LAST + k));
}

static int64_t of_sequence(int64_t i)
{
    return i & 255;
}

static int64_t of_sum(int64_t i)
{
    return 2 * i & 255;
}

enum { TURNED_ROWS = 8 };
static int64_t turned_columns;

static int64_t of_transpose(int64_t i)
{
    return of_sum(i % TURNED_ROWS * turned_columns + i / TURNED_ROWS);
}

static void indices_above_two_billion_are_right(void)
{
    const int64_t n = (INT64_C(1) << 31) + 1000;
    turned_columns = n / TURNED_ROWS;
    ls_run *run = ls_init(NULL, NULL, .device = CUDA_DEVICE);
    ls_tensor *x = ls_arange(run, LS_U8, n, 0, 1), *sum = ls_add(x, x), *half = ls_relu(ls_cast(sum, LS_BF16));
    ls_tensor *turned = ls_contiguous(ls_transpose(ls_reshape(half, TURNED_ROWS, -1), 0, 1));
    check_end(x, "arange", of_sequence);
    check_end(sum, "add", of_sum);
    check_end(half, "cast, relu", of_sum);
    check_end(turned, "transpose", of_transpose);
    bool is_full = ls_error(run) == LS_ERR_MEMORY;
    CHECK_MSG(is_full || ls_error(run) == LS_OK, "%s", ls_error_message(run));
    ls_clear_error(run);
    ls_finish(run);
    if (is_full) CHECK_SKIP("the GPU has not 18 GB of memory left");
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(every_type_converts_as_on_the_cpu);
    CHECK_RUN(every_layout_is_copied);
    CHECK_RUN(constants_and_sequences_are_equal);
    CHECK_RUN(a_seed_gives_the_numbers_of_the_cpu);
    CHECK_RUN(exact_arithmetic_is_equal);
    CHECK_RUN(indices_above_two_billion_are_right);
    return check_done();
}
