/* mpi_peer.c - all-reduce with MPI, or with oneCCL between processes of MPI: mpi_peer BYTES REPEAT SECONDS [bf16]
 *
 * Rank 0 prints the seconds of one all-reduce in the best round of REPEAT, in place, like bench/comm.c and gloo. It is
 * built with every mpicc that is found, once more with WITH_ONECCL if that is installed, and started by its mpirun for
 * each value, since a process that waits in MPI keeps a core busy. bf16: with oneCCL alone. */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef WITH_ONECCL
#include <oneapi/ccl.h>

static onecclComm_t comm;

static void succeed(onecclResult_t result, const char *what)
{
    if (result == onecclSuccess) return;
    fprintf(stderr, "mpi_peer: %s failed: %d\n", what, (int)result);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static void begin(int rank, int ranks)
{
    onecclUniqueId id;
    if (rank == 0) succeed(onecclGetUniqueId(&id), "onecclGetUniqueId");
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    succeed(onecclCommInitRank(&comm, (size_t)ranks, id, rank), "onecclCommInitRank");
}

static void all_reduce(void *data, int count, bool half)
{
    succeed(onecclAllReduce(data, data, (size_t)count, half ? onecclBfloat16 : onecclFloat, onecclSum, comm, NULL),
            "onecclAllReduce");
}

static void end(void)
{
    onecclCommDestroy(comm);
}
#else
static void begin(int rank, int ranks)
{
    (void)rank, (void)ranks;
}

static void all_reduce(void *data, int count, bool half)
{
    if (half) MPI_Abort(MPI_COMM_WORLD, 2); /* MPI has no bf16 */
    MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void end(void)
{
}
#endif

/* Do the sums of 1 and 2 come back as 3? */
static bool adds(int rank, int ranks)
{
    float x = (float)(rank + 1);
    all_reduce(&x, 1, false);
    return x == (float)(ranks * (ranks + 1) / 2);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    bool half = argc > 4 && strcmp(argv[4], "bf16") == 0;
    size_t bytes = argc > 3 ? (size_t)atoll(argv[1]) : 0;
    int count = (int)(bytes / (half ? 2 : sizeof(float))), repeat = argc > 3 ? atoi(argv[2]) : 0;
    double seconds = argc > 3 ? atof(argv[3]) : 0, best = 1e30;
    char *data = (char *)malloc(bytes + 1); /* oneCCL's header is C++ */
    if (!data || count < 1) MPI_Abort(MPI_COMM_WORLD, 2);
    memset(data, 0, bytes); /* touch all pages */
    begin(rank, ranks);
    if (!adds(rank, ranks)) MPI_Abort(MPI_COMM_WORLD, 3);
    double start = MPI_Wtime();
    for (int round = 0, more = 1; more; round++) {
        double t = MPI_Wtime();
        for (int i = 0; i < repeat; i++) all_reduce(data, count, half);
        t = MPI_Wtime() - t;
        if (round > 0 && t < best) best = t;
        more = round < 3 || MPI_Wtime() - start < seconds;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) printf("%.9g\n", best / repeat);
    end();
    free(data);
    MPI_Finalize();
    return 0;
}
