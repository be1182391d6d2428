/* tensor.h - tensors: creation, properties, numbers in and out, gradients.
 *
 * A tensor is a strided view of reference-counted device memory. Handles belong to scopes (run.h). Dimensions may be
 * given from the end: -1 is the last. Failures return poison, never NULL; only ls_grad() may return NULL. */
#ifndef LOCKSTEP_TENSOR_H
#define LOCKSTEP_TENSOR_H

#include <lockstep/run.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Making one: ls_zeros(run, LS_F32, 2, 3) ---- */

#define ls_empty(run, dtype, ...) ls_empty_shape((run), (dtype), LS_SHAPE(__VA_ARGS__))
#define ls_zeros(run, dtype, ...) ls_full_shape((run), (dtype), 0, LS_SHAPE(__VA_ARGS__))
#define ls_ones(run, dtype, ...) ls_full_shape((run), (dtype), 1, LS_SHAPE(__VA_ARGS__))
#define ls_full(run, dtype, value, ...) ls_full_shape((run), (dtype), (value), LS_SHAPE(__VA_ARGS__))
/* Uniform in [0, 1), and standard normal. */
#define ls_rand(run, dtype, ...) ls_uniform_shape((run), (dtype), 0, 1, LS_SHAPE(__VA_ARGS__))
#define ls_randn(run, dtype, ...) ls_normal_shape((run), (dtype), 0, 1, LS_SHAPE(__VA_ARGS__))

LS_API ls_tensor *ls_empty_shape(ls_run *run, ls_dtype dtype, ls_shape shape);
LS_API ls_tensor *ls_full_shape(ls_run *run, ls_dtype dtype, double value, ls_shape shape);
LS_API ls_tensor *ls_uniform_shape(ls_run *run, ls_dtype dtype, double low, double high, ls_shape shape);
LS_API ls_tensor *ls_normal_shape(ls_run *run, ls_dtype dtype, double mean, double std, ls_shape shape);
/* Of the shape and type of x, on its device; for ls_rand_like and ls_randn_like a floating type. */
LS_API ls_tensor *ls_empty_like(const ls_tensor *x);
LS_API ls_tensor *ls_full_like(const ls_tensor *x, double value);
LS_API ls_tensor *ls_rand_like(const ls_tensor *x);
LS_API ls_tensor *ls_randn_like(const ls_tensor *x);
#define ls_zeros_like(x) ls_full_like((x), 0)
#define ls_ones_like(x) ls_full_like((x), 1)
LS_API ls_tensor *ls_bernoulli_shape(ls_run *run, ls_dtype dtype, double p, ls_shape shape);
/* start, start + step, ... of n elements; a random order of 0 .. n-1 (i64). */
LS_API ls_tensor *ls_arange(ls_run *run, ls_dtype dtype, int64_t n, double start, double step);
LS_API ls_tensor *ls_randperm(ls_run *run, int64_t n);
/* Copies row-major host data of that type and shape. */
LS_API ls_tensor *ls_from(ls_run *run, ls_dtype dtype, ls_shape shape, const void *data);

/* ---- What it is ---- */

LS_API int ls_ndim(const ls_tensor *t);
LS_API int64_t ls_dim(const ls_tensor *t, int d); /* 0 if there is no such dimension */
LS_API int64_t ls_numel(const ls_tensor *t);
LS_API ls_shape ls_shape_of(const ls_tensor *t);
LS_API ls_dtype ls_dtype_of(const ls_tensor *t);
LS_API const char *ls_device_of(const ls_tensor *t); /* "cpu" */
/* For NULL, or if its run has ended: the latest run of this thread, or a failed stand-in if it has none. */
LS_API ls_run *ls_run_of(const ls_tensor *t);
LS_API bool ls_is_contiguous(const ls_tensor *t);
/* False for poison and dead handles. */
LS_API bool ls_is_valid(const ls_tensor *t);
/* A name for messages; the string must outlive the tensor. Returns it. */
LS_API ls_tensor *ls_set_name(ls_tensor *t, const char *name);

/* ---- Numbers in and out (waits for the device) ---- */

/* The only element, as double; NaN and an error if there is not exactly one. */
LS_API double ls_item(ls_tensor *t);
/* Row-major elements to or from host memory of exactly ls_numel * size bytes. False on failure. */
LS_API bool ls_read(ls_tensor *t, void *to, size_t bytes);
LS_API bool ls_write(ls_tensor *t, const void *from, size_t bytes);
/* A printable form with shape, type and the elements (edges only when there are many) into a buffer; returns it. */
LS_API char *ls_format(ls_tensor *t, char *buffer, size_t size);

/* Copy elements of src (broadcast, converted) into dst's memory, in place. Not recorded for gradients. Elements of dst
 * that share memory (ls_expand) are refused, here and in ls_write. src may overlap dst: it is as if read first. */
LS_API void ls_assign(ls_tensor *dst, ls_tensor *src);
/* The same elements on another device of the run ("cpu", ...). Not recorded for gradients. */
LS_API ls_tensor *ls_to_device(ls_tensor *t, const char *device);

/* ---- Gradients ---- */

/* Make a tensor a leaf that collects gradients (floating types only), or stop that. Returns it. */
LS_API ls_tensor *ls_set_requires_grad(ls_tensor *t, bool on);
LS_API bool ls_requires_grad(const ls_tensor *t); /* is such a leaf, or was computed from one */
/* The gradient of a leaf, as a tensor of the current scope; NULL while there is none. With .shard_optimizer, after a
 * backward pass that ends in a step, it is the mean of all processes in the part that this process updates, and
 * undefined elsewhere. It has no history: a loss computed from it is an error, unless it is ls_detach()ed first, or
 * used inside ls_no_grad. */
LS_API ls_tensor *ls_grad(ls_tensor *leaf);
/* Forget the gradient; memory is kept for the next one. */
LS_API void ls_clear_grad(ls_tensor *leaf);
/* Put gradients of this leaf into the given memory: a tensor of the same shape, e.g. a view into a flat buffer. It
 * must be kept, or outlive the leaf's use. */
LS_API void ls_set_grad_memory(ls_tensor *leaf, ls_tensor *home);
/* Same elements, no history. */
LS_API ls_tensor *ls_detach(ls_tensor *t);

/* Called in backward as soon as a leaf's gradient is complete, in the order of completion. */
typedef void ls_grad_hook_fn(ls_tensor *leaf, void *user);
LS_API void ls_register_grad_hook(ls_tensor *leaf, ls_grad_hook_fn *hook, void *user);

#ifdef __cplusplus
}
#endif
#endif
