/* linear.c - the linear layer. */
#include <math.h>

#include "nn/layers.h"

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
