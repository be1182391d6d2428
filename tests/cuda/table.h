/* table.h - the operators of the plug-in's table, without the library: tensors on the GPU whose numbers are known here,
 * calls that are timed, and what they wrote beside what was expected. */
#ifndef LOCKSTEP_TESTS_CUDA_TABLE_H
#define LOCKSTEP_TESTS_CUDA_TABLE_H

#include <dlfcn.h>
#include <lockstep/plugin.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- The device -------------------------------------------------------------------------------------------------- */

static const ls_device_table *gpu;
static void *device;
static ls_stream *stream;
static int mistakes;

static void stop(const char *what, const ls_message *why)
{
    printf("FAIL %s: %s\n", what, why->text);
    exit(1);
}

static size_t size_of(ls_dtype dtype)
{
    return dtype == LS_F64 || dtype == LS_I64 ? 8 : dtype == LS_F32 || dtype == LS_I32 ? 4 : dtype == LS_U8 ? 1 : 2;
}

/* Scratch: one block for each size, as the library's cache would give. */
enum { BLOCKS = 64 };
static struct block {
    size_t bytes;
    void *address;
    bool taken;
} blocks[BLOCKS];

static ls_status take(ls_owner *owner, size_t bytes, ls_workspace *space)
{
    (void)owner;
    for (int i = 0; i < BLOCKS; i++) {
        struct block *b = &blocks[i];
        if (b->taken || (b->address && b->bytes != bytes)) continue;
        if (!b->address && gpu->alloc(device, bytes, &b->address)) return LS_ERR_MEMORY;
        b->bytes = bytes;
        b->taken = true;
        *space = (ls_workspace){b->address, b};
        return LS_OK;
    }
    return LS_ERR_MEMORY;
}

static void give(ls_owner *owner, ls_workspace space)
{
    (void)owner;
    ((struct block *)space.block)->taken = false;
}

static const char *op_name(ls_opcode op)
{
    static const char *const names[] = {
#define LS_OP(name, kind, policy, gradient, attributes, summary) #name,
#include <lockstep/ops.def>
#undef LS_OP
    };
    return names[op];
}

static ls_status not_on_host(const ls_call *call, ls_message *why)
{
    snprintf(why->text, sizeof why->text, "%s went to the host", op_name(call->op));
    return LS_ERR_UNSUPPORTED;
}

static void log_text(const char *text)
{
    printf("%s\n", text);
}

static void blame(const char *site, ls_opcode op, ls_message *why)
{
    (void)site, (void)op, (void)why;
}

static const ls_host host = {.abi = LS_PLUGIN_ABI,
                             .size = sizeof host,
                             .operators = ls_operators,
                             .op_name = op_name,
                             .dtype_size = size_of,
                             .run_on_cpu = not_on_host,
                             .log = log_text,
                             .blame = blame,
                             .take = take,
                             .give = give};

static void open_gpu(void)
{
    void *library = dlopen(CUDA_DEVICE, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        printf("FAIL %s\n", dlerror());
        exit(1);
    }
    ls_plugin_entry *entry;
    *(void **)&entry = dlsym(library, "ls_plugin_v2");
    gpu = entry(&host);
    ls_message why = {{0}};
    ls_device_open_args args = {.size = sizeof args};
    if (gpu->open(&host, &args, &device, &why)) stop("open", &why);
    if (gpu->stream_create(device, &stream)) stop("stream", &why);
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

typedef struct tensor {
    ls_operand x;
    int64_t n;
    double *here; /* what the GPU was given, rounded to its type */
} tensor;

static uint64_t state = 88172645463325252u;

static double random_number(void) /* about normal */
{
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        sum += (double)(state >> 40) * 0x1p-24;
    }
    return (sum - 2) * 1.7320508;
}

static uint16_t to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double from_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static double from_f16(uint16_t half)
{
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double x = exponent == 31 ? (fraction ? NAN : INFINITY)
               : exponent     ? ldexp(1 + fraction / 1024.0, exponent - 15)
                              : ldexp(fraction / 1024.0, -14);
    return half >> 15 ? -x : x;
}

static uint16_t to_f16(double x) /* of numbers that are neither large nor tiny */
{
    int exponent;
    double m = frexp(fabs(x), &exponent);
    if (x == 0 || exponent < -13) return 0;
    int fraction = (int)nearbyint((m * 2 - 1) * 1024);
    return (uint16_t)((x < 0) << 15 | (((exponent + 14) << 10) + fraction));
}

static void put(ls_dtype dtype, void *data, int64_t i, double x)
{
    if (dtype == LS_F32) ((float *)data)[i] = (float)x;
    else if (dtype == LS_F64) ((double *)data)[i] = x;
    else if (dtype == LS_I64) ((int64_t *)data)[i] = (int64_t)x;
    else ((uint16_t *)data)[i] = dtype == LS_BF16 ? to_bf16((float)x) : to_f16(x);
}

static double get(ls_dtype dtype, const void *data, int64_t i)
{
    if (dtype == LS_F32) return ((const float *)data)[i];
    if (dtype == LS_F64) return ((const double *)data)[i];
    if (dtype == LS_I64) return (double)((const int64_t *)data)[i];
    if (dtype == LS_U8) return ((const uint8_t *)data)[i];
    uint16_t half = ((const uint16_t *)data)[i];
    return dtype == LS_BF16 ? from_bf16(half) : from_f16(half);
}

static void move(void *to, const void *from, size_t bytes, ls_copy_kind kind)
{
    ls_message why = {{0}};
    if (gpu->copy(device, stream, to, from, bytes, kind, &why) || gpu->stream_sync(device, stream, &why))
        stop("copy", &why);
}

static void poison(tensor *t)
{
    size_t bytes = (size_t)t->n * size_of(t->x.dtype);
    void *nans = malloc(bytes);
    memset(nans, 0xff, bytes);
    move(t->x.data, nans, bytes, LS_COPY_TO_DEVICE);
    free(nans);
}

static tensor empty(ls_dtype dtype, int ndim, ...)
{
    tensor t = {.n = 1};
    t.x.dtype = dtype, t.x.ndim = ndim;
    va_list dims;
    va_start(dims, ndim);
    for (int i = 0; i < ndim; i++) t.n *= t.x.dim[i] = va_arg(dims, int);
    va_end(dims);
    int64_t stride = 1;
    for (int i = ndim - 1; i >= 0; i--) t.x.stride[i] = stride, stride *= t.x.dim[i];
    if (gpu->alloc(device, (size_t)t.n * size_of(dtype) + 64, &t.x.data)) {
        printf("FAIL no memory\n");
        exit(1);
    }
    poison(&t);
    return t;
}

static void set(tensor *t)
{
    size_t bytes = (size_t)t->n * size_of(t->x.dtype);
    void *data = malloc(bytes);
    for (int64_t i = 0; i < t->n; i++) {
        put(t->x.dtype, data, i, t->here[i]);
        t->here[i] = get(t->x.dtype, data, i);
    }
    move(t->x.data, data, bytes, LS_COPY_TO_DEVICE);
    free(data);
}

/* Random numbers of a size, around a middle. */
static void fill(tensor *t, double middle, double size)
{
    t->here = malloc((size_t)t->n * sizeof(double));
    for (int64_t i = 0; i < t->n; i++) t->here[i] = middle + size * random_number();
    set(t);
}

/* The GPU's numbers; the caller frees them. */
static double *read_back(const tensor *t)
{
    size_t bytes = (size_t)t->n * size_of(t->x.dtype);
    void *data = malloc(bytes);
    double *numbers = malloc((size_t)t->n * sizeof(double));
    move(data, t->x.data, bytes, LS_COPY_TO_HOST);
    for (int64_t i = 0; i < t->n; i++) numbers[i] = get(t->x.dtype, data, i);
    free(data);
    return numbers;
}

static void drop(tensor *t)
{
    gpu->release(device, t->x.data, (size_t)t->n * size_of(t->x.dtype) + 64);
    free(t->here);
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

static void run(const ls_call *call)
{
    ls_message why = {{0}};
    if (gpu->run(device, stream, call, &why)) stop(op_name(call->op), &why);
}

static void wait_for(const char *what)
{
    ls_message why = {{0}};
    if (gpu->stream_sync(device, stream, &why)) stop(what, &why);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Microseconds of a call, many in a row, the best of some tries. */
static double time_of(const ls_call *call)
{
    double best = 1e9;
    for (int i = 0; i < 3; i++) run(call);
    for (int attempt = 0; attempt < 5; attempt++) {
        wait_for("warming up");
        double from = now();
        for (int i = 0; i < 20; i++) run(call);
        wait_for(op_name(call->op));
        best = fmin(best, (now() - from) / 20);
    }
    return best * 1e6;
}

static void report(const char *what, double error, double limit, const ls_call *call, double known)
{
    double us = call ? time_of(call) : 0;
    bool good = error <= limit; /* not for NaN */
    mistakes += !good;
    printf("%-5s %-44s error %.2e (limit %.0e)", good ? "ok" : "WRONG", what, error, limit);
    if (call) printf("  %8.1f us", us);
    if (known > 0) printf("  (known: %.1f)", known);
    printf("\n");
    fflush(stdout);
}

/* The largest difference from what was expected, beside the size of those numbers; NaN where any is. */
typedef struct difference {
    double most, size;
} difference;

static void compare(difference *d, double got, double expected)
{
    double off = fabs(got - expected);
    if (!(off <= d->most)) d->most = off; /* NaN stays */
    d->size = fmax(d->size, fabs(expected));
}

static double relative(difference d)
{
    return d.size > 0 ? d.most / d.size : d.most;
}

#endif
