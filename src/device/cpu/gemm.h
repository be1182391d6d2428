/* gemm.h - matrix products of operands that need not be matrices in memory: the engine behind matmul, linear and
 * conv2d.
 *
 *     C [m,n] (+)= A [m,k] B [k,n], `batch` of them
 *
 * An operand is a set of lines of contiguous elements and a function that returns their addresses: rows of a matrix, or
 * its columns, or the pixels under one tap of a convolution. The engine cuts C into blocks for the workers, packs what
 * a block needs, multiplies with the kernels of kernels/gemm.h, and finishes each block (bias, activation, conversion)
 * while it is in cache. Sums are never rounded to less than f32 on the way. Results do not depend on the number of
 * workers. */
#ifndef LOCKSTEP_DEVICE_CPU_GEMM_H
#define LOCKSTEP_DEVICE_CPU_GEMM_H

#include "kernels/gemm.h"

#define LS_GEMM_LINES 512 /* addresses of lines, or of rows, requested at a time */

/* ---- Sizes ----------------------------------------------------------------------------------------------------- */

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* ---- Operands -------------------------------------------------------------------------------------------------- */

typedef struct ls_gemm_source ls_gemm_source;

/* Addresses of lines [first, first + count) of a segment; NULL for a line of zeros. A line that must be assembled first
 * may use its part of `room`, source->room bytes each. */
typedef void ls_gemm_locate(const ls_gemm_source *source, int64_t item, int64_t segment, int64_t first, int64_t count,
                            void *room, const void **line);

/* A or B. Along k: line i is row i (column i for B), made of `segments` parts of `length` elements; each part is padded
 * with zeros to a multiple of the kernel's kr, so that k of the product is segments * round_up(length, kr). Across k:
 * line j is k = j, again in segments; with several, each is padded to whole panels,
 * and n of the product counts that padding. */
struct ls_gemm_source {
    ls_dtype dtype;
    bool across;
    int64_t segments, length;
    int64_t lines; /* across: number of lines; k beyond is zeros */
    int64_t room;  /* bytes per line that `locate` needs to assemble lines; only with one segment */
    ls_gemm_locate *locate;
    /* (optional) Called once before lines are requested, by the thread that runs the job; false: out of memory. For B
     * only: if packed weights are found, it is not called. */
    bool (*prepare)(ls_gemm_source *source);
    /* For ls_gemm_locate_matrix, otherwise unused: */
    const void *data;
    int64_t stride;             /* elements from line to line */
    const int64_t *item_offset; /* elements, one per item of the batch; NULL: the same for all */
    const void *context;
};

/* Lines at equal distances. */
ls_gemm_locate ls_gemm_locate_matrix;

/* ---- The result -------------------------------------------------------------------------------------------------- */

typedef struct ls_gemm_job ls_gemm_job;

/* Receives finished sums [rows, columns] of block (row, column) of an item, ld apart. */
typedef void ls_gemm_store(const ls_gemm_job *job, int64_t item, int64_t row, int64_t rows, int64_t column,
                           int64_t columns, const void *sums, int64_t ld);

typedef struct ls_gemm_sink {
    ls_gemm_store *store;
    ls_gemm_finish how;
    const void *bias; /* [n], of the type of the sums, or NULL */
    /* For ls_gemm_store_rows: addresses of rows of out, and of pre unless that is NULL. */
    void (*locate)(const struct ls_gemm_sink *sink, int64_t item, int64_t first, int64_t count, void **out, void **pre);
    int64_t out_step, pre_step; /* elements from column to column */
    /* For ls_gemm_locate_rows, otherwise unused: */
    void *out, *pre; /* pre may be NULL */
    int64_t out_stride, pre_stride;
    const int64_t *out_offset, *pre_offset; /* elements, one per item of the batch; NULL: the same for all */
    const void *context;
} ls_gemm_sink;

/* Finishes rows and stores them where sink->locate says. */
ls_gemm_store ls_gemm_store_rows;
/* The second half of it: finish rows of sums and store them at given addresses; pre may be NULL. */
void ls_gemm_finish_rows(const ls_gemm_job *job, int64_t rows, int64_t columns, const void *sums, int64_t ld,
                         const void *bias, void *const *out, void *const *pre);
/* Rows at equal distances. */
void ls_gemm_locate_rows(const ls_gemm_sink *sink, int64_t item, int64_t first, int64_t count, void **out, void **pre);

/* ---- Packed forms of weights ------------------------------------------------------------------------------------- */

/* Identifies a packed form of an operand: kernel, address, orientation, sizes. */
typedef struct ls_gemm_key {
    int64_t word[16];
} ls_gemm_key;

typedef struct ls_gemm_form {
    struct ls_gemm_form *next;
    ls_gemm_key key;
    uint64_t version; /* of the operand when it was packed last */
    size_t bytes;
    void *panels; /* NULL: it was packed into memory that others use too */
} ls_gemm_form;

/* The form with this key, created without memory if it is new; NULL: out of memory. Its panels are valid if its version
 * equals that of `derived`; otherwise the caller packs and then sets the version. Only between lock and unlock. */
ls_gemm_form *ls_gemm_form_find(ls_derived *derived, const ls_gemm_key *key);
/* Give the form memory of its own unless it has some; false: out of memory. */
bool ls_gemm_form_keep(ls_gemm_form *form, size_t bytes);
void ls_gemm_form_lock(void);
void ls_gemm_form_unlock(void);

/* ---- Products ---------------------------------------------------------------------------------------------------- */

struct ls_gemm_job {
    const ls_gemm_kernel *kernel;
    int64_t batch, m, n, k; /* k: a multiple of the kernel's kr, or 0 */
    ls_gemm_source a, b;
    ls_gemm_sink sink;
    int64_t strip;       /* columns the sink wants at once, a multiple of nr; 0: any number */
    bool same_b;         /* all items multiply with the same B */
    ls_derived *derived; /* where the packed B may be kept; NULL: nowhere. Only with same_b */
    ls_gemm_key key;     /* the caller's description of B's layout, words 8 to 15 */
};

/* The kernel for C [m,n] that wastes least at the edges; m < 0: unknown. */
const ls_gemm_kernel *ls_gemm_choose(ls_dtype compute, int64_t m, int64_t n);
/* The same for products that ls_gemm_run packs, `keeps`: B, where it may. */
const ls_gemm_kernel *ls_gemm_choose_packed(ls_dtype compute, int64_t m, int64_t n, int64_t k, bool keeps);

/* Type of a kernel's sums. */
static inline ls_dtype ls_gemm_sum_dtype(const ls_gemm_kernel *kernel)
{
    return kernel->panel == LS_F64 ? LS_F64 : LS_F32;
}

static inline int64_t ls_gemm_sum_bytes(const ls_gemm_job *job)
{
    return (int64_t)ls_dtype_size(ls_gemm_sum_dtype(job->kernel));
}

/* What finishes rows of such sums. */
static inline ls_gemm_finish_fn *ls_gemm_finish_of(const ls_gemm_job *job)
{
    return job->kernel->panel == LS_F64 ? ls_gemm()->finish_f64 : ls_gemm()->finish_f32;
}

/* Parts of ls_gemm_run shared with other engines: B of a job with same_b in panels, *stride elements apart, kept with
 * its operand or packed into scratch slot 3 of the caller (NULL: out of memory); and how many workers are worth
 * waking. */
const void *ls_gemm_panels_of_b(ls_gemm_job *job, int64_t *stride);
/* Is that packed anew for every product, from lines that are there? Then a worker may pack `count` panels from number
 * `first` on itself. */
bool ls_gemm_packs_b(const ls_gemm_job *job);
int64_t ls_gemm_panel_stride(const ls_gemm_job *job);
void ls_gemm_pack_panels(const ls_gemm_job *job, int64_t first, int64_t count, void *to);
int ls_gemm_workers(const ls_gemm_job *job);

/* LS_ERR_MEMORY or LS_OK. Uses scratch slots 0 and 1 of every worker and 3 of the caller;
 * slot 2 is free for operands. */
ls_status ls_gemm_run(ls_gemm_job *job, ls_message *why);

#endif
