/* resnet.h - residual networks with the parameter names, shapes and arithmetic of timm, so that weights made there load
 * here and the other way round.
 *
 *     ls_module *net = ls_resnet_new(run, "resnet50d", .classes = 37, .weights = "resnet50d.safetensors"); */
#ifndef LOCKSTEP_MODELS_RESNET_H
#define LOCKSTEP_MODELS_RESNET_H

#include <lockstep/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* x [N,in_channels,H,W] -> [N,classes]. Names: resnet18 34 50 101 152, also 26 and 200, their variants "d" (a stem of
 * three small convolutions, mean pooling in shortcuts), and the small ones resnet10t, resnet14t. Any other name is an
 * error that lists all. H and W: at least 32, best multiples of 32. Weights are initialised as in timm. */
typedef struct ls_resnet_opts {
    int64_t classes LS_DEFAULT(1000);
    int64_t in_channels LS_DEFAULT(3);
    /* Channels of the first stage, a multiple of 8. Everything else is in proportion. */
    int64_t width LS_DEFAULT(64);
    /* A file to load (formats.h). If it has another number of classes, the last layer keeps its initial values;
     * any other difference is an error that names it. */
    const char *weights LS_DEFAULT(NULL);
    /* Put the stride of a stage in its first 1x1 convolution, as the first published weights expect, instead of in the
     * 3x3 one after it. */
    bool v1_strides LS_DEFAULT(false);
    ls_options_end _ LS_DEFAULT({});
} ls_resnet_opts;
#define ls_resnet_opts_defaults .classes = 1000, .in_channels = 3, .width = 64
#define ls_resnet_new(run, ...) LS_CALL_2(ls_resnet_new, ls_resnet_opts, run, __VA_ARGS__, )
LS_API ls_module *ls_resnet_new_sized(ls_run *run, const char *name, const ls_resnet_opts *opts, size_t opts_size);

#ifdef __cplusplus
}
#endif
#endif
