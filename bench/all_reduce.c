/* all_reduce.c - a benchmark program: all-reduce by as many processes as were started, on any hosts. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

#include "run/session.h"

/* `--all-reduce BYTES REPEAT SECONDS`: rank 0 prints the seconds of one all-reduce in the best round of REPEAT, like
 * mpi_peer.c. The data is in memory shared by the processes of a host, as gradients are. */
int bench_all_reduce(char **arguments)
{
    int64_t count = strtoll(arguments[0], NULL, 10) / (int64_t)sizeof(float);
    int repeat = (int)strtol(arguments[1], NULL, 10);
    double seconds = strtod(arguments[2], NULL), best = 1e30;
    ls_run *run = ls_init(NULL, NULL);
    ls_comm *comm = ls_error(run) ? NULL : run->comm;
    ls_message why = {{0}};
    float *data = comm ? comm->table->share(comm, (size_t)count * sizeof *data, &why) : NULL;
    for (int64_t i = 0; data && i < count; i++) data[i] = 0; /* touch all pages */
    ls_status status = data ? LS_OK : LS_ERR_PEER;
    double begin = bench_now();
    int32_t more = 1;
    for (int round = 0; more && !status; round++) {
        double t = bench_now();
        for (int i = 0; i < repeat && !status; i++)
            status = ls_comm_all_reduce(comm, data, count, LS_F32, LS_REDUCE_SUM, "bench", &why);
        t = bench_now() - t;
        if (round > 0 && t < best) best = t;
        more = round < 3 || bench_now() - begin < seconds;
        if (!status) status = ls_comm_broadcast(comm, &more, sizeof more, 0, "bench", &why);
    }
    if (status && !ls_error(run)) ls_set_error(run, status, "all-reduce: %s", why.text);
    if (ls_is_main(run) && !status) printf("%.9g\n", best / repeat);
    return ls_finish(run);
}
