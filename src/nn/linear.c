/* linear.c - the linear layer. */
#include <math.h>

#include "nn/layers.h"
#include "ops/op.h"

typedef struct linear {
    ls_module module;
    ls_tensor *weight, *bias; /* [out,in], [out] or NULL */
    ls_activation activation;
} linear;

static ls_tensor *linear_forward(ls_module *self, ls_tensor *x, void *user)
{
    (void)user;
    const linear *l = (const linear *)self;
    return ls_linear(x, l->weight, l->bias, l->activation);
}

/* ---- several layers of one input ---- */

static const linear *as_linear(const ls_module *module)
{
    return module && module->forward == linear_forward ? (const linear *)module : NULL;
}

static bool are_one_pass(int n, ls_module *const *layers)
{
    for (int i = 0; i < n; i++) {
        const linear *l = as_linear(layers[i]);
        if (!l || l->activation != LS_ACT_NONE || ls_is_watched(layers[i]) || !ls_is_valid(l->weight)) return false;
        if (ls_device_is_host(l->weight->storage->device)) return false;
    }
    return n <= LS_MAX_LINEARS;
}

typedef struct several {
    int n;
    ls_module *const *layers;
} several;

static ls_outputs several_forward(ls_module *self, ls_tensor *const *x, int64_t n, void *user)
{
    (void)self, (void)n;
    const several *s = user;
    ls_tensor *weights[LS_MAX_LINEARS], *biases[LS_MAX_LINEARS];
    for (int i = 0; i < s->n; i++) {
        const linear *l = as_linear(s->layers[i]);
        weights[i] = l->weight, biases[i] = l->bias;
    }
    return LS_OUTPUTS(ls_linears(x[0], s->n, weights, biases));
}

ls_tensor *ls_forward_linears(int n, ls_module *const *layers, ls_tensor *x)
{
    if (!are_one_pass(n, layers)) return NULL;
    ls_tensor *y = ls_forward_as(layers[0], several_forward, &x, 1, &(several){n, layers}).item[0];
    for (int i = n - 1; i >= 0; i--) ls_forwarded_with(layers[i], layers[0], ls_dim(as_linear(layers[i])->weight, 0));
    return y;
}

/* ---- one after another ---- */

bool ls_is_feed_forward(const ls_module *up, const ls_module *down)
{
    const linear *first = as_linear(up), *second = as_linear(down);
    return first && second && op_slope_needs_input(first->activation) && second->activation == LS_ACT_NONE;
}

static ls_outputs both_forward(ls_module *self, ls_tensor *const *x, int64_t n, void *user)
{
    (void)n;
    const linear *up = as_linear(self), *down = as_linear(user);
    return LS_OUTPUTS(ls_feed_forward(x[0], (ls_tensor *[]){up->weight, down->weight},
                                      (ls_tensor *[]){up->bias, down->bias}, up->activation));
}

ls_tensor *ls_forward_feed_forward(ls_module *up, ls_module *down, ls_tensor *x)
{
    if (!ls_is_feed_forward(up, down) || ls_is_watched(up) || ls_is_watched(down) || up->object.run->no_grad)
        return ls_forward(down, ls_forward(up, x));
    ls_tensor *y = ls_forward_as(up, both_forward, &x, 1, down).item[0];
    ls_forwarded_with(down, up, 0);
    ls_forwarded_with(up, up, ls_dim(as_linear(up)->weight, 0));
    return y;
}

/* ---- making one ---- */

const char *ls_activation_name(ls_activation activation)
{
    static const char *const names[] = {[LS_ACT_NONE] = "none",      [LS_ACT_RELU] = "relu",
                                        [LS_ACT_GELU] = "gelu",      [LS_ACT_GELU_TANH] = "gelu with tanh",
                                        [LS_ACT_SILU] = "silu",      [LS_ACT_TANH] = "tanh",
                                        [LS_ACT_SIGMOID] = "sigmoid"};
    return (unsigned)activation < sizeof names / sizeof *names ? names[activation] : "unknown";
}

static ls_module *linear_new(ls_run *run, int64_t in, int64_t out, bool blank, const ls_linear_opts *given,
                             size_t opts_size)
{
    ls_linear_opts opts = LS_OPTS_READ(ls_linear_opts, given, opts_size);
    linear *l = ls_layer_new(run, "Linear", sizeof *l, linear_forward);
    if (!l) return NULL;
    double bound = in > 0 ? 1 / sqrt((double)in) : 0;
    l->module.has_weight = true;
    l->activation = opts.activation;
    l->weight = blank ? ls_parameter_blank(&l->module, "weight", LS_SHAPE(out, in))
                      : ls_parameter_uniform(&l->module, "weight", bound, LS_SHAPE(out, in));
    if (opts.bias && blank) l->bias = ls_parameter_full(&l->module, "bias", 0, LS_SHAPE(out));
    else if (opts.bias) l->bias = ls_parameter_uniform(&l->module, "bias", bound, LS_SHAPE(out));
    if (opts.activation) ls_layer_says(l, "activation %s", ls_activation_name(opts.activation));
    return ls_layer_done(l);
}

ls_module *ls_linear_new_sized(ls_run *run, int64_t in, int64_t out, const ls_linear_opts *opts, size_t opts_size)
{
    return linear_new(run, in, out, false, opts, opts_size);
}

ls_module *ls_linear_blank_sized(ls_run *run, int64_t in, int64_t out, const ls_linear_opts *opts, size_t opts_size)
{
    return linear_new(run, in, out, true, opts, opts_size);
}
