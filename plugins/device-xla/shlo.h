/* shlo.h - writes a program as StableHLO text in generic form, one operation after the other.
 *
 * A value is a name with a number type and dimensions; operations take values and return new ones. Operands of
 * arithmetic broadcast as in NumPy: dimensions are aligned at the end, and those of size 1 are repeated. Dimensions
 * that are reduced stay, with size 1. Number types must agree: nothing is converted unless it is asked for. If
 * memory runs out the text becomes invalid, and `failed` says so: nobody needs to check earlier. */
#ifndef LOCKSTEP_XLA_SHLO_H
#define LOCKSTEP_XLA_SHLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHLO_MAX_DIMS = 20 };

/* SHLO_TYPE(symbol, "name in the text", bytes, PJRT's type) */
#define SHLO_TYPE_LIST(SHLO_TYPE)                                                                                      \
    SHLO_TYPE(SHLO_I1, "i1", 1, PJRT_PRED)                                                                             \
    SHLO_TYPE(SHLO_U8, "ui8", 1, PJRT_U8)                                                                              \
    SHLO_TYPE(SHLO_I8, "i8", 1, PJRT_S8)                                                                               \
    SHLO_TYPE(SHLO_I32, "i32", 4, PJRT_S32)                                                                            \
    SHLO_TYPE(SHLO_U32, "ui32", 4, PJRT_U32)                                                                           \
    SHLO_TYPE(SHLO_I64, "i64", 8, PJRT_S64)                                                                            \
    SHLO_TYPE(SHLO_U64, "ui64", 8, PJRT_U64)                                                                           \
    SHLO_TYPE(SHLO_F16, "f16", 2, PJRT_F16)                                                                            \
    SHLO_TYPE(SHLO_BF16, "bf16", 2, PJRT_BF16)                                                                         \
    SHLO_TYPE(SHLO_F32, "f32", 4, PJRT_F32)                                                                            \
    SHLO_TYPE(SHLO_F64, "f64", 8, PJRT_F64)

typedef enum shlo_type {
#define SHLO_TYPE(symbol, name, bytes, pjrt) symbol,
    SHLO_TYPE_LIST(SHLO_TYPE)
#undef SHLO_TYPE
} shlo_type;

typedef struct shlo_dims {
    int n;
    int64_t at[SHLO_MAX_DIMS];
} shlo_dims;
#define SHLO_DIMS(...)                                                                                                 \
    ((shlo_dims){.n = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .at = {__VA_ARGS__}})
#define SHLO_SCALAR ((shlo_dims){.n = 0})

typedef struct shlo_value {
    int id;
    shlo_type type;
    shlo_dims dims;
    bool is_constant; /* computed from constants alone */
} shlo_value;

typedef struct shlo {
    char *text;
    size_t used, room;
    int values;
    bool failed;
} shlo;

bool shlo_is_float(shlo_type type);
size_t shlo_size(shlo_type type);
int64_t shlo_numel(shlo_dims dims);
bool shlo_same_dims(shlo_dims a, shlo_dims b);

/* ---- text ---- */

void shlo_print(shlo *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void shlo_append(shlo *s, const shlo *more);
void shlo_print_type(shlo *s, shlo_value v);
/* "array<i64: 2, 3>" */
void shlo_print_array(shlo *s, shlo_dims numbers);
/* A name for a value that is defined elsewhere: an argument. */
shlo_value shlo_name(shlo *s, shlo_type type, shlo_dims dims);

/* An operation is written as shlo_begin(), then what stands between operands and types (attributes in braces, a region
 * in parentheses) by shlo_print(), then shlo_end(). `op` without a dialect is one of stablehlo. */
void shlo_begin(shlo *s, const char *op, const shlo_value *in, int n_in, shlo_value *out, int n_out);
void shlo_end(shlo *s, const shlo_value *in, int n_in, const shlo_value *out, int n_out);
/* " ({ region })" of two numbers that gives op(a, b). */
void shlo_print_region(shlo *s, const char *op, shlo_type type);

/* ---- constants ---- */

shlo_value shlo_number(shlo *s, shlo_type type, double number, shlo_dims dims);
shlo_value shlo_integer(shlo *s, shlo_type type, int64_t number, shlo_dims dims);
/* As many numbers as the dimensions say, f32, f64 or i64. */
shlo_value shlo_numbers(shlo *s, shlo_type type, const double *numbers, shlo_dims dims);
/* The position along one dimension. */
shlo_value shlo_iota(shlo *s, shlo_type type, shlo_dims dims, int dim);

/* ---- element by element ---- */

shlo_value shlo_unary(shlo *s, const char *op, shlo_value x);
shlo_value shlo_unary_to_bool(shlo *s, const char *op, shlo_value x);
shlo_value shlo_binary(shlo *s, const char *op, shlo_value a, shlo_value b);
/* direction: EQ, NE, LT, LE, GT, GE */
shlo_value shlo_compare(shlo *s, const char *direction, shlo_value a, shlo_value b);
shlo_value shlo_select(shlo *s, shlo_value condition, shlo_value a, shlo_value b);
shlo_value shlo_convert(shlo *s, shlo_value x, shlo_type type);
/* The same bits as another type; of another size: in one more or one less dimension, the last. */
shlo_value shlo_bitcast(shlo *s, shlo_value x, shlo_type type);

static inline shlo_value shlo_add(shlo *s, shlo_value a, shlo_value b)
{
    return shlo_binary(s, "add", a, b);
}

static inline shlo_value shlo_sub(shlo *s, shlo_value a, shlo_value b)
{
    return shlo_binary(s, "subtract", a, b);
}

static inline shlo_value shlo_mul(shlo *s, shlo_value a, shlo_value b)
{
    return shlo_binary(s, "multiply", a, b);
}

/* Rounded once, whatever b is. */
shlo_value shlo_div(shlo *s, shlo_value a, shlo_value b);

/* With a number in place of the second operand. */
static inline shlo_value shlo_with(shlo *s, const char *op, shlo_value x, double number)
{
    return shlo_binary(s, op, x, shlo_number(s, x.type, number, SHLO_SCALAR));
}

static inline shlo_value shlo_compare_with(shlo *s, const char *direction, shlo_value x, double number)
{
    return shlo_compare(s, direction, x, shlo_number(s, x.type, number, SHLO_SCALAR));
}

static inline shlo_value shlo_one_minus(shlo *s, shlo_value x)
{
    return shlo_sub(s, shlo_number(s, x.type, 1, SHLO_SCALAR), x);
}

/* 1 / sqrt(x); XLA complains where it has no such operation of its own for f64. */
static inline shlo_value shlo_rsqrt(shlo *s, shlo_value x)
{
    if (x.type != SHLO_F64) return shlo_unary(s, "rsqrt", x);
    return shlo_div(s, shlo_number(s, x.type, 1, SHLO_SCALAR), shlo_unary(s, "sqrt", x));
}

/* ---- shapes ---- */

shlo_value shlo_reshape(shlo *s, shlo_value x, shlo_dims dims);
/* In one dimension. */
static inline shlo_value shlo_flat(shlo *s, shlo_value x)
{
    return shlo_reshape(s, x, SHLO_DIMS(shlo_numel(x.dims)));
}

/* Dimension i of the result is dimension order[i] of x. */
shlo_value shlo_transpose(shlo *s, shlo_value x, const int *order);
/* Dimension i of x is dimension map[i] of the result. */
shlo_value shlo_broadcast(shlo *s, shlo_value x, shlo_dims dims, const int *map);
/* Broadcast as NumPy does. */
shlo_value shlo_stretch(shlo *s, shlo_value x, shlo_dims dims);
/* Elements first, first + step, ... below limit, in each dimension. */
shlo_value shlo_slice(shlo *s, shlo_value x, shlo_dims first, shlo_dims limit, shlo_dims step);
/* `with` is a number added before, after and between the elements of each dimension; less than 0 before or after:
 * cut. */
shlo_value shlo_pad(shlo *s, shlo_value x, shlo_value with, shlo_dims before, shlo_dims after, shlo_dims between);
shlo_value shlo_concat(shlo *s, const shlo_value *parts, int count, int dim);
/* x with `part` written at a place. */
shlo_value shlo_update(shlo *s, shlo_value x, shlo_value part, shlo_dims first);
shlo_value shlo_reverse(shlo *s, shlo_value x, uint32_t dims);

/* ---- along dimensions: bit d of the mask is dimension d ---- */

shlo_value shlo_reduce(shlo *s, const char *op, shlo_value x, uint32_t mask);
static inline shlo_value shlo_sum(shlo *s, shlo_value x, uint32_t mask)
{
    return shlo_reduce(s, "add", x, mask);
}

/* Windows of an array: `size` elements every `stride`, where zeros are added before and after the elements, which are
 * `spread` apart. */
typedef struct shlo_window {
    shlo_dims size, stride, spread, before, after;
} shlo_window;
/* The sum of each window; `out` are the dimensions of the result. */
shlo_value shlo_sum_windows(shlo *s, shlo_value x, const shlo_window *w, shlo_dims out);

/* ---- by index ---- */

/* Slices of `table` along a dimension, picked by `index`, integers of any dimensions, which replace that dimension. */
shlo_value shlo_take(shlo *s, shlo_value table, shlo_value index, int dim);
/* `table` with `slices`, of the dimensions that shlo_take() would give, combined by `op` ("add"; NULL: replaced) with
 * those at `index`. Indices out of range are left out. */
shlo_value shlo_put(shlo *s, shlo_value table, shlo_value index, shlo_value slices, int dim, const char *op);

/* ---- products ---- */

/* Sum over the last dimensions named: a [batch..., M...] and b [batch..., N...], with the positions of each. */
typedef struct shlo_dot_dims {
    shlo_dims batch_a, batch_b, sum_a, sum_b;
} shlo_dot_dims;
/* [batch, rest of a, rest of b], accumulated in and of type `type`. */
shlo_value shlo_dot(shlo *s, shlo_value a, shlo_value b, const shlo_dot_dims *which, shlo_type type);

/* A convolution over two dimensions, height and width. */
typedef struct shlo_conv {
    const char *layout;           /* of input, kernel and output: "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]" */
    int64_t stride[2];            /* of the kernel */
    int64_t before[2], after[2];  /* zeros added to the input, or cut if below 0 */
    int64_t spread[2];            /* distance of the input's elements: 1, or more with zeros between them */
    int64_t dilation[2];          /* distance of the kernel's */
    int64_t groups, batch_groups; /* of features, of the batch */
} shlo_conv;
/* `out` has the type to accumulate in, and the dimensions of the result. */
shlo_value shlo_convolve(shlo *s, shlo_value x, shlo_value kernel, const shlo_conv *how, shlo_value out);

#endif
