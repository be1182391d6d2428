/* host.c - run an operator without a kernel on the host's CPU: correct but slow.
 *
 * Operands may overlap: views of one tensor, results that are updated. So spans of memory are copied instead of
 * operands, overlapping ones as one, and the operands of the CPU's call point into the copies. */
#include <stdio.h>
#include <stdlib.h>

#include "recent.h"

typedef struct span {
    char *begin, *end; /* on the device */
    char *copy;        /* on the host */
    bool is_written;
} span;

enum { MOST = LS_MAX_INPUTS + LS_MAX_OUTPUTS };

typedef struct trip {
    span span[MOST];
    int count;
} trip;

/* Add an operand's memory, merged with the spans that it overlaps. */
static void add(trip *t, const cuda_device *d, const ls_operand *x, bool is_written)
{
    if (!x || cuda_numel(x) == 0) return;
    int64_t last = 0;
    for (int i = 0; i < x->ndim; i++) last += (x->dim[i] - 1) * x->stride[i];
    span added = {.begin = x->data, .is_written = is_written};
    added.end = added.begin + (size_t)(last + 1) * d->host->dtype_size(x->dtype);
    int kept = 0;
    for (int i = 0; i < t->count; i++) {
        const span *s = &t->span[i];
        if (s->end <= added.begin || added.end <= s->begin) {
            t->span[kept++] = *s;
            continue;
        }
        if (s->begin < added.begin) added.begin = s->begin;
        if (s->end > added.end) added.end = s->end;
        added.is_written |= s->is_written;
    }
    t->span[kept] = added;
    t->count = kept + 1;
}

/* The operand in the copies, without the device's derived forms. */
static ls_operand moved(const trip *t, const ls_operand *x)
{
    ls_operand here = *x;
    here.derived = NULL;
    for (int i = 0; i < t->count; i++) {
        const span *s = &t->span[i];
        if ((char *)x->data >= s->begin && (char *)x->data < s->end) here.data = s->copy + ((char *)x->data - s->begin);
    }
    return here;
}

static ls_status travel(trip *t, cuda_device *d, cudaStream_t stream, bool home, ls_message *why)
{
    for (int i = 0; i < t->count; i++) {
        span *s = &t->span[i];
        size_t bytes = (size_t)(s->end - s->begin);
        cudaError_t error = cudaSuccess;
        if (!home) error = cudaMemcpyAsync(s->copy, s->begin, bytes, cudaMemcpyDeviceToHost, stream);
        else if (s->is_written) error = cudaMemcpyAsync(s->begin, s->copy, bytes, cudaMemcpyHostToDevice, stream);
        CUDA_TRY(cuda_check_late(d, error, "copy for an operator on the host", why));
    }
    return cuda_wait(d, stream, "an operator on the host", why);
}

static ls_status run_there(trip *t, cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    ls_operand in[LS_MAX_INPUTS], out[LS_MAX_OUTPUTS];
    ls_call here = *call;
    CUDA_TRY(travel(t, d, stream, false, why));
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i]) in[i] = moved(t, call->in[i]), here.in[i] = &in[i];
    for (int i = 0; i < call->n_out; i++)
        if (call->out[i]) out[i] = moved(t, call->out[i]), here.out[i] = &out[i];
    CUDA_TRY(d->host->run_on_cpu(&here, why));
    return travel(t, d, stream, true, why);
}

ls_status cuda_on_host(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    trip t = {.count = 0};
    d->host_calls++;
    if (d->report_waits && !d->host_ran[call->op]) {
        char text[120];
        snprintf(text, sizeof text, "cuda: %s runs on the host", d->host->op_name(call->op));
        d->host->log(text);
    }
    d->host_ran[call->op] = true;
    for (int i = 0; i < call->n_in; i++) add(&t, d, call->in[i], false);
    for (int i = 0; i < call->n_out; i++) add(&t, d, call->out[i], true);
    ls_status status = LS_OK;
    for (int i = 0; i < t.count && status == LS_OK; i++) {
        span *s = &t.span[i];
        size_t bytes = ((size_t)(s->end - s->begin) + 63) / 64 * 64;
        s->copy = aligned_alloc(64, bytes);
        if (!s->copy) status = cuda_refuse(why, LS_ERR_MEMORY, "no host memory of %zu bytes", bytes);
    }
    if (status == LS_OK) status = run_there(&t, d, stream, call, why);
    for (int i = 0; i < t.count; i++) free(t.span[i].copy);
    return status;
}
