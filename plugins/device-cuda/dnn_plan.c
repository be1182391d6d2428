/* dnn_plan.c - a convolution as a graph of cuDNN's backend interface, and execution plans for it. */
#include "dnn.h"

#include <string.h>

typedef cudnnBackendDescriptor_t descriptor;

enum { ENGINES = 16 }; /* looked at per list of cuDNN's */
enum { ID_X = 1, ID_W, ID_Y, ID_SUM, ID_SQUARES };

/* ---- descriptors ---- */

static descriptor make(dnn_graph *g, cudnnBackendDescriptorType_t type)
{
    descriptor made = NULL;
    if (g->made_count == DNN_DESCRIPTORS && !g->status) g->status = CUDNN_STATUS_INTERNAL_ERROR;
    if (!g->status) g->status = cudnnBackendCreateDescriptor(type, &made);
    if (made) g->made[g->made_count++] = made;
    return made;
}

static void set(dnn_graph *g, descriptor of, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                int64_t count, const void *values)
{
    if (!g->status) g->status = cudnnBackendSetAttribute(of, name, type, count, values);
}

static void set_descriptor(dnn_graph *g, descriptor of, cudnnBackendAttributeName_t name, descriptor value)
{
    set(g, of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finish(dnn_graph *g, descriptor made)
{
    if (!g->status) g->status = cudnnBackendFinalize(made);
}

/* ---- the graph ---- */

static cudnnDataType_t data_type(int32_t dtype)
{
    return dtype == LS_F16 ? CUDNN_DATA_HALF : dtype == LS_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

/* [first, channels, height, width], channels last. */
static descriptor image(dnn_graph *g, const dnn_conv *conv, int64_t id, int64_t first, int64_t channels,
                        const int64_t *size)
{
    descriptor t = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    cudnnDataType_t type = data_type(conv->dtype);
    int64_t dim[] = {first, channels, size[0], size[1]};
    int64_t stride[] = {channels * size[0] * size[1], 1, channels * size[1], channels};
    set(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dim);
    set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &conv->alignment);
    finish(g, t);
    return t;
}

/* [1, channels, 1, 1] */
static descriptor vector(dnn_graph *g, int64_t id, int64_t channels)
{
    descriptor t = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    int64_t dim[] = {1, channels, 1, 1}, stride[] = {channels, 1, channels, channels}, alignment = 16;
    set(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dim);
    set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    finish(g, t);
    return t;
}

static descriptor sums_of(dnn_graph *g, descriptor y, int64_t channels)
{
    descriptor operation = make(g, CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
    cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    set(g, operation, CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, 1, &mode);
    set(g, operation, CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set_descriptor(g, operation, CUDNN_ATTR_OPERATION_GENSTATS_XDESC, y);
    set_descriptor(g, operation, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, vector(g, ID_SUM, channels));
    set_descriptor(g, operation, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, vector(g, ID_SQUARES, channels));
    finish(g, operation);
    return operation;
}

static descriptor geometry(dnn_graph *g, const ls_window *window)
{
    descriptor c = make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int64_t dims = 2;
    set(g, c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    set(g, c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set(g, c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dims);
    set(g, c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, window->padding);
    set(g, c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, window->padding);
    set(g, c, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, window->dilation);
    set(g, c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, window->stride);
    finish(g, c);
    return c;
}

/* Names of an operation and its attributes in cuDNN, by pass. */
static const struct {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t geometry, x, w, y, alpha, beta;
} operations[] = {
    [DNN_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [DNN_DINPUT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [DNN_DWEIGHT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

static descriptor describe(dnn_graph *g, cudnnHandle_t handle, const dnn_conv *conv)
{
    const ls_window *window = &conv->window;
    descriptor x = image(g, conv, ID_X, conv->n, conv->c, conv->in);
    descriptor w = image(g, conv, ID_W, conv->o, conv->c / window->groups, window->kernel);
    descriptor y = image(g, conv, ID_Y, conv->n, conv->o, conv->out);
    descriptor how = geometry(g, window), operation = make(g, operations[conv->pass].type);
    float one = 1, zero = 0;
    set_descriptor(g, operation, operations[conv->pass].geometry, how);
    set_descriptor(g, operation, operations[conv->pass].x, x);
    set_descriptor(g, operation, operations[conv->pass].w, w);
    set_descriptor(g, operation, operations[conv->pass].y, y);
    set(g, operation, operations[conv->pass].alpha, CUDNN_TYPE_FLOAT, 1, &one);
    set(g, operation, operations[conv->pass].beta, CUDNN_TYPE_FLOAT, 1, &zero);
    finish(g, operation);
    descriptor steps[2] = {operation, conv->sums ? sums_of(g, y, conv->o) : NULL};
    descriptor whole = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(g, whole, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set(g, whole, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, conv->sums ? 2 : 1, steps);
    finish(g, whole);
    return whole;
}

/* ---- engines ---- */

/* Does it take seconds until it can run? */
static bool is_compiled_first(descriptor engine)
{
    cudnnBackendBehaviorNote_t notes[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
    int64_t count = 0;
    if (cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                 CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &count, notes) != CUDNN_STATUS_SUCCESS)
        return true;
    for (int64_t i = 0; i < count; i++)
        if (notes[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) return true;
    return false;
}

/* Does what cuDNN notes about an engine keep the rules? */
static bool keeps_rules(descriptor config, const dnn_conv *conv, dnn_rules rules)
{
    descriptor engine = NULL;
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count = 0;
    bool kept = cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) == CUDNN_STATUS_SUCCESS &&
                cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                         &engine) == CUDNN_STATUS_SUCCESS &&
                cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                         CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes) == CUDNN_STATUS_SUCCESS;
    for (int64_t i = 0; kept && i < count; i++) {
        if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) kept = !rules.deterministic;
        if (notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS || notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE)
            kept = rules.tf32 || conv->dtype != LS_F32; /* tensor cores take f32 as TF32 */
        if (notes[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) kept = false;
    }
    if (kept && conv->sums) kept = !is_compiled_first(engine);
    if (engine) cudnnBackendDestroyDescriptor(engine);
    return kept;
}

/* The plan of an engine, if it can be made. */
static void add_plan(dnn_graph *g, cudnnHandle_t handle, descriptor config, int number)
{
    descriptor plan = make(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    int64_t count, workspace = 0;
    set(g, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set_descriptor(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    if (g->status || cudnnBackendFinalize(plan) != CUDNN_STATUS_SUCCESS) return;
    if (cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                                 &workspace) != CUDNN_STATUS_SUCCESS)
        return;
    g->plan[g->plan_count] = plan;
    g->number[g->plan_count] = number;
    g->workspace[g->plan_count++] = workspace;
}

/* Plans of what one of cuDNN's heuristics proposes, in its order. */
static void add_plans(dnn_graph *g, cudnnHandle_t handle, descriptor whole, const dnn_conv *conv, dnn_rules rules,
                      cudnnBackendHeurMode_t mode)
{
    descriptor heuristic = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), config[ENGINES];
    set_descriptor(g, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, whole);
    set(g, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (g->status || cudnnBackendFinalize(heuristic) != CUDNN_STATUS_SUCCESS) return;
    int64_t count = 0;
    for (int i = 0; i < ENGINES; i++) config[i] = make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (g->status || cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                              ENGINES, &count, config) != CUDNN_STATUS_SUCCESS)
        return;
    for (int i = 0; i < count && i < ENGINES && g->plan_count < rules.most; i++)
        if ((rules.only < 0 || rules.only == i) && keeps_rules(config[i], conv, rules))
            add_plan(g, handle, config[i], mode == CUDNN_HEUR_MODE_A ? i : -1);
}

void dnn_graph_make(cudnnHandle_t handle, const dnn_conv *conv, dnn_rules rules, dnn_graph *graph)
{
    memset(graph, 0, sizeof *graph);
    descriptor whole = describe(graph, handle, conv);
    if (graph->status) return;
    add_plans(graph, handle, whole, conv, rules, CUDNN_HEUR_MODE_A);
    if (!graph->plan_count && rules.only < 0) add_plans(graph, handle, whole, conv, rules, CUDNN_HEUR_MODE_FALLBACK);
}

void dnn_graph_end(dnn_graph *graph)
{
    while (graph->made_count) cudnnBackendDestroyDescriptor(graph->made[--graph->made_count]);
    graph->plan_count = 0;
}

cudnnBackendDescriptor_t dnn_pack(const dnn_conv *conv, void *const address[DNN_OPERANDS], void *workspace)
{
    descriptor pack = NULL;
    static const int64_t ids[DNN_OPERANDS] = {ID_X, ID_W, ID_Y, ID_SUM, ID_SQUARES};
    int64_t count = conv->sums ? DNN_OPERANDS : DNN_SUM;
    cudnnStatus_t status = cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (!status)
        status = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids);
    if (!status)
        status =
            cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, address);
    if (!status)
        status = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    if (!status) status = cudnnBackendFinalize(pack);
    if (!status) return pack;
    if (pack) cudnnBackendDestroyDescriptor(pack);
    return NULL;
}
