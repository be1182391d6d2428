/* accumulating.c - checkpoints between the batches of an accumulation, when each process has gradients of its own: the
 * same number of processes continues bit for bit, others with the same sums. */
#include <lockstep.h>

#include <math.h>

#include "check.h"
#include "checkpoint/points.h"
#include "folder.h"
#include "run/team.h"

enum { EPOCHS = 2, BATCHES = 5, ALL = EPOCHS * BATCHES, WEIGHTS = 6 * 5 + 5 + 5 * 2 + 2 };

static const char *home;

/* ---- a training ---- */

static struct {
    bool shard, partly, weighted, resume;
    int accumulation, stop; /* number of batches after which to save, and to end */
} plan;

static float weights[WEIGHTS], undisturbed[WEIGHTS]; /* of rank 0 at the end */
static bool all_equal;                               /* all ranks had the same */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void leave_weights(ls_run *run, ls_module *net)
{
    float mine[WEIGHTS];
    CHECK(team_read(net, mine) == WEIGHTS);
    pthread_mutex_lock(&lock);
    if (ls_is_main(run)) memcpy(weights, mine, sizeof weights);
    pthread_mutex_unlock(&lock);
    ls_wait_for_everyone(run);
    pthread_mutex_lock(&lock);
    all_equal = all_equal && memcmp(weights, mine, sizeof weights) == 0;
    pthread_mutex_unlock(&lock);
}

/* With plan.partly rank 1 skips the first layer in the first batch of each group: it has no gradient there yet. */
static ls_tensor *forward(ls_run *run, ls_module *net, ls_tensor *x, int batch)
{
    bool leaves_out = plan.partly && ls_rank(run) == 1 && batch % BATCHES % plan.accumulation == 0;
    return leaves_out ? ls_forward(ls_child(net, "2"), ls_slice(x, 1, 0, 5, 1)) : ls_forward(net, x);
}

/* Every batch has 12 samples in total, whatever the number of processes. */
static void train(ls_run *run)
{
    ls_set_gradient_accumulation_steps(run, plan.accumulation);
    run->step->share.split_batches = true;
    run->step->share.optimizer = plan.shard;
    ls_loader *train = ls_loader_new(run, points(run, 12 * BATCHES, 6), .batch = 12, .shuffle = true, .seed = 8);
    ls_module *net = ls_sequential_new(run, ls_linear_new(run, 6, 5), ls_tanh_new(run), ls_linear_new(run, 5, 2));
    ls_optim *sgd = ls_sgd_new(run, net, .lr = 0.3, .momentum = 0.9);
    ls_prepare(run, net, sgd, train);
    if (plan.resume) CHECK_MSG(ls_load_state(run, home), "%s", ls_error_message(run));
    int count = plan.resume ? plan.stop : 0;
    for (int epoch; ls_epoch(run, EPOCHS, &epoch);)
        for (ls_batch b; ls_next(train, &b);) {
            ls_tensor *loss = ls_cross_entropy(forward(run, net, b.image, count), b.label);
            if (plan.weighted) ls_backward_weighted(run, loss, 100 * (1 + count % 3 + 4 * ls_rank(run)));
            else ls_backward(run, loss);
            ls_step(sgd);
            ls_zero_grad(sgd);
            if (++count != plan.stop) continue;
            CHECK_MSG(ls_save_state(run, home), "%s", ls_error_message(run));
            return;
        }
    CHECK(count == ALL);
    leave_weights(run, net);
}

static void train_undisturbed(int world)
{
    plan.stop = 0;
    plan.resume = false;
    all_equal = true;
    team_run(world, train);
    CHECK(all_equal);
    memcpy(undisturbed, weights, sizeof weights);
}

/* Two processes save after some batches, others continue. Returns how much the final weights differ. */
static double interrupt(int stop, int world)
{
    folder_fresh(home);
    plan.stop = stop;
    plan.resume = false;
    team_run(2, train);
    plan.resume = all_equal = true;
    team_run(world, train);
    CHECK(all_equal);
    double most = 0;
    for (int i = 0; i < WEIGHTS; i++) most = fmax(most, fabs((double)weights[i] - undisturbed[i]));
    return most;
}

/* ---- the same number, and others ---- */

static void the_same_number_of_processes_continues_exactly(void)
{
    plan.partly = true;
    for (int way = 0; way < 4; way++)
        for (int accumulation = 2; accumulation < 4; accumulation++) {
            bool shard = plan.shard = way & 1, weighted = plan.weighted = way & 2; /* differently on each process */
            plan.accumulation = accumulation;
            train_undisturbed(2);
            for (int stop = 1; stop < ALL; stop++)
                CHECK_MSG(interrupt(stop, 2) == 0 && memcmp(weights, undisturbed, sizeof weights) == 0,
                          "shard %d, weighted %d, accumulation %d, saved after batch %d", shard, weighted, accumulation,
                          stop);
        }
    plan.weighted = false;
}

static void any_number_of_processes_continues_with_the_same_sums(void)
{
    plan.accumulation = 3;
    plan.partly = false;
    for (int shard = 0; shard < 2; shard++)
        for (int world = 1; world <= 4; world++)
            for (int stop = 1; stop < ALL; stop += 3) {
                plan.shard = shard;
                train_undisturbed(2);
                double off = interrupt(stop, world);
                CHECK_MSG(off < 1e-5, "shard %d, %d processes, saved after batch %d: off by %g", shard, world, stop,
                          off);
            }
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    home = home_of("accumulating");
    CHECK_RUN(the_same_number_of_processes_continues_exactly);
    CHECK_RUN(any_number_of_processes_continues_with_the_same_sums);
    folder_remove(home);
    return check_done();
}
