/* bare.c - the CUDA plug-in without the library around it. */
#include "bare.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ls_device_table *table;
static void *device;
static ls_stream *stream;
static int failures;

static void stop(const char *what, const char *why)
{
    fprintf(stderr, "FAIL %s: %s\n", what, why);
    exit(1);
}

static void check(cudaError_t error, const char *what)
{
    if (error != cudaSuccess) stop(what, cudaGetErrorString(error));
}

/* ---- what the library offers a plug-in ---- */

/* Scratch memory is kept for the next call that wants as much: nothing is allocated while a graph is captured. */
typedef struct scratch {
    struct scratch *next;
    void *address;
    size_t bytes;
    bool taken;
} scratch;

static scratch *all_scratch;

static ls_status take(ls_owner *owner, size_t bytes, ls_workspace *workspace)
{
    (void)owner;
    scratch *found = all_scratch;
    while (found && (found->taken || found->bytes < bytes || found->bytes > 2 * bytes + 4096)) found = found->next;
    if (!found) {
        found = calloc(1, sizeof *found);
        if (!found || table->alloc(device, bytes, &found->address) != LS_OK) stop("scratch memory", "there is none");
        found->bytes = bytes;
        found->next = all_scratch;
        all_scratch = found;
    }
    found->taken = true;
    *workspace = (ls_workspace){found->address, found};
    return LS_OK;
}

static void give(ls_owner *owner, ls_workspace workspace)
{
    (void)owner;
    ((scratch *)workspace.block)->taken = false;
}

static size_t dtype_size(ls_dtype dtype)
{
#define LS_DTYPE(symbol, name, bytes, is_float)                                                                        \
    case symbol: return bytes;
    switch (dtype) {
        LS_DTYPE_LIST(LS_DTYPE)
    default: return 0;
    }
#undef LS_DTYPE
}

const char *bare_type(ls_dtype dtype)
{
#define LS_DTYPE(symbol, name, bytes, is_float)                                                                        \
    case symbol: return name;
    switch (dtype) {
        LS_DTYPE_LIST(LS_DTYPE)
    default: return "?";
    }
#undef LS_DTYPE
}

static const char *op_name(ls_opcode op)
{
#define LS_OP(name, kind, policy, gradient, attributes, summary) #name,
    static const char *const names[] = {
#include <lockstep/ops.def>
    };
#undef LS_OP
    return (unsigned)op < LS_OP_COUNT ? names[op] : "?";
}

static ls_effects effects(const ls_call *call)
{
    (void)call;
    return (ls_effects){~0u};
}

static size_t attrs_size(ls_opcode op)
{
    (void)op;
    return sizeof(ls_attrs);
}

static ls_status run_on_cpu(const ls_call *call, ls_message *why)
{
    (void)why;
    printf("FAIL %s went to the host\n", op_name(call->op));
    failures++;
    return LS_OK;
}

static void say(const char *text)
{
    fprintf(stderr, "%s\n", text);
}

static void blame(const char *site, ls_opcode op, ls_message *why)
{
    (void)site, (void)why;
    fprintf(stderr, "in %s\n", op_name(op));
}

static const ls_host host = {.abi = LS_PLUGIN_ABI,
                             .size = sizeof host,
                             .operators = ls_operators,
                             .op_name = op_name,
                             .dtype_size = dtype_size,
                             .effects = effects,
                             .attrs_size = attrs_size,
                             .run_on_cpu = run_on_cpu,
                             .log = say,
                             .blame = blame,
                             .take = take,
                             .give = give};

/* ---- beginning and end ---- */

void bare_begin(const char *plugin)
{
    void *library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL), *symbol = library ? dlsym(library, "ls_plugin_v2") : NULL;
    if (!symbol) stop(plugin, dlerror());
    ls_plugin_entry *entry;
    memcpy(&entry, &symbol, sizeof symbol);
    table = entry(&host);
    ls_message why = {{0}};
    ls_device_open_args args = {.size = sizeof args};
    if (table->open(&host, &args, &device, &why) != LS_OK) stop(plugin, why.text);
    if (table->stream_create(device, &stream) != LS_OK) stop(plugin, "no stream");
}

int bare_end(void)
{
    printf("%d failures\n", failures);
    return failures != 0;
}

/* ---- numbers ---- */

static uint64_t state = 0x9E3779B97F4A7C15u;

static double uniform(void)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return ((double)(state >> 11) + 0.5) / 9007199254740992.0;
}

double bare_random(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

double bare_rounding(ls_dtype dtype)
{
    return dtype == LS_F16 ? 0x1p-11 : dtype == LS_BF16 ? 0x1p-8 : dtype == LS_F32 ? 0x1p-24 : 0x1p-53;
}

static uint16_t half_of(double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    value = fabs(value);
    if (isnan(value)) return sign | 0x7e00;
    if (value >= 65520) return sign | 0x7c00;
    if (value < 0x1p-14) return sign | (uint16_t)nearbyint(value * 0x1p24);
    int exponent;
    double fraction = frexp(value, &exponent); /* in [0.5, 1) */
    uint16_t digits = (uint16_t)nearbyint(fraction * 2048);
    return (uint16_t)(sign | (((exponent + 13) << 10) + digits));
}

static double from_half(uint16_t bits)
{
    int exponent = bits >> 10 & 31, digits = bits & 1023;
    double value = exponent == 31 ? (digits ? NAN : INFINITY)
                   : exponent     ? ldexp(1024 + digits, exponent - 25)
                                  : ldexp(digits, -24);
    return bits & 0x8000 ? -value : value;
}

static uint16_t bfloat_of(double value)
{
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, 4);
    if (isnan(value)) return 0x7fc0;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double from_bfloat(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
}

static void put(ls_dtype dtype, void *memory, int64_t i, double value)
{
    switch (dtype) {
    case LS_F16: ((uint16_t *)memory)[i] = half_of(value); break;
    case LS_BF16: ((uint16_t *)memory)[i] = bfloat_of(value); break;
    case LS_F32: ((float *)memory)[i] = (float)value; break;
    case LS_F64: ((double *)memory)[i] = value; break;
    case LS_I32: ((int32_t *)memory)[i] = isnan(value) ? -7 : (int32_t)value; break;
    case LS_U8: ((uint8_t *)memory)[i] = isnan(value) ? 0xa5 : (uint8_t)value; break;
    default: stop("put", bare_type(dtype));
    }
}

static double get(ls_dtype dtype, const void *memory, int64_t i)
{
    switch (dtype) {
    case LS_F16: return from_half(((const uint16_t *)memory)[i]);
    case LS_BF16: return from_bfloat(((const uint16_t *)memory)[i]);
    case LS_F32: return ((const float *)memory)[i];
    case LS_F64: return ((const double *)memory)[i];
    case LS_I32: return ((const int32_t *)memory)[i];
    default: return ((const uint8_t *)memory)[i];
    }
}

/* ---- tensors ---- */

static int64_t place(const ls_operand *view, int64_t number)
{
    int64_t at = 0;
    for (int d = view->ndim - 1; d >= 0; d--) {
        at += number % view->dim[d] * view->stride[d];
        number /= view->dim[d];
    }
    return at;
}

static bare_tensor *allocate(ls_dtype dtype, bare_order order, int ndim, const int64_t *dim)
{
    bare_tensor *t = calloc(1, sizeof *t);
    if (!t) stop("tensor", "no memory");
    t->view = (ls_operand){.dtype = dtype, .ndim = ndim};
    t->numel = 1;
    for (int d = 0; d < ndim; d++) t->numel *= t->view.dim[d] = dim[d];
    int64_t stride = 1;
    if (order == BARE_CHANNELS_LAST) t->view.stride[1] = 1, stride = dim[1];
    for (int d = ndim - 1; d >= 0; d--) {
        if (order == BARE_CHANNELS_LAST && d == 1) continue;
        t->view.stride[d] = stride;
        stride *= dim[d];
    }
    if (table->alloc(device, (size_t)t->numel * dtype_size(dtype) + 64, &t->view.data) != LS_OK)
        stop("tensor", "no device memory");
    return t;
}

bare_tensor *bare_new(ls_dtype dtype, bare_order order, int ndim, const int64_t *dim, double deviation)
{
    bare_tensor *t = allocate(dtype, order, ndim, dim);
    t->value = malloc((size_t)(t->numel + 1) * sizeof *t->value);
    if (!t->value) stop("tensor", "no memory");
    for (int64_t i = 0; i < t->numel; i++) t->value[i] = deviation > 0 ? deviation * bare_random() : NAN;
    bare_send(t);
    bare_fetch(t);
    return t;
}

bare_tensor *bare_big(ls_dtype dtype, bare_order order, int ndim, const int64_t *dim)
{
    enum { PATTERN = 1 << 18 };
    bare_tensor *t = allocate(dtype, order, ndim, dim);
    static double pattern[PATTERN];
    if (!pattern[0])
        for (int i = 0; i < PATTERN; i++) pattern[i] = bare_random();
    int64_t size = (int64_t)dtype_size(dtype), done = t->numel < PATTERN ? t->numel : PATTERN;
    char *memory = malloc((size_t)(PATTERN * size)), *to = t->view.data;
    if (!memory) stop("tensor", "no memory");
    for (int64_t i = 0; i < done; i++) put(dtype, memory, i, pattern[i]);
    check(cudaMemcpy(to, memory, (size_t)(done * size), cudaMemcpyHostToDevice), "copy");
    free(memory);
    while (done < t->numel) {
        int64_t more = done < t->numel - done ? done : t->numel - done;
        check(cudaMemcpy(to + done * size, to, (size_t)(more * size), cudaMemcpyDeviceToDevice), "copy");
        done += more;
    }
    return t;
}

void bare_free(bare_tensor *t)
{
    if (!t) return;
    table->release(device, t->view.data, (size_t)t->numel * dtype_size(t->view.dtype) + 64);
    free(t->value);
    free(t);
}

void bare_send(bare_tensor *t)
{
    size_t bytes = (size_t)t->numel * dtype_size(t->view.dtype);
    void *memory = malloc(bytes + 1);
    if (!memory) stop("tensor", "no memory");
    for (int64_t i = 0; i < t->numel; i++) put(t->view.dtype, memory, place(&t->view, i), t->value[i]);
    check(cudaMemcpy(t->view.data, memory, bytes, cudaMemcpyHostToDevice), "copy");
    free(memory);
}

void bare_fetch(bare_tensor *t)
{
    size_t bytes = (size_t)t->numel * dtype_size(t->view.dtype);
    void *memory = malloc(bytes + 1);
    if (!memory) stop("tensor", "no memory");
    check(cudaMemcpy(memory, t->view.data, bytes, cudaMemcpyDeviceToHost), "copy");
    for (int64_t i = 0; i < t->numel; i++) t->value[i] = get(t->view.dtype, memory, place(&t->view, i));
    free(memory);
}

/* ---- calls ---- */

static bool submit(const ls_call *call)
{
    ls_message why = {{0}};
    if (table->run(device, stream, call, &why) == LS_OK) return true;
    printf("FAIL %s: %s\n", op_name(call->op), why.text);
    failures++;
    return false;
}

bool bare_run(const ls_call *call)
{
    ls_message why = {{0}};
    if (!submit(call)) return false;
    if (table->stream_sync(device, stream, &why) != LS_OK) stop(op_name(call->op), why.text);
    return true;
}

double bare_time(const ls_call *call)
{
    enum { RUNS = 20 };
    cudaStream_t s = (cudaStream_t)stream;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    cudaEvent_t begun, ended;
    float best = 1e30f;
    check(cudaEventCreate(&begun), "event");
    check(cudaEventCreate(&ended), "event");
    for (int i = 0; i < 3; i++)
        if (!bare_run(call)) return NAN;
    check(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < RUNS; i++) submit(call);
    check(cudaStreamEndCapture(s, &graph), "capture");
    check(cudaGraphInstantiate(&exec, graph, 0), "graph");
    for (int i = 0; i < 6; i++) {
        float elapsed;
        check(cudaEventRecord(begun, s), "event");
        check(cudaGraphLaunch(exec, s), "graph");
        check(cudaEventRecord(ended, s), "event");
        check(cudaEventSynchronize(ended), "event");
        check(cudaEventElapsedTime(&elapsed, begun, ended), "event");
        if (elapsed < best) best = elapsed;
    }
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaEventDestroy(begun);
    cudaEventDestroy(ended);
    return 1000.0 * best / RUNS;
}

void bare_compare(const char *name, int64_t n, const double *got, const double *expected, double limit)
{
    double wrong = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        wrong += (got[i] - expected[i]) * (got[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    double error = sqrt(wrong / (norm > 0 ? norm : 1));
    bool good = error <= limit; /* false for NaN */
    printf("%s %s: error %.1e, limit %.1e\n", good ? "ok  " : "FAIL", name, error, limit);
    failures += !good;
}
