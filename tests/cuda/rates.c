/* rates.c - how fast element-wise kernels are: bytes that must be read and written, by the time they take. */
#include <lockstep.h>

#include <stdio.h>
#include <time.h>

static ls_run *run;

typedef ls_tensor *rated_fn(ls_tensor *x, ls_tensor *y);

static ls_tensor *add(ls_tensor *x, ls_tensor *y)
{
    return ls_add(x, y);
}

static ls_tensor *add_bias(ls_tensor *x, ls_tensor *y)
{
    return ls_add(x, ls_select(y, 0, 0));
}

static ls_tensor *mul_rows(ls_tensor *x, ls_tensor *y)
{
    return ls_mul(x, ls_slice(y, 1, 0, 1, 1));
}

static ls_tensor *gelu(ls_tensor *x, ls_tensor *y)
{
    (void)y;
    return ls_gelu(x);
}

static ls_tensor *tanh_of(ls_tensor *x, ls_tensor *y)
{
    (void)y;
    return ls_tanh(x);
}

static ls_tensor *dropout(ls_tensor *x, ls_tensor *y)
{
    (void)y;
    return ls_dropout(x, 0.1);
}

static ls_tensor *to_f32(ls_tensor *x, ls_tensor *y)
{
    (void)y;
    return ls_cast(x, LS_F32);
}

static ls_tensor *to_bf16(ls_tensor *x, ls_tensor *y)
{
    (void)y;
    return ls_cast(x, LS_BF16);
}

static ls_tensor *transposed(ls_tensor *x, ls_tensor *y)
{
    (void)y;
    return ls_contiguous(ls_transpose(x, 0, 1));
}

static ls_tensor *by_heads(ls_tensor *x, ls_tensor *y)
{
    (void)y;
    return ls_contiguous(ls_permute(ls_reshape(x, 16, -1, 16, 64), 0, 2, 1, 3));
}

static ls_tensor *channels_last(ls_tensor *x, ls_tensor *y)
{
    (void)y;
    return ls_channels_last(ls_reshape(x, -1, 64, 32, 32));
}

static ls_tensor *sliced(ls_tensor *x, ls_tensor *y)
{
    (void)y;
    return ls_contiguous(ls_slice(x, 1, 0, 512, 1));
}

static ls_tensor *chosen(ls_tensor *x, ls_tensor *y)
{
    return ls_where(ls_gt(x, y), x, y);
}

static ls_tensor *normal(ls_tensor *x, ls_tensor *y)
{
    (void)y;
    return ls_normal_shape(run, ls_dtype_of(x), 0, 1, ls_shape_of(x));
}

static const struct {
    const char *name;
    rated_fn *function;
    double passes; /* bytes moved, in units of x; casts: computed */
} rated[] = {
    {"add", add, 3},
    {"add bias [1024]", add_bias, 2},
    {"mul by rows [n,1]", mul_rows, 2},
    {"gelu", gelu, 2},
    {"tanh", tanh_of, 2},
    {"dropout", dropout, 2},
    {"to f32", to_f32, 0},
    {"to bf16", to_bf16, 0},
    {"transpose", transposed, 2},
    {"heads first", by_heads, 2},
    {"channels last", channels_last, 2},
    {"half of each row", sliced, 1},
    {"gt, where", chosen, 5.5},
    {"normal", normal, 1},
};

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(void)
{
    enum { ROWS = 65536, TIMES = 20 };
    static const ls_dtype types[] = {LS_F32, LS_BF16};
    run = ls_init(NULL, NULL, .device = CUDA_DEVICE);
    float one;
    for (int t = 0; t < 2 && ls_error(run) == LS_OK; t++) {
        ls_tensor *x = ls_randn(run, types[t], ROWS, 1024), *y = ls_randn(run, types[t], ROWS, 1024);
        double bytes = (double)ls_numel(x) * (double)ls_dtype_size(types[t]);
        for (size_t i = 0; i < sizeof rated / sizeof *rated; i++) {
            double best = 1e9, moved = rated[i].passes * bytes;
            ls_dtype gives = LS_F32;
            for (int k = -2; k < TIMES; k++) {
                ls_mark mark = ls_scope_begin(run);
                ls_read(ls_zeros(run, LS_F32, 1), &one, sizeof one); /* waits */
                double began = seconds();
                ls_tensor *z = rated[i].function(x, y);
                ls_tensor *end = ls_zeros(run, LS_F32, 1);
                ls_read(end, &one, sizeof one);
                double took = seconds() - began;
                if (k >= 0 && took < best) best = took;
                gives = ls_dtype_of(z);
                ls_scope_end(run, mark, NULL);
            }
            if (rated[i].passes == 0) moved = bytes + (double)ls_numel(x) * (double)ls_dtype_size(gives);
            printf("%-5s %-18s %8.1f us %8.0f GB/s\n", ls_dtype_name(types[t]), rated[i].name, best * 1e6,
                   moved / best * 1e-9);
        }
    }
    if (ls_error(run)) printf("%s\n", ls_error_message(run));
    return ls_finish(run);
}
