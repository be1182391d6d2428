/* product.c - matrix products of BERT and of attention, all transposes, packing included; and the same with OpenBLAS.
 * */
#include "bench.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef struct product {
    const char *name;
    int64_t m, n, k;
    bool a_turned, b_turned; /* stored transposed: TN has a turned, NT has b turned */
} product;

static const product products[] = {
    {"bert-base proj fwd NT", 4608, 768, 768, false, true},
    {"bert-base qkv fwd NT", 4608, 2304, 768, false, true},
    {"bert-base ffn1 fwd NT", 4608, 3072, 768, false, true},
    {"bert-base ffn2 fwd NT", 4608, 768, 3072, false, true},
    {"bert-base ffn1 dgrad NN", 4608, 768, 3072, false, false},
    {"bert-base ffn1 wgrad TN", 3072, 768, 4608, true, false},
    {"bert-base proj wgrad TN", 768, 768, 4608, true, false},
    {"bert-large proj fwd NT", 4608, 1024, 1024, false, true},
    {"bert-large ffn1 fwd NT", 4608, 4096, 1024, false, true},
    {"bert-large ffn2 fwd NT", 4608, 1024, 4096, false, true},
    {"bert-large ffn1 wgrad TN", 4096, 1024, 4608, true, false},
    {"attention QK one head", 384, 384, 64, false, true},
    {"attention PV one head", 384, 64, 384, false, false},
};

typedef struct product_state {
    ls_run *run;
    ls_tensor *a, *b;
} product_state;

static void product_call(void *arg)
{
    product_state *s = arg;
    ls_mark mark = ls_scope_begin(s->run);
    ls_matmul(s->a, s->b);
    ls_scope_end(s->run, mark, NULL);
}

static void *product_setup(ls_run *run, const bench_item *item)
{
    static product_state s;
    const product *p = item->shape;
    s.run = run;
    s.a = p->a_turned ? ls_transpose(ls_randn(run, item->dtype, p->k, p->m), 0, 1)
                      : ls_randn(run, item->dtype, p->m, p->k);
    s.b = p->b_turned ? ls_transpose(ls_randn(run, item->dtype, p->n, p->k), 0, 1)
                      : ls_randn(run, item->dtype, p->k, p->n);
    return &s;
}

void bench_add_products(int threads)
{
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        for (int half = 0; half < 2; half++) {
            const product *p = &products[i];
            ls_dtype dtype = half ? LS_BF16 : LS_F32;
            bench_item *item = bench_add(BENCH_GFLOPS, half ? BENCH_PEAK_BF16 : BENCH_PEAK_F32, threads,
                                         2.0 * (double)p->m * (double)p->n * (double)p->k, "gemm/%s/%s",
                                         ls_dtype_name(dtype), p->name);
            item->dtype = dtype;
            item->shape = p;
            item->setup = product_setup;
            item->call = product_call;
        }
}

/* ---- OpenBLAS ---- */

typedef void sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                      const float *b, int ldb, float beta, float *c, int ldc);

typedef struct blas_state {
    sgemm_fn *sgemm;
    const product *p;
    float *a, *b, *c;
} blas_state;

static void blas_call(void *arg)
{
    blas_state *s = arg;
    const product *p = s->p;
    enum { ROW_MAJOR = 101, PLAIN = 111, TURNED = 112 };
    s->sgemm(ROW_MAJOR, p->a_turned ? TURNED : PLAIN, p->b_turned ? TURNED : PLAIN, (int)p->m, (int)p->n, (int)p->k, 1,
             s->a, (int)(p->a_turned ? p->m : p->k), s->b, (int)(p->b_turned ? p->k : p->n), 0, s->c, (int)p->n);
}

static void *symbol_of(void *library, const char *name, void *function_pointer, size_t size)
{
    void *symbol = library ? dlsym(library, name) : NULL;
    memcpy(function_pointer, &symbol, size);
    return symbol;
}

static float *numbers(int64_t n)
{
    float *x = malloc(sizeof *x * (size_t)n);
    for (int64_t i = 0; x && i < n; i++) x[i] = (float)(i % 17) / 8 - 1;
    return x;
}

double bench_openblas(const bench_item *item)
{
    if (strncmp(item->name, "gemm/f32", 8) != 0) return 0;
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    void (*set_threads)(int);
    blas_state s = {.p = item->shape};
    if (!symbol_of(library, "cblas_sgemm", &s.sgemm, sizeof s.sgemm)) return 0;
    if (symbol_of(library, "openblas_set_num_threads", &set_threads, sizeof set_threads)) set_threads(item->threads);
    s.a = numbers(s.p->m * s.p->k);
    s.b = numbers(s.p->k * s.p->n);
    s.c = numbers(s.p->m * s.p->n);
    double value = s.a && s.b && s.c ? item->work / bench_best(blas_call, &s, 0.25) * 1e-9 : 0;
    free(s.a);
    free(s.b);
    free(s.c);
    return value;
}
