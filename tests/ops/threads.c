/* threads.c - results and gradients of random operators are the same, to the last bit, with any number of threads. */
#include <lockstep.h>

#include "base/parallel.h"
#include "check.h"

enum { MOST_RESULTS = 6 };

static ls_run *run;
static uint64_t state;

static int64_t any(int64_t least, int64_t most)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return least + (int64_t)((state >> 16) % (uint64_t)(most - least + 1));
}

static bool chance(int one_in)
{
    return any(1, one_in) == 1;
}

/* ---- a case: an operator, made from leaves ---- */

typedef struct example {
    ls_tensor *leaf[4];
    int leaves;
    ls_dtype dtype; /* that the operator gets them in */
    ls_tensor *result;
    char what[200];
} example;

static ls_tensor *leaf_new(example *e, ls_shape shape)
{
    ls_tensor *leaf = ls_set_requires_grad(ls_normal_shape(run, LS_F32, 0, 1, shape), true);
    e->leaf[e->leaves++] = leaf;
    return ls_cast(leaf, e->dtype);
}

static void attend(example *e)
{
    int64_t batch = chance(3) ? 2 : 1, key_heads = any(1, 3), heads = key_heads * any(1, 2);
    int64_t queries = chance(3) ? any(1, 100) : any(300, 650), keys = chance(4) ? any(1, 650) : queries;
    int64_t depth = chance(2) ? 32 : any(1, 70);
    bool uneven = chance(2); /* five threads cut such heads into parts that end within blocks of queries */
    if (uneven) batch = 1, key_heads = heads = 4, keys = queries = any(580, 650), depth = 16;
    bool causal = uneven || chance(2), masked = chance(3), short_ones = !masked && queries == keys && chance(3);
    double dropout = chance(2) ? 0.1 : 0;
    snprintf(e->what, sizeof e->what, "attention [%d,%d/%d,%d/%d,%d]%s%s%s%s", (int)batch, (int)heads, (int)key_heads,
             (int)queries, (int)keys, (int)depth, causal ? " causal" : "", masked ? " masked" : "",
             short_ones ? " with lengths" : "", dropout > 0 ? " dropout" : "");
    ls_tensor *q = leaf_new(e, LS_SHAPE(batch, heads, queries, depth));
    ls_tensor *k = leaf_new(e, LS_SHAPE(batch, key_heads, keys, depth));
    ls_tensor *v = leaf_new(e, LS_SHAPE(batch, key_heads, keys, depth));
    ls_tensor *mask = masked ? ls_gt_scalar(ls_randn(run, LS_F32, batch, 1, 1, keys), -1) : NULL;
    ls_tensor *lengths = short_ones ? ls_full(run, LS_I64, (double)any(0, queries), batch) : NULL;
    e->result = ls_attention(q, k, v, .mask = mask, .causal = causal, .dropout = dropout, .lengths = lengths);
}

static void convolve(example *e)
{
    int64_t groups = chance(4) ? 2 : 1, in = groups * any(1, 70), out = groups * any(1, 70), kernel = any(1, 4);
    int64_t batch = any(1, 4), height = any(kernel, 24), width = any(kernel, 24), stride = any(1, 2),
            padding = any(0, 2);
    bool photos = !chance(4); /* channels last */
    snprintf(e->what, sizeof e->what, "conv2d [%d,%d,%d,%d] to %d, kernel %d, stride %d, padding %d, groups %d%s",
             (int)batch, (int)in, (int)height, (int)width, (int)out, (int)kernel, (int)stride, (int)padding,
             (int)groups, photos ? ", channels last" : "");
    ls_tensor *x = leaf_new(e, LS_SHAPE(batch, in, height, width));
    ls_tensor *w = leaf_new(e, LS_SHAPE(out, in / groups, kernel, kernel));
    ls_tensor *b = chance(2) ? leaf_new(e, LS_SHAPE(out)) : NULL;
    e->result =
        ls_conv2d(photos ? ls_channels_last(x) : x, w, b, .stride = stride, .padding = padding, .groups = groups);
}

static void multiply(example *e)
{
    int64_t batch = chance(2) ? any(2, 4) : 1, m = any(1, 600), n = any(1, 600), k = any(1, 600);
    snprintf(e->what, sizeof e->what, "matmul of %d, [%d,%d] and [%d,%d]", (int)batch, (int)m, (int)k, (int)k, (int)n);
    ls_tensor *a = leaf_new(e, LS_SHAPE(batch, m, k)), *b = leaf_new(e, LS_SHAPE(batch, k, n));
    e->result = ls_matmul(a, b);
}

static void go_by_rows(example *e)
{
    int64_t rows = any(1, 2000), columns = any(1, 400);
    int kind = (int)any(0, 4);
    static const char *const names[] = {"softmax", "layer_norm", "cross_entropy", "sum_dim", "gelu"};
    snprintf(e->what, sizeof e->what, "%s [%d,%d]", names[kind], (int)rows, (int)columns);
    ls_tensor *x = leaf_new(e, LS_SHAPE(rows, columns));
    ls_tensor *target = ls_cast(ls_mul_scalar(ls_rand(run, LS_F32, rows), 0.999 * (double)columns), LS_I64);
    if (kind == 0) e->result = ls_softmax(x, 1);
    else if (kind == 1)
        e->result = ls_layer_norm(x, leaf_new(e, LS_SHAPE(columns)), leaf_new(e, LS_SHAPE(columns)), 1e-5);
    else if (kind == 2) e->result = ls_cross_entropy(x, target);
    else if (kind == 3) e->result = ls_sum_dim(x, 0, false);
    else e->result = ls_gelu(x);
}

static void pick(example *e)
{
    int64_t rows = any(1, 300), columns = any(1, 200), picked = any(1, 3000);
    int kind = (int)any(0, 4);
    static const char *const names[] = {"embedding", "index_select", "scatter_add", "cumsum", "topk"};
    snprintf(e->what, sizeof e->what, "%s [%d,%d], %d", names[kind], (int)rows, (int)columns, (int)picked);
    ls_tensor *x = leaf_new(e, LS_SHAPE(rows, columns));
    ls_tensor *index = ls_cast(ls_mul_scalar(ls_rand(run, LS_F32, picked), 0.999 * (double)rows), LS_I64);
    if (kind == 0) e->result = ls_embedding(x, index);
    else if (kind == 1) e->result = ls_index_select(x, 0, index);
    else if (kind == 2)
        e->result = ls_scatter_add(x, 0, ls_expand(ls_reshape(index, picked, 1), picked, columns),
                                   leaf_new(e, LS_SHAPE(picked, columns)));
    else if (kind == 3) e->result = ls_cumsum(x, (int)any(0, 1));
    else e->result = ls_topk(x, any(1, columns), 1, true, NULL);
}

static void look(example *e)
{
    int64_t batch = any(1, 6), channels = 2 * any(1, 40), height = any(2, 30), width = any(2, 30);
    int kind = (int)any(0, 4);
    static const char *const names[] = {"batch_norm", "group_norm", "max_pool2d", "avg_pool2d", "interpolate"};
    snprintf(e->what, sizeof e->what, "%s [%d,%d,%d,%d]", names[kind], (int)batch, (int)channels, (int)height,
             (int)width);
    ls_tensor *x = leaf_new(e, LS_SHAPE(batch, channels, height, width));
    if (chance(2)) x = ls_channels_last(x);
    ls_tensor *weight = kind < 2 ? leaf_new(e, LS_SHAPE(channels)) : NULL;
    ls_tensor *bias = kind < 2 ? leaf_new(e, LS_SHAPE(channels)) : NULL;
    if (kind == 0) e->result = ls_batch_norm(x, .weight = weight, .bias = bias, .training = true);
    else if (kind == 1) e->result = ls_group_norm(x, 2, weight, bias, 1e-5);
    else if (kind == 2) e->result = ls_max_pool2d(x, 2, .stride = any(1, 2));
    else if (kind == 3) e->result = ls_avg_pool2d(x, 2, .stride = any(1, 2));
    else e->result = ls_interpolate(x, any(1, 40), any(1, 40), LS_INTERPOLATE_BILINEAR);
}

/* ---- its numbers ---- */

typedef struct numbers {
    char *of[MOST_RESULTS]; /* the result, and gradients of the leaves */
    size_t bytes[MOST_RESULTS];
    int count;
    char what[240];
} numbers;

static void keep(numbers *n, ls_tensor *x)
{
    if (!x || n->count == MOST_RESULTS) return;
    ls_tensor *wide = ls_add_scalar(ls_cast(x, LS_F32), 0); /* no -0 */
    n->bytes[n->count] = (size_t)ls_numel(wide) * sizeof(float);
    n->of[n->count] = malloc(n->bytes[n->count] + 1);
    CHECK(ls_read(wide, n->of[n->count], n->bytes[n->count]));
    n->count++;
}

static void numbers_of(numbers *n, int number, int threads)
{
    static void (*const makes[])(example * e) = {attend, attend, convolve, convolve, multiply, go_by_rows, pick, look};
    ls_parallel_set_width(threads);
    ls_mark mark = ls_scope_begin(run);
    ls_set_seed(run, (uint64_t)number);
    state = 0x9e3779b97f4a7c15u * (uint64_t)(number + 1);
    example e = {.dtype = chance(2) ? LS_BF16 : LS_F32};
    makes[any(0, 7)](&e);
    *n = (numbers){.count = 0};
    snprintf(n->what, sizeof n->what, "case %d, %s: %.190s", number, ls_dtype_name(e.dtype), e.what);
    keep(n, e.result);
    ls_tensor *wide = ls_cast(e.result, LS_F32);
    ls_backward(run, ls_sum(ls_mul(wide, ls_rand_like(wide))));
    for (int i = 0; i < e.leaves; i++) keep(n, ls_grad(e.leaf[i]));
    CHECK_MSG(!ls_error(run), "%s: %s", n->what, ls_error_message(run));
    ls_scope_end(run, mark, NULL);
}

static void numbers_free(numbers *n)
{
    for (int i = 0; i < n->count; i++) free(n->of[i]);
}

static void all_numbers_are_the_same(void)
{
    static const int threads[] = {2, 3, 5, 7, 12, 16};
    int cases = getenv("CHECK_QUICK") ? 40 : 250;
    for (int number = 0; number < cases; number++) {
        numbers one, several;
        int with = threads[number % 6];
        numbers_of(&one, number, 1);
        numbers_of(&several, number, with);
        CHECK(one.count == several.count);
        for (int i = 0; i < one.count && i < several.count; i++)
            CHECK_MSG(one.bytes[i] == several.bytes[i] && memcmp(one.of[i], several.of[i], one.bytes[i]) == 0,
                      "%s: result %d with %d threads", one.what, i, with);
        numbers_free(&one);
        numbers_free(&several);
    }
    ls_parallel_set_width(0);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    run = ls_init(NULL, NULL, .seed = 1, .device = "cpu");
    CHECK_RUN(all_numbers_are_the_same);
    if (ls_finish(run)) return 1;
    return check_done();
}
