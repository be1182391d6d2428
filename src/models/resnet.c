/* resnet.c - residual networks as in timm: names, order of parameters, arithmetic, initial weights.
 *
 * A batch norm applies the ReLU that follows it, and the last one of a block also adds the shortcut: one pass each. The
 * layers of timm that are not needed therefore (act1, conv1.2, ...) do not exist; the numbers of those after them are
 * unchanged. */
#include <stdio.h>
#include <string.h>

#include <lockstep/formats.h>
#include <lockstep/models/resnet.h>

#include "base/nearest.h"
#include "formats/unwrap.h"
#include "nn/layers.h"

enum { STAGES = 4, MOST_CONVS = 3 };

/* The layers before the first stage: one large convolution, or three small ones whose widths are nearly the same. */
typedef enum stem { STEM_PLAIN, STEM_DEEP, STEM_TIERED } stem;

typedef struct plan {
    const char *name;
    bool bottleneck; /* blocks of 1x1, 3x3, 1x1, four times as wide at the end; else 3x3, 3x3 */
    stem stem;       /* other than plain: shortcuts average pixels instead of skipping them */
    int blocks[STAGES];
} plan;

static const plan plans[] = {
    {"resnet10t", false, STEM_TIERED, {1, 1, 1, 1}}, {"resnet14t", true, STEM_TIERED, {1, 1, 1, 1}},
    {"resnet18", false, STEM_PLAIN, {2, 2, 2, 2}},   {"resnet18d", false, STEM_DEEP, {2, 2, 2, 2}},
    {"resnet26", true, STEM_PLAIN, {2, 2, 2, 2}},    {"resnet26d", true, STEM_DEEP, {2, 2, 2, 2}},
    {"resnet26t", true, STEM_TIERED, {2, 2, 2, 2}},  {"resnet34", false, STEM_PLAIN, {3, 4, 6, 3}},
    {"resnet34d", false, STEM_DEEP, {3, 4, 6, 3}},   {"resnet50", true, STEM_PLAIN, {3, 4, 6, 3}},
    {"resnet50d", true, STEM_DEEP, {3, 4, 6, 3}},    {"resnet50t", true, STEM_TIERED, {3, 4, 6, 3}},
    {"resnet101", true, STEM_PLAIN, {3, 4, 23, 3}},  {"resnet101d", true, STEM_DEEP, {3, 4, 23, 3}},
    {"resnet152", true, STEM_PLAIN, {3, 8, 36, 3}},  {"resnet152d", true, STEM_DEEP, {3, 8, 36, 3}},
    {"resnet200", true, STEM_PLAIN, {3, 24, 36, 3}}, {"resnet200d", true, STEM_DEEP, {3, 24, 36, 3}},
};

static const plan *find_plan(ls_run *run, const char *name)
{
    char known[512] = "", meant[64] = "";
    ls_nearest nearest = ls_nearest_to(name ? name : "", name ? strlen(name) : 0);
    size_t used = 0;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        if (name && strcmp(plans[i].name, name) == 0) return &plans[i];
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", plans[i].name);
        ls_nearest_try(&nearest, plans[i].name);
    }
    if (nearest.name) snprintf(meant, sizeof meant, "did you mean \"%s\"? ", nearest.name);
    ls_fail(&run->errors, LS_ERR_VALUE, "ls_resnet_new: unknown network \"%s\"; %sknown are %s", name ? name : "",
            meant, known);
    return NULL;
}

/* ---- layers ---- */

/* Weights are set at the end, randomly or from a file. */
static ls_module *conv_new(ls_run *run, int64_t in, int64_t out, int64_t kernel, int64_t stride)
{
    return ls_conv2d_blank(run, in, out, kernel, .stride = stride, .padding = kernel / 2, .bias = false);
}

static ls_module *norm_new(ls_run *run, int64_t channels, ls_activation activation)
{
    return ls_batch_norm_new(run, channels, .activation = activation);
}

/* ---- blocks ---- */

typedef struct block {
    ls_module module;
    int convs;
    ls_module *conv[MOST_CONVS], *norm[MOST_CONVS];
    ls_module *downsample; /* NULL: the shortcut is the input */
} block;

static ls_tensor *block_forward(ls_module *self, ls_tensor *x, void *user)
{
    (void)user;
    const block *b = (const block *)self;
    int last = b->convs - 1;
    ls_carried at = {.tensor = x};
    for (int i = 0; i < last; i++)
        ls_carry_on(&at, b->conv[i], b->norm[i], ls_forward_conv_norm(b->conv[i], b->norm[i], at.tensor, NULL));
    ls_tensor *shortcut = b->downsample ? ls_forward(b->downsample, x) : x;
    return ls_forward_conv_norm(b->conv[last], b->norm[last], at.tensor, shortcut);
}

static ls_module *downsample_new(ls_run *run, const plan *p, int64_t in, int64_t out, int64_t stride)
{
    bool pooled = p->stem != STEM_PLAIN;
    ls_module *path = ls_sequential_new_n(run, NULL, 0);
    if (pooled && stride > 1) {
        ls_module *pool = ls_avg_pool2d_new(run, stride, .ceil_mode = true, .count_include_pad = false);
        ls_pool_comes_again(ls_module_add(path, "0", pool)); /* the first convolution of the block keeps its input */
    }
    ls_module_add(path, pooled ? "1" : "0", conv_new(run, in, out, 1, pooled ? 1 : stride));
    ls_module_add(path, pooled ? "2" : "1", norm_new(run, out, LS_ACT_NONE));
    return path;
}

/* `width` channels inside. The stride is in the 3x3 convolution (the first of two), or in the first 1x1 one. */
static ls_module *block_new(ls_run *run, const plan *p, int64_t in, int64_t width, int64_t stride, bool stride_first)
{
    int64_t out = p->bottleneck ? 4 * width : width;
    block *b = ls_layer_new(run, p->bottleneck ? "Bottleneck" : "BasicBlock", sizeof *b, block_forward);
    if (!b) return NULL;
    b->convs = p->bottleneck ? 3 : 2;
    int strided = p->bottleneck && !stride_first ? 1 : 0, last = b->convs - 1;
    for (int i = 0; i < b->convs; i++) {
        char conv_name[] = {'c', 'o', 'n', 'v', (char)('1' + i), '\0'}, norm_name[] = {'b', 'n', (char)('1' + i), '\0'};
        int64_t kernel = p->bottleneck && i != 1 ? 1 : 3, to = i == last ? out : width;
        b->conv[i] =
            ls_module_add(&b->module, conv_name, conv_new(run, i ? width : in, to, kernel, i == strided ? stride : 1));
        b->norm[i] = ls_module_add(&b->module, norm_name, norm_new(run, to, LS_ACT_RELU));
    }
    if (b->norm[last]) ls_init_constant(ls_module_tensor(b->norm[last], "weight"), 0); /* blocks start as identities */
    if (stride > 1 || in != out)
        b->downsample = ls_module_add(&b->module, "downsample", downsample_new(run, p, in, out, stride));
    return ls_layer_done(b);
}

static ls_module *stage_new(ls_run *run, const plan *p, int index, int64_t *channels, int64_t width, bool stride_first)
{
    ls_module *stage = ls_sequential_new_n(run, NULL, 0);
    for (int i = 0; i < p->blocks[index]; i++) {
        ls_module_append(stage, block_new(run, p, *channels, width, index && !i ? 2 : 1, stride_first));
        *channels = p->bottleneck ? 4 * width : width;
    }
    return stage;
}

/* ---- network ---- */

typedef struct resnet {
    ls_module module;
    ls_module *classifier;
} resnet;

static ls_tensor *resnet_forward(ls_module *self, ls_tensor *x, void *user)
{
    (void)user;
    ls_module *head = ((const resnet *)self)->classifier, *conv = self->children[0].module;
    ls_module *norm = self->children[1].module, *child;
    ls_carried at = {.tensor = x};
    ls_carry_on(&at, conv, norm,
                ls_as_conv2d(conv) ? ls_forward_conv_norm(conv, norm, x, NULL)
                                   : ls_forward_sequential_norm(conv, norm, x));
    for (int i = 2; (child = self->children[i].module) != head; i++)
        ls_carry_on(&at, child, NULL, ls_forward(child, at.tensor));
    return ls_forward(head, ls_flatten(at.tensor, 1, -1));
}

static ls_module *stem_new(ls_run *run, stem kind, int64_t in, int64_t out)
{
    if (kind == STEM_PLAIN) return conv_new(run, in, out, 7, 2);
    int64_t second = out / 2, first = kind == STEM_TIERED ? second / 4 * 3 : second;
    ls_module *layers = ls_sequential_new_n(run, NULL, 0);
    ls_module_add(layers, "0", conv_new(run, in, first, 3, 2));
    ls_module_add(layers, "1", norm_new(run, first, LS_ACT_RELU));
    ls_module_add(layers, "3", conv_new(run, first, second, 3, 1));
    ls_module_add(layers, "4", norm_new(run, second, LS_ACT_RELU));
    ls_module_add(layers, "6", conv_new(run, second, out, 3, 1));
    return layers;
}

static bool draw_weight(void *user, const char *path, const ls_module_member *member)
{
    (void)user, (void)path;
    if (ls_ndim(member->tensor) == 4) ls_init_kaiming_normal(member->tensor, LS_GAIN_RELU, LS_FAN_OUT);
    return true;
}

/* Old files have no batch count; a last layer for another number of classes is skipped. */
static void load_weights(ls_module *net, const char *file)
{
    ls_run *run = net->object.run;
    ls_state *weights = ls_state_read(run, file);
    if (!weights) return;
    ls_state_unwrap(weights, ls_state_dict(net));
    const ls_tensor *from = ls_state_find(weights, "fc.weight"), *to = ls_module_tensor(net, "fc.weight");
    bool same_classes = !from || ls_dim(from, 0) == ls_dim(to, 0);
    snprintf(run->errors.path, sizeof run->errors.path, "%s", file);
    ls_load_state_dict(net, weights, .optional = same_classes ? NULL : "fc.*");
    run->errors.path[0] = '\0';
    ls_state_free(weights);
}

ls_module *ls_resnet_new_sized(ls_run *run, const char *name, const ls_resnet_opts *given, size_t opts_size)
{
    ls_resnet_opts opts = LS_OPTS_READ(ls_resnet_opts, given, opts_size);
    const plan *p = ls_failed(run) ? NULL : find_plan(run, name);
    if (!p) return NULL;
    int64_t classes = opts.classes, in = opts.in_channels, width = opts.width, channels = width;
    if (classes < 1 || in < 1 || width < 8 || width % 8) {
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_resnet_new: %s with %lld classes, %lld input channels, width %lld",
                name, (long long)classes, (long long)in, (long long)width);
        return NULL;
    }
    resnet *net = ls_layer_new(run, name, sizeof *net, resnet_forward);
    if (!net) return NULL;
    ls_module *whole = &net->module;
    ls_module_add(whole, "conv1", stem_new(run, p->stem, in, channels));
    ls_module_add(whole, "bn1", norm_new(run, channels, LS_ACT_RELU));
    ls_module_add(whole, "maxpool", ls_max_pool2d_new(run, 3, .stride = 2, .padding = 1));
    for (int i = 0; i < STAGES; i++) {
        char stage[] = {'l', 'a', 'y', 'e', 'r', (char)('1' + i), '\0'};
        ls_module_add(whole, stage, stage_new(run, p, i, &channels, width << i, opts.v1_strides));
    }
    ls_module_add(whole, "global_pool", ls_adaptive_avg_pool2d_new(run, 1, 1));
    net->classifier = ls_module_add(whole, "fc", ls_linear_new(run, channels, classes));
    if (ls_failed(run)) return ls_layer_done(net);
    if (opts.weights) load_weights(whole, opts.weights);
    else ls_module_visit(whole, draw_weight, NULL);
    return ls_layer_done(net);
}
