/* thin.c - combine neighbouring points of long curves. */
#include "watch/thin.h"

#include <math.h>
#include <stddef.h>

typedef struct bucket {
    double x, mean, low, high;
} bucket;

/* Bucket i of `count`. Each has a point at least, because there are no more buckets than points. */
static bucket bucket_at(const ls_history_series *s, int64_t i, int64_t count)
{
    int64_t from = s->count * i / count, to = s->count * (i + 1) / count, finite = 0;
    bucket b = {.x = s->x[to - 1], .low = (double)INFINITY, .high = -(double)INFINITY};
    double sum = 0;
    for (int64_t p = from; p < to; p++) {
        if (!isfinite(s->y[p])) continue;
        sum += s->y[p];
        b.low = fmin(b.low, s->y[p]);
        b.high = fmax(b.high, s->y[p]);
        finite++;
    }
    b.mean = finite ? sum / (double)finite : (double)NAN;
    return b;
}

/* The members of buckets at an offset. */
static void put_array(ls_json_writer *w, const char *key, const bucket *buckets, int64_t count, size_t offset)
{
    ls_json_put_array(w, key);
    for (int64_t i = 0; i < count; i++)
        ls_json_put_number(w, NULL, *(const double *)((const char *)&buckets[i] + offset));
    ls_json_put_end(w);
}

void ls_thin_put(ls_json_writer *w, const ls_history_series *series)
{
    int64_t count = series->count < LS_THIN_POINTS ? series->count : LS_THIN_POINTS;
    bucket buckets[LS_THIN_POINTS];
    for (int64_t i = 0; i < count; i++) buckets[i] = bucket_at(series, i, count);
    put_array(w, "x", buckets, count, offsetof(bucket, x));
    put_array(w, "y", buckets, count, offsetof(bucket, mean));
    if (series->count == count) return;
    put_array(w, "low", buckets, count, offsetof(bucket, low));
    put_array(w, "high", buckets, count, offsetof(bucket, high));
}
