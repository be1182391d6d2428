/* conv_moments.c - means and sums of squared deviations of the columns of a product, gathered by its tasks. */
#include "device/cpu/channels.h"
#include "device/cpu/conv.h"

static int64_t heads_space(int64_t tasks)
{
    return ls_gemm_round_up(tasks * (int64_t)sizeof(ls_gathering), 64);
}

int64_t ls_gathering_space(int64_t tasks, int64_t columns)
{
    return heads_space(tasks) + tasks * 2 * columns * (int64_t)sizeof(double);
}

ls_gathering *ls_gathering_begin(void *memory, int64_t tasks, int64_t columns, int64_t n)
{
    ls_gathering *all = memory;
    double *numbers = (double *)((char *)memory + heads_space(tasks));
    for (int64_t i = 0, column = 0; i < tasks; i++, numbers += 2 * columns) {
        all[i] = (ls_gathering){
            .column = column, .columns = smaller(columns, n - column), .mean = numbers, .m2 = numbers + columns};
        column = column + columns < n ? column + columns : 0;
    }
    return all;
}

void ls_gathering_add(ls_gathering *gathering, int64_t column, int64_t columns, const ls_gemm_moments *found,
                      int64_t points)
{
    double mean[LS_GEMM_MAX_WIDTH], m2[LS_GEMM_MAX_WIDTH];
    double *so_far = gathering->mean + column - gathering->column,
           *so_far_m2 = gathering->m2 + column - gathering->column;
    for (int64_t c = 0; c < columns; c++) {
        double sum = (double)found->sum[c], shift = sum / (double)points;
        double deviations = (double)found->squares[c] - shift * sum;
        mean[c] = (double)found->pivot[c] + shift;
        m2[c] = deviations < 0 ? 0 : deviations; /* NaN stays */
        if (!gathering->points) so_far[c] = so_far_m2[c] = 0;
    }
    ls_moments_merge(so_far, so_far_m2, gathering->points, mean, m2, points, columns);
}

void ls_gathering_merge(const ls_gathering *gatherings, int64_t tasks, int64_t n, const ls_conv_moments *into)
{
    int64_t seen = 0;
    for (int64_t c = 0; c < n; c++) into->mean[c] = into->m2[c] = 0;
    for (int64_t i = 0; i < tasks; i++) {
        const ls_gathering *g = &gatherings[i];
        ls_moments_merge(into->mean + g->column, into->m2 + g->column, seen, g->mean, g->m2, g->points, g->columns);
        if (g->column + g->columns == n) seen += g->points;
    }
}
