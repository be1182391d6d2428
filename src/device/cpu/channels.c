/* channels.c - moments of channels. */
#include "device/cpu/channels.h"

void ls_moments_merge(double *restrict mean, double *restrict m2, int64_t seen, const double *restrict more_mean,
                      const double *restrict more_m2, int64_t n, int64_t channels)
{
    double share = seen + n ? (double)n / (double)(seen + n) : 0, weight = share * (double)seen;
    for (int64_t c = 0; c < channels; c++) {
        double delta = more_mean[c] - mean[c];
        mean[c] += delta * share;
        m2[c] += more_m2[c] + delta * delta * weight;
    }
}

static void move(const ls_operand *vector, int64_t i, double momentum, double to)
{
    ls_channel_set(vector, i, (1 - momentum) * ls_channel_get(vector, i, 0) + momentum * to);
}

void ls_running_move(const ls_running *running, int64_t i, double mean, double m2, int64_t elements)
{
    move(running->mean, i, running->momentum, mean);
    move(running->var, i, running->momentum, m2 / (double)(elements > 1 ? elements - 1 : 1));
}
