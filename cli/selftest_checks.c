/* selftest_checks.c - the self-test: identity, collectives, sharding of data. */
#include "selftest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Numbers of a tensor -------------------------------------------------------------------------------------- */

/* As doubles, to be freed by the caller; NULL after a failure. */
static double *numbers_of(ls_tensor *t, int64_t *count)
{
    *count = ls_numel(t);
    double *to = malloc((size_t)*count * sizeof *to + 1);
    if (to && ls_read(ls_cast(t, LS_F64), to, (size_t)*count * sizeof *to)) return to;
    free(to);
    return NULL;
}

typedef double value_fn(int64_t i, const void *user);

/* Is element i equal to value(i), to a relative tolerance? */
static void expect(trial *t, const char *what, ls_tensor *got, int64_t wanted_count, value_fn *value, const void *user,
                   double tolerance)
{
    int64_t count;
    double *numbers = numbers_of(got, &count);
    if (!numbers) return; /* the run has the reason */
    if (count != wanted_count)
        trial_fails(t, "%s: %lld values, expected %lld", what, (long long)count, (long long)wanted_count);
    for (int64_t i = 0; i < count && i < wanted_count; i++) {
        double wanted = value(i, user);
        if (fabs(numbers[i] - wanted) <= tolerance * fabs(wanted)) continue;
        trial_fails(t, "%s: value %lld of %lld is %.9g, expected %.9g", what, (long long)i, (long long)count,
                    numbers[i], wanted);
        break;
    }
    free(numbers);
}

/* ---- Identity ------------------------------------------------------------------------------------------------- */

void try_identity(trial *t)
{
    ls_run *run = t->run;
    struct {
        char version[32];
        int rank, world, local_rank, local_world;
    } mine = {"", ls_rank(run), ls_world_size(run), ls_local_rank(run), ls_local_world_size(run)}, other;
    snprintf(mine.version, sizeof mine.version, "%s", ls_version());
    if (mine.local_rank < 0 || mine.local_rank >= mine.local_world || mine.local_world > mine.world)
        trial_fails(t, "it is local rank %d of %d, in a world of %d", mine.local_rank, mine.local_world, mine.world);
    if (ls_is_main(run) != (mine.rank == 0) || ls_is_last(run) != (mine.rank == mine.world - 1) ||
        ls_is_local_main(run) != (mine.local_rank == 0))
        trial_fails(t, "it is wrong about being the main, last or local main process");
    ls_gathered all = ls_gather_object(run, &mine, sizeof mine);
    for (int r = 0; r < all.count; r++) {
        memcpy(&other, all.data[r], sizeof other);
        if (other.rank != r || other.world != mine.world)
            trial_fails(t, "process %d says it is %d of %d; this one has a world of %d", r, other.rank, other.world,
                        mine.world);
        if (strcmp(other.version, mine.version) != 0)
            trial_fails(t, "this is lockstep %s, rank %d runs %s: install the same everywhere", mine.version, r,
                        other.version);
    }
    if (mine.rank == 0) ls_set_trigger(run);
    bool raised = ls_check_trigger(run), again = ls_check_trigger(run);
    if (!raised || again) trial_fails(t, "a trigger of rank 0 was %s", raised ? "not reset" : "not seen");
}

/* ---- Collectives ---------------------------------------------------------------------------------------------- */

enum { SIZES = 3 };
static const int64_t sizes[SIZES] = {1, 1001, 150001};

/* Small integers of both signs, which all types can represent. */
static double given(int64_t i, int rank)
{
    return (double)((7 * i + 3 * rank) % 11 - 5);
}

static ls_tensor *make_given(ls_run *run, ls_dtype dtype, int64_t count, int rank)
{
    float *numbers = malloc((size_t)count * sizeof *numbers);
    for (int64_t i = 0; numbers && i < count; i++) numbers[i] = (float)given(i, rank);
    ls_tensor *x = numbers ? ls_cast(ls_from(run, LS_F32, LS_SHAPE(count), numbers), dtype) : NULL;
    if (!numbers) ls_set_error(run, LS_ERR_MEMORY, "lockstep test: no memory for %lld numbers", (long long)count);
    free(numbers);
    return x;
}

typedef struct across {
    ls_reduction how;
    int world;
} across;

static double reduced(int64_t i, const void *user)
{
    const across *a = user;
    double result = given(i, 0);
    for (int r = 1; r < a->world; r++) {
        double next = given(i, r);
        if (a->how == LS_REDUCE_MAX) result = fmax(result, next);
        else if (a->how == LS_REDUCE_MIN) result = fmin(result, next);
        else result += next;
    }
    return a->how == LS_REDUCE_MEAN ? result / a->world : result;
}

/* f16 and bf16 are summed in f32 and rounded once. */
static double rounding_of(ls_dtype dtype)
{
    return dtype == LS_BF16 ? 0x1p-8 : dtype == LS_F16 ? 0x1p-11 : dtype == LS_F32 ? 0x1p-23 : 0x1p-50;
}

static void try_reductions(trial *t)
{
    static const char *const names[] = {"sum", "mean", "max", "min"};
    static const ls_dtype dtypes[] = {LS_F32, LS_F64, LS_BF16, LS_F16, LS_I64, LS_I32};
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        for (int how = LS_REDUCE_SUM; how <= LS_REDUCE_MIN; how++) {
            if (how == LS_REDUCE_MEAN && !ls_dtype_is_float(dtypes[d])) continue;
            for (int s = 0; s < SIZES && !ls_error(t->run); s++) {
                ls_mark mark = ls_scope_begin(t->run);
                ls_tensor *x = make_given(t->run, dtypes[d], sizes[s], ls_rank(t->run));
                char what[64];
                snprintf(what, sizeof what, "all-reduce %s of %s", names[how], ls_dtype_name(dtypes[d]));
                expect(t, what, ls_reduce(t->run, x, (ls_reduction)how), sizes[s], reduced,
                       &(across){(ls_reduction)how, ls_world_size(t->run)}, rounding_of(dtypes[d]));
                ls_scope_end(t->run, mark, NULL);
            }
        }
    }
}

static double from_rank(int64_t i, const void *user)
{
    return given(i, *(const int *)user);
}

static void try_broadcasts(trial *t)
{
    int rank = ls_rank(t->run), world = ls_world_size(t->run);
    const int from[] = {0, world / 2, world - 1};
    for (size_t f = 0; f < sizeof from / sizeof *from; f++)
        for (int s = 0; s < SIZES; s++)
            expect(t, "broadcast", ls_broadcast(t->run, make_given(t->run, LS_F32, sizes[s], rank), from[f]), sizes[s],
                   from_rank, &from[f], 0);
}

static double row_of(int64_t i, const void *user)
{
    (void)user;
    int rank = 0;
    for (int64_t left = i; left >= rank % 3 + 1; rank++) left -= rank % 3 + 1; /* rank r sent r % 3 + 1 */
    return rank;
}

static double zero_after(int64_t i, const void *user)
{
    return i < *(const int64_t *)user ? 1 : 0;
}

static void try_gathers(trial *t)
{
    ls_run *run = t->run;
    int rank = ls_rank(run), world = ls_world_size(run);
    int64_t rows = rank % 3 + 1, all_rows = 0, most = world < 3 ? world : 3;
    for (int r = 0; r < world; r++) all_rows += r % 3 + 1;
    expect(t, "gather", ls_gather(run, ls_full(run, LS_F32, rank, rows)), all_rows, row_of, NULL, 0);
    expect(t, "padding", ls_pad_across_processes(run, ls_full(run, LS_I64, 1, rows)), most, zero_after, &rows, 0);
    char text[32];
    int length = snprintf(text, sizeof text, "%0*d", rank % 20 + 1, rank);
    ls_gathered all = ls_gather_object(run, text, (size_t)length);
    for (int r = 0; r < all.count; r++) {
        length = snprintf(text, sizeof text, "%0*d", r % 20 + 1, r);
        if ((size_t)length != all.size[r] || memcmp(text, all.data[r], all.size[r]) != 0)
            trial_fails(t, "gather of bytes: rank %d sent %.*s, received \"%.*s\"", r, length, text, (int)all.size[r],
                        (const char *)all.data[r]);
    }
}

void try_collectives(trial *t)
{
    try_reductions(t);
    try_broadcasts(t);
    try_gathers(t);
    try_raw_collectives(t);
    ls_wait_for_everyone(t->run);
}

/* ---- Data ----------------------------------------------------------------------------------------------------- */

static bool get_number(int64_t index, ls_sample *sample, void *user)
{
    (void)user;
    *(int64_t *)ls_sample_field(sample, 0) = index;
    return true;
}

/* Two passes over samples 0 .. count-1: together the processes must see each of them once; in order unless shuffled. */
static void try_loader(trial *t, int64_t count, bool shuffle)
{
    const char *how = shuffle ? "shuffled" : "in order";
    ls_dataset *set =
        ls_dataset_new(t->run, .count = count, .get = get_number, .fields = {{"number", LS_I64, {0}, 0, 0}});
    ls_loader *loader = ls_loader_new(t->run, set, .batch = 4, .shuffle = shuffle, .workers = 2);
    unsigned char *seen = calloc(1, (size_t)count);
    ls_prepare(t->run, loader);
    for (int pass = 0; seen && pass < 2; pass++) {
        int64_t place = 0, more;
        for (ls_batch b; ls_next(loader, &b);) {
            double *numbers = numbers_of(ls_gather(t->run, b.tensor[0]), &more);
            for (int64_t i = 0; numbers && i < more; i++, place++) {
                int64_t number = (int64_t)numbers[i];
                bool new = number >= 0 && number < count &&seen[number] == pass;
                if (new) seen[number]++;
                if (!new || (!shuffle && number != place))
                    trial_fails(t, "%lld samples %s, pass %d: sample %lld came at position %lld", (long long)count, how,
                                pass, (long long)number, (long long)place);
            }
            free(numbers);
        }
        if (place != count && !ls_error(t->run))
            trial_fails(t, "%lld samples %s, pass %d: %lld came", (long long)count, how, pass, (long long)place);
    }
    free(seen);
    ls_loader_free(loader);
    ls_dataset_free(set);
}

void try_data(trial *t)
{
    int64_t world = ls_world_size(t->run);
    try_loader(t, 12 * world, false);
    try_loader(t, 12 * world, true);
    try_loader(t, 12 * world + 5, true); /* the last batches are padded, which must not be counted */
    ls_range part = ls_split_between_processes(t->run, 17);
    double total =
        ls_item(ls_reduce(t->run, ls_full(t->run, LS_F32, (double)(part.end - part.begin), 1), LS_REDUCE_SUM));
    if (!ls_error(t->run) && total != 17) trial_fails(t, "17 items were distributed as %g", total);
}
