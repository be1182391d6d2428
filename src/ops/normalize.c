/* normalize.c - normalise pictures for a convolution: in its number type, channels last. */
#include "ops/op.h"

#include <string.h>

enum { MOST_CHANNELS = 4 };

ls_tensor *ls_normalize(ls_tensor *x, const double *mean, const double *std)
{
    ls_opcode op = LS_OP_normalize;
    ls_run *run = op_begin(op, 1, 1, &x);
    if (!run) return op_poison(x);
    ls_dtype dtype = x->view.dtype;
    if (dtype != LS_U8 && !ls_dtype_is_float(dtype))
        return op_error(run, op, LS_ERR_DTYPE, "%s: u8 or a floating type is needed", OP_TEXT(x));
    int64_t channels = ls_dim(x, 1);
    if (x->view.ndim != 4 || channels < 1 || channels > MOST_CHANNELS)
        return op_error(run, op, LS_ERR_SHAPE, "%s is not [N,C,H,W] with 1 to %d channels", OP_TEXT(x), MOST_CHANNELS);
    ls_attrs attrs = {.normalize = {.mean = {0}}};
    for (int64_t c = 0; c < channels; c++) {
        attrs.normalize.mean[c] = mean[c];
        attrs.normalize.std[c] = std[c];
        if (!isfinite(mean[c]) || !isfinite(std[c]) || std[c] == 0)
            return op_error(run, op, LS_ERR_VALUE, "mean %g, std %g of channel %lld must be finite, and std not 0",
                            mean[c], std[c], (long long)c);
    }
    ls_tensor *y = op_new_channels_last(x, op_half_type(run, dtype == LS_U8 ? LS_F32 : dtype), ls_view_shape(&x->view));
    ls_node *node;
    return op_run(op, 1, &x, 1, &y, &attrs, &node) ? y : &run->poison;
}

ls_tensor *ls_imagenet_normalize(ls_tensor *x)
{
    return ls_normalize(x, (const double[]){0.485, 0.456, 0.406}, (const double[]){0.229, 0.224, 0.225});
}

BACK(normalize)
{
    ls_attrs attrs = node->attrs;
    memset(attrs.normalize.mean, 0, sizeof attrs.normalize.mean);
    ls_tensor *out = op_new_channels_last(dy[0], node->in[0].dtype, node->in[0].shape);
    if (op_submit(LS_OP_normalize, 1, dy, 1, &out, &attrs)) dx[0] = out;
}
