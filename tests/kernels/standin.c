/* standin.c - kernels for CPUs that are hard to come by, compiled for this one: their few special instructions are
 * replaced by plain C (tests/standin/), so that packing, loops and addresses are those of the real kernels. */
#include "base/parallel.h"
#include "device/cpu/conv.h"
#include "kernels/attention.h"
#include "kernels/gemm_check.h"
#include "kernels/gemm_in_place_check.h"
#include "kernels/kernels.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

/* Vectors are as wide as this CPU's, maybe too narrow for f64; tiles have the rows and vectors of the real ones. */
static void avx512_products(void)
{
    for (int shape = 0; shape < 2; shape++) {
        check_kernel(ls_gemm_avx512.f32[shape]);
        check_in_place(ls_gemm_avx512.f32[shape]);
    }
}

static void avx512_bf16_products(void)
{
    for (int shape = 0; shape < 2; shape++) check_kernel(ls_gemm_avx512_bf16.bf16[shape]);
}

static void amx_products(void)
{
    for (int shape = 0; shape < 2; shape++) check_kernel(ls_gemm_amx.bf16[shape]);
    check_kernel(ls_gemm_amx.large_f32);
}

/* ---- whole matrices, through the engine: its blocks must suit tiles of any shape --------------------------------- */

static ls_gemm_source matrix(const ls_bf16 *data, int64_t rows, int64_t k, bool across)
{
    return (ls_gemm_source){.dtype = LS_BF16,
                            .across = across,
                            .segments = 1,
                            .length = across ? rows : k,
                            .lines = k,
                            .locate = ls_gemm_locate_matrix,
                            .data = data,
                            .stride = across ? rows : k};
}

static void check_matrices(const ls_gemm_kernel *kernel, int64_t m, int64_t n, int64_t k, bool a_across, bool b_across)
{
    ls_bf16 *a = calloc((size_t)(m * k), sizeof *a), *b = calloc((size_t)(n * k), sizeof *b);
    float *c = calloc((size_t)(m * n), sizeof *c);
    for (int64_t i = 0; i < m * k; i++) a[i] = ls_bf16_from_f32((float)random_number());
    for (int64_t i = 0; i < n * k; i++) b[i] = ls_bf16_from_f32((float)random_number());
    ls_gemm_job job = {.kernel = kernel,
                       .batch = 1,
                       .m = m,
                       .n = n,
                       .k = ls_gemm_round_up(k, kernel->kr),
                       .a = matrix(a, m, k, a_across),
                       .b = matrix(b, n, k, b_across),
                       .sink = {.store = ls_gemm_store_rows,
                                .how = {.out_dtype = LS_F32, .pre_dtype = LS_F32},
                                .locate = ls_gemm_locate_rows,
                                .out_step = 1,
                                .out = c,
                                .out_stride = n}};
    ls_message why;
    CHECK(ls_gemm_run(&job, &why) == LS_OK);
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double want = 0;
            for (int64_t p = 0; p < k; p++)
                want += (double)ls_bf16_to_f32(a[a_across ? p * m + i : i * k + p]) *
                        (double)ls_bf16_to_f32(b[b_across ? p * n + j : j * k + p]);
            CHECK_NEAR(c[i * n + j], want, 1e-4);
        }
    }
    free(a);
    free(b);
    free(c);
}

/* ---- rows in place, on several workers --------------------------------------------------------------------------- */

enum { TOGETHER_M = 384, TOGETHER_N = 32, TOGETHER_K = 384 };
static _Atomic int begun;
static atomic_bool alone;

/* Where rows of a task are stored: asked for when it begins. Waits until both tasks have begun. */
static void locate_together(const ls_gemm_sink *sink, int64_t item, int64_t first, int64_t count, void **out,
                            void **pre)
{
    ls_gemm_locate_rows(sink, item, first, count, out, pre);
    if (count < TOGETHER_M / 4) return; /* the rest of a task */
    atomic_fetch_add(&begun, 1);
    for (int waited = 0; atomic_load(&begun) < 2; waited++) {
        if (waited == 10000) {
            atomic_store(&alone, true);
            return;
        }
        usleep(1000);
    }
}

/* A product of two tasks is one for two workers, although a worker asks early what it has to do next. */
static void two_tasks_are_for_two_workers(void)
{
    static float a[TOGETHER_M * TOGETHER_K], b[TOGETHER_K * TOGETHER_N], c[TOGETHER_M * TOGETHER_N];
    for (int i = 0; i < TOGETHER_M * TOGETHER_K; i++) a[i] = (float)random_number();
    for (int i = 0; i < TOGETHER_K * TOGETHER_N; i++) b[i] = (float)random_number();
    ls_walk walk = ls_walk_over((ls_pixels){
        (char *)a, LS_F32, {1, TOGETHER_M}, TOGETHER_M * TOGETHER_K, TOGETHER_M * TOGETHER_K, TOGETHER_K, 1});
    ls_gemm_source matrix_b = matrix(NULL, TOGETHER_N, TOGETHER_K, true);
    matrix_b.data = b;
    matrix_b.dtype = LS_F32;
    ls_gemm_job job = {.kernel = ls_gemm_avx512.f32[0],
                       .batch = 1,
                       .m = TOGETHER_M,
                       .n = TOGETHER_N,
                       .k = TOGETHER_K,
                       .b = matrix_b,
                       .sink = {.store = ls_gemm_store_rows,
                                .how = {.out_dtype = LS_F32, .pre_dtype = LS_F32},
                                .locate = locate_together,
                                .out_step = 1,
                                .out = c,
                                .out_stride = TOGETHER_N}};
    ls_conv_direct how = {.walk = &walk, .channels = TOGETHER_K, .taps_in_line = 1};
    ls_message why;
    ls_parallel_set_width(2);
    CHECK(ls_conv_direct_run(&job, &how, &why) == LS_OK);
    ls_parallel_set_width(0);
    CHECK(!atomic_load(&alone));
    CHECK(atomic_load(&begun) == 2);
    for (int i = 0; i < TOGETHER_M; i++)
        for (int j = 0; j < TOGETHER_N; j++) {
            double want = 0;
            for (int p = 0; p < TOGETHER_K; p++) want += (double)a[i * TOGETHER_K + p] * (double)b[p * TOGETHER_N + j];
            CHECK_NEAR(c[i * TOGETHER_N + j], want, 1e-4);
        }
}

static void engine_products(void)
{
    const ls_gemm_kernel *const kernels[] = {ls_gemm_avx512_bf16.bf16[0], ls_gemm_avx512_bf16.bf16[1],
                                             ls_gemm_amx.bf16[0], ls_gemm_amx.bf16[1]};
    for (int i = 0; i < 4; i++) {
        for (int turned = 0; turned < 4; turned++) {
            check_matrices(kernels[i], 70, 45, 40, turned & 1, turned & 2);
            check_matrices(kernels[i], 33, 100, 470, turned & 1, turned & 2);
            check_matrices(kernels[i], 9, 9, 2100, turned & 1, turned & 2);
        }
    }
}

/* ---- attention: against the reference in f32 --------------------------------------------------------------------- */

enum { GROUP = 2, MOST = 60000 };

/* The same numbers in bf16 and in f32, [heads, rows, columns]. */
typedef struct numbers {
    ls_bf16 half[MOST];
    float wide[MOST];
} numbers;

static numbers q, k, v, o, d_o, dq, dk, dv;
static float lse[2][MOST];

static void fill(numbers *x)
{
    for (int i = 0; i < MOST; i++) {
        x->half[i] = ls_bf16_from_f32((float)random_number());
        x->wide[i] = ls_bf16_to_f32(x->half[i]);
    }
}

static void point(ls_attention_task *p, bool wide)
{
#define MATRIX(name, rows, columns)                                                                                    \
    p->name = (ls_attention_matrix){wide ? (void *)name.wide : name.half, columns, (rows) * (columns)}
    MATRIX(q, p->queries, p->depth);
    MATRIX(dq, p->queries, p->depth);
    MATRIX(k, p->keys, p->depth);
    MATRIX(dk, p->keys, p->depth);
    MATRIX(v, p->keys, p->value_depth);
    MATRIX(dv, p->keys, p->value_depth);
    MATRIX(o, p->queries, p->value_depth);
    MATRIX(d_o, p->queries, p->value_depth);
#undef MATRIX
    p->lse = (ls_attention_matrix){lse[wide], 1, p->queries};
}

static void compare(const char *name, const numbers *x, int64_t n)
{
    double difference = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        double got = ls_bf16_to_f32(x->half[i]), want = x->wide[i];
        difference += (got - want) * (got - want);
        size += want * want;
    }
    CHECK_MSG(difference <= 3e-5 * size, "%s: off by %g of %g", name, sqrt(difference), sqrt(size));
}

static char scratch[8 << 20] __attribute__((aligned(64)));

static void check_attention(const ls_attention_kernel *kernel, int64_t queries, int64_t keys, bool causal, bool drops)
{
    bool whole_tiles = queries % 32 == 0; /* of depths, too: AMX then reads rows where they are */
    ls_attention_task p = {.queries = queries,
                           .keys = keys,
                           .depth = whole_tiles ? 64 : 40,
                           .value_depth = whole_tiles ? 32 : 24,
                           .group = 1,
                           .scale = 0.2,
                           .causal = causal,
                           .drop_below = drops ? 1u << 30 : 0,
                           .keep_scale = drops ? 4 / 3.0 : 1,
                           .seed = 5,
                           .drawn_row = keys,
                           .drawn_head = queries * keys};
    ls_attention_part part = {.query_end = queries, .key_end = keys, .next = &p};
    fill(&q), fill(&k), fill(&v), fill(&d_o);
    for (int64_t head = 0; head < GROUP; head++) { /* forward is told one head at a time */
        for (int wide = 0; wide < 2; wide++) {
            const ls_attention_kernel *with = wide ? ls_attention_ref.f32 : kernel;
            ls_attention_task one = p;
            point(&one, wide);
            size_t bytes = wide ? sizeof(float) : sizeof(ls_bf16);
            one.q.data = (char *)one.q.data + (size_t)(head * one.q.head) * bytes;
            one.o.data = (char *)one.o.data + (size_t)(head * one.o.head) * bytes;
            one.lse.data = (float *)one.lse.data + head * queries;
            one.first = (uint64_t)(head * queries * keys);
            CHECK(with->forward_scratch(&one) <= sizeof scratch);
            with->forward(&one, &part, scratch);
        }
    }
    compare("o", &o, GROUP * queries * p.value_depth);
    for (int64_t i = 0; i < GROUP * queries; i++) CHECK_NEAR(lse[0][i], lse[1][i], 1e-3);

    memcpy(lse[0], lse[1], sizeof lse[0]);
    for (int i = 0; i < MOST; i++) {
        o.half[i] = ls_bf16_from_f32(o.wide[i]);
        o.wide[i] = ls_bf16_to_f32(o.half[i]);
    }
    p.group = GROUP;
    for (int wide = 0; wide < 2; wide++) {
        const ls_attention_kernel *with = wide ? ls_attention_ref.f32 : kernel;
        point(&p, wide);
        CHECK(with->backward_scratch(&p, &part) <= sizeof scratch);
        with->backward(&p, &part, scratch);
    }
    compare("dq", &dq, GROUP * queries * p.depth);
    compare("dk", &dk, keys * p.depth);
    compare("dv", &dv, keys * p.value_depth);
}

/* A quarter of the scores is dropped; the bits of the others go to `kept`. */
static ls_attention_task one_head_with_dropout(int64_t queries, int64_t keys, uint8_t *kept)
{
    int64_t row = ls_attention_kept_bytes(keys);
    return (ls_attention_task){.queries = queries,
                               .keys = keys,
                               .depth = 40,
                               .value_depth = 24,
                               .group = 1,
                               .scale = 0.2,
                               .drop_below = 1u << 30,
                               .keep_scale = 4 / 3.0,
                               .drawn_row = keys,
                               .drawn_head = queries * keys,
                               .kept = {kept, row, queries * row}};
}

/* Once the bits that forward left say that all was dropped, there is no dv: backward draws nothing again. */
static void check_kept(const ls_attention_kernel *kernel)
{
    enum { ROWS = 100 };
    static uint8_t kept[ROWS * ((ROWS + 63) / 64 * 8)];
    ls_attention_task p = one_head_with_dropout(ROWS, ROWS, kept);
    ls_attention_part part = {.query_end = ROWS, .key_end = ROWS};
    fill(&q), fill(&k), fill(&v), fill(&d_o);
    point(&p, false);
    kernel->forward(&p, &part, scratch);
    memset(kept, 0, sizeof kept);
    kernel->backward(&p, &part, scratch);
    for (int64_t i = 0; i < ROWS * p.value_depth; i++) CHECK(dv.half[i] == 0);
}

/* Backward of the last keys alone does not read past the bits of the last query. */
static void check_end_of_kept(const ls_attention_kernel *kernel)
{
    enum { QUERIES = 3, KEYS = LS_ATTENTION_CUT + 4, BYTES = QUERIES * ((KEYS + 63) / 64 * 8) };
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0);
    ls_attention_task p = one_head_with_dropout(QUERIES, KEYS, pages + page - BYTES);
    fill(&q), fill(&k), fill(&v), fill(&d_o);
    point(&p, false);
    kernel->forward(&p, &(ls_attention_part){.query_end = QUERIES, .key_end = KEYS}, scratch);
    p.dq.data = NULL;
    kernel->backward(&p, &(ls_attention_part){0, QUERIES, LS_ATTENTION_CUT, KEYS, NULL}, scratch);
    munmap(pages, 2 * page);
}

/* Parts of a causal head, wherever they begin and end: each number is that of the whole head. */
static void check_parts(const ls_attention_kernel *kernel)
{
    enum { ROWS = 450 };
    static ls_bf16 whole[4][MOST];
    numbers *const results[] = {&o, &dq, &dk, &dv};
    ls_attention_task p = {.queries = ROWS,
                           .keys = ROWS,
                           .depth = 40,
                           .value_depth = 24,
                           .group = 1,
                           .scale = 0.2,
                           .causal = true,
                           .keep_scale = 1};
    fill(&q), fill(&k), fill(&v), fill(&d_o);
    for (int64_t size = ROWS; size > 0; size = size == ROWS ? 5 * LS_ATTENTION_CUT : size - LS_ATTENTION_CUT) {
        for (int64_t at = 0; at < ROWS; at += size) {
            int64_t end = at + size < ROWS ? at + size : ROWS;
            point(&p, false);
            kernel->forward(&p, &(ls_attention_part){at, end, 0, ROWS, NULL}, scratch);
        }
        for (int64_t at = 0; at < ROWS; at += size) {
            int64_t end = at + size < ROWS ? at + size : ROWS;
            point(&p, false);
            p.dk.data = p.dv.data = NULL;
            kernel->backward(&p, &(ls_attention_part){at, end, 0, ROWS, NULL}, scratch);
            point(&p, false);
            p.dq.data = NULL;
            kernel->backward(&p, &(ls_attention_part){0, ROWS, at, end, NULL}, scratch);
        }
        for (int r = 0; r < 4; r++) {
            int64_t n = ROWS * (r == 0 || r == 3 ? p.value_depth : p.depth), differ = 0;
            if (size == ROWS) memcpy(whole[r], results[r]->half, sizeof whole[r]);
            for (int64_t i = 0; i < n; i++)
                differ += ls_bf16_to_f32(results[r]->half[i]) != ls_bf16_to_f32(whole[r][i]);
            CHECK_MSG(!differ, "parts of %lld: %lld of %lld numbers of result %d differ", (long long)size,
                      (long long)differ, (long long)n, r);
        }
    }
}

static void check_attentions(const ls_attention_kernel *kernel)
{
    check_parts(kernel);
    check_kept(kernel);
    check_end_of_kept(kernel);
    for (int variant = 0; variant < 4; variant++) {
        check_attention(kernel, 7, 9, variant & 1, variant & 2);
        check_attention(kernel, 101, 203, variant & 1, variant & 2);
        check_attention(kernel, 203, 101, variant & 1, variant & 2);
        check_attention(kernel, 33, 500, variant & 1, variant & 2);
        check_attention(kernel, 96, 203, variant & 1, variant & 2);
        check_attention(kernel, 450, 400, variant & 1, variant & 2);
    }
}

static void avx512_bf16_attention(void)
{
    check_attentions(ls_attention_avx512_bf16.bf16);
}

static void amx_attention(void)
{
    check_attentions(ls_attention_amx.bf16);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
#if defined(__x86_64__)
    if (!ls_isa_usable(LS_ISA_AVX2)) strcpy(check_skip_all, "the CPU lacks AVX2");
#endif
    CHECK_RUN(avx512_products);
    CHECK_RUN(avx512_bf16_products);
    CHECK_RUN(amx_products);
    CHECK_RUN(two_tasks_are_for_two_workers);
    CHECK_RUN(engine_products);
    CHECK_RUN(avx512_bf16_attention);
    CHECK_RUN(amx_attention);
    return check_done();
}
