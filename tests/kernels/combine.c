/* combine.c - kernels that combine rows: every ISA of this machine against the plain ones. */
#include "kernels/combine.h"

#include "base/rng.h"
#include "check.h"
#include "kernels/element.h"
#include "kernels/kernels.h"

enum { PIXELS = 4, DOWN = 3, ACROSS = 3, MOST = 75, PITCH = 80, COLUMNS = 9, ROWS = 4 };

/* A picture [ROWS, COLUMNS, PITCH] of which windows of at most 3 x 3 pixels are taken. */
typedef struct memory {
    double x[ROWS * COLUMNS * PITCH], where[ROWS * COLUMNS * PITCH]; /* of any type, at most 8 bytes each */
    double y[2][PIXELS * PITCH], at[2][PIXELS * PITCH];              /* of the plain kernel, of the other one */
} memory;

static const int64_t first[PIXELS] = {1, 2 * PITCH + 3, PITCH, 6 * PITCH + 2}, across[PIXELS] = {3, 2, 0, 1};
static const int64_t column[PIXELS] = {0, 2, 1, 6};
static const double weights_down[DOWN] = {0.5, 0.25, -1.5},
                    weights_across[PIXELS * ACROSS] = {0.5, -1.25, 3, 0.1, 1, 0, 0, 0, 0, 2};

static void fill(memory *m, ls_dtype from, ls_dtype to)
{
    for (int64_t i = 0; i < ROWS * COLUMNS * PITCH; i++) {
        ls_philox4 bits = ls_philox(1, (uint64_t)i);
        ls_put(from, m->x, i, bits.lane[0] % 23 == 0 ? NAN : (double)(bits.lane[1] % 64) / 16 - 2);
        ls_put(LS_I32, m->where, i, 1000 + bits.lane[2] % PIXELS);
    }
    for (int64_t i = 0; i < PIXELS * PITCH; i++) {
        ls_put(to, m->y[0], i, (double)i / 4);
        ls_put(to, m->y[1], i, (double)i / 4);
    }
    memset(m->at, 0, sizeof m->at);
}

static void check_same(const memory *m, ls_dtype to, double tolerance)
{
    for (int64_t i = 0; i < PIXELS * PITCH; i++) {
        CHECK_NEAR(ls_get(to, m->y[1], i), ls_get(to, m->y[0], i), tolerance);
        CHECK(ls_get(LS_I32, m->at[1], i) == ls_get(LS_I32, m->at[0], i));
    }
}

static void combine(const ls_combine_table *kernels, ls_dtype from, ls_dtype to, int64_t down, int64_t n)
{
    static memory m;
    const ls_combine_table *table[2] = {&ls_combine_ref, kernels};
    double tolerance = to == LS_BF16 ? 0x1p-8 : to == LS_F16 ? 0x1p-10 : to == LS_F32 ? 1e-6 : 0;
    fill(&m, from, to);
    for (int i = 0; i < 2; i++) table[i]->add_rows(from, to, m.y[i], m.x, first, down, n);
    check_same(&m, to, tolerance);
    if (from != to) return;

    ls_window_row row = {.pixels = PIXELS, .channels = n, .step = PITCH, .down = down, .across = across};
    row.x = (ls_window_walk){first, COLUMNS * PITCH, PITCH};
    row.weight.down = weights_down;
    row.weight.across = weights_across;
    row.weight.pitch = ACROSS;
    fill(&m, from, to);
    for (int i = 0; i < 2; i++) table[i]->sum(to, m.y[i], m.x, &row);
    check_same(&m, to, tolerance);

    row.at.walk = (ls_window_walk){column, COLUMNS, 1};
    row.at.step = PITCH;
    row.at.origin = 100;
    for (int with_where = 0; with_where < 2; with_where++) {
        fill(&m, from, to);
        for (int i = 0; i < 2; i++) table[i]->max(to, m.y[i], with_where ? (int32_t *)m.at[i] : NULL, m.x, &row);
        check_same(&m, to, 0);
    }

    row.at.walk = row.x;
    row.at.origin = 1000;
    fill(&m, from, to);
    for (int i = 0; i < 2; i++) table[i]->chosen(to, m.y[i], (const int32_t *)m.where, m.x, &row);
    check_same(&m, to, tolerance);
}

static void every_isa_gives_the_same(void)
{
    const ls_dtype types[][2] = {{LS_F32, LS_F32}, {LS_F64, LS_F64},  {LS_BF16, LS_BF16},
                                 {LS_F16, LS_F16}, {LS_BF16, LS_F32}, {LS_F16, LS_F32}};
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        if (!ls_isa_usable((ls_isa)isa)) continue;
        ls_isa_cap((ls_isa)isa);
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            for (int64_t n = 0; n <= MOST; n++)
                combine(ls_combine_kernels(), types[t][0], types[t][1], n % (DOWN + 1), n);
        }
    }
}

/* Rows folded on every ISA give the bits of the plain form, in one copy or several, in place or not. */
static void fold(const ls_combine_table *kernels, ls_dtype dtype, ls_dtype to_type, ls_fold how, int count, int copies,
                 int64_t n)
{
    static double rows[5][PITCH], to[2][5][PITCH];
    const void *x[5];
    void *out[2][5];
    size_t bytes = (size_t)n * ls_dtype_size(to_type);
    for (int r = 0; r < 5; r++) {
        for (int64_t i = 0; i < PITCH; i++) {
            ls_philox4 bits = ls_philox((uint64_t)r, (uint64_t)i);
            double value = (double)(bits.lane[1] % 256) / 16;
            if (ls_dtype_is_float(dtype)) ls_put(dtype, rows[r], i, bits.lane[0] % 23 == 0 ? NAN : value - 8);
            else
                ls_put_int(dtype, rows[r], i, dtype == LS_I64 ? INT64_MAX - (int64_t)bits.lane[0] : bits.lane[0] % 100);
        }
        x[r] = rows[r];
        for (int which = 0; which < 2; which++) out[which][r] = memset(to[which][r], 7, sizeof to[which][r]);
    }
    ls_combine_ref.fold_rows(dtype, to_type, how, 0.25f, out[0], copies, x, count, n);
    kernels->fold_rows(dtype, to_type, how, 0.25f, out[1], copies, x, count, n);
    for (int k = 0; k < copies; k++) CHECK(memcmp(to[0][k], to[0][0], bytes) == 0);
    for (int k = 0; k < 5; k++) CHECK(memcmp(to[0][k], to[1][k], sizeof to[0][k]) == 0);
    if (dtype != to_type) return;
    for (int k = 0; k < copies; k++) out[1][k] = rows[k];
    kernels->fold_rows(dtype, to_type, how, 0.25f, out[1], copies, x, count, n);
    CHECK(memcmp(rows[copies - 1], to[0][0], bytes) == 0);
}

static bool may_become(ls_dtype from, ls_dtype to)
{
    bool halves = from == LS_BF16 || from == LS_F16 || to == LS_BF16 || to == LS_F16;
    return from == to || (halves && (from == LS_F32 || to == LS_F32));
}

static void rows_fold_alike_on_every_isa(void)
{
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        if (!ls_isa_usable((ls_isa)isa)) continue;
        ls_isa_cap((ls_isa)isa);
        for (ls_dtype from = LS_BOOL; from < LS_DTYPE_COUNT; from++)
            for (ls_dtype to = LS_BOOL; to < LS_DTYPE_COUNT; to++)
                for (int how = 0; how < LS_FOLD_COUNT && may_become(from, to); how++)
                    for (int64_t n = 0; n <= MOST; n++)
                        fold(ls_combine_kernels(), from, to, (ls_fold)how, 1 + (int)(n % 5), 1 + (int)(n % 3), n);
    }
}

static void folds_are_what_they_are_called(void)
{
    const float x[3] = {3, -2, 5};
    const int64_t big[2] = {INT64_MAX, 2};
    float y[LS_FOLD_COUNT];
    const float want[LS_FOLD_COUNT] = {
        [LS_FOLD_SUM] = 3, [LS_FOLD_PROD] = -15, [LS_FOLD_MAX] = 2.5f, [LS_FOLD_MIN] = -1};
    for (int how = 0; how < LS_FOLD_COUNT; how++) {
        ls_combine_kernels()->fold_rows(LS_F32, LS_F32, (ls_fold)how, 0.5f, (void *[]){&y[how]}, 1,
                                        (const void *[]){&x[0], &x[1], &x[2]}, 3, 1);
        CHECK_NEAR(y[how], want[how], 0);
    }
    int64_t sum;
    ls_combine_kernels()->fold_rows(LS_I64, LS_I64, LS_FOLD_SUM, 1, (void *[]){&sum}, 1,
                                    (const void *[]){&big[0], &big[1]}, 2, 1);
    CHECK(sum == INT64_MIN + 1);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(every_isa_gives_the_same);
    CHECK_RUN(rows_fold_alike_on_every_isa);
    CHECK_RUN(folds_are_what_they_are_called);
    return check_done();
}
