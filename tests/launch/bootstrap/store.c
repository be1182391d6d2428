/* store.c - threads that play processes meet at a port of 127.0.0.1 and tell each other bytes. */
#include "launch/shell.h"

#include "base/json.h"
#include "launch/bootstrap/store_inside.h"

#include <pthread.h>

enum { MOST = 8 };

typedef struct process {
    pthread_t thread;
    ls_store_opts opts;
    size_t size;
    int rounds;
    double seconds, delay;
    bool leaves; /* after it came, without giving anything */
    ls_status status;
    ls_message why;
    bool right;
} process;

static unsigned char byte_of(int rank, int round, size_t i)
{
    return (unsigned char)(31 * rank + 7 * (int)i + round);
}

static void *take_part(void *argument)
{
    process *p = argument;
    ls_store *store;
    if (p->delay > 0) usleep((useconds_t)(p->delay * 1e6));
    p->status = ls_store_open(&store, &p->opts, p->seconds, &p->why);
    size_t all_size = p->size * (size_t)p->opts.world;
    unsigned char *mine = malloc(p->size + 1), *all = malloc(all_size + 1);
    p->right = true;
    for (int round = 0; round < p->rounds && !p->status && !p->leaves; round++) {
        for (size_t i = 0; i < p->size; i++) mine[i] = byte_of(p->opts.rank, round, i);
        p->status = ls_store_all_gather(store, mine, p->size, all, p->seconds, &p->why);
        for (size_t i = 0; i < all_size && !p->status; i++)
            p->right &= all[i] == byte_of((int)(i / p->size), round, i % p->size);
    }
    free(mine);
    free(all);
    ls_store_close(store);
    return NULL;
}

/* A job at a port that nobody uses; tests change what they want to be different. */
static void make_job(process *job, int world)
{
    int port = find_port();
    for (int r = 0; r < world; r++)
        job[r] = (process){
            .opts =
                {.host = "127.0.0.1", .port = port, .rank = r, .world = world, .token = "secret", .self = (uint64_t)r},
            .size = 100,
            .rounds = 2,
            .seconds = 60};
}

static void begin(process *p)
{
    pthread_create(&p->thread, NULL, take_part, p);
}

static void run_job(process *job, int count)
{
    for (int i = 0; i < count; i++) begin(&job[i]);
    for (int i = 0; i < count; i++) pthread_join(job[i].thread, NULL);
}

static void expect_success(const process *job, int count)
{
    for (int i = 0; i < count; i++)
        CHECK_MSG(!job[i].status && job[i].right, "rank %d: %s", job[i].opts.rank, job[i].why.text);
}

#define EXPECT_WORDS(process, words)                                                                                   \
    CHECK_MSG((process).status == LS_ERR_PEER && strstr((process).why.text, words), "no \"%s\" in \"%s\" (%d)", words, \
              (process).why.text, (int)(process).status)

/* Nothing, little, and so much that it takes several messages; rank 0 first, last, and in between. */
static void everyone_gets_everything(void)
{
    static const size_t sizes[] = {0, 1, 100, LS_STORE_MOST};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        process job[5];
        make_job(job, 5);
        for (int r = 0; r < 5; r++) job[r].size = sizes[s], job[r].rounds = 3;
        job[s].delay = 0.2;
        run_job(job, 5);
        expect_success(job, 5);
    }
    ls_store_opts alone = {.host = "127.0.0.1", .port = find_port(), .world = 1, .token = ""};
    ls_store *store;
    ls_message why;
    char mine = 7, all = 0;
    CHECK(ls_store_open(&store, &alone, 60, &why) == LS_OK);
    CHECK(ls_store_all_gather(store, &mine, 1, &all, 60, &why) == LS_OK && all == 7);
    char *much = calloc(1, LS_STORE_MOST + 1);
    CHECK(ls_store_all_gather(store, much, LS_STORE_MOST + 1, much, 60, &why) == LS_ERR_VALUE);
    free(much);
    ls_store_close(store);
}

/* The port is free again at once. */
static void jobs_follow_each_other(void)
{
    process job[2];
    make_job(job, 2);
    for (int i = 0; i < 20; i++) {
        job[0].opts.attempt = job[1].opts.attempt = i;
        run_job(job, 2);
        expect_success(job, 2);
    }
}

static void both_kinds_of_addresses(void)
{
    static const char *const hosts[] = {"::1", "localhost", "::ffff:127.0.0.1"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        if (strcmp(hosts[i], "::1") == 0 && !ls_wire_is_here("::1")) continue; /* a kernel without IPv6 */
        process job[2];
        make_job(job, 2);
        job[1].opts.host = hosts[i];
        run_job(job, 2);
        expect_success(job, 2);
    }
}

/* ---- Those who do not belong ---- */

static void strangers_are_refused(void)
{
    process job[4];
    make_job(job, 2);
    job[2] = job[3] = job[1];
    job[2].opts.token = "guess";
    job[3].opts.attempt = 3;
    begin(&job[0]);
    run_job(&job[2], 2);
    run_job(&job[1], 1); /* after the others were sent away */
    pthread_join(job[0].thread, NULL);
    expect_success(job, 2);
    EXPECT_WORDS(job[2], "rank 1 was refused by rank 0 at 127.0.0.1:");
    EXPECT_WORDS(job[2], "it does not know the token of this job");
    EXPECT_WORDS(job[3], "it belongs to attempt 3 of its job, and this is attempt 0");
}

static int connect_to(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    for (int n = 0; n < 60000 && connect(fd, (struct sockaddr *)&to, sizeof to) != 0; n++) usleep(1000);
    return fd;
}

/* Somebody who connects and says nothing, or nonsense, is no obstacle. */
static void noise_does_not_matter(void)
{
    process job[2];
    make_job(job, 2);
    job[1].delay = 0.3;
    begin(&job[0]);
    int fd[3];
    for (int i = 0; i < 3; i++) fd[i] = connect_to(job[0].opts.port);
    CHECK(write(fd[1], "GET / HTTP/1.1\r\n\r\n", 18) == 18);
    CHECK(write(fd[2], "{\"give\": 1, \"bytes\": \"00\"}\n", 27) == 27);
    begin(&job[1]);
    for (int i = 0; i < 2; i++) pthread_join(job[i].thread, NULL);
    expect_success(job, 2);
    for (int i = 0; i < 3; i++) close(fd[i]);
}

static void numbers_must_fit(void)
{
    process job[2];
    make_job(job, 2);
    job[0].seconds = 3;
    job[1].opts.world = 5;
    run_job(job, 2);
    EXPECT_WORDS(job[1], "it is one of 5 processes, and this job has 2 (WORLD_SIZE)");
    EXPECT_WORDS(job[0],
                 "1 of 2 processes did not connect to rank 0 within 3 s: rank 1; last refused: a process of host ");

    make_job(job, 2);
    job[1].size = 99;
    run_job(job, 2);
    for (int r = 0; r < 2; r++) EXPECT_WORDS(job[r], "sent 99 bytes, rank 0 100");
}

/* A process of the job that is welcome, and then says these words. Rank 0 waits for one byte. */
static void say_as_rank_1(const char *words, process *rank_0)
{
    process job[2];
    char line[1024], proof[LS_PROOF] = "";
    ls_message why;
    make_job(job, 2);
    job[0].size = 1, job[0].rounds = 1;
    begin(&job[0]);
    int fd = connect_to(job[0].opts.port);
    ssize_t got = recv(fd, line, sizeof line, 0);
    ls_json *greeting = got > 0 ? ls_json_read(line, (size_t)got, &why) : NULL;
    const char *challenge = ls_json_text(ls_json_get(greeting, "store"));
    if (challenge) ls_token_prove("secret", "process of attempt 0", challenge, proof);
    ls_json_free(greeting);
    dprintf(fd,
            "{\"hello\":%d,\"proof\":\"%s\",\"challenge\":\"abc\",\"host\":\"here\",\"self\":\"1\",\"pid\":1,"
            "\"rank\":1,\"world\":2,\"attempt\":0}\n",
            LS_STORE_VERSION, proof);
    got = recv(fd, line, sizeof line, 0);
    CHECK(got > 0 && memmem(line, (size_t)got, "welcome", 7));
    CHECK(send(fd, words, strlen(words), 0) == (ssize_t)strlen(words)); /* all at once */
    while (recv(fd, line, sizeof line, 0) > 0) continue;
    close(fd);
    pthread_join(job[0].thread, NULL);
    *rank_0 = job[0];
}

/* What came before a message that is none does not count. */
static void nonsense_of_a_member_is_refused(void)
{
    static const char *const words[] = {
        "{\"give\":1,\"bytes\":\"1f\"}\n{\"give\":2}\n",
        "{\"give\":1,\"bytes\":\"1f\"}\n{\"give\":2,\"bytes\":\"1g\"}\n",
        "{\"give\":4294967297,\"bytes\":\"1f\"}\n",
        "{\"give\":-4294967295,\"bytes\":\"1f\"}\n",
        "{\"give\":0,\"bytes\":\"1f\"}\n",
        "{\"bytes\":\"1f\"}\n",
    };
    process rank_0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        say_as_rank_1(words[i], &rank_0);
        EXPECT_WORDS(rank_0, "rank 1 of host here is gone: it sent invalid data");
    }
    say_as_rank_1("{\"give\":1,\"bytes\":\"1f\"}\n", &rank_0);
    expect_success(&rank_0, 1);
}

/* ---- Those who do not come ---- */

static void the_absent_are_named(void)
{
    process job[5];
    make_job(job, 5);
    job[0].seconds = 3;
    run_job(job, 3);
    for (int r = 0; r < 3; r++)
        EXPECT_WORDS(job[r], "2 of 5 processes did not connect to rank 0 within 3 s: ranks 3, 4");
    EXPECT_WORDS(job[1], "rank 0: 2 of 5");

    make_job(job, 2);
    job[1].seconds = 1;
    run_job(&job[1], 1);
    EXPECT_WORDS(job[1], "rank 1 of 2 did not find rank 0 at 127.0.0.1:");
    EXPECT_WORDS(job[1], "Connection refused");

    make_job(job, 2);
    job[1].seconds = 1;
    job[1].opts.host = "no-such-host.invalid";
    run_job(&job[1], 1);
    EXPECT_WORDS(job[1], "rank 1 of 2 did not find rank 0 at no-such-host.invalid:");
}

static void one_that_leaves_is_missed(void)
{
    process job[3];
    make_job(job, 3);
    job[1].leaves = true;
    job[0].seconds = 1;
    job[2].delay = 0.3;
    run_job(job, 3);
    /* Before all were there it might have come again; so it is absent, or gone. */
    CHECK(job[0].status == LS_ERR_PEER && strstr(job[0].why.text, "rank 1"));
    CHECK(job[2].status == LS_ERR_PEER && strstr(job[2].why.text, "rank 1"));
}

static void a_busy_port_is_named(void)
{
    process job[2];
    make_job(job, 2);
    ls_message why;
    int taken = ls_wire_listen(job[0].opts.port, &why);
    run_job(job, 1);
    CHECK(job[0].status == LS_ERR_IO && strstr(job[0].why.text, "is in use by another program: use another"));
    /* Who is there but is not ours says so, or says nothing. */
    job[1].seconds = 1;
    run_job(&job[1], 1);
    EXPECT_WORDS(job[1], "no greeting");
    close(taken);
}

int main(int argc, char **argv)
{
    begin_shell(argc, argv);
    CHECK_RUN(everyone_gets_everything);
    CHECK_RUN(jobs_follow_each_other);
    CHECK_RUN(both_kinds_of_addresses);
    CHECK_RUN(strangers_are_refused);
    CHECK_RUN(noise_does_not_matter);
    CHECK_RUN(numbers_must_fit);
    CHECK_RUN(nonsense_of_a_member_is_refused);
    CHECK_RUN(the_absent_are_named);
    CHECK_RUN(one_that_leaves_is_missed);
    CHECK_RUN(a_busy_port_is_named);
    return check_done();
}
