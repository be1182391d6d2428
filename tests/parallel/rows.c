/* rows.c - operators that several processes run together: results checked against plain C, gradients against finite
 * differences of the sum of all processes' losses. test_parallel_rows [--device NAME] [part of a name] */
#include <lockstep.h>

#include "arguments.h"
#include "run/team.h"

enum { ROWS = 8, COLUMNS = 3, NUMEL = ROWS * COLUMNS }; /* of each process; divisible by four */

static void check_no_error(ls_run *run)
{
    CHECK_MSG(ls_error(run) == LS_OK, "%s", ls_error_message(run));
}

static void expect(ls_run *run, const char *words)
{
    CHECK_MSG(strstr(ls_error_message(run), words), "%s", ls_error_message(run));
    ls_clear_error(run);
}

/* ---- the operators, under the same names in both implementations ---- */

typedef ls_tensor *row_fn(ls_comm *comm, ls_tensor *x);
/* Element i of the result of `rank`; x has the inputs of all, one after the other. */
typedef double plain_fn(int rank, int world, int i, double (*x)[NUMEL]);

static ls_tensor *all_reduce(ls_comm *comm, ls_tensor *x)
{
    return ls_all_reduce(comm, x, LS_REDUCE_SUM);
}

static ls_tensor *all_reduce_mean(ls_comm *comm, ls_tensor *x)
{
    return ls_all_reduce(comm, x, LS_REDUCE_MEAN);
}

static ls_tensor *reduce_scatter(ls_comm *comm, ls_tensor *x)
{
    return ls_reduce_scatter(comm, x, LS_REDUCE_SUM);
}

static ls_tensor *reduce_scatter_mean(ls_comm *comm, ls_tensor *x)
{
    return ls_reduce_scatter(comm, x, LS_REDUCE_MEAN);
}

static ls_tensor *broadcast(ls_comm *comm, ls_tensor *x)
{
    return ls_broadcast_from(comm, x, ls_comm_size(comm) - 1);
}

static double plain_sum(int rank, int world, int i, double (*x)[NUMEL])
{
    double sum = 0;
    (void)rank;
    for (int r = 0; r < world; r++) sum += x[r][i];
    return sum;
}

static double plain_mean(int rank, int world, int i, double (*x)[NUMEL])
{
    return plain_sum(rank, world, i, x) / world;
}

static double plain_gather(int rank, int world, int i, double (*x)[NUMEL])
{
    (void)rank, (void)world;
    return x[i / NUMEL][i % NUMEL];
}

static double plain_scatter(int rank, int world, int i, double (*x)[NUMEL])
{
    return plain_sum(rank, world, rank * (NUMEL / world) + i, x);
}

static double plain_scatter_mean(int rank, int world, int i, double (*x)[NUMEL])
{
    return plain_scatter(rank, world, i, x) / world;
}

static double plain_broadcast(int rank, int world, int i, double (*x)[NUMEL])
{
    (void)rank;
    return x[world - 1][i];
}

static const struct {
    const char *name;
    row_fn *row;
    plain_fn *plain;
} rows[] = {
    {"all_reduce", all_reduce, plain_sum},
    {"all_reduce, mean", all_reduce_mean, plain_mean},
    {"all_gather", ls_all_gather, plain_gather},
    {"reduce_scatter", reduce_scatter, plain_scatter},
    {"reduce_scatter, mean", reduce_scatter_mean, plain_scatter_mean},
    {"broadcast", broadcast, plain_broadcast},
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

/* ---- one of them ---- */

/* Every element of every process has a different weight. */
static double weight(int rank, int i)
{
    return 0.25 * ((i * 7 + rank * 5) % 9 - 4) + 0.125;
}

static void make_numbers(double (*x)[NUMEL])
{
    for (int r = 0; r < TEAM_MAX; r++)
        for (int i = 0; i < NUMEL; i++) x[r][i] = 0.0625 * ((i * 37 + r * 11) % 29 - 13);
}

/* The total loss: each is the sum of weight * result^2 / 2. */
static double plain_loss(plain_fn *plain, int world, int64_t count, double (*x)[NUMEL])
{
    double loss = 0;
    for (int r = 0; r < world; r++) {
        for (int i = 0; i < count; i++) {
            double y = plain(r, world, i, x);
            loss += weight(r, i) * y * y / 2;
        }
    }
    return loss;
}

static void check_row(ls_run *run, int k, bool strided)
{
    int rank = ls_rank(run), world = ls_world_size(run);
    double x[TEAM_MAX][NUMEL], values[TEAM_MAX * NUMEL], weights[TEAM_MAX * NUMEL];
    make_numbers(x);
    ls_tensor *mine = ls_from(run, LS_F64, LS_SHAPE(ROWS, COLUMNS), x[rank]);
    /* Memory order differs from the order of dimensions. */
    if (strided) mine = ls_permute(ls_contiguous(ls_permute(mine, 1, 0)), 1, 0);
    ls_set_requires_grad(mine, true);
    ls_tensor *y = rows[k].row(ls_comm_of(run), mine);
    int64_t count = ls_numel(y);
    CHECK(ls_read(y, values, (size_t)count * sizeof *values));
    for (int i = 0; i < count; i++) {
        CHECK_NEAR(values[i], rows[k].plain(rank, world, i, x), 1e-12);
        weights[i] = weight(rank, i);
    }
    ls_tensor *w = ls_from(run, LS_F64, ls_shape_of(y), weights);
    ls_backward(run, ls_mul_scalar(ls_sum(ls_mul(w, ls_mul(y, y))), 0.5));
    check_no_error(run);
    double gradient[NUMEL] = {0};
    ls_tensor *g = ls_grad(mine);
    if (g) CHECK(ls_read(g, gradient, sizeof gradient));
    for (int i = 0; i < NUMEL; i++) {
        enum { PARTS = 1024 };
        double before = x[rank][i], high, low;
        x[rank][i] = before + 1.0 / PARTS;
        high = plain_loss(rows[k].plain, world, count, x);
        x[rank][i] = before - 1.0 / PARTS;
        low = plain_loss(rows[k].plain, world, count, x);
        x[rank][i] = before;
        double difference = (high - low) * PARTS / 2;
        CHECK_MSG(fabs(gradient[i] - difference) < 1e-8, "%s: gradient %d of rank %d of %d is %g, not %g", rows[k].name,
                  i, rank, world, gradient[i], difference);
    }
}

static void check_rows(ls_run *run)
{
    for (int k = 0; k < ROW_COUNT; k++)
        for (int strided = 0; strided < 2; strided++) check_row(run, k, strided);
}

static void results_and_gradients_are_those_of_all(void)
{
    team_run(1, check_rows);
    team_run(2, check_rows);
    team_run(4, check_rows);
}

/* ---- some of the processes ---- */

static void reduce_in_pairs(ls_run *run)
{
    int rank = ls_rank(run);
    ls_comm *pair = ls_comm_split(ls_comm_of(run), rank / 2, rank);
    ls_tensor *x = ls_set_requires_grad(ls_full(run, LS_F32, 1 + rank, 2), true);
    ls_tensor *y = ls_all_reduce(pair, x, LS_REDUCE_SUM);
    CHECK_NEAR(ls_item(ls_slice(y, 0, 0, 1, 1)), rank < 2 ? 3 : 7, 0);
    ls_backward(run, ls_mul_scalar(ls_sum(y), 1 + rank));
    CHECK_NEAR(ls_item(ls_slice(ls_grad(x), 0, 0, 1, 1)), rank < 2 ? 3 : 7, 0);
    check_no_error(run);
}

static void groups_are_independent(void)
{
    team_run(4, reduce_in_pairs);
}

/* A matrix divided among processes by columns, the next one by rows: Megatron's pair of layers. */
static void multiply_in_parts(ls_run *run)
{
    enum { IN = 5, HIDDEN = 8, OUT = 3 };
    int rank = ls_rank(run), world = ls_world_size(run), each = HIDDEN / world;
    ls_set_seed(run, 3);
    ls_tensor *x = ls_set_requires_grad(ls_normal_shape(run, LS_F64, 0, 1, LS_SHAPE(4, IN)), true);
    ls_tensor *a = ls_normal_shape(run, LS_F64, 0, 1, LS_SHAPE(IN, HIDDEN)),
              *b = ls_normal_shape(run, LS_F64, 0, 1, LS_SHAPE(HIDDEN, OUT));
    ls_backward(run, ls_sum(ls_tanh(ls_matmul(ls_relu(ls_matmul(x, a)), b))));
    ls_tensor *whole = ls_clone(ls_grad(x));
    ls_clear_grad(x);
    ls_tensor *mine_a = ls_slice(a, 1, rank * each, (rank + 1) * each, 1);
    ls_tensor *mine_b = ls_slice(b, 0, rank * each, (rank + 1) * each, 1);
    ls_comm *all = ls_comm_of(run);
    ls_tensor *y = ls_all_reduce(all, ls_matmul(ls_relu(ls_matmul(x, mine_a)), mine_b), LS_REDUCE_SUM);
    /* Every process has the whole loss: each counts for its share. */
    ls_backward(run, ls_mul_scalar(ls_sum(ls_tanh(y)), 1.0 / world));
    ls_tensor *sum = ls_all_reduce(all, ls_grad(x), LS_REDUCE_SUM);
    CHECK_NEAR(ls_item(ls_norm(ls_sub(sum, whole))), 0, 1e-12);
    check_no_error(run);
}

static void layers_may_be_divided_among_processes(void)
{
    team_run(2, multiply_in_parts);
    team_run(4, multiply_in_parts);
}

static void walk_back_through_two(ls_run *run)
{
    ls_comm *all = ls_comm_of(run);
    ls_tensor *x = ls_set_requires_grad(ls_ones(run, LS_F32, 3), true);
    ls_backward(run, ls_sum(ls_broadcast_from(all, ls_all_reduce(all, x, LS_REDUCE_SUM), 1)));
    CHECK(ls_grad(x) && ls_item(ls_sum(ls_grad(x))) == 6); /* from the losses of both */
    ls_clear_grad(x);
    ls_backward(run, ls_sum(ls_broadcast_from(all, x, 1)));
    CHECK(ls_grad(x) && ls_item(ls_sum(ls_grad(x))) == (ls_rank(run) == 1 ? 6 : 0));
    check_no_error(run);
}

static void all_continue_backward_after_a_broadcast(void)
{
    team_run(2, walk_back_through_two);
}

/* ---- what cannot be called ---- */

static void mistakes_are_named(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = team_device); /* without a job, whose other ranks would learn of them */
    ls_comm *all = ls_comm_of(run);
    ls_tensor *x = ls_set_requires_grad(ls_ones(run, LS_F32, 3), true);
    ls_all_reduce(all, x, LS_REDUCE_MAX);
    expect(run, "all_reduce: max over processes has no gradient; ls_detach() the input");
    CHECK_NEAR(ls_item(ls_sum(ls_all_reduce(all, ls_detach(x), LS_REDUCE_MAX))), 3, 0);
    ls_all_reduce(all, ls_ones(run, LS_I32, 3), LS_REDUCE_MEAN);
    expect(run, "the mean of [3] i32 needs a floating type");
    ls_all_gather(all, ls_sum(x));
    expect(run, "all_gather: [] has no rows");
    ls_broadcast_from(all, x, 1);
    expect(run, "there is no rank 1 among 1 processes");
    ls_all_gather(NULL, x);
    expect(run, "the communicator is NULL");
    ls_comm *part = ls_comm_split(all, 0, 0);
    ls_tensor *y = ls_all_gather(part, x);
    ls_comm_free(part);
    ls_backward(run, ls_sum(y));
    expect(run, "the communicator of all_gather was freed before backward");
    ls_finish(run);
}

static void divide_unevenly(ls_run *run)
{
    ls_reduce_scatter(ls_comm_of(run), ls_ones(run, LS_F32, 3), LS_REDUCE_SUM);
    expect(run, "reduce_scatter: [3] f32 cannot be divided into equal rows for 2 processes");
}

static void fail_before(ls_run *run)
{
    ls_comm *all = ls_comm_of(run);
    ls_tensor *x = ls_ones(run, LS_F32, 2, 3);
    if (ls_rank(run) == 1) x = ls_matmul(x, x);
    ls_all_reduce(all, x, LS_REDUCE_SUM);
    CHECK(ls_error(run) == (ls_rank(run) ? LS_ERR_SHAPE : LS_ERR_PEER));
    if (ls_rank(run) == 0) CHECK(strstr(ls_error_message(run), "rank 1 failed: matmul"));
}

static void bring_different_sizes(ls_run *run)
{
    ls_all_reduce(ls_comm_of(run), ls_ones(run, LS_F32, 2 + ls_rank(run)), LS_REDUCE_SUM);
    CHECK_MSG(strstr(ls_error_message(run), "all-reduce"), "%s", ls_error_message(run));
}

static void bring_different_shapes(ls_run *run)
{
    bool tall = ls_rank(run) == 0;
    ls_all_reduce(ls_comm_of(run), ls_ones(run, LS_F32, tall ? 6 : 2, tall ? 2 : 6), LS_REDUCE_SUM);
    CHECK_MSG(strstr(ls_error_message(run), "all_reduce of [6,2] f32"), "%s", ls_error_message(run));
    CHECK_MSG(strstr(ls_error_message(run), "all_reduce of [2,6] f32"), "%s", ls_error_message(run));
}

static void no_rank_waits_for_one_that_failed(void)
{
    team_run(2, divide_unevenly);
    team_run(2, fail_before);
    team_run(2, bring_different_sizes);
    team_run(2, bring_different_shapes);
}

int main(int argc, char **argv)
{
    team_device = check_arguments(argc, argv);
    CHECK_RUN(results_and_gradients_are_those_of_all);
    CHECK_RUN(groups_are_independent);
    CHECK_RUN(layers_may_be_divided_among_processes);
    CHECK_RUN(all_continue_backward_after_a_broadcast);
    CHECK_RUN(mistakes_are_named);
    CHECK_RUN(no_rank_waits_for_one_that_failed);
    return check_done();
}
