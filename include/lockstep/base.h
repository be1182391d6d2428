/* base.h - what every other header uses: status codes, number types, shapes, message levels.
 *
 * Nothing here allocates or fails. Shapes are row-major, outermost dimension first, as in PyTorch and safetensors. */
#ifndef LOCKSTEP_BASE_H
#define LOCKSTEP_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(LOCKSTEP_BUILD) && defined(__GNUC__)
#define LS_API __attribute__((visibility("default")))
#else
#define LS_API
#endif

#if defined(__GNUC__)
#define LS_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define LS_PRINTF(text, first)
#endif

/* ---- Options -------------------------------------------------------------------------------------------------- */

/* "Not given": the library chooses the value, or takes it from somewhere else, as the comment of the option says.
 * call.h: how to pass options and lists. */
#define LS_AUTO INT32_MIN        /* for integers; not -1, which a user may type */
#define LS_AUTO_REAL (-HUGE_VAL) /* for floating-point numbers */
#define LS_AUTO_SEED UINT64_MAX  /* for seeds */

/* ---- Status --------------------------------------------------------------------------------------------------- */

/* LS_STATUS(symbol, value, "what it means"). Zero is success; values are stable. docs/errors.md: causes and cures. */
#define LS_STATUS_LIST(LS_STATUS)                                                                                      \
    LS_STATUS(LS_OK, 0, "no error")                                                                                    \
    LS_STATUS(LS_ERR_SHAPE, 1, "shapes do not fit")                                                                    \
    LS_STATUS(LS_ERR_DTYPE, 2, "number type not accepted here")                                                        \
    LS_STATUS(LS_ERR_DEVICE, 3, "device failed or tensors are on different devices")                                   \
    LS_STATUS(LS_ERR_VALUE, 4, "argument out of range")                                                                \
    LS_STATUS(LS_ERR_MEMORY, 5, "out of memory")                                                                       \
    LS_STATUS(LS_ERR_SCOPE, 6, "tensor used after its scope ended")                                                    \
    LS_STATUS(LS_ERR_STATE, 7, "call not possible in this state")                                                      \
    LS_STATUS(LS_ERR_UNSUPPORTED, 8, "not supported by this device or build")                                          \
    LS_STATUS(LS_ERR_IO, 9, "file could not be read or written")                                                       \
    LS_STATUS(LS_ERR_PEER, 10, "another process of the job failed")                                                    \
    LS_STATUS(LS_ERR_INTERNAL, 11, "a bug in Lockstep")

typedef enum ls_status {
#define LS_STATUS(symbol, value, text) symbol = value,
    LS_STATUS_LIST(LS_STATUS)
#undef LS_STATUS
} ls_status;

/* "LS_ERR_SHAPE" and "shapes do not fit"; never NULL, even for values out of range. */
LS_API const char *ls_status_name(ls_status status);
LS_API const char *ls_status_text(ls_status status);

/* Where a failing call says why, in words for the user: "index 7 at [3] is out of range for 5 rows". */
typedef struct ls_message {
    char text[256];
} ls_message;

/* ---- Number types --------------------------------------------------------------------------------------------- */

/* LS_DTYPE(symbol, "name", bytes, is_float). The order is the promotion order: a later type wins over an earlier one,
 * except that f16 with bf16 gives f32 and u8 with i8 gives i32. */
#define LS_DTYPE_LIST(LS_DTYPE)                                                                                        \
    LS_DTYPE(LS_BOOL, "bool", 1, 0)                                                                                    \
    LS_DTYPE(LS_U8, "u8", 1, 0)                                                                                        \
    LS_DTYPE(LS_I8, "i8", 1, 0)                                                                                        \
    LS_DTYPE(LS_I32, "i32", 4, 0)                                                                                      \
    LS_DTYPE(LS_I64, "i64", 8, 0)                                                                                      \
    LS_DTYPE(LS_F16, "f16", 2, 1)                                                                                      \
    LS_DTYPE(LS_BF16, "bf16", 2, 1)                                                                                    \
    LS_DTYPE(LS_F32, "f32", 4, 1)                                                                                      \
    LS_DTYPE(LS_F64, "f64", 8, 1)

typedef enum ls_dtype {
    LS_DTYPE_NONE = 0, /* "not given": the default of an option */
#define LS_DTYPE(symbol, name, bytes, is_float) symbol,
    LS_DTYPE_LIST(LS_DTYPE) LS_DTYPE_COUNT
#undef LS_DTYPE
} ls_dtype;

LS_API const char *ls_dtype_name(ls_dtype dtype);
LS_API size_t ls_dtype_size(ls_dtype dtype);
LS_API bool ls_dtype_is_float(ls_dtype dtype);
LS_API ls_dtype ls_dtype_promote(ls_dtype a, ls_dtype b);

/* ---- Shapes --------------------------------------------------------------------------------------------------- */

#define LS_MAX_DIMS 8

/* A list of sizes, passed by value. Build one with LS_SHAPE(2, 3); LS_SCALAR is the shape [] of one element. */
typedef struct ls_shape {
    int32_t ndim;
    int64_t dim[LS_MAX_DIMS];
} ls_shape;

LS_API ls_shape ls_shape_n(const int64_t *sizes, int64_t count);
#define LS_SHAPE(...)                                                                                                  \
    ls_shape_n((const int64_t[]){__VA_ARGS__}, (int64_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
#define LS_SCALAR ls_shape_n(NULL, 0)

LS_API bool ls_shape_equal(ls_shape a, ls_shape b);
/* Number of elements; -1 when the product does not fit int64_t or a size is negative. */
LS_API int64_t ls_shape_numel(ls_shape shape);

/* ---- Operator parameters -------------------------------------------------------------------------------------- */

/* How several numbers become one: the elements of a loss, or one number per process. Losses accept SUM, MEAN and NONE,
 * collectives all but NONE; anything else is an error. */
typedef enum ls_reduction {
    LS_REDUCE_SUM,
    LS_REDUCE_MEAN, /* of floating types only */
    LS_REDUCE_MAX,
    LS_REDUCE_MIN,
    LS_REDUCE_PROD,
    LS_REDUCE_NONE, /* no reduction */
} ls_reduction;

typedef enum ls_activation {
    LS_ACT_NONE,
    LS_ACT_RELU,
    LS_ACT_GELU, /* with erf */
    LS_ACT_GELU_TANH,
    LS_ACT_SILU,
    LS_ACT_TANH,
    LS_ACT_SIGMOID,
} ls_activation;

/* ---- Levels of messages --------------------------------------------------------------------------------------- */

/* LS_LOG_LEVEL(symbol, "name", "prefix of the line"), most severe first. */
#define LS_LOG_LEVEL_LIST(LS_LOG_LEVEL)                                                                                \
    LS_LOG_LEVEL(LS_LOG_ERROR, "error", "error: ")                                                                     \
    LS_LOG_LEVEL(LS_LOG_WARN, "warn", "warning: ")                                                                     \
    LS_LOG_LEVEL(LS_LOG_INFO, "info", "")                                                                              \
    LS_LOG_LEVEL(LS_LOG_DEBUG, "debug", "debug: ")

typedef enum ls_log_level {
#define LS_LOG_LEVEL(symbol, name, lead) symbol,
    LS_LOG_LEVEL_LIST(LS_LOG_LEVEL)
#undef LS_LOG_LEVEL
        LS_LOG_LEVEL_COUNT
} ls_log_level;

/* ---- Untrusted text ------------------------------------------------------------------------------------------- */

/* Make text from a file or another machine safe to print: control characters, escape sequences, marks that change the
 * writing direction and invalid UTF-8 become "?"; line breaks and tabs become blanks. Writes at most `size` bytes with
 * the terminating zero, cut between characters, and never more than the text has, so `to` may be the text itself.
 * Returns `to`. Error messages and log lines are already printable. */
LS_API char *ls_printable(char *to, size_t size, const char *text);

#ifdef __cplusplus
}
#endif
#endif
