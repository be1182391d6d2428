/* autocast.c - the number types of results under autocast, against PyTorch's. */
#include "golden/read.h"
#include "ops/op.h"

typedef ls_tensor *result_fn(ls_run *run, ls_tensor *x, ls_tensor *w, ls_tensor *image);

#define OP(name, expression)                                                                                           \
    static ls_tensor *result_##name(ls_run *run, ls_tensor *x, ls_tensor *w, ls_tensor *image)                         \
    {                                                                                                                  \
        (void)run, (void)x, (void)w, (void)image;                                                                      \
        return expression;                                                                                             \
    }
#define TARGET ls_zeros(run, LS_I64, 2)
#define QUERY ls_reshape(x, 1, 1, 2, 4)
#define OPS                                                                                                            \
    OP(matmul, ls_matmul(x, w))                                                                                        \
    OP(linear, ls_linear(x, w, NULL, LS_ACT_NONE))                                                                     \
    OP(conv2d, ls_conv2d(image, ls_zeros(run, LS_F32, 3, 2, 3, 3), NULL))                                              \
    OP(conv_transpose2d, ls_conv_transpose2d(image, ls_zeros(run, LS_F32, 2, 3, 3, 3), NULL))                          \
    OP(attention, ls_attention(QUERY, QUERY, QUERY))                                                                   \
    OP(add, ls_add(x, x))                                                                                              \
    OP(mul, ls_mul(x, x))                                                                                              \
    OP(exp, ls_exp(x))                                                                                                 \
    OP(relu, ls_relu(x))                                                                                               \
    OP(gelu, ls_gelu(x))                                                                                               \
    OP(sum, ls_sum(x))                                                                                                 \
    OP(mean, ls_mean(x))                                                                                               \
    OP(softmax, ls_softmax(x, -1))                                                                                     \
    OP(log_softmax, ls_log_softmax(x, -1))                                                                             \
    OP(layer_norm, ls_layer_norm(x, NULL, NULL, 1e-5))                                                                 \
    OP(max_pool2d, ls_max_pool2d(image, 2))                                                                            \
    OP(cross_entropy, ls_cross_entropy(x, TARGET))                                                                     \
    OP(nll_loss, ls_nll_loss(x, TARGET))                                                                               \
    OP(mse_loss, ls_mse_loss(x, x, LS_REDUCE_MEAN))                                                                    \
    OP(l1_loss, ls_l1_loss(x, x, LS_REDUCE_MEAN))                                                                      \
    OP(smooth_l1_loss, ls_smooth_l1_loss(x, x))                                                                        \
    OP(concat, ls_concat(0, x, w))                                                                                     \
    OP(argmax, ls_argmax(x))                                                                                           \
    OP(eq, ls_eq(x, x))
OPS
#undef OP

    static const struct {
    const char *name;
    result_fn *result;
} ops[] = {
#define OP(name, expression) {#name, result_##name},
    OPS
#undef OP
};

static ls_dtype dtype_named(const char *name)
{
    for (int d = 1; d < LS_DTYPE_COUNT; d++)
        if (strcmp(ls_dtype_name((ls_dtype)d), name) == 0) return (ls_dtype)d;
    return LS_DTYPE_NONE;
}

static void check_type(ls_dtype half, const char *op, ls_dtype given, ls_dtype want)
{
    ls_run *run = golden_run(LS_F32);
    ls_tensor *x = ls_zeros(run, given, 2, 4), *w = ls_zeros(run, LS_F32, 4, 4),
              *image = ls_zeros(run, given, 1, 2, 4, 4);
    bool found = false;
    ls_autocast_begin(run, half);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (strcmp(ops[i].name, op) != 0) continue;
        ls_dtype got = ls_dtype_of(ops[i].result(run, x, w, image));
        CHECK_MSG(got == want, "%s of %s under %s gives %s, expected %s", op, ls_dtype_name(given), ls_dtype_name(half),
                  ls_dtype_name(got), ls_dtype_name(want));
        found = true;
    }
    ls_autocast_end(run);
    CHECK_MSG(found, "%s: no such operator", op);
    CHECK_TEXT(ls_error_message(run), "");
    ls_clear_error(run);
    ls_finish(run);
}

/* PyTorch's GPUs compute in f32 what loses most in half types, its CPU does not: here it is f32 everywhere. Norms of
 * layers are an exception on both sides: their statistics are f32, and their result is the input's type. */
static bool is_f32_on_gpus(const char *op)
{
    static const char *const names[] = {"sum", "exp", "softmax", "log_softmax"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], op) == 0) return true;
    return false;
}

static void types_match(void)
{
    FILE *file = fopen(GOLDEN_DIR "/autocast.txt", "r");
    CHECK(file != NULL);
    char half[8], op[32], given[8], want[8];
    while (file && fscanf(file, "%7s %31s %7s %7s", half, op, given, want) == 4)
        check_type(dtype_named(half), op, dtype_named(given), is_f32_on_gpus(op) ? LS_F32 : dtype_named(want));
    if (file) fclose(file);
}

/* ---- rows of ops.def that widen ---- */

#define WIDE                                                                                                           \
    OP(pow, ls_pow(x, x))                                                                                              \
    OP(exp, ls_exp(x))                                                                                                 \
    OP(log, ls_log(x))                                                                                                 \
    OP(rsqrt, ls_rsqrt(x))                                                                                             \
    OP(reciprocal, ls_reciprocal(x))                                                                                   \
    OP(pow_scalar, ls_pow_scalar(x, 3))                                                                                \
    OP(softplus, ls_softplus(x, 1))                                                                                    \
    OP(sum, ls_sum_dim(x, 0, false))                                                                                   \
    OP(norm, ls_norm(x))                                                                                               \
    OP(cumsum, ls_cumsum(x, 0))                                                                                        \
    OP(softmax, ls_softmax(x, 0))                                                                                      \
    OP(log_softmax, ls_log_softmax(x, 0))                                                                              \
    OP(logsumexp, ls_logsumexp_dim(x, 0, false))                                                                       \
    OP(cross_entropy, ls_cross_entropy(x, ls_zeros(run, LS_I64, 2)))                                                   \
    OP(nll_loss, ls_nll_loss(x, ls_zeros(run, LS_I64, 2)))                                                             \
    OP(mse_loss, ls_mse_loss(x, x, LS_REDUCE_MEAN))                                                                    \
    OP(l1_loss, ls_l1_loss(x, x, LS_REDUCE_MEAN))                                                                      \
    OP(smooth_l1_loss, ls_smooth_l1_loss(x, x))                                                                        \
    OP(bce_with_logits, ls_bce_with_logits(x, ls_detach(x)))

#define OP(name, expression)                                                                                           \
    static ls_tensor *wide_##name(ls_run *run, ls_tensor *x)                                                           \
    {                                                                                                                  \
        (void)run;                                                                                                     \
        return expression;                                                                                             \
    }
WIDE
#undef OP

    static ls_tensor *(*const wide[LS_OP_COUNT])(ls_run *run, ls_tensor *x) = {
#define OP(name, expression) [LS_OP_##name] = wide_##name,
        WIDE
#undef OP
};

/* Gradients come back in the input's type. Of 4096 quarters a half type stops adding long before the end. */
static void rows_that_lose_most_are_f32(void)
{
    ls_run *run = golden_run(LS_F32);
    for (int op = 0; op < LS_OP_COUNT; op++) {
        const ls_op_info *row = &ls_op_table[op];
        if (row->policy != LS_POLICY_F32 || row->kind == LS_KIND_GRAD) continue;
        if (op == LS_OP_multinomial) continue; /* gives classes, not numbers */
        CHECK_MSG(wide[op], "%s has no case here", row->name);
        for (int half = 0; wide[op] && half < 2; half++) {
            ls_dtype dtype = half ? LS_F16 : LS_BF16;
            ls_tensor *x = ls_set_requires_grad(ls_full(run, dtype, 0.5, 2, 4), true);
            ls_autocast_begin(run, dtype);
            ls_tensor *y = wide[op](run, x);
            CHECK_MSG(ls_dtype_of(y) == LS_F32, "%s gives %s", row->name, ls_dtype_name(ls_dtype_of(y)));
            ls_autocast_end(run);
            ls_backward(run, ls_sum(y));
            CHECK_MSG(ls_error(run) == LS_OK && ls_dtype_of(ls_grad(x)) == dtype, "%s: %s", row->name,
                      ls_error_message(run));
            bool loss = op >= LS_OP_cross_entropy; /* f32 always */
            ls_dtype plain = ls_dtype_of(wide[op](run, x));
            CHECK_MSG(plain == (loss ? LS_F32 : dtype), "%s without autocast gives %s", row->name,
                      ls_dtype_name(plain));
        }
    }
    ls_autocast_begin(run, LS_BF16);
    CHECK(ls_item(ls_max(ls_cumsum(ls_full(run, LS_BF16, 0.25, 4096), 0))) == 1024);
    ls_autocast_end(run);
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
    ls_finish(run);
}

int main(int argc, char **argv)
{
    golden_arguments(argc, argv);
    CHECK_RUN(types_match);
    CHECK_RUN(rows_that_lose_most_are_f32);
    return check_done();
}
