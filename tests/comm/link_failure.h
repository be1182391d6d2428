/* link_failure.h - ranks that die while others communicate with them: cases of link.c, one job each. */
#ifndef LOCKSTEP_TESTS_COMM_LINK_FAILURE_H
#define LOCKSTEP_TESTS_COMM_LINK_FAILURE_H

/* ---- ranks that die: only for transports whose ranks can outlive others ---- */

static void rank_0_is_killed(int rank)
{
    link_rank l = job_link(rank, RANKS, 0), back = part_link(l, RANKS - 1 - rank, RANKS, (int[RANKS]){2, 1, 0});
    char *data = calloc(1, 8 << 20);
    barrier(l);
    barrier(back);
    if (rank == 0) raise(SIGKILL);
    double start = seconds();
    ls_message why = {{0}};
    /* receives from it end ... */
    ls_status status = wait_why(l.link, begin_receive(l.link, 0, LS_LINK_DATA, data, 100), NULL, &why);
    CHECK_MSG(status == LS_ERR_PEER && strstr(why.text, "rank 0"), "%d: %s", (int)status, why.text);
    /* ... with its rank in the job in the message ... */
    status = wait_why(back.link, begin_receive(back.link, RANKS - 1, LS_LINK_DATA, data, 100), NULL, &why);
    CHECK_MSG(status == LS_ERR_PEER && strstr(why.text, "rank 0"), "%d: %s", (int)status, why.text);
    /* ... and so do sends to it, small or large, whenever they start */
    for (int i = 0; i < 2; i++) {
        ls_link_request *request = NULL;
        status = transport->send(l.link, 0, LS_LINK_DATA, data, i ? 8 << 20 : 8, &request, &why);
        if (status == LS_OK) status = wait_why(l.link, request, NULL, &why);
        CHECK_MSG(status == LS_ERR_PEER && strstr(why.text, "rank 0"), "%d: %s", (int)status, why.text);
    }
    CHECK_MSG(seconds() - start < 30, "noticed after %.1f s", seconds() - start);
    /* the others can still communicate */
    int word = rank, other = 0, peer = 3 - rank;
    ls_link_request *request = begin_send(l.link, peer, LS_LINK_URGENT, &word, sizeof word);
    wait_for(l.link, begin_receive(l.link, LS_LINK_ANY, LS_LINK_URGENT, &other, sizeof other));
    wait_for(l.link, request);
    CHECK(other == peer);
    transport->close(back.link, true);
    transport->close(l.link, true);
    free(data);
}

/* A rank that never sent anything notices, too. */
static void listens_to_killed(int rank)
{
    link_rank l = job_link(rank, RANKS, 0);
    int word = 0;
    if (rank == 0) {
        while (atomic_load(&shared->arrived) < RANKS - 1) usleep(1000);
        usleep(100000);
        raise(SIGKILL);
    }
    ls_message why = {{0}};
    ls_link_request *request = begin_receive(l.link, 0, LS_LINK_DATA, &word, sizeof word);
    bool done = false;
    CHECK(transport->test(l.link, request, &done, NULL, &why) == LS_OK && !done);
    atomic_fetch_add(&shared->arrived, 1);
    ls_status status = wait_why(l.link, request, NULL, &why);
    CHECK_MSG(status == LS_ERR_PEER, "%d: %s", (int)status, why.text);
    transport->close(l.link, false);
}

/* Rank 0 sends much that rank 1 never receives, and rank 1 waits for much from rank 2, which is stopped halfway. */
static void half_sent(int rank)
{
    link_rank l = job_link(rank, RANKS, 0);
    size_t bytes = 256 << 20;
    barrier(l);
    char *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    double start = seconds();
    if (rank == 0) {
        ls_link_request *request = begin_send(l.link, 1, LS_LINK_DATA, data, bytes);
        bool done = false;
        ls_message why;
        for (int i = 0; i < 100 && !done; i++) (void)transport->test(l.link, request, &done, NULL, &why);
        CHECK(!done);
        if (!done) transport->cancel(l.link, request);
    } else if (rank == 1) {
        ls_link_request *request = begin_receive(l.link, 2, LS_LINK_DATA, data, bytes);
        bool done = false;
        ls_message why = {{0}};
        while (!data[0] && seconds() - start < TIMEOUT) {
            ls_status status = transport->test(l.link, request, &done, NULL, &why);
            CHECK_MSG(status == LS_OK && !done, "%d: %s", (int)status, why.text);
            usleep(1000);
        }
        CHECK(data[0]);
        transport->cancel(l.link, request);
    } else {
        memset(data, 'x', bytes);
        ls_link_request *request = begin_send(l.link, 1, LS_LINK_DATA, data, bytes);
        ls_message why = {{0}};
        while (!atomic_load(&shared->flags[0]) && seconds() - start < TIMEOUT) {
            bool done = false;
            if (request && (transport->test(l.link, request, &done, NULL, &why) != LS_OK || done)) request = NULL;
            usleep(10000); /* slowly, so that it never all arrives */
        }
    }
    /* from here on only this rank touches the memory */
    munmap(data, bytes);
    if (rank == 1) {
        ls_message why;
        ls_link_request *request = begin_receive(l.link, LS_LINK_ANY, LS_LINK_URGENT, &why, sizeof why);
        bool done = false;
        double limit = seconds() + 0.3;
        while (request && !done && seconds() < limit)
            if (transport->test(l.link, request, &done, NULL, &why) != LS_OK) break;
        atomic_store(&shared->flags[0], 1);
    }
    transport->close(l.link, false);
    CHECK(seconds() - start < TIMEOUT);
}

/* No rank waits for another, whatever is in flight. */
static void leaves_ruins(int rank)
{
    link_rank l = job_link(rank, RANKS, 0);
    size_t bytes = 64 << 20;
    char *data = malloc(bytes), *room = malloc(bytes);
    barrier(l);
    if (rank == 0) raise(SIGKILL);
    ls_message why;
    ls_link_request *request;
    for (int peer = 0; peer < RANKS; peer++) {
        if (peer == rank) continue;
        (void)transport->send(l.link, peer, LS_LINK_DATA, data, bytes, &request, &why);
        (void)transport->receive(l.link, peer, LS_LINK_DATA, room, bytes, &request, &why);
    }
    double start = seconds();
    transport->close(l.link, false);
    CHECK_MSG(seconds() - start < 30, "took %.1f s", seconds() - start);
    free(data);
    free(room);
}

/* ---- under mpirun: one rank dies, and the others with it ---- */

static void one_dies(int rank)
{
    link_rank l = job_link(rank, RANKS, 0);
    int word = 0;
    barrier(l);
    if (rank == 0) raise(SIGKILL);
    ls_message why;
    (void)wait_why(l.link, begin_receive(l.link, 0, LS_LINK_DATA, &word, sizeof word), NULL, &why);
    transport->close(l.link, false);
    exit(3);
}

#endif
