/* histogram.c - where the elements of a tensor lie. */
#include <lockstep/ops.h>

#include <math.h>

#include "base/memory.h"
#include "tensor/context.h"
#include "track/sink.h"

enum { BINS = 30 };

static void find_range(const float *numbers, int64_t count, ls_histogram *h)
{
    for (int64_t i = 0; i < count; i++) {
        double x = (double)numbers[i];
        if (!isfinite(x)) continue;
        if (h->count == 0 || x < h->min) h->min = x;
        if (h->count == 0 || x > h->max) h->max = x;
        h->count++;
        h->sum += x;
        h->sum_squares += x * x;
    }
}

/* All elements as f32; the caller frees them. NULL (and an error) on failure. */
static float *read_numbers(ls_run *run, ls_tensor *t)
{
    size_t bytes = (size_t)ls_numel(t) * sizeof(float);
    float *numbers = ls_sys_alloc(bytes ? bytes : 1);
    if (!numbers) {
        ls_fail(&run->errors, LS_ERR_MEMORY, "ls_track_histogram: no memory for %zu bytes", bytes);
        return NULL;
    }
    ls_mark mark = ls_scope_begin(run);
    ls_no_grad_begin(run);
    bool read = ls_read(ls_cast(t, LS_F32), numbers, bytes);
    ls_no_grad_end(run);
    ls_scope_end(run, mark, NULL);
    if (read) return numbers;
    ls_sys_free(numbers);
    return NULL;
}

bool ls_track_count(ls_run *run, ls_tensor *values, ls_histogram *h)
{
    int64_t count = ls_numel(values);
    float *numbers = read_numbers(run, values);
    if (!numbers) return false;
    *h = (ls_histogram){.bins = BINS};
    find_range(numbers, count, h);
    double width = h->max > h->min ? (h->max - h->min) / BINS : 1;
    for (int i = 0; i < BINS; i++) h->limit[i] = h->min + width * (i + 1);
    if (h->max > h->min) h->limit[BINS - 1] = h->max; /* not a rounding below it */
    for (int64_t i = 0; i < count; i++) {
        double x = (double)numbers[i];
        if (!isfinite(x)) continue;
        int bin = (int)((x - h->min) / width);
        h->size[bin < BINS ? bin : BINS - 1]++;
    }
    ls_sys_free(numbers);
    return true;
}
