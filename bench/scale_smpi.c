/* scale_smpi.c - the messages of an all-reduce between hosts with one rank each, for SimGrid: scale_smpi BYTES PIECE
 *
 * Sends what src/comm/hosts/pieces.c sends, without the data: a greeting, then pieces, three in flight at once. Rank 0
 * prints the simulated seconds. bench/scale.py builds and runs it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 3, LINE = 64, GREETING = 128 };

static int rank, size;
static char *room; /* buffer of all messages, never read */
static MPI_Request *requests[SLOTS][2];

/* Exchange a message with every other rank, each a part of a piece. */
static void exchange(long bytes, int tag, MPI_Request *pending)
{
    for (int i = 1; i < size; i++)
        MPI_Irecv(room, (int)bytes, MPI_BYTE, (rank + size - i) % size, tag, MPI_COMM_WORLD, pending++);
    for (int i = 1; i < size; i++)
        MPI_Isend(room, (int)bytes, MPI_BYTE, (rank + i) % size, tag, MPI_COMM_WORLD, pending++);
}

static void await(MPI_Request *pending)
{
    MPI_Waitall(2 * (size - 1), pending, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long bytes = argc > 2 ? atol(argv[1]) : 0, piece = argc > 2 ? atol(argv[2]) : 1;
    long pieces = (bytes + piece - 1) / piece, part = bytes / pieces / size / LINE * LINE + LINE;
    room = SMPI_SHARED_MALLOC((size_t)part + GREETING);
    for (int slot = 0; slot < SLOTS; slot++)
        for (int half = 0; half < 2; half++) requests[slot][half] = calloc((size_t)size, 2 * sizeof(MPI_Request));
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    exchange(GREETING, 0, requests[0][0]);
    await(requests[0][0]);
    for (long k = 0; k < pieces + 2; k++) {
        if (k < pieces) exchange(part, 1, requests[k % SLOTS][0]);
        if (k >= 1 && k - 1 < pieces) {
            await(requests[(k - 1) % SLOTS][0]);
            exchange(part, 2, requests[(k - 1) % SLOTS][1]);
        }
        if (k >= 2) await(requests[(k - 2) % SLOTS][1]);
    }
    double mine = MPI_Wtime() - begin, slowest;
    MPI_Reduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%.9g\n", slowest);
    for (int slot = 0; slot < SLOTS; slot++)
        for (int half = 0; half < 2; half++) free(requests[slot][half]);
    SMPI_SHARED_FREE(room);
    MPI_Finalize();
    return 0;
}
