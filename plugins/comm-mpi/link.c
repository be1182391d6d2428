/* link.c - the MPI transport: messages between ranks of MPI_COMM_WORLD, assigned to links by their tags.
 *
 * The receiver chooses the tag: every rank numbers its links and sends the number to the others as its address. So no
 * MPI communicator is created for a group, for which all of its members would have to wait while other links stand
 * still.
 *
 * Receiving a message longer than its buffer fails as it should. But Open MPI (4.1) writes all of a large one before it
 * reports that. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "process.h"

#if defined(OPEN_MPI)
#define FLAVOUR "openmpi"
#else
#define FLAVOUR "mpich" /* also Intel MPI and others */
#endif

struct ls_link {
    int rank, size;
    int job_size;
    bool whole;   /* the whole job; its number is the same on all ranks */
    int number;   /* of this link, among those of this rank */
    int *world;   /* [size] rank of each member in the job */
    int *numbers; /* [size] number that each member gave this link */
    ls_link_request *active;
};

struct ls_link_request {
    ls_link_request *next, *previous;
    MPI_Request mpi;
    int peer; /* -1: any */
    bool receives;
    size_t room;
};

enum { CANCEL_MS = 50, CLOSE_MS = 3000 };

static int64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- links ---- */

static int tag_of(int number, ls_link_channel channel)
{
    return number * LS_LINK_CHANNELS + (int)channel; /* mpi_next_link() checks that it fits */
}

static void free_link(ls_link *link)
{
    if (!link) return;
    while (link->active) {
        ls_link_request *next = link->active->next;
        free(link->active);
        link->active = next;
    }
    free(link->world);
    free(link->numbers);
    free(link);
}

static ls_link *mpi_open(const ls_link_open_args *opts, ls_message *why)
{
    ls_link *link = calloc(1, sizeof *link);
    if (link) {
        link->world = calloc((size_t)opts->size, sizeof *link->world);
        link->numbers = calloc((size_t)opts->size, sizeof *link->numbers);
    }
    if (!link || !link->world || !link->numbers) {
        snprintf(why->text, sizeof why->text, "no memory for a link of %d ranks", opts->size);
        free_link(link);
        return NULL;
    }
    link->rank = opts->rank;
    link->size = opts->size;
    link->whole = !opts->of;
    link->job_size = opts->of ? opts->of->job_size : opts->size;
    for (int r = 0; r < link->size; r++) link->world[r] = opts->of ? opts->of->world[opts->ranks[r]] : r;
    if (mpi_process_enter(link->world[link->rank], link->job_size, why) != LS_OK) {
        free_link(link);
        return NULL;
    }
    link->number = mpi_next_link(link->whole);
    return link;
}

static size_t mpi_address(ls_link *link, void *to)
{
    if (link->whole) return 0;
    memcpy(to, &link->number, sizeof link->number);
    return sizeof link->number;
}

static ls_status mpi_connect(ls_link *link, const void *addresses, size_t each, ls_message *why)
{
    (void)why;
    for (int r = 0; r < link->size; r++) {
        link->numbers[r] = link->number;
        if (!link->whole) memcpy(&link->numbers[r], (const char *)addresses + (size_t)r * each, sizeof(int));
    }
    return LS_OK;
}

/* ---- messages ---- */

static ls_link_request *new_request(ls_link *link, int peer, bool receives, size_t room)
{
    ls_link_request *request = malloc(sizeof *request);
    if (!request) return NULL;
    *request = (ls_link_request){.next = link->active, .peer = peer, .receives = receives, .room = room};
    if (link->active) link->active->previous = request;
    return link->active = request;
}

static void free_request(ls_link *link, ls_link_request *request)
{
    if (request->next) request->next->previous = request->previous;
    if (request->previous) request->previous->next = request->next;
    else link->active = request->next;
    free(request);
}

static ls_status begin(ls_link *link, int peer, ls_link_channel channel, void *data, size_t bytes, bool receives,
                       ls_link_request **request, ls_message *why)
{
    ls_link_request *r = new_request(link, peer, receives, bytes);
    if (!r) {
        snprintf(why->text, sizeof why->text, "no memory for a message");
        return LS_ERR_MEMORY;
    }
    ls_status status = LS_ERR_PEER;
    if (mpi_lock(why)) {
        int world = peer == LS_LINK_ANY ? MPI_ANY_SOURCE : link->world[peer];
        int tag = tag_of(receives ? link->number : link->numbers[peer], channel);
        int error = receives ? MPI_Irecv(data, (int)bytes, MPI_BYTE, world, tag, mpi_everybody(), &r->mpi)
                             : MPI_Isend(data, (int)bytes, MPI_BYTE, world, tag, mpi_everybody(), &r->mpi);
        status = error == MPI_SUCCESS ? LS_OK : mpi_failed(receives ? "MPI_Irecv" : "MPI_Isend", error, why);
        mpi_unlock();
    }
    if (status != LS_OK) free_request(link, r);
    else *request = r;
    return status;
}

static ls_status mpi_send(ls_link *link, int peer, ls_link_channel channel, const void *data, size_t bytes,
                          ls_link_request **request, ls_message *why)
{
    return begin(link, peer, channel, (void *)(uintptr_t)data, bytes, false, request, why);
}

static ls_status mpi_receive(ls_link *link, int peer, ls_link_channel channel, void *data, size_t bytes,
                             ls_link_request **request, ls_message *why)
{
    return begin(link, peer, channel, data, bytes, true, request, why);
}

static ls_status failure(const ls_link *link, const ls_link_request *request, int error, ls_message *why)
{
    int kind = MPI_SUCCESS;
    char what[64];
    MPI_Error_class(error, &kind);
    if (kind == MPI_ERR_TRUNCATE) {
        snprintf(why->text, sizeof why->text, "a message is longer than its buffer of %zu bytes", request->room);
        return LS_ERR_VALUE;
    }
    int rank = request->peer == LS_LINK_ANY ? LS_LINK_ANY : link->world[request->peer];
    snprintf(what, sizeof what, "%s rank %d", request->receives ? "receiving from" : "sending to", rank);
    return mpi_failed(what, error, why);
}

static ls_status mpi_test(ls_link *link, ls_link_request *request, bool *done, size_t *received, ls_message *why)
{
    int flag = 0, count = 0;
    MPI_Status status;
    *done = false;
    if (!mpi_lock(why)) {
        free_request(link, request);
        return LS_ERR_PEER;
    }
    int error = MPI_Test(&request->mpi, &flag, &status);
    if (error == MPI_SUCCESS && flag && request->receives) MPI_Get_count(&status, MPI_BYTE, &count);
    ls_status result = error == MPI_SUCCESS ? LS_OK : failure(link, request, error, why);
    mpi_unlock();
    if (result == LS_OK && !flag) return LS_OK;
    *done = result == LS_OK;
    if (received) *received = (size_t)count;
    free_request(link, request);
    return result;
}

/* With the lock held: wait until it completes or is cancelled; false: neither, by the deadline. */
static bool end_request(ls_link_request *request, int64_t deadline)
{
    int flag = 0;
    if (request->receives) MPI_Cancel(&request->mpi);
    do {
        if (MPI_Test(&request->mpi, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS) return true;
    } while (!flag && clock_ms() < deadline);
    return flag;
}

/* MPI cannot cancel a message in transfer. It writes to the buffer only inside MPI calls, so this must be the last
 * one. */
static void mpi_cancel(ls_link *link, ls_link_request *request)
{
    ls_message why;
    if (mpi_lock(&why)) {
        if (!end_request(request, clock_ms() + CANCEL_MS)) mpi_give_up();
        mpi_unlock();
    }
    free_request(link, request);
}

static void mpi_close(ls_link *link, bool orderly)
{
    ls_message why;
    int64_t deadline = clock_ms() + (orderly ? CLOSE_MS : 0);
    for (; link->active; free_request(link, link->active)) {
        if (!mpi_lock(&why)) continue;
        if (!end_request(link->active, deadline)) mpi_give_up();
        mpi_unlock();
    }
    free_link(link);
    mpi_process_leave(orderly);
}

const ls_transport *ls_transport_v1(void);

__attribute__((visibility("default"))) const ls_transport *ls_transport_v1(void)
{
    static ls_transport table = {
        .abi = LS_TRANSPORT_ABI,
        .size = sizeof(ls_transport),
        .name = FLAVOUR,
        .open = mpi_open,
        .address = mpi_address,
        .connect = mpi_connect,
        .send = mpi_send,
        .receive = mpi_receive,
        .test = mpi_test,
        .cancel = mpi_cancel,
        .close = mpi_close,
        .finds_others = true,
    };
    table.version = mpi_version();
    return &table;
}
