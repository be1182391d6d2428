/* gemm_sink.c - results of matrix products: rows of sums are finished (bias, activation, conversion) and stored. */
#include "device/cpu/gemm.h"

void ls_gemm_locate_rows(const ls_gemm_sink *sink, int64_t item, int64_t first, int64_t count, void **out, void **pre)
{
    int64_t out_bytes = (int64_t)ls_dtype_size(sink->how.out_dtype),
            pre_bytes = (int64_t)ls_dtype_size(sink->how.pre_dtype);
    int64_t out_at = first * sink->out_stride + (sink->out_offset ? sink->out_offset[item] : 0);
    int64_t pre_at = first * sink->pre_stride + (sink->pre_offset ? sink->pre_offset[item] : 0);
    for (int64_t i = 0; i < count; i++) out[i] = (char *)sink->out + (out_at + i * sink->out_stride) * out_bytes;
    for (int64_t i = 0; i < count && sink->pre; i++)
        pre[i] = (char *)sink->pre + (pre_at + i * sink->pre_stride) * pre_bytes;
}

/* Copy n elements with gaps on either side. */
static void move_elements(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t bytes, int64_t n)
{
#define MOVE(type)                                                                                                     \
    for (int64_t i = 0; i < n; i++) ((type *)to)[i * to_step] = ((const type *)from)[i * from_step]
    if (bytes == 2) MOVE(uint16_t);
    else if (bytes == 4) MOVE(uint32_t);
    else MOVE(uint64_t);
#undef MOVE
}

/* Rows whose columns are not contiguous go through a buffer. */
static void finish_with_gaps(const ls_gemm_job *job, int64_t rows, int64_t columns, const char *sums, int64_t ld,
                             const char *bias, void *const *out, void *const *pre)
{
    const ls_gemm_sink *sink = &job->sink;
    int64_t bytes = ls_gemm_sum_bytes(job), out_bytes = (int64_t)ls_dtype_size(sink->how.out_dtype);
    int64_t pre_bytes = (int64_t)ls_dtype_size(sink->how.pre_dtype);
    double out_part[64], pre_part[64];
    void *out_row = out_part, *pre_row = pre_part;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t c = 0, n; c < columns; c += n) {
            n = smaller(columns - c, (int64_t)(sizeof out_part / sizeof *out_part));
            char *to = (char *)out[i] + c * sink->out_step * out_bytes;
            char *beside = pre ? (char *)pre[i] + c * sink->pre_step * pre_bytes : NULL;
            if (sink->how.accumulate) move_elements(out_row, 1, to, sink->out_step, out_bytes, n);
            if (pre && sink->how.residual) move_elements(pre_row, 1, beside, sink->pre_step, pre_bytes, n);
            ls_gemm_finish_of(job)(&sink->how, 1, n, sums + (i * ld + c) * bytes, ld, bias ? bias + c * bytes : NULL,
                                   &out_row, pre ? &pre_row : NULL);
            move_elements(to, sink->out_step, out_row, 1, out_bytes, n);
            if (pre && !sink->how.residual) move_elements(beside, sink->pre_step, pre_row, 1, pre_bytes, n);
        }
    }
}

void ls_gemm_finish_rows(const ls_gemm_job *job, int64_t rows, int64_t columns, const void *sums, int64_t ld,
                         const void *bias, void *const *out, void *const *pre)
{
    const ls_gemm_sink *sink = &job->sink;
    if (sink->out_step == 1 && (!pre || sink->pre_step == 1))
        ls_gemm_finish_of(job)(&sink->how, rows, columns, sums, ld, bias, out, pre);
    else finish_with_gaps(job, rows, columns, sums, ld, bias, out, pre);
}

void ls_gemm_store_rows(const ls_gemm_job *job, int64_t item, int64_t row, int64_t rows, int64_t column,
                        int64_t columns, const void *sums, int64_t ld)
{
    const ls_gemm_sink *sink = &job->sink;
    int64_t bytes = ls_gemm_sum_bytes(job),
            out_at = column * sink->out_step * (int64_t)ls_dtype_size(sink->how.out_dtype);
    int64_t pre_at = column * sink->pre_step * (int64_t)ls_dtype_size(sink->how.pre_dtype);
    const char *bias = sink->bias ? (const char *)sink->bias + column * bytes : NULL;
    void *out[LS_GEMM_LINES], *pre[LS_GEMM_LINES];
    for (int64_t at = 0, count; at < rows; at += count) {
        count = smaller(rows - at, LS_GEMM_LINES);
        sink->locate(sink, item, row + at, count, out, pre);
        for (int64_t i = 0; i < count; i++) out[i] = (char *)out[i] + out_at;
        for (int64_t i = 0; i < count && sink->pre; i++) pre[i] = (char *)pre[i] + pre_at;
        ls_gemm_finish_rows(job, count, columns, (const char *)sums + at * ld * bytes, ld, bias, out,
                            sink->pre ? pre : NULL);
    }
}
