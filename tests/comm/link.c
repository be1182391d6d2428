/* link.c - what every transport must do. Built once for each, with its name in TRANSPORT.
 *
 * Ranks are processes of this host. Those of a transport with addresses are forked; those of an MPI are started by its
 * mpirun, which runs this program again with --rank in place of a case. */
#include <lockstep/link.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/library.h"
#include "check.h"
#include "mpis.h"

enum { RANKS = 3, TIMEOUT = 100, LINKS = 2 };

static const ls_transport *transport;

static bool is(const char *name)
{
    return strcmp(TRANSPORT, name) == 0;
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static const ls_transport *load(void)
{
    ls_message why = {{0}};
    void *library = ls_library_open("transport", "comm-" TRANSPORT, &why);
    CHECK_MSG(library, "%s", why.text);
    if (!library) return NULL;
    ls_transport_entry *entry = (ls_transport_entry *)ls_library_function(library, "ls_transport_v1");
    return entry ? entry() : NULL;
}

/* ---- links of the whole job: addresses go through memory that the parent allocated ---- */

typedef struct board {
    _Atomic int arrived;
    _Atomic int flags[8]; /* for cases to signal each other */
    char address[LINKS][RANKS][LS_LINK_ADDRESS_MOST];
    _Atomic size_t bytes[LINKS][RANKS];
} board;

static board *shared; /* NULL under mpirun */

typedef struct link_rank {
    ls_link *link;
    int rank, size;
} link_rank;

/* `slot`: which link of the job this is. */
static link_rank job_link(int rank, int size, int slot)
{
    ls_message why = {{0}};
    ls_link_open_args opts = {.rank = rank, .size = size};
    ls_link *link = transport->open(&opts, &why);
    CHECK_MSG(link, "open: %s", why.text);
    if (!link) exit(1);
    char mine[LS_LINK_ADDRESS_MOST], *all = NULL;
    size_t bytes = transport->address(link, mine), most = bytes;
    if (bytes) {
        memcpy(shared->address[slot][rank], mine, bytes);
        atomic_store(&shared->bytes[slot][rank], bytes);
        double limit = seconds() + TIMEOUT;
        for (int r = 0; r < size; r++) {
            while (!atomic_load(&shared->bytes[slot][r]) && seconds() < limit) usleep(1000);
            most = shared->bytes[slot][r] > most ? shared->bytes[slot][r] : most;
        }
        all = calloc(RANKS, most);
        for (int r = 0; r < size; r++) memcpy(all + (size_t)r * most, shared->address[slot][r], most);
    }
    CHECK_MSG(transport->connect(link, all, most, &why) == LS_OK, "connect: %s", why.text);
    free(all);
    return (link_rank){link, rank, size};
}

/* ---- shorthands ---- */

static ls_status wait_why(ls_link *link, ls_link_request *request, size_t *received, ls_message *why)
{
    bool done = request == NULL;
    ls_status status = LS_OK;
    double limit = seconds() + TIMEOUT;
    while (!done && status == LS_OK && seconds() < limit) {
        status = transport->test(link, request, &done, received, why);
        if (!done && status == LS_OK && transport->sleep) transport->sleep(link, 1);
    }
    CHECK_MSG(done || status != LS_OK, "a message does not end");
    return status;
}

static void wait_for(ls_link *link, ls_link_request *request)
{
    ls_message why = {{0}};
    ls_status status = wait_why(link, request, NULL, &why);
    CHECK_MSG(status == LS_OK, "%s: %s", ls_status_name(status), why.text);
}

static ls_link_request *begin_send(ls_link *link, int to, ls_link_channel channel, const void *data, size_t bytes)
{
    ls_message why = {{0}};
    ls_link_request *request = NULL;
    ls_status status = transport->send(link, to, channel, data, bytes, &request, &why);
    CHECK_MSG(status == LS_OK, "send: %s", why.text);
    return request;
}

static ls_link_request *begin_receive(ls_link *link, int from, ls_link_channel channel, void *data, size_t bytes)
{
    ls_message why = {{0}};
    ls_link_request *request = NULL;
    ls_status status = transport->receive(link, from, channel, data, bytes, &request, &why);
    CHECK_MSG(status == LS_OK, "receive: %s", why.text);
    CHECK(request); /* needed to get the number of bytes */
    return request;
}

static void send_now(ls_link *link, int to, const void *data, size_t bytes)
{
    wait_for(link, begin_send(link, to, LS_LINK_DATA, data, bytes));
}

static size_t receive_now(ls_link *link, int from, void *data, size_t bytes)
{
    ls_message why = {{0}};
    size_t received = (size_t)-1;
    ls_status status = wait_why(link, begin_receive(link, from, LS_LINK_DATA, data, bytes), &received, &why);
    CHECK_MSG(status == LS_OK, "%s", why.text);
    return received;
}

static void barrier(link_rank l)
{
    char word = 0;
    for (int r = 1; r < l.size; r++) {
        if (l.rank == 0) receive_now(l.link, r, &word, 1);
        else if (l.rank == r) send_now(l.link, 0, &word, 1);
    }
    for (int r = 1; r < l.size; r++) {
        if (l.rank == 0) send_now(l.link, r, &word, 1);
        else if (l.rank == r) receive_now(l.link, 0, &word, 1);
    }
}

/* A group of some ranks of this link. Addresses go through it. */
static link_rank part_link(link_rank l, int rank, int size, const int *ranks)
{
    ls_message why = {{0}};
    ls_link_open_args opts = {.rank = rank, .size = size, .of = l.link, .ranks = ranks};
    ls_link *link = transport->open(&opts, &why);
    CHECK_MSG(link, "open: %s", why.text);
    if (!link) exit(1);
    static char mine[LS_LINK_ADDRESS_MOST], all[RANKS][LS_LINK_ADDRESS_MOST];
    size_t bytes = transport->address(link, mine);
    ls_link_request *requests[RANKS];
    for (int r = 0; r < size; r++) requests[r] = begin_send(l.link, ranks[r], LS_LINK_DATA, mine, bytes);
    for (int r = 0; r < size; r++) receive_now(l.link, ranks[r], all[r], sizeof all[r]);
    for (int r = 0; r < size; r++) wait_for(l.link, requests[r]);
    CHECK_MSG(transport->connect(link, all, sizeof all[0], &why) == LS_OK, "connect: %s", why.text);
    return (link_rank){link, rank, size};
}

static unsigned char byte_at(size_t i, size_t size)
{
    return (unsigned char)(i * 31 + (i >> 11) + size);
}

/* ---- cases: all ranks of a link ---- */

static void sizes_from_nothing_to_64_MiB(link_rank l)
{
    static const size_t sizes[] = {0, 1, 7, 64, 1000, 4096, 8191, 65536, 300001, 1 << 20, 64 << 20};
    unsigned char *data = malloc(64 << 20);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        size_t size = sizes[s];
        if (l.rank == 0) {
            for (size_t i = 0; i < size; i++) data[i] = byte_at(i, size);
            send_now(l.link, 1, data, size);
        } else if (l.rank == 1) {
            memset(data, 0, size);
            CHECK(receive_now(l.link, 0, data, size) == size);
            size_t wrong = 0;
            for (size_t i = 0; i < size; i++) wrong += data[i] != byte_at(i, size);
            CHECK_MSG(wrong == 0, "%zu of %zu bytes are wrong", wrong, size);
        }
    }
    free(data);
}

/* Many at once, of sizes that take different paths: received in the order in which they were sent. */
static void order_is_kept(link_rank l)
{
    enum { MANY = 200, MOST = 40000 };
    static int data[MANY][MOST / sizeof(int)];
    ls_link_request *requests[MANY];
    if (l.rank == 2) return;
    for (int i = 0; i < MANY; i++) {
        size_t bytes = (size_t)(i % 3 == 0 ? 4 : i % 3 == 1 ? 9000 : MOST);
        if (l.rank == 0) data[i][0] = i;
        requests[i] = l.rank == 0 ? begin_send(l.link, 1, LS_LINK_DATA, data[i], bytes)
                                  : begin_receive(l.link, 0, LS_LINK_DATA, data[i], MOST);
    }
    for (int i = 0; i < MANY; i++) wait_for(l.link, requests[i]);
    for (int i = 0; i < MANY; i++) CHECK(data[i][0] == i);
}

/* Both directions at once; an unexpected message does not block the rest. */
static void both_directions_at_once(link_rank l)
{
    size_t bytes = 4 << 20;
    char *out = malloc(bytes), *in = malloc(bytes * RANKS);
    memset(out, 'a' + l.rank, bytes);
    ls_link_request *requests[2 * RANKS];
    for (int r = 0; r < l.size; r++) {
        requests[2 * r] = begin_send(l.link, r, LS_LINK_DATA, out, bytes); /* to itself as well */
        requests[2 * r + 1] = begin_receive(l.link, r, LS_LINK_DATA, in + (size_t)r * bytes, bytes);
    }
    for (int i = 2 * l.size - 1; i >= 0; i--) wait_for(l.link, requests[i]);
    for (int r = 0; r < l.size; r++)
        CHECK(in[(size_t)r * bytes] == 'a' + r && in[(size_t)(r + 1) * bytes - 1] == 'a' + r);
    free(out);
    free(in);
}

static void channels_do_not_mix(link_rank l)
{
    int word = 0;
    if (l.rank == 0) {
        int one = 1, two = 2;
        wait_for(l.link, begin_send(l.link, 1, LS_LINK_DATA, &one, sizeof one));
        wait_for(l.link, begin_send(l.link, 1, LS_LINK_URGENT, &two, sizeof two));
    } else if (l.rank == 1) {
        wait_for(l.link, begin_receive(l.link, LS_LINK_ANY, LS_LINK_URGENT, &word, sizeof word));
        CHECK(word == 2);
        CHECK(receive_now(l.link, 0, &word, sizeof word) == sizeof word);
        CHECK(word == 1);
    }
}

static void anybody_is_heard(link_rank l)
{
    if (l.rank != 0) {
        int mine = l.rank;
        wait_for(l.link, begin_send(l.link, 0, LS_LINK_URGENT, &mine, sizeof mine));
        return;
    }
    int seen = 0;
    for (int r = 1; r < l.size; r++) {
        int word = 0;
        size_t received = 0;
        ls_message why;
        ls_link_request *request = begin_receive(l.link, LS_LINK_ANY, LS_LINK_URGENT, &word, sizeof word);
        CHECK(wait_why(l.link, request, &received, &why) == LS_OK && received == sizeof word);
        seen |= 1 << word;
    }
    CHECK(seen == 6);
}

static void short_messages_fit_into_long_ones(link_rank l)
{
    char room[100];
    if (l.rank == 0) send_now(l.link, 1, "four", 4);
    else if (l.rank == 1) CHECK(receive_now(l.link, 0, room, sizeof room) == 4 && memcmp(room, "four", 4) == 0);
}

/* It also fails with Open MPI, which by then has written all of a large one (4.1). */
static void a_message_without_room_fails(link_rank l)
{
    static const size_t sizes[] = {100, 1 << 20};
    char *data = calloc(1, 1 << 20);
    for (int i = 0; i < 2; i++) {
        if (l.rank == 0) {
            ls_message why = {{0}};
            (void)wait_why(l.link, begin_send(l.link, 1, LS_LINK_DATA, data, sizes[i]), NULL, &why);
        } else if (l.rank == 1) {
            ls_message why = {{0}};
            data[10] = 'x';
            ls_status status = wait_why(l.link, begin_receive(l.link, 0, LS_LINK_DATA, data, 10), NULL, &why);
            CHECK_MSG(status == LS_ERR_VALUE && strstr(why.text, "10 bytes"), "%d: %s", (int)status, why.text);
            CHECK_MSG(data[10] == 'x' || (is("openmpi") && i == 1), "%zu bytes were written into room for 10",
                      sizes[i]);
            data[10] = 0;
        }
    }
    free(data);
}

/* A cancelled receive does not swallow later messages. */
static void called_back_is_gone(link_rank l)
{
    int word = 0, gone = 7;
    if (l.rank == 1) {
        ls_link_request *request = begin_receive(l.link, 0, LS_LINK_DATA, &gone, sizeof gone);
        ls_link_request *any = begin_receive(l.link, LS_LINK_ANY, LS_LINK_URGENT, &gone, sizeof gone);
        bool done = true;
        ls_message why;
        CHECK(transport->test(l.link, request, &done, NULL, &why) == LS_OK && !done);
        transport->cancel(l.link, request);
        transport->cancel(l.link, any);
    }
    barrier(l);
    if (l.rank == 0) {
        word = 5;
        send_now(l.link, 1, &word, sizeof word);
        wait_for(l.link, begin_send(l.link, 1, LS_LINK_URGENT, &word, sizeof word));
    } else if (l.rank == 1) {
        receive_now(l.link, 0, &word, sizeof word);
        CHECK(word == 5 && gone == 7);
        word = 0;
        wait_for(l.link, begin_receive(l.link, LS_LINK_ANY, LS_LINK_URGENT, &word, sizeof word));
        CHECK(word == 5 && gone == 7);
    }
}

static void sleeping_ends(link_rank l)
{
    if (!transport->sleep) return;
    int word = 0;
    double start = seconds();
    transport->sleep(l.link, 1); /* no message arrives */
    CHECK(seconds() - start < TIMEOUT);
    barrier(l);
    if (l.rank == 0) {
        usleep(20000);
        send_now(l.link, 1, &word, sizeof word);
    } else if (l.rank == 1) {
        ls_message why;
        bool done = false;
        ls_link_request *request = begin_receive(l.link, 0, LS_LINK_DATA, &word, sizeof word);
        for (int i = 0; i < 1000 && !done; i++) {
            CHECK(transport->test(l.link, request, &done, NULL, &why) == LS_OK);
            if (!done) transport->sleep(l.link, TIMEOUT * 1000); /* only the message ends it */
        }
        CHECK(done);
    }
}

/* Ranks 2 and 0, in this order, form a group; rank 1 is one by itself. */
static void parts_are_links_too(link_rank l)
{
    static const int pair[] = {2, 0}, alone[] = {1};
    link_rank part = l.rank == 1 ? part_link(l, 0, 1, alone) : part_link(l, l.rank == 0, 2, pair);
    int word = 0, other = 0;
    if (l.rank != 1) {
        /* the same ranks and channel on two links: messages stay on theirs */
        int peer_in_job = l.rank == 0 ? 2 : 0, job = 100 + l.rank, group = 200 + l.rank;
        ls_link_request *first = begin_send(l.link, peer_in_job, LS_LINK_DATA, &job, sizeof job);
        ls_link_request *second = begin_send(part.link, 1 - part.rank, LS_LINK_DATA, &group, sizeof group);
        receive_now(part.link, 1 - part.rank, &word, sizeof word);
        receive_now(l.link, peer_in_job, &other, sizeof other);
        CHECK(word == 200 + peer_in_job && other == 100 + peer_in_job);
        wait_for(l.link, first);
        wait_for(part.link, second);
    }
    transport->close(part.link, true);
}

/* ---- two links, two threads ---- */

typedef struct lane {
    link_rank l;
    int failures;
    pthread_t thread;
} lane;

static void *ping_pong(void *user)
{
    lane *self = user;
    size_t bytes = 100000;
    char *data = calloc(1, bytes);
    int other = 1 - self->l.rank;
    for (int i = 0; i < 200; i++) {
        size_t now = i % 10 == 0 ? bytes : 8;
        ls_link_request *in, *out;
        ls_message why;
        bool done = false;
        if (transport->receive(self->l.link, other, LS_LINK_DATA, data, bytes, &in, &why) != LS_OK) self->failures++;
        if (transport->send(self->l.link, other, LS_LINK_DATA, data, now, &out, &why) != LS_OK) self->failures++;
        size_t received = 0;
        double limit = seconds() + TIMEOUT;
        while (!done && seconds() < limit)
            if (transport->test(self->l.link, in, &done, &received, &why) != LS_OK) break;
        if (!done || received != now) self->failures++;
        done = out == NULL;
        while (!done && seconds() < limit)
            if (transport->test(self->l.link, out, &done, NULL, &why) != LS_OK) break;
    }
    free(data);
    return NULL;
}

static void two_links_on_two_threads(link_rank l)
{
    static const int pair[] = {0, 1};
    lane lanes[2];
    if (l.rank == 2) return;
    for (int i = 0; i < 2; i++) lanes[i] = (lane){.l = part_link(l, l.rank, 2, pair)};
    for (int i = 0; i < 2; i++) pthread_create(&lanes[i].thread, NULL, ping_pong, &lanes[i]);
    for (int i = 0; i < 2; i++) {
        pthread_join(lanes[i].thread, NULL);
        CHECK(lanes[i].failures == 0);
        transport->close(lanes[i].l.link, true);
    }
}

/* Data arrives even if the sender closes at once; then it is known to be closed. */
static void what_was_sent_arrives(link_rank l)
{
    static const int pair[] = {0, 1};
    enum { BYTES = 3 << 20 };
    if (l.rank == 2) return;
    link_rank two = part_link(l, l.rank, 2, pair);
    char *data = calloc(2, BYTES);
    if (two.rank == 0) {
        memset(data, 'd', BYTES);
        (void)begin_send(two.link, 1, LS_LINK_DATA, data, BYTES);
        (void)begin_send(two.link, 1, LS_LINK_DATA, "last", 4);
        transport->close(two.link, true);
    } else {
        char word[4] = "";
        usleep(50000);
        CHECK(receive_now(two.link, 0, data, BYTES) == BYTES && data[BYTES - 1] == 'd');
        CHECK(receive_now(two.link, 0, word, 4) == 4 && memcmp(word, "last", 4) == 0);
        transport->close(two.link, true);
    }
    free(data);
}

/* The library behind a transport must not take over the program's signals. */
static struct sigaction at_start[32];

static void remember_signals(void)
{
    for (int s = 1; s < 32; s++) sigaction(s, NULL, &at_start[s]);
}

static void signals_stay_with_the_program(void)
{
    for (int s = 1; s < 32; s++) {
        struct sigaction now;
        CHECK_MSG(sigaction(s, NULL, &now) != 0 || now.sa_handler == at_start[s].sa_handler,
                  "signal %d has another handler", s);
    }
}

static void a_job(int rank)
{
    link_rank l = job_link(rank, RANKS, 0);
    sizes_from_nothing_to_64_MiB(l);
    order_is_kept(l);
    both_directions_at_once(l);
    channels_do_not_mix(l);
    anybody_is_heard(l);
    short_messages_fit_into_long_ones(l);
    a_message_without_room_fails(l);
    called_back_is_gone(l);
    sleeping_ends(l);
    parts_are_links_too(l);
    two_links_on_two_threads(l);
    what_was_sent_arrives(l);
    barrier(l);
    signals_stay_with_the_program();
    transport->close(l.link, true);
    /* a second run in the same process */
    l = job_link(rank, RANKS, 1);
    barrier(l);
    transport->close(l.link, true);
}

#include "link_failure.h"

static void table_is_complete(void)
{
    CHECK(transport->abi == LS_TRANSPORT_ABI && transport->size == sizeof *transport);
    CHECK_TEXT(transport->name, TRANSPORT);
    CHECK(transport->version && transport->version[0]);
}

/* ---- starting ranks ---- */

/* Run `body` on `size` ranks. Those with a bit in `victims` are expected to be killed. */
static void forked(void (*body)(int rank), int victims)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid[RANKS];
    fflush(NULL);
    for (int r = 0; r < RANKS; r++) {
        pid[r] = fork();
        if (pid[r]) continue;
        alarm(TIMEOUT * 3);
        check_failures_here = 0;
        body(r);
        fflush(NULL);
        exit(check_failures_here != 0); /* runs exit handlers of libraries */
    }
    for (int r = 0; r < RANKS; r++) {
        int status = 0;
        waitpid(pid[r], &status, 0);
        if (victims >> r & 1) CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        else CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "rank %d ended with status 0x%x", r, status);
    }
    munmap(shared, sizeof *shared);
}

static void links_of_forked_ranks(void)
{
    forked(a_job, 0);
}
static void a_killed_rank_is_noticed(void)
{
    forked(rank_0_is_killed, 1);
}
static void a_killed_rank_is_noticed_by_a_receiver(void)
{
    forked(listens_to_killed, 1);
}
static void a_message_in_transfer_can_be_cancelled(void)
{
    forked(half_sent, 0);
}
static void a_broken_link_closes_at_once(void)
{
    forked(leaves_ruins, 1);
}

static const char *program;

static int status_of(const char *what)
{
    char command[1024];
    snprintf(command, sizeof command, "timeout -k 5 %d %s -n %d %s %s 2>&1", 3 * TIMEOUT, mpi_in_use->mpiexec, RANKS,
             program, what);
    fflush(NULL);
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void links_of_a_job(void)
{
    CHECK(status_of("--rank") == 0);
}

static void without_mpirun_opening_fails(void)
{
    ls_message why = {{0}};
    ls_link_open_args opts = {.rank = 1, .size = 3};
    CHECK(!transport->open(&opts, &why));
    CHECK_MSG(strstr(why.text, "mpirun"), "%s", why.text);
}

/* The job ends, and not by a timeout. */
static void a_dead_rank_ends_the_job(void)
{
    int status = status_of("--die");
    CHECK_MSG(status != 0 && status != 124, "status %d", status);
}

int main(int argc, char **argv)
{
    program = argv[0];
    const char *what = argc > 1 ? argv[1] : NULL;
    remember_signals();
    transport = load();
    if (!transport) return 1;
    if (what && what[0] == '-') {
        const char *rank = getenv(is("openmpi") ? "OMPI_COMM_WORLD_RANK" : "PMI_RANK");
        alarm(TIMEOUT * 2);
        if (strcmp(what, "--rank") == 0) a_job(atoi(rank));
        else one_dies(atoi(rank));
        fflush(NULL);
        return check_failures_here != 0;
    }
    check_filter = what;
    CHECK_RUN(table_is_complete);
    CHECK_RUN(signals_stay_with_the_program);
    if (is("ucx")) {
        CHECK_RUN_FORK(links_of_forked_ranks);
        CHECK_RUN_FORK(a_killed_rank_is_noticed);
        CHECK_RUN_FORK(a_killed_rank_is_noticed_by_a_receiver);
        CHECK_RUN_FORK(a_message_in_transfer_can_be_cancelled);
        CHECK_RUN_FORK(a_broken_link_closes_at_once);
    } else {
        CHECK_RUN(without_mpirun_opening_fails);
        for (int i = 0; i < MPIS; i++) { /* the plug-in of MPICH serves Intel MPI too */
            if ((i == OPEN_MPI) != is("openmpi")) continue;
            mpi_run("links_of_a_job", links_of_a_job, i);
            mpi_run("a_dead_rank_ends_the_job", a_dead_rank_ends_the_job, i);
        }
    }
    return check_done();
}
