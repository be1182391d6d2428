/* worker.c - a program that is started several times: what a run does when it is one of several processes.
 *
 *     worker exchange | twice | fail | die | differ | trigger */
#include <lockstep.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void exchange(ls_run *run)
{
    int rank = ls_rank(run), world = ls_world(run);
    ls_tensor *mine = ls_full(run, LS_F32, rank, rank + 1, 2);
    ls_tensor *all = ls_gather(run, mine);
    double total = ls_item(ls_sum(ls_reduce(run, ls_full(run, LS_F32, rank + 1, 3), LS_ACROSS_SUM)));
    double mean = ls_item(ls_mean(ls_reduce(run, ls_full(run, LS_F32, rank + 1, 3), LS_ACROSS_MEAN)));
    double from = ls_item(ls_mean(ls_broadcast(run, ls_full(run, LS_F32, rank + 1, 3), world - 1)));
    ls_tensor *padded = ls_pad_across_processes(run, mine, .value = -1);
    char text[32];
    int length = snprintf(text, sizeof text, "rank %d", rank);
    ls_gathered words = ls_gather_object(run, text, (size_t)length + 1);
    ls_range part = ls_split_between_processes(run, 2 * world + 1);
    ls_main_first(run)
    {
        usleep(1000);
    }
    ls_wait_for_everyone(run);
    if (ls_error(run)) return;
    printf("rank %d of %d, local %d of %d: rows %lld sum %g total %g mean %g from %g padded %lld words %s part %lld\n",
           rank, world, ls_local_rank(run), ls_local_world(run), (long long)ls_dim(all, 0), ls_item(ls_sum(all)), total,
           mean, from, (long long)ls_dim(padded, 0), (const char *)words.data[world - 1],
           (long long)(part.end - part.begin));
}

/* Rank 1 finds something wrong, the others wait for it. */
static void fail(ls_run *run)
{
    ls_tensor *x = ls_ones(run, LS_F32, 2, 3);
    if (ls_rank(run) == 1) x = ls_matmul(x, x);
    ls_gather(run, x);
}

static void die(ls_run *run)
{
    ls_wait_for_everyone(run);
    if (ls_rank(run) == 1) raise(SIGKILL);
    ls_wait_for_everyone(run);
}

static void differ(ls_run *run)
{
    if (ls_rank(run) == 1) ls_check_trigger(run);
    else ls_wait_for_everyone(run);
}

static void trigger(ls_run *run)
{
    if (ls_is_last(run)) ls_set_trigger(run);
    bool first = ls_check_trigger(run), second = ls_check_trigger(run);
    printf("rank %d: %d %d\n", ls_rank(run), first, second);
}

int main(int argc, char **argv)
{
    ls_run *run = ls_init(&argc, &argv);
    const char *what = argc > 1 ? argv[1] : "exchange";
    if (strcmp(what, "exchange") == 0) exchange(run);
    else if (strcmp(what, "twice") == 0) {
        ls_finish(run);
        run = ls_init(NULL, NULL);
    } else if (strcmp(what, "fail") == 0) fail(run);
    else if (strcmp(what, "die") == 0) die(run);
    else if (strcmp(what, "differ") == 0) differ(run);
    else trigger(run);
    return ls_finish(run);
}
