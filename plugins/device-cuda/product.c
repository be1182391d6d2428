/* product.c - matrix products of strided operands: what cuBLASLt reads where it lies, and what must be copied first. */
#include "product.h"

#include <string.h>

/* An operand seen as a batch of matrices. */
typedef struct matrices {
    char *data;
    ls_dtype dtype;
    int64_t rows, columns, row_stride, column_stride;
    int64_t batch_stride[LS_MAX_DIMS]; /* 0: the same for all of that dimension */
} matrices;

typedef struct product {
    ls_dtype compute;
    bool accumulate;
    matrices a, b, c; /* [M,K], [K,N], [M,N] */
    const void *bias;
    int batch_dims;
    int64_t batch_dim[LS_MAX_DIMS];
} product;

/* Copies of operands live until their product is submitted. */
enum { COPIES = 4 };
typedef struct copies {
    int count;
    ls_workspace space[COPIES];
} copies;

static matrices matrices_of(const ls_operand *x)
{
    int r = x->ndim - 2, c = x->ndim - 1;
    matrices m = {x->data, x->dtype, x->dim[r], x->dim[c], x->stride[r], x->stride[c], {0}};
    for (int i = 0; i < r; i++) m.batch_stride[i] = x->dim[i] == 1 ? 0 : x->stride[i];
    return m;
}

static matrices transposed(matrices m)
{
    int64_t rows = m.rows, stride = m.row_stride;
    m.rows = m.columns, m.row_stride = m.column_stride;
    m.columns = rows, m.column_stride = stride;
    return m;
}

/* Is every row without gaps and behind the one before? Then *pitch is the distance between rows. */
static bool has_rows(const matrices *m, int64_t *pitch)
{
    *pitch = m->rows == 1 ? m->columns : m->row_stride;
    return (m->columns == 1 || m->column_stride == 1) && *pitch >= m->columns;
}

static bool has_columns(const matrices *m, int64_t *pitch)
{
    matrices t = transposed(*m);
    return has_rows(&t, pitch);
}

static bool is_readable(const matrices *m)
{
    int64_t pitch;
    return has_rows(m, &pitch) || has_columns(m, &pitch);
}

/* ---- Copies ------------------------------------------------------------------------------------------------------ */

/* Memory for the elements of x, in the type `dtype` and without gaps; dimensions that repeat their elements are kept
 * once where they count batches. */
static ls_status dense_like(cuda_device *d, const ls_operand *x, ls_dtype dtype, copies *kept, ls_operand *to,
                            ls_message *why)
{
    int64_t dim[LS_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++) dim[i] = i < x->ndim - 2 && x->stride[i] == 0 ? 1 : x->dim[i];
    *to = cuda_dense(NULL, dtype, x->ndim, dim);
    ls_workspace *space = &kept->space[kept->count];
    CUDA_TRY(cuda_take(d, (size_t)cuda_numel(to) * d->host->dtype_size(dtype), space, why));
    kept->count++;
    to->data = space->address;
    return LS_OK;
}

static void transpose(ls_operand *x)
{
    int r = x->ndim - 2, c = x->ndim - 1;
    int64_t dim = x->dim[r], stride = x->stride[r];
    x->dim[r] = x->dim[c], x->stride[r] = x->stride[c];
    x->dim[c] = dim, x->stride[c] = stride;
}

/* A copy of an input in the type `dtype`. A matrix that lies by columns does so in the copy: the product is then the
 * one that a half copy of x, which lies as x does, takes part in, to the bit. */
static ls_status copy_input(cuda_device *d, cudaStream_t stream, const ls_operand *x, ls_dtype dtype, copies *kept,
                            ls_operand *to, ls_message *why)
{
    ls_operand from = *x;
    matrices m = matrices_of(x);
    int64_t pitch;
    bool by_columns = !has_rows(&m, &pitch) && has_columns(&m, &pitch);
    if (by_columns) transpose(&from);
    CUDA_TRY(dense_like(d, &from, dtype, kept, to, why));
    memcpy(from.dim, to->dim, sizeof from.dim);
    CUDA_TRY(cuda_convert(d, stream, &from, to, why));
    if (by_columns) transpose(to);
    return LS_OK;
}

/* An input as matrices of the type computed in: itself, its half copy, or a new copy. */
static ls_status read_input(cuda_device *d, cudaStream_t stream, const ls_operand *x, ls_dtype compute, copies *kept,
                            matrices *to, ls_message *why)
{
    const ls_derived *derived = x->derived;
    *to = matrices_of(x);
    if (x->dtype != compute && derived && derived->half && derived->half_dtype == compute &&
        derived->half_version == derived->version) {
        to->data = derived->half;
        to->dtype = compute;
    }
    if (to->dtype == compute && is_readable(to)) return LS_OK;
    ls_operand copy;
    CUDA_TRY(copy_input(d, stream, x, compute, kept, &copy, why));
    *to = matrices_of(&copy);
    return LS_OK;
}

/* The bias [N] in the type of the result, without gaps. */
static ls_status read_bias(cuda_device *d, cudaStream_t stream, const ls_operand *bias, ls_dtype dtype, copies *kept,
                           const void **to, ls_message *why)
{
    ls_operand row = *bias; /* [N] as [1,N] */
    row.ndim = 2;
    row.dim[0] = 1, row.dim[1] = bias->dim[0];
    row.stride[0] = 0, row.stride[1] = bias->stride[0];
    matrices m = {0};
    CUDA_TRY(read_input(d, stream, &row, dtype, kept, &m, why));
    *to = m.data;
    if (m.columns == 1 || m.column_stride == 1) return LS_OK;
    ls_operand copy;
    CUDA_TRY(copy_input(d, stream, &row, dtype, kept, &copy, why));
    *to = copy.data;
    return LS_OK;
}

/* ---- Batches ----------------------------------------------------------------------------------------------------- */

static void drop_batch_dim(product *p, int at)
{
    matrices *part[] = {&p->a, &p->b, &p->c};
    for (int i = 0; i < 3; i++)
        memmove(part[i]->batch_stride + at, part[i]->batch_stride + at + 1,
                (size_t)(p->batch_dims - at - 1) * sizeof(int64_t));
    memmove(p->batch_dim + at, p->batch_dim + at + 1, (size_t)(p->batch_dims - at - 1) * sizeof(int64_t));
    p->batch_dims--;
}

/* Can dimension i and the next be walked as one? */
static bool continues(const product *p, int i)
{
    const matrices *part[] = {&p->a, &p->b, &p->c};
    for (int k = 0; k < 3; k++)
        if (part[k]->batch_stride[i] != part[k]->batch_stride[i + 1] * p->batch_dim[i + 1]) return false;
    return true;
}

static void merge_batch_dims(product *p)
{
    for (int i = p->batch_dims - 1; i >= 0; i--)
        if (p->batch_dim[i] == 1) drop_batch_dim(p, i);
    for (int i = p->batch_dims - 2; i >= 0; i--)
        if (continues(p, i)) {
            p->batch_dim[i + 1] *= p->batch_dim[i];
            drop_batch_dim(p, i);
        }
}

static bool rows_continue(const matrices *m, int i)
{
    return m->rows == 1 || m->batch_stride[i] == m->rows * m->row_stride;
}

/* Make the innermost dimension of the batch part of the rows where all of it is multiplied by the same matrix: one
 * large product is faster than many small ones. */
static void merge_batch_into_rows(product *p)
{
    while (p->batch_dims) {
        int i = p->batch_dims - 1;
        if (p->b.batch_stride[i] || !rows_continue(&p->a, i) || !rows_continue(&p->c, i)) return;
        matrices a = p->a, c = p->c;
        if (a.rows == 1) a.row_stride = a.batch_stride[i], c.row_stride = c.batch_stride[i];
        a.rows *= p->batch_dim[i], c.rows *= p->batch_dim[i];
        int64_t pitch;
        if (!is_readable(&a) || !has_rows(&c, &pitch)) return;
        p->a = a, p->c = c;
        p->batch_dims = i;
    }
}

/* ---- The product ------------------------------------------------------------------------------------------------- */

/* Rows are the library's columns, so it multiplies the transposes: c^T = b^T a^T. */
static blas_matrix library_matrix(const matrices *m, int batch_dim)
{
    blas_matrix to = {.data = m->data, .batch_stride = batch_dim < 0 ? 0 : m->batch_stride[batch_dim]};
    if (has_rows(m, &to.pitch)) return to;
    to.transposed = has_columns(m, &to.pitch);
    return to;
}

static ls_status run_batches(cuda_device *d, cudaStream_t stream, const product *p, ls_message *why)
{
    int inner = p->batch_dims - 1;
    blas_product call = {.m = p->c.columns,
                         .n = p->c.rows,
                         .k = p->a.columns,
                         .batch = inner < 0 ? 1 : p->batch_dim[inner],
                         .type = p->compute,
                         .out_type = p->c.dtype,
                         .a = library_matrix(&p->b, inner),
                         .b = library_matrix(&p->a, inner),
                         .out = library_matrix(&p->c, inner),
                         .bias = p->bias,
                         .accumulate = p->accumulate};
    int64_t in_size = (int64_t)d->host->dtype_size(p->compute), out_size = (int64_t)d->host->dtype_size(p->c.dtype);
    int64_t index[LS_MAX_DIMS] = {0};
    for (;;) {
        CUDA_TRY(cuda_blas_run(d, stream, &call, why));
        int i = inner - 1;
        for (; i >= 0 && ++index[i] == p->batch_dim[i]; i--) index[i] = 0;
        if (i < 0) return LS_OK;
        int64_t at[3] = {0};
        for (int k = 0; k < inner; k++) {
            at[0] += index[k] * p->a.batch_stride[k];
            at[1] += index[k] * p->b.batch_stride[k];
            at[2] += index[k] * p->c.batch_stride[k];
        }
        call.a.data = p->b.data + at[1] * in_size;
        call.b.data = p->a.data + at[0] * in_size;
        call.out.data = p->c.data + at[2] * out_size;
    }
}

/* Everything exists in a form that the library takes; c may lie transposed. */
static ls_status run_product(cuda_device *d, cudaStream_t stream, product *p, ls_message *why)
{
    int64_t pitch;
    if (!has_rows(&p->c, &pitch)) {
        matrices a = p->a;
        p->a = transposed(p->b);
        p->b = transposed(a);
        p->c = transposed(p->c);
    }
    merge_batch_dims(p);
    merge_batch_into_rows(p);
    return run_batches(d, stream, p, why);
}

static bool is_half(ls_dtype dtype)
{
    return dtype == LS_F16 || dtype == LS_BF16;
}

static bool can_write(const cuda_product *q, const matrices *c)
{
    int64_t pitch;
    bool type = c->dtype == q->compute || (is_half(q->compute) && c->dtype == LS_F32);
    return type && (has_rows(c, &pitch) || (!q->bias && has_columns(c, &pitch)));
}

/* A product without anything to multiply: c = bias, or 0. */
static ls_status write_empty(cuda_device *d, cudaStream_t stream, const cuda_product *q, copies *kept, ls_message *why)
{
    if (q->accumulate) return LS_OK;
    ls_operand from = *q->c;
    memset(from.stride, 0, sizeof from.stride);
    if (q->bias) {
        from.data = q->bias->data, from.dtype = q->bias->dtype;
        from.stride[from.ndim - 1] = q->bias->stride[0];
    } else {
        CUDA_TRY(cuda_take(d, sizeof(double), &kept->space[kept->count], why));
        from.data = kept->space[kept->count++].address, from.dtype = LS_F32;
        CUDA_TRY(cuda_check(cudaMemsetAsync(from.data, 0, sizeof(double), stream), "zero", why));
    }
    return cuda_convert(d, stream, &from, q->c, why);
}

static ls_status multiply(cuda_device *d, cudaStream_t stream, const cuda_product *q, copies *kept, ls_message *why)
{
    if (!q->a->dim[q->a->ndim - 1]) return write_empty(d, stream, q, kept, why);
    product p = {.compute = q->compute, .accumulate = q->accumulate, .batch_dims = q->c->ndim - 2};
    memcpy(p.batch_dim, q->c->dim, sizeof p.batch_dim);
    CUDA_TRY(read_input(d, stream, q->a, q->compute, kept, &p.a, why));
    CUDA_TRY(read_input(d, stream, q->b, q->compute, kept, &p.b, why));
    ls_operand out = *q->c;
    p.c = matrices_of(&out);
    bool direct = can_write(q, &p.c);
    if (!direct) {
        CUDA_TRY(dense_like(d, q->c, is_half(q->compute) ? LS_F32 : q->compute, kept, &out, why));
        if (q->accumulate) CUDA_TRY(cuda_convert(d, stream, q->c, &out, why));
        p.c = matrices_of(&out);
    }
    if (q->bias && q->compute != LS_F64) {
        CUDA_TRY(read_bias(d, stream, q->bias, p.c.dtype, kept, &p.bias, why));
    } else if (q->bias) { /* not among what the library adds: the sums begin with it */
        ls_operand repeated = out;
        memset(repeated.stride, 0, sizeof repeated.stride);
        repeated.data = q->bias->data, repeated.dtype = q->bias->dtype;
        repeated.stride[out.ndim - 1] = q->bias->stride[0];
        CUDA_TRY(cuda_convert(d, stream, &repeated, &out, why));
        p.accumulate = true;
    }
    CUDA_TRY(run_product(d, stream, &p, why));
    return direct ? LS_OK : cuda_convert(d, stream, &out, q->c, why);
}

ls_status cuda_multiply(cuda_device *d, cudaStream_t stream, const cuda_product *q, ls_message *why)
{
    copies kept = {0};
    if (!cuda_numel(q->c)) return LS_OK;
    ls_status status = multiply(d, stream, q, &kept, why);
    for (int i = 0; i < kept.count; i++) cuda_give(d, kept.space[i]);
    return status;
}

ls_status cuda_matmul(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    cuda_product p = {.a = call->in[0],
                      .b = call->in[1],
                      .c = call->out[0],
                      .compute = cuda_product_type(call),
                      .accumulate = call->attrs.product.accumulate & 1};
    if (call->attrs.product.activation != LS_ACT_NONE) return cuda_on_host(d, stream, call, why);
    return cuda_multiply(d, stream, &p, why);
}
