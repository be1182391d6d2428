/* bare.h - the CUDA plug-in without the library around it, for programs that hold single operators against plain loops
 * in f64 and time them.
 *
 * Operands are made of random numbers, rounded to their type, so that both sides start from the same ones. Outputs
 * begin as NaN. Times are those of the GPU: a captured graph of many runs. An operator that goes to the host counts as
 * a failure. */
#ifndef LOCKSTEP_TESTS_CUDA_BARE_H
#define LOCKSTEP_TESTS_CUDA_BARE_H

#include <lockstep/plugin.h>

typedef struct bare_tensor {
    ls_operand view; /* in device memory */
    double *value;   /* [numel], row-major, whatever the strides are */
    int64_t numel;
} bare_tensor;

typedef enum bare_order { BARE_ROW_MAJOR, BARE_CHANNELS_LAST } bare_order;

/* Opens the first GPU of the plug-in; ends the program where that fails. */
void bare_begin(const char *plugin);
/* Prints the count of failures; the exit status. */
int bare_end(void);

/* Up to four dimensions. Random numbers of this deviation; 0: NaN, an output. */
bare_tensor *bare_new(ls_dtype dtype, bare_order order, int ndim, const int64_t *dim, double deviation);
#define BARE_DIMS(...)                                                                                                 \
    (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t)), (const int64_t[])                                         \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
/* The same for timing alone: no values on the host, and the random numbers repeat themselves. */
bare_tensor *bare_big(ls_dtype dtype, bare_order order, int ndim, const int64_t *dim);
void bare_free(bare_tensor *t);
/* Device to host, into `value`, and back. */
void bare_fetch(bare_tensor *t);
void bare_send(bare_tensor *t);

/* Runs it once; false, with a message, where that failed. */
bool bare_run(const ls_call *call);
/* Microseconds of a run on the GPU. */
double bare_time(const ls_call *call);

/* Prints "name: error" and counts a failure where the error, relative to the norm of what is expected, is above the
 * limit or something is NaN. */
void bare_compare(const char *name, int64_t n, const double *got, const double *expected, double limit);
/* Half a unit in the last place, relative: what one rounding to the type costs at most. */
double bare_rounding(ls_dtype dtype);
double bare_random(void); /* normal */
const char *bare_type(ls_dtype dtype);

#endif
