/* matmul.c - matrix products of strided tensors: matmul and linear. */
#include "base/parallel.h"
#include "device/cpu/conv.h"
#include "device/cpu/cpu.h"

#include <string.h>

/* A tensor seen as a batch of matrices. */
typedef struct matrices {
    void *data;
    ls_dtype dtype;
    int64_t rows, columns, row_stride, column_stride;
    int64_t batch_stride[LS_MAX_DIMS];
} matrices;

/* Leading dimensions that all operands share; broadcast ones have stride 0. */
typedef struct batch_dims {
    int count;
    int64_t dim[LS_MAX_DIMS];
} batch_dims;

typedef struct product {
    const ls_call *call;
    ls_dtype compute;
    batch_dims batch;
    matrices a, b, out, pre; /* b [k, n]; pre.data NULL: not wanted */
    const ls_operand *bias;
    ls_derived *derived; /* of b */
} product;

static matrices matrices_of(const ls_operand *x)
{
    int r = x->ndim - 2, c = x->ndim - 1;
    matrices m = {x->data, x->dtype, x->dim[r], x->dim[c], x->stride[r], x->stride[c], {0}};
    for (int d = 0; d < r; d++) m.batch_stride[d] = x->dim[d] == 1 ? 0 : x->stride[d];
    return m;
}

/* Merge the innermost batch dimension into the rows if B is the same for all of it and the rows of A, out and pre
 * continue at equal distances: one large product is faster than many small ones. */
static void merge_batch_into_rows(product *p)
{
    while (p->batch.count > 0) {
        int d = p->batch.count - 1;
        int64_t size = p->batch.dim[d];
        matrices *part[] = {&p->a, &p->out, &p->pre};
        if (size != 1) {
            if (p->b.batch_stride[d] != 0) return;
            for (int i = 0; i < 3; i++)
                if (part[i]->data && part[i]->rows != 1 &&
                    part[i]->batch_stride[d] != part[i]->rows * part[i]->row_stride)
                    return;
            for (int i = 0; i < 3; i++) {
                if (part[i]->rows == 1) part[i]->row_stride = part[i]->batch_stride[d];
                part[i]->rows *= size;
            }
        }
        p->batch.count--;
    }
}

static int64_t batch_size(const batch_dims *batch)
{
    int64_t size = 1;
    for (int d = 0; d < batch->count; d++) size *= batch->dim[d];
    return size;
}

/* Offsets of all items of the batch, in elements. */
static void list_offsets(const batch_dims *batch, const int64_t *stride, int64_t *offset)
{
    int64_t index[LS_MAX_DIMS] = {0}, at = 0, items = batch_size(batch);
    for (int64_t i = 0; i < items; i++) {
        offset[i] = at;
        for (int d = batch->count - 1; d >= 0; d--) {
            at += stride[d];
            if (++index[d] < batch->dim[d]) break;
            at -= batch->dim[d] * stride[d];
            index[d] = 0;
        }
    }
}

static bool has_lines(const matrices *x)
{
    return x->row_stride == 1 || x->column_stride == 1 || x->rows == 1 || x->columns == 1;
}

/* Elements of a copy of x with contiguous columns; broadcast dimensions are not expanded. */
static int64_t copy_size(const batch_dims *batch, const matrices *x)
{
    int64_t size = x->rows * x->columns;
    for (int d = 0; d < batch->count; d++) size *= x->batch_stride[d] ? batch->dim[d] : 1;
    return size;
}

/* Replace x by that copy, in `memory`. */
static void copy_with_lines(const batch_dims *batch, matrices *x, char *memory)
{
    size_t bytes = ls_dtype_size(x->dtype);
    batch_dims distinct = *batch;
    for (int d = 0; d < batch->count; d++)
        if (!x->batch_stride[d]) distinct.dim[d] = 1;
    int64_t index[LS_MAX_DIMS] = {0}, at = 0, items = batch_size(&distinct);
    char *to = memory;
    for (int64_t i = 0; i < items; i++) {
        for (int64_t r = 0; r < x->rows; r++)
            for (int64_t c = 0; c < x->columns; c++, to += bytes)
                memcpy(to, (char *)x->data + (size_t)(at + r * x->row_stride + c * x->column_stride) * bytes, bytes);
        for (int d = distinct.count - 1; d >= 0; d--) {
            at += x->batch_stride[d];
            if (++index[d] < distinct.dim[d]) break;
            at -= distinct.dim[d] * x->batch_stride[d];
            index[d] = 0;
        }
    }
    int64_t stride = x->rows * x->columns;
    for (int d = batch->count - 1; d >= 0; d--) {
        if (!x->batch_stride[d]) continue;
        x->batch_stride[d] = stride;
        stride *= batch->dim[d];
    }
    x->data = memory;
    x->row_stride = x->columns;
    x->column_stride = 1;
}

/* One side of the product. Its lines run along k if possible. */
static ls_gemm_source source_of(const matrices *x, bool k_is_row, const int64_t *item_offset)
{
    int64_t k = k_is_row ? x->rows : x->columns, n = k_is_row ? x->columns : x->rows;
    int64_t k_stride = k_is_row ? x->row_stride : x->column_stride,
            n_stride = k_is_row ? x->column_stride : x->row_stride;
    bool across = !(k_stride == 1 || k == 1) || (n_stride == 1 && k == 1 && n > 1);
    return (ls_gemm_source){.dtype = x->dtype,
                            .across = across,
                            .segments = 1,
                            .length = across ? n : k,
                            .lines = across ? k : n,
                            .locate = ls_gemm_locate_matrix,
                            .data = x->data,
                            .stride = across ? k_stride : n_stride,
                            .item_offset = item_offset};
}

static void convert_bias(const ls_operand *bias, ls_dtype to_dtype, void *to)
{
    const char *from = bias->data;
    int64_t n = bias->dim[bias->ndim - 1], step = bias->stride[bias->ndim - 1] * (int64_t)ls_dtype_size(bias->dtype);
    const ls_gemm_kernel *kernel = ls_gemm_kernels(to_dtype)[0];
    for (int64_t i = 0; i < n; i++)
        kernel->convert((char *)to + i * (int64_t)ls_dtype_size(to_dtype), from + i * step, bias->dtype, 1);
}

/* ---- Tiny products ----------------------------------------------------------------------------------------------- */

#define TINY_WORK 512 /* multiplications that cost less than planning and packing */
#define TINY_COLUMNS 64

static bool is_tiny(const product *p)
{
    ls_dtype type = p->a.dtype;
    return p->batch.count == 0 && p->a.rows * p->a.columns * p->b.columns <= TINY_WORK &&
           p->b.columns <= TINY_COLUMNS && (type == LS_F32 || type == LS_F64) && p->b.dtype == type &&
           p->compute == type && (!p->bias || (p->bias->dtype == type && p->bias->stride[0] == 1)) &&
           p->out.column_stride == 1 && (!p->pre.data || p->pre.column_stride == 1);
}

/* Row by row, with plain loops over the strides. */
#define TINY_ROW(type)                                                                                                 \
    do {                                                                                                               \
        type *sum = (type *)sums;                                                                                      \
        for (int64_t n = 0; n < b->columns; n++) sum[n] = 0;                                                           \
        for (int64_t k = 0; k < a->columns; k++) {                                                                     \
            type x = ((const type *)a->data)[m * a->row_stride + k * a->column_stride];                                \
            const type *y = (const type *)b->data + k * b->row_stride;                                                 \
            for (int64_t n = 0; n < b->columns; n++) sum[n] += x * y[n * b->column_stride];                            \
        }                                                                                                              \
    } while (0)

static ls_status run_tiny(const product *p)
{
    const matrices *a = &p->a, *b = &p->b;
    ls_gemm_finish how = {.activation = p->call->attrs.product.activation,
                          .accumulate = p->call->attrs.product.accumulate,
                          .out_dtype = p->out.dtype,
                          .pre_dtype = p->pre.dtype};
    ls_gemm_finish_fn *finish = p->compute == LS_F64 ? ls_gemm()->finish_f64 : ls_gemm()->finish_f32;
    int64_t out_bytes = (int64_t)ls_dtype_size(p->out.dtype), pre_bytes = (int64_t)ls_dtype_size(p->pre.dtype);
    double sums[TINY_COLUMNS];
    for (int64_t m = 0; m < a->rows; m++) {
        if (p->compute == LS_F64) TINY_ROW(double);
        else TINY_ROW(float);
        void *out = (char *)p->out.data + m * p->out.row_stride * out_bytes;
        void *pre = p->pre.data ? (char *)p->pre.data + m * p->pre.row_stride * pre_bytes : NULL;
        finish(&how, 1, b->columns, sums, 0, p->bias ? p->bias->data : NULL, &out, pre ? &pre : NULL);
    }
    return LS_OK;
}

/* ---- Rows in place ----------------------------------------------------------------------------------------------- */

#define IN_PLACE_ROWS 96 /* of A, least: packing fewer costs little, and tasks with all columns would be few */

/* Can rows of A be multiplied where they are, as the pixels of a convolution with one tap? Then only B is packed. A
 * kernel that finishes columns of packed tiles makes more of these. */
static bool rows_in_place(const product *p, const ls_gemm_job *job, ls_walk *walk)
{
    const ls_gemm_kernel *kernel = job->kernel;
    int64_t k = p->a.columns, row = p->a.row_stride, all = p->a.rows * row;
    if (job->batch != 1 || kernel->column_out || p->a.dtype != kernel->panel || k % kernel->kr ||
        p->a.column_stride != 1 || row < k || row > 2 * k || p->a.rows < IN_PLACE_ROWS)
        return false;
    *walk = ls_walk_over((ls_pixels){p->a.data, p->a.dtype, {1, p->a.rows}, all, all, row, 1});
    return ls_conv_direct_suits(walk, kernel, k, job->n) && ls_conv_direct_finishes(job);
}

/* ---- All others -------------------------------------------------------------------------------------------------- */

static ls_status out_of_memory(ls_message *why)
{
    return ls_explain(why, LS_ERR_MEMORY, "no memory for the workspace of a matrix product");
}

static ls_status run_product(product *p, ls_message *why)
{
    merge_batch_into_rows(p);
    if (is_tiny(p)) return run_tiny(p);
    int64_t items = batch_size(&p->batch), k = p->a.columns, n = p->b.columns;
    const ls_gemm_kernel *kernel = ls_gemm_choose_packed(p->compute, p->a.rows, n, k, p->derived != NULL);
    ls_dtype sum_dtype = ls_gemm_sum_dtype(kernel);

    /* Scratch: offsets of items, bias, copies of operands without contiguous lines. */
    bool copy_a = !has_lines(&p->a), copy_b = !has_lines(&p->b), one_item = items == 1;
    int64_t a_size = copy_a ? copy_size(&p->batch, &p->a) * (int64_t)ls_dtype_size(p->a.dtype) : 0;
    int64_t b_size = copy_b ? copy_size(&p->batch, &p->b) * (int64_t)ls_dtype_size(p->b.dtype) : 0;
    int64_t offsets_size = one_item ? 0 : 4 * items * (int64_t)sizeof(int64_t), bias_size = p->bias ? n * 8 : 0;
    char *memory = NULL;
    if (offsets_size + bias_size + a_size + b_size) {
        memory = ls_scratch((ls_worker){0, 1}, 2, (size_t)(offsets_size + bias_size + a_size + b_size) + 64);
        if (!memory) return out_of_memory(why);
    }
    char *bias = memory + offsets_size, *a_copy = bias + bias_size, *b_copy = a_copy + ls_gemm_round_up(a_size, 8);
    if (copy_a) copy_with_lines(&p->batch, &p->a, a_copy);
    if (copy_b) copy_with_lines(&p->batch, &p->b, b_copy);
    if (p->bias) convert_bias(p->bias, sum_dtype, bias);
    int64_t *offset[4] = {NULL};
    if (!one_item) {
        const int64_t *stride[] = {p->a.batch_stride, p->b.batch_stride, p->out.batch_stride, p->pre.batch_stride};
        for (int i = 0; i < 4; i++) list_offsets(&p->batch, stride[i], offset[i] = (int64_t *)memory + i * items);
    }
    bool same_b = true;
    for (int d = 0; d < p->batch.count; d++) same_b &= p->batch.dim[d] == 1 || p->b.batch_stride[d] == 0;

    ls_gemm_job job = {
        .kernel = kernel,
        .batch = items,
        .m = p->a.rows,
        .n = n,
        .k = ls_gemm_round_up(k, kernel->kr),
        .a = source_of(&p->a, false, offset[0]),
        .b = source_of(&p->b, true, offset[1]),
        .sink = {.store = ls_gemm_store_rows,
                 .how = {.activation = p->call->attrs.product.activation,
                         .accumulate = p->call->attrs.product.accumulate,
                         .out_dtype = p->out.dtype,
                         .pre_dtype = p->pre.dtype},
                 .bias = p->bias ? bias : NULL,
                 .locate = ls_gemm_locate_rows,
                 .out_step = p->out.column_stride,
                 .pre_step = p->pre.column_stride,
                 .out = p->out.data,
                 .pre = p->pre.data,
                 .out_stride = p->out.row_stride,
                 .pre_stride = p->pre.row_stride,
                 .out_offset = offset[2],
                 .pre_offset = offset[3]},
        .same_b = same_b,
        .derived = same_b && !copy_b ? p->derived : NULL,
    };
    ls_walk walk;
    if (!rows_in_place(p, &job, &walk)) return ls_gemm_run(&job, why);
    ls_conv_direct how = {.walk = &walk, .channels = k, .taps_in_line = 1};
    ls_status status = ls_conv_direct_run(&job, &how, why);
    return status == LS_ERR_MEMORY ? out_of_memory(why) : status;
}

static ls_dtype compute_dtype(const ls_call *call)
{
    ls_dtype asked = call->attrs.product.compute;
    return asked == LS_DTYPE_NONE ? call->in[0]->dtype : asked;
}

/* in: a [...,M,K], b [...,K,N]  out: c [...,M,N], all with the same number of dimensions,
 * leading ones broadcast by stride 0.
 * attrs.product: compute (none: the type of a), accumulate, activation. */
ls_status ls_cpu_matmul(const ls_call *call, ls_message *why)
{
    const ls_operand *a = call->in[0], *b = call->in[1], *c = call->out[0];
    product p = {.call = call, .compute = compute_dtype(call), .derived = b->derived};
    p.a = matrices_of(a);
    p.b = matrices_of(b);
    p.out = matrices_of(c);
    p.pre = (matrices){.dtype = c->dtype, .column_stride = 1};
    p.batch.count = c->ndim - 2;
    memcpy(p.batch.dim, c->dim, sizeof p.batch.dim);
    return run_product(&p, why);
}

/* x [...,K] as matrices [...,1,K]: the last leading dimension becomes rows by merging. */
static matrices rows_of(const ls_operand *x)
{
    int c = x->ndim - 1;
    matrices m = {x->data, x->dtype, 1, x->dim[c], 0, x->stride[c], {0}};
    for (int d = 0; d < c; d++) m.batch_stride[d] = x->dim[d] == 1 ? 0 : x->stride[d];
    return m;
}

/* in: x [...,K], w [N,K], b [N]?  out: y [...,N] = activation(x w^T + b), pre [...,N]? = x w^T + b.
 * attrs.product: compute (none: the type of x), accumulate (into y, after the activation), activation. */
ls_status ls_cpu_linear(const ls_call *call, ls_message *why)
{
    const ls_operand *x = call->in[0], *w = call->in[1], *y = call->out[0];
    const ls_operand *pre = call->n_out > 1 ? call->out[1] : NULL;
    product p = {.call = call, .compute = compute_dtype(call), .derived = w->derived};
    p.bias = call->n_in > 2 ? call->in[2] : NULL;
    p.a = rows_of(x);
    p.b = (matrices){w->data, w->dtype, w->dim[1], w->dim[0], w->stride[1], w->stride[0], {0}};
    p.out = rows_of(y);
    p.pre = pre ? rows_of(pre) : (matrices){.dtype = y->dtype, .column_stride = 1};
    p.batch.count = y->ndim - 1;
    memcpy(p.batch.dim, y->dim, sizeof p.batch.dim);
    return run_product(&p, why);
}
