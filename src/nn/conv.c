/* conv.c - convolution layers. */
#include <math.h>

#include "nn/layers.h"

static ls_tensor *conv_forward(ls_module *self, ls_tensor *x, void *user)
{
    (void)user;
    const ls_conv_layer *c = (const ls_conv_layer *)self;
    return ls_conv2d_sized(x, c->weight, c->bias, &c->geometry, LS_OPTS_SIZE(ls_conv2d_opts));
}

static ls_tensor *conv_transpose_forward(ls_module *self, ls_tensor *x, void *user)
{
    (void)user;
    const ls_conv_layer *c = (const ls_conv_layer *)self;
    return ls_conv_transpose2d_sized(x, c->weight, c->bias, &c->geometry, LS_OPTS_SIZE(ls_conv2d_opts));
}

const ls_conv_layer *ls_as_conv2d(const ls_module *module)
{
    return module && module->forward == conv_forward ? (const ls_conv_layer *)module : NULL;
}

/* Uninitialised, in the memory order that the device prefers. */
static ls_tensor *new_weight(ls_run *run, ls_shape shape)
{
    ls_tensor *t = ls_empty_shape(run, LS_F32, shape);
    if (!ls_is_valid(t) || !ls_device_has(run->device, LS_TRAIT_KRSC)) return t;
    t->view.stride[1] = 1;
    t->view.stride[3] = shape.dim[1];
    t->view.stride[2] = shape.dim[1] * shape.dim[3];
    t->view.stride[0] = shape.dim[1] * shape.dim[3] * shape.dim[2];
    return t;
}

typedef enum conv_kind { CONV, CONV_BLANK, CONV_TRANSPOSED } conv_kind;

static ls_module *conv_new(ls_run *run, int64_t in, int64_t out, int64_t kernel, conv_kind kind,
                           const ls_conv2d_new_opts *given, size_t opts_size)
{
    bool transposed = kind == CONV_TRANSPOSED;
    ls_conv2d_new_opts opts = LS_OPTS_READ(ls_conv2d_new_opts, given, opts_size);
    ls_conv_layer *c = ls_layer_new(run, transposed ? "ConvTranspose2d" : "Conv2d", sizeof *c,
                                    transposed ? conv_transpose_forward : conv_forward);
    if (!c) return NULL;
    c->module.has_weight = true;
    int64_t groups = opts.groups;
    int64_t height = ls_opts_integer(opts.kernel_hw[0], kernel), width = ls_opts_integer(opts.kernel_hw[1], kernel);
    if (groups < 1 || in < 1 || out < 1 || in % groups || out % groups || height < 1 || width < 1) {
        ls_fail(&run->errors, LS_ERR_VALUE, "%s: %lld to %lld channels in %lld groups with a kernel of %lldx%lld",
                c->module.kind, (long long)in, (long long)out, (long long)groups, (long long)height, (long long)width);
        return ls_layer_done(c);
    }
    if (opts.output_padding && !transposed) {
        ls_fail(&run->errors, LS_ERR_VALUE,
                "Conv2d: .output_padding = %lld is only for transposed convolutions; leave it out",
                (long long)opts.output_padding);
        return ls_layer_done(c);
    }
    long long hw[6];
    for (int i = 0; i < 2; i++) {
        hw[i] = ls_opts_integer(opts.stride_hw[i], opts.stride);
        hw[2 + i] = ls_opts_integer(opts.padding_hw[i], opts.padding);
        hw[4 + i] = ls_opts_integer(opts.dilation_hw[i], opts.dilation);
    }
    if (hw[0] < 1 || hw[1] < 1 || hw[2] < 0 || hw[3] < 0 || hw[4] < 1 || hw[5] < 1 || opts.output_padding < 0) {
        ls_fail(&run->errors, LS_ERR_VALUE,
                "%s: stride %lldx%lld and dilation %lldx%lld must be at least 1, padding %lldx%lld and output padding "
                "%lld at least 0",
                c->module.kind, hw[0], hw[1], hw[4], hw[5], hw[2], hw[3], (long long)opts.output_padding);
        return ls_layer_done(c);
    }
    c->geometry = (ls_conv2d_opts){.stride = opts.stride,
                                   .padding = opts.padding,
                                   .dilation = opts.dilation,
                                   .groups = groups,
                                   .stride_hw = {opts.stride_hw[0], opts.stride_hw[1]},
                                   .padding_hw = {opts.padding_hw[0], opts.padding_hw[1]},
                                   .dilation_hw = {opts.dilation_hw[0], opts.dilation_hw[1]},
                                   .output_padding = opts.output_padding};
    ls_layer_says(c, "stride %lldx%lld padding %lldx%lld dilation %lldx%lld output padding %lld", hw[0], hw[1], hw[2],
                  hw[3], hw[4], hw[5], (long long)opts.output_padding);
    ls_shape shape = transposed ? LS_SHAPE(in, out / groups, height, width) : LS_SHAPE(out, in / groups, height, width);
    if (kind == CONV_BLANK) {
        c->weight = ls_register_parameter(&c->module, "weight", new_weight(run, shape));
        return ls_layer_done(c);
    }
    int64_t fan_in = shape.dim[1] * height * width;
    double bound = fan_in > 0 ? 1 / sqrt((double)fan_in) : 0;
    c->weight = ls_register_parameter(&c->module, "weight", new_weight(run, shape));
    ls_init_uniform(c->weight, -bound, bound);
    if (opts.bias) c->bias = ls_parameter_uniform(&c->module, "bias", bound, LS_SHAPE(out));
    return ls_layer_done(c);
}

ls_module *ls_conv2d_new_sized(ls_run *run, int64_t in, int64_t out, int64_t kernel, const ls_conv2d_new_opts *opts,
                               size_t opts_size)
{
    return conv_new(run, in, out, kernel, CONV, opts, opts_size);
}

ls_module *ls_conv2d_blank_sized(ls_run *run, int64_t in, int64_t out, int64_t kernel, const ls_conv2d_new_opts *opts,
                                 size_t opts_size)
{
    return conv_new(run, in, out, kernel, CONV_BLANK, opts, opts_size);
}

ls_module *ls_conv_transpose2d_new_sized(ls_run *run, int64_t in, int64_t out, int64_t kernel,
                                         const ls_conv2d_new_opts *opts, size_t opts_size)
{
    return conv_new(run, in, out, kernel, CONV_TRANSPOSED, opts, opts_size);
}

/* ---- one dimension ---- */

typedef struct conv1d_layer {
    ls_module module;
    ls_tensor *weight, *bias; /* [out,in/groups,K]; [out] or NULL */
    ls_conv1d_opts geometry;
} conv1d_layer;

static ls_tensor *conv1d_forward(ls_module *self, ls_tensor *x, void *user)
{
    (void)user;
    const conv1d_layer *c = (const conv1d_layer *)self;
    return ls_conv1d_sized(x, c->weight, c->bias, &c->geometry, LS_OPTS_SIZE(ls_conv1d_opts));
}

ls_module *ls_conv1d_new_sized(ls_run *run, int64_t in, int64_t out, int64_t kernel, const ls_conv1d_new_opts *given,
                               size_t opts_size)
{
    ls_conv1d_new_opts opts = LS_OPTS_READ(ls_conv1d_new_opts, given, opts_size);
    conv1d_layer *c = ls_layer_new(run, "Conv1d", sizeof *c, conv1d_forward);
    if (!c) return NULL;
    c->module.has_weight = true;
    bool divides = opts.groups > 0 && in > 0 && out > 0 && in % opts.groups == 0 && out % opts.groups == 0;
    if (!divides || kernel < 1 || opts.stride < 1 || opts.padding < 0 || opts.dilation < 1) {
        ls_fail(&run->errors, LS_ERR_VALUE,
                "Conv1d: %lld to %lld channels in %lld groups with a kernel of %lld, stride %lld, padding %lld, "
                "dilation %lld: groups must divide the channels, padding may be 0, the others are at least 1",
                (long long)in, (long long)out, (long long)opts.groups, (long long)kernel, (long long)opts.stride,
                (long long)opts.padding, (long long)opts.dilation);
        return ls_layer_done(c);
    }
    c->geometry = (ls_conv1d_opts){
        .stride = opts.stride, .padding = opts.padding, .dilation = opts.dilation, .groups = opts.groups};
    ls_layer_says(c, "stride %lld padding %lld dilation %lld", (long long)opts.stride, (long long)opts.padding,
                  (long long)opts.dilation);
    int64_t depth = in / opts.groups;
    double bound = 1 / sqrt((double)(depth * kernel));
    c->weight = ls_parameter_uniform(&c->module, "weight", bound, LS_SHAPE(out, depth, kernel));
    if (opts.bias) c->bias = ls_parameter_uniform(&c->module, "bias", bound, LS_SHAPE(out));
    return ls_layer_done(c);
}
