/* mpi_peer.c - all-reduce with MPI: mpi_peer BYTES REPEAT SECONDS
 *
 * Rank 0 prints the seconds of one all-reduce in the best round of REPEAT, in place, like bench/comm.c and gloo. It is
 * built with every mpicc that is found, and started by its mpirun for each value, since a process that waits in MPI
 * keeps a core busy. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int count = argc > 3 ? (int)(atoll(argv[1]) / (long long)sizeof(float)) : 0, repeat = argc > 3 ? atoi(argv[2]) : 0;
    double seconds = argc > 3 ? atof(argv[3]) : 0, best = 1e30;
    float *data = calloc((size_t)count + 1, sizeof *data);
    if (!data || count < 1) MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < count; i++) data[i] = 0; /* touch all pages */
    double begin = MPI_Wtime();
    for (int round = 0, more = 1; more; round++) {
        double t = MPI_Wtime();
        for (int i = 0; i < repeat; i++) MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        t = MPI_Wtime() - t;
        if (round > 0 && t < best) best = t;
        more = round < 3 || MPI_Wtime() - begin < seconds;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (rank == 0) printf("%.9g\n", best / repeat);
    free(data);
    MPI_Finalize();
    return 0;
}
