/* map.cu - choose the kernel of a map by the types and layouts of its operands. */
#include "map.h"

/* An input in the common type: the operand itself, or a dense copy in scratch memory. */
typedef struct map_input {
    ls_operand operand;
    ls_workspace space;
} map_input;

static ls_status take_input(cuda_device *d, cudaStream_t stream, const ls_operand *x, ls_dtype dtype, map_input *input,
                            ls_message *why)
{
    input->operand = *x;
    if (x->dtype == dtype) return LS_OK;
    CUDA_TRY(cuda_take(d, (size_t)cuda_numel(x) * d->host->dtype_size(dtype), &input->space, why));
    input->operand = cuda_dense(input->space.address, dtype, x->ndim, x->dim);
    return cuda_convert(d, stream, x, &input->operand, why);
}

/* Can the dense kernel run? Sets how y repeats. */
static bool is_dense(map_args *a, const map_kind *kind)
{
    const cuda_walk *w = &a->walk;
    int last = w->ndim - 1;
    bool in_rows = w->ndim == 2 && w->stride[0][0] == w->dim[1] && w->stride[1][0] == w->dim[1] && w->dim[1] % 8 == 0 &&
                   w->count < INT64_C(1) << 34;
    if ((w->ndim != 1 && !in_rows) || w->stride[0][last] != 1 || w->stride[1][last] != 1) return false;
    if (!cuda_aligned(a->out, 16) || !cuda_aligned(a->x, 16)) return false;
    a->period = -1;
    if (kind->inputs == 1) return w->ndim == 1;
    if (in_rows && w->stride[2][1] == 0) a->run = w->dim[1] / 8;
    else if (w->ndim == 1 && w->stride[2][0] == 0) a->period = 0;
    else if (w->stride[2][last] != 1 || !cuda_aligned(a->y, 16)) return false;
    else if (in_rows && w->stride[2][0] == 0) a->period = w->dim[1] / 8;
    else return w->ndim == 1;
    return true;
}

static ls_status launch(cuda_device *d, cudaStream_t stream, const map_kind *kind, map_args *a,
                        const ls_operand *const *operand, ls_message *why)
{
    a->walk = cuda_walk_of(operand, 1 + kind->inputs, false);
    if (a->walk.count == 0) return LS_OK;
    a->out = operand[0]->data, a->x = operand[1]->data, a->y = operand[kind->inputs]->data;
    bool is_real = cuda_is_float((ls_dtype)a->dtype) && a->dtype != LS_F64;
    map_launch *kernel = !cuda_is_float((ls_dtype)a->dtype) ? kind->whole : is_real ? kind->real : kind->twice;
    if (is_real && is_dense(a, kind)) {
        kernel = kind->dense;
        kernel(a, cuda_blocks(d, a->walk.count / 8 + 1, MAP_BLOCK), stream);
    } else {
        kernel(a, cuda_blocks(d, a->walk.count, MAP_BLOCK), stream);
    }
    return CUDA_LAUNCHED(why);
}

ls_status map_run(cuda_device *d, cudaStream_t stream, const ls_call *call, const map_kind *kind, double k0, double k1,
                  ls_message *why)
{
    const ls_operand *out = call->out[0], *first = call->in[0], *second = call->in[kind->inputs - 1];
    ls_dtype dtype = first->dtype == second->dtype ? first->dtype : cuda_promote(first->dtype, second->dtype);
    ls_dtype result = kind->gives_bool ? LS_BOOL : dtype;
    if (!cuda_is_float(dtype) && !kind->whole)
        return cuda_refuse(why, LS_ERR_DTYPE, "%s supports floating types only", d->host->op_name(call->op));
    map_input x = {}, y = {};
    ls_workspace space = {};
    ls_operand computed = *out;
    ls_status status = take_input(d, stream, first, dtype, &x, why);
    if (status == LS_OK && kind->inputs > 1) status = take_input(d, stream, second, dtype, &y, why);
    if (status == LS_OK && out->dtype != result) {
        status = cuda_take(d, (size_t)cuda_numel(out) * d->host->dtype_size(result), &space, why);
        if (status == LS_OK) computed = cuda_dense(space.address, result, out->ndim, out->dim);
    }
    map_args args = {};
    args.dtype = dtype, args.out_dtype = result, args.k0 = k0, args.k1 = k1;
    const ls_operand *operand[] = {&computed, &x.operand, &y.operand};
    if (status == LS_OK) status = launch(d, stream, kind, &args, operand, why);
    if (status == LS_OK && space.block) status = cuda_convert(d, stream, &computed, out, why);
    cuda_give(d, x.space);
    cuda_give(d, y.space);
    cuda_give(d, space);
    return status;
}
