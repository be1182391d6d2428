/* random.c - random tensors depend on the counter, not on layout, threads or ISA, and have the right distribution. */
#include "base/rng.h"
#include "operands.h"

enum { N = 200003 };
#define UNIFORM 0xb822751d54e8b41cu
#define NORMAL 0xd40f36e2c84bb15au

static void draw(ls_opcode op, const operand *t, double a, double b)
{
    ls_call call = {.op = op, .n_out = 1, .out = {&t->view}};
    call.attrs.random.seed = 11, call.attrs.random.offset = 77, call.attrs.random.a = a, call.attrs.random.b = b;
    run(&call);
}

static float uniform(int64_t i)
{
    return ls_uniform_from_bits(ls_philox(11, 77 + (uint64_t)i / 4).lane[i % 4]);
}

static void uniform_numbers_follow_the_counter(void)
{
    for (int c = 0; c < 4 * LAYOUTS; c++) {
        operand t = operand_new(float_types[c % 4], LS_SHAPE(3, 7, 41), (placement)(c / 4));
        draw(LS_OP_uniform, &t, -1, 3);
        for (int64_t i = 0; i < numel(&t.view); i++) {
            CHECK_NEAR(get(&t, i), -1 + 4 * (double)uniform(i), c % 4 < 2 ? 1e-6 : 1e-2);
            CHECK(get(&t, i) >= -1 && get(&t, i) < 3);
        }
        operand_free(&t);
    }
}

static void intervals_stay_open(void)
{
    const double high[] = {1, -1, 0};
    for (int c = 0; c < 12; c++) {
        operand t = operand_new(float_types[c % 4], LS_SHAPE(20000), PLAIN);
        draw(LS_OP_uniform, &t, high[c / 4] - 1, high[c / 4]);
        for (int64_t i = 0; i < 20000; i++) CHECK(get(&t, i) >= high[c / 4] - 1 && get(&t, i) < high[c / 4]);
        operand_free(&t);
    }
}

static void normal_numbers_are_box_and_mullers(void)
{
    operand t = operand_new(LS_F32, LS_SHAPE(N), PLAIN);
    draw(LS_OP_normal, &t, 0, 1);
    double sum = 0, squares = 0, fourth = 0;
    for (int64_t i = 0; i < N; i++) {
        double z = get(&t, i), radius = sqrt(-2 * log((double)uniform(i & ~1) + 0x1p-24));
        double angle = 2 * M_PI * (double)uniform(i | 1);
        CHECK_NEAR(z, radius * (i % 2 ? sin(angle) : cos(angle)), 2e-6);
        sum += z, squares += z * z, fourth += z * z * z * z;
    }
    CHECK_NEAR(sum / N, 0, 0.01);
    CHECK_NEAR(squares / N, 1, 0.01);
    CHECK_NEAR(fourth / N, 3, 0.05);
    operand shifted = operand_new(LS_F64, LS_SHAPE(100), GAPS);
    draw(LS_OP_normal, &shifted, 5, 0.5);
    for (int64_t i = 0; i < 100; i++) CHECK_NEAR(get(&shifted, i), 5 + 0.5 * get(&t, i), 1e-15);
    operand_free(&t);
    operand_free(&shifted);
}

/* The sum of all bits of a draw. Recorded values prove that other machines draw the same. */
static uint64_t fingerprint(const operand *t)
{
    uint64_t hash = 1469598103934665603u;
    const unsigned char *byte = t->view.data;
    for (size_t i = 0; i < N * ls_dtype_size(t->view.dtype); i++) hash = (hash ^ byte[i]) * 1099511628211u;
    return hash;
}

static void draws_do_not_depend_on_machine_or_threads(void)
{
    EACH_ISA(isa) for (int width = 1; width <= 3; width++)
    {
        ls_parallel_set_width(width);
        operand t = operand_new(LS_F32, LS_SHAPE(N), PLAIN);
        draw(LS_OP_uniform, &t, -0.1, 0.3);
        CHECK_MSG(fingerprint(&t) == UNIFORM, "uniform: %llx", (unsigned long long)fingerprint(&t));
        draw(LS_OP_normal, &t, 0.1, 0.02);
        CHECK_MSG(fingerprint(&t) == NORMAL, "normal: %llx", (unsigned long long)fingerprint(&t));
        operand_free(&t);
    }
    lift_caps();
}

static void bernoulli_counts(void)
{
    EACH_DTYPE(d)
    {
        operand t = operand_new(d, LS_SHAPE(10007), d == LS_I32 ? GAPS : PLAIN);
        draw(LS_OP_bernoulli, &t, 0.3, 0);
        int64_t ones = 0;
        for (int64_t i = 0; i < 10007; i++) {
            CHECK(get(&t, i) == ((double)uniform(i) < 0.3));
            ones += get(&t, i) != 0;
        }
        CHECK_NEAR((double)ones / 10007, 0.3, 0.015);
        draw(LS_OP_bernoulli, &t, 1, 0);
        CHECK(get(&t, 0) == 1 && get(&t, 10006) == 1);
        draw(LS_OP_bernoulli, &t, 0, 0);
        CHECK(get(&t, 0) == 0 && get(&t, 10006) == 0);
        operand_free(&t);
    }
}

static void permutations_contain_every_number_once(void)
{
    for (int64_t n = 0; n < 1000; n = n * 3 + 1) {
        operand t = operand_new(LS_I64, LS_SHAPE(n), n == 4 ? GAPS : PLAIN);
        draw(LS_OP_randperm, &t, 0, 0);
        bool seen[1000] = {false};
        int64_t fixed = 0;
        for (int64_t i = 0; i < n; i++) {
            int64_t v = (int64_t)get(&t, i);
            CHECK(v >= 0 && v < n && !seen[v]);
            seen[v] = true;
            fixed += v == i;
        }
        CHECK(n < 100 || fixed < 10);
        operand_free(&t);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(uniform_numbers_follow_the_counter);
    CHECK_RUN(intervals_stay_open);
    CHECK_RUN(normal_numbers_are_box_and_mullers);
    CHECK_RUN(draws_do_not_depend_on_machine_or_threads);
    CHECK_RUN(bernoulli_counts);
    CHECK_RUN(permutations_contain_every_number_once);
    return check_done();
}
