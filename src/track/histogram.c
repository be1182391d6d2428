/* histogram.c - where the elements of a tensor lie. */
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

bool ls_track_count(ls_run *run, ls_tensor *values, ls_histogram *h)
{
    int64_t count = ls_numel(values);
    float *numbers = ls_track_read(run, "ls_track_histogram", values);
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
