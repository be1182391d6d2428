/* plain.c - layers without parameters: activations, dropout, pooling, reshaping. */
#include "nn/layers.h"
#include "ops/op.h"

/* ---- one operator without settings ---- */

typedef struct plain {
    ls_module module;
    ls_tensor *(*apply)(ls_tensor *x);
} plain;

static ls_tensor *plain_forward(ls_module *self, ls_tensor *x, void *user)
{
    (void)user;
    return ((const plain *)self)->apply(x);
}

static ls_module *plain_new(ls_run *run, const char *kind, ls_tensor *(*apply)(ls_tensor *x))
{
    plain *p = ls_layer_new(run, kind, sizeof *p, plain_forward);
    if (p) p->apply = apply;
    return ls_layer_done(p);
}

static ls_tensor *unchanged(ls_tensor *x)
{
    return x;
}

static ls_tensor *flatten(ls_tensor *x)
{
    return ls_flatten(x, 1, -1);
}

#define PLAIN_LAYER(name, kind, apply)                                                                                 \
    ls_module *ls_##name##_new(ls_run *run)                                                                            \
    {                                                                                                                  \
        return plain_new(run, kind, apply);                                                                            \
    }
PLAIN_LAYER(identity, "Identity", unchanged)
PLAIN_LAYER(relu, "ReLU", ls_relu)
PLAIN_LAYER(gelu, "GELU", ls_gelu)
PLAIN_LAYER(gelu_tanh, "GELU", ls_gelu_tanh)
PLAIN_LAYER(silu, "SiLU", ls_silu)
PLAIN_LAYER(sigmoid, "Sigmoid", ls_sigmoid)
PLAIN_LAYER(tanh, "Tanh", ls_tanh)
PLAIN_LAYER(flatten, "Flatten", flatten)

/* ---- one operator with a number or a dimension ---- */

typedef struct numbered {
    ls_module module;
    ls_tensor *(*apply)(ls_tensor *x, double value);
    double value;
} numbered;

static ls_tensor *numbered_forward(ls_module *self, ls_tensor *x, void *user)
{
    (void)user;
    const numbered *layer = (const numbered *)self;
    return layer->apply(x, layer->value);
}

static ls_tensor *dropout_forward(ls_module *self, ls_tensor *x, void *user)
{
    const numbered *layer = (const numbered *)self;
    return self->training && layer->value > 0 ? numbered_forward(self, x, user) : x;
}

static ls_tensor *softmax(ls_tensor *x, double dim)
{
    return ls_softmax(x, (int)dim);
}

static ls_tensor *log_softmax(ls_tensor *x, double dim)
{
    return ls_log_softmax(x, (int)dim);
}

static ls_module *numbered_new(ls_run *run, const char *kind, ls_forward_fn *forward,
                               ls_tensor *(*apply)(ls_tensor *x, double value), double value)
{
    numbered *layer = ls_layer_new(run, kind, sizeof *layer, forward);
    if (layer) {
        layer->apply = apply;
        layer->value = value;
        ls_layer_says(layer, "%g", value);
    }
    return ls_layer_done(layer);
}

#define NUMBERED_LAYER(name, kind, forward, apply, type)                                                               \
    ls_module *ls_##name##_new(ls_run *run, type value)                                                                \
    {                                                                                                                  \
        return numbered_new(run, kind, forward, apply, value);                                                         \
    }
NUMBERED_LAYER(softplus, "Softplus", numbered_forward, ls_softplus, double)
NUMBERED_LAYER(elu, "ELU", numbered_forward, ls_elu, double)
NUMBERED_LAYER(leaky_relu, "LeakyReLU", numbered_forward, ls_leaky_relu, double)
NUMBERED_LAYER(softmax, "Softmax", numbered_forward, softmax, int)
NUMBERED_LAYER(log_softmax, "LogSoftmax", numbered_forward, log_softmax, int)

ls_module *ls_dropout_new(ls_run *run, double p)
{
    if (!(p >= 0 && p <= 1))
        ls_fail(&run->errors, LS_ERR_VALUE, "Dropout: p is %g; a probability must be from 0 to 1", p);
    return numbered_new(run, "Dropout", dropout_forward, ls_dropout, p);
}

/* ---- pooling and resizing ---- */

typedef ls_tensor *pool_fn(ls_tensor *x, int64_t kernel, const ls_pool2d_opts *opts, size_t opts_size);

typedef struct pool {
    ls_module module;
    pool_fn *apply;
    int64_t kernel;
    ls_pool2d_opts opts;
} pool;

static ls_tensor *pool_forward(ls_module *self, ls_tensor *x, void *user)
{
    (void)user;
    const pool *p = (const pool *)self;
    return p->apply(x, p->kernel, &p->opts, LS_OPTS_SIZE(ls_pool2d_opts));
}

void ls_pool_comes_again(ls_module *module)
{
    if (module) ((pool *)module)->apply = ls_avg_pool2d_again;
}

static ls_module *pool_new(ls_run *run, const char *kind, pool_fn *apply, int64_t kernel, ls_pool2d_opts opts)
{
    pool *p = ls_layer_new(run, kind, sizeof *p, pool_forward);
    if (!p) return NULL;
    p->apply = apply;
    p->kernel = kernel;
    p->opts = opts;
    long long hw[6];
    for (int i = 0; i < 2; i++) {
        hw[i] = ls_opts_integer(opts.kernel_hw[i], kernel);
        hw[2 + i] = ls_opts_integer(opts.stride_hw[i], ls_opts_integer(opts.stride, hw[i]));
        hw[4 + i] = ls_opts_integer(opts.padding_hw[i], opts.padding);
    }
    ls_layer_says(p, "kernel %lldx%lld stride %lldx%lld padding %lldx%lld dilation %lld%s%s", hw[0], hw[1], hw[2],
                  hw[3], hw[4], hw[5], (long long)opts.dilation, opts.ceil_mode ? " ceil_mode" : "",
                  opts.count_include_pad ? "" : " without padding");
    return ls_layer_done(p);
}

ls_module *ls_max_pool2d_new_sized(ls_run *run, int64_t kernel, const ls_pool2d_opts *opts, size_t opts_size)
{
    return pool_new(run, "MaxPool2d", ls_max_pool2d_sized, kernel, LS_OPTS_READ(ls_pool2d_opts, opts, opts_size));
}

ls_module *ls_avg_pool2d_new_sized(ls_run *run, int64_t kernel, const ls_pool2d_opts *opts, size_t opts_size)
{
    return pool_new(run, "AvgPool2d", ls_avg_pool2d_sized, kernel, LS_OPTS_READ(ls_pool2d_opts, opts, opts_size));
}

typedef struct resized {
    ls_module module;
    int64_t height, width; /* of the output; of an upsampling layer: the scale factors */
    ls_interpolation method;
} resized;

static ls_tensor *adaptive_forward(ls_module *self, ls_tensor *x, void *user)
{
    (void)user;
    const resized *r = (const resized *)self;
    return ls_adaptive_avg_pool2d(x, r->height, r->width);
}

static ls_tensor *upsample_forward(ls_module *self, ls_tensor *x, void *user)
{
    (void)user;
    const resized *r = (const resized *)self;
    return ls_interpolate(x, ls_dim(x, 2) * r->height, ls_dim(x, 3) * r->width, r->method);
}

static ls_module *resized_new(ls_run *run, const char *kind, ls_forward_fn *forward, resized settings)
{
    resized *r = ls_layer_new(run, kind, sizeof *r, forward);
    if (!r) return NULL;
    r->height = settings.height;
    r->width = settings.width;
    r->method = settings.method;
    ls_layer_says(r, "%lldx%lld method %d", (long long)r->height, (long long)r->width, (int)r->method);
    return ls_layer_done(r);
}

ls_module *ls_adaptive_avg_pool2d_new(ls_run *run, int64_t height, int64_t width)
{
    return resized_new(run, "AdaptiveAvgPool2d", adaptive_forward, (resized){.height = height, .width = width});
}

ls_module *ls_upsample_new(ls_run *run, int64_t factor, ls_interpolation method)
{
    if (factor < 1 && !ls_failed(run))
        return ls_fail(&run->errors, LS_ERR_VALUE, "Upsample: factor %lld; it must be at least 1", (long long)factor),
               NULL;
    return resized_new(run, "Upsample", upsample_forward,
                       (resized){.height = factor, .width = factor, .method = method});
}
