/* strangers.c - whoever can reach a port of a job: hosts of the job still get in, and nothing breaks. */
#include "launchers.h"

#include "launch/bootstrap/pmi.h"
#include "launch/control/token.h"
#include "launch/hosts.h"
#include "launch/supervise/logs.h"

#include <pthread.h>
#include <sys/resource.h>

/* ---- The leader ---- */

static int port; /* where hosts meet */

static int reach(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 20000; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0) return fd;
        close(fd);
        usleep(1000);
    }
    return -1;
}

static void start_host(int rank, const char *files, const char *program)
{
    char line[512], name[16];
    snprintf(name, sizeof name, "host%d", rank);
    snprintf(line, sizeof line,
             "ulimit -n %s; exec " LAUNCH "--no-pin --nnodes 2 --node-rank %d --master-addr 127.0.0.1 --master-port %d "
             "--rdzv-conf join_timeout=60 %s",
             files, rank, port - 1, program);
    char whole[700];
    snprintf(whole, sizeof whole, "sh -c '%s'", line);
    job[rank] = start_line(whole, name);
}

static void start_leader(void)
{
    make_folder();
    setenv("LOCKSTEP_JOB_TOKEN", "s3cret", 1);
    port = find_port() + 1;
    start_host(0, "256", "true");
    close(reach());
}

/* The other host comes, and the job ends well. */
static void end_well(void)
{
    start_host(1, "1024", "true");
    int other = end_host(1), leader;
    CHECK_MSG(other == 0, "host 1 ended with %d: %s", other, words);
    leader = end_host(0);
    CHECK_MSG(leader == 0, "the leader ended with %d: %s", leader, words);
}

typedef struct crowd {
    int fd[300];
    bool stop;
} crowd;

/* A byte now and then from each: none of them ever says who it is. */
static void *drip(void *argument)
{
    crowd *c = argument;
    while (!__atomic_load_n(&c->stop, __ATOMIC_SEQ_CST)) {
        for (int i = 0; i < 300; i++) (void)!send(c->fd[i], "a", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        usleep(300000);
    }
    return NULL;
}

static void a_crowd_that_says_nothing_keeps_nobody_out(void)
{
    static crowd c;
    pthread_t thread;
    start_leader();
    for (int i = 0; i < 300; i++) c.fd[i] = reach();
    pthread_create(&thread, NULL, drip, &c);
    end_well();
    __atomic_store_n(&c.stop, true, __ATOMIC_SEQ_CST);
    pthread_join(thread, NULL);
    for (int i = 0; i < 300; i++) close(c.fd[i]);
}

static void read_line(int fd, char *text, size_t size)
{
    size_t length = 0;
    while (length + 1 < size && recv(fd, text + length, 1, 0) == 1 && text[length] != '\n') length++;
    text[length] = '\0';
}

/* What the leader answers to this hello, with the proof that belongs to it, or none. */
static const char *greet(bool knows, const char *format)
{
    static char answer[1024];
    char challenge[LS_PROOF + 32], proof[LS_PROOF] = "x", hello[1024];
    int fd = reach();
    read_line(fd, challenge, sizeof challenge); /* {"lockstep":"..."} */
    char *from = strstr(challenge, ":") + 1;
    from += strspn(from, " \"");
    from[strcspn(from, "\"")] = '\0';
    if (knows) ls_token_prove("s3cret", "host", from, proof);
    snprintf(hello, sizeof hello, "{\"hello\":1,\"challenge\":\"abc\",\"proof\":\"%s\",%s}\n", proof, format);
    if (send(fd, hello, strlen(hello), MSG_NOSIGNAL) < 0) hello[0] = '\0';
    read_line(fd, answer, sizeof answer);
    close(fd);
    return answer;
}

/* Three thousand lines would be a lot; what is shown steers no terminal. */
static void refusals_do_not_fill_the_log(void)
{
    enum { TIMES = 400 };
    start_leader();
    for (int i = 0; i < TIMES; i++)
        CHECK(strstr(greet(false, "\"host\":\"\\u001b[2J\\u009b31m\\u202eevil\",\"rank\":1"), "refused"));
    end_well();
    CHECK_MSG(strlen(words) < 4096, "%zu bytes", strlen(words));
    CHECK(host_says("host ?[2J?31m?evil was refused: it does not know the job token"));
    CHECK(host_says("more connections"));
    CHECK(!strchr(words, 27) && !strstr(words, "\xc2\x9b") && !strstr(words, "\xe2\x80\xae"));
}

static void numbers_of_hosts_are_checked(void)
{
    static const char *const wrong[][2] = {
        {"\"rank\":1,\"processes\":2147483647", "its number of processes"},
        {"\"rank\":1,\"processes\":0", "its number of processes"},
        {"\"rank\":1,\"processes\":-5", "its number of processes"},
        {"\"rank\":4294967297,\"processes\":1", "its rank is not part of this job"},
        {"\"rank\":1,\"processes\":1,\"generation\":2147483647", "its number of restarts is too large"},
        {"\"rank\":1,\"processes\":1,\"attempt\":9007199254740993", "its number of restarts is too large"},
    };
    start_leader();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *answer = greet(true, wrong[i][0]);
        CHECK_MSG(strstr(answer, "refused") && strstr(answer, wrong[i][1]), "%s: %s", wrong[i][0], answer);
    }
    end_well();
}

/* What nobody has proved anything for is not read for long, whatever it is made of. */
static void strangers_are_not_listened_to_for_long(void)
{
    static char much[1 << 16];
    start_leader();
    int fd = reach();
    memset(much, ' ', sizeof much);
    size_t sent = 0;
    for (ssize_t some; sent < 1 << 24 && (some = send(fd, much, sizeof much, MSG_NOSIGNAL)) > 0;) sent += (size_t)some;
    CHECK_MSG(sent < 1 << 24, "%zu bytes were taken", sent);
    close(fd);
    end_well();
}

/* ---- A leader that is not to be believed ---- */

static int listen_at(int number)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)number)};
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&here, sizeof here) != 0 || listen(listener, 4) != 0) return -1;
    return listener;
}

/* The exit code of a host with this leader's proof and order; what it said is in `words`. */
static int obey(const char *order)
{
    make_folder();
    setenv("LOCKSTEP_JOB_TOKEN", "s3cret", 1);
    port = find_port() + 1;
    int listener = listen_at(port);
    CHECK(listener >= 0);
    start_host(1, "1024", "true");
    int fd = accept(listener, NULL, NULL);
    static const char greeting[] = "{\"lockstep\":\"abc\"}\n";
    char hello[2048], proof[LS_PROOF], answer[2048];
    CHECK(send(fd, greeting, strlen(greeting), MSG_NOSIGNAL) > 0);
    read_line(fd, hello, sizeof hello);
    char *challenge = strstr(hello, "\"challenge\":\"");
    CHECK(challenge);
    if (challenge) {
        challenge += strlen("\"challenge\":\"");
        challenge[strcspn(challenge, "\"")] = '\0';
        ls_token_prove("s3cret", "leader", challenge, proof);
        int length = snprintf(answer, sizeof answer, "{\"welcome\":\"%s\"}\n{%s}\n", proof, order);
        CHECK(send(fd, answer, (size_t)length, MSG_NOSIGNAL) == length);
    }
    while (recv(fd, hello, sizeof hello, 0) > 0) continue;
    close(fd);
    close(listener);
    return end_host(1);
}

static void numbers_of_leaders_are_checked(void)
{
    /* start, attempt, first_rank, world, host_rank, hosts, master_port */
    static const struct {
        const char *numbers[7], *complaint;
    } cases[] = {
        {{"9007199254740993", "0", "1", "2", "1", "2", "2000"}, "start 9007199254740993"},
        {{"1", "-1", "1", "2", "1", "2", "2000"}, "attempt -1"},
        {{"1", "0", "2", "2", "1", "2", "2000"}, "first_rank 2"},
        {{"1", "0", "4294967297", "2", "1", "2", "2000"}, "first_rank 4294967297"},
        {{"1", "0", "0", "4294967297", "1", "2", "2000"}, "world 4294967297"},
        {{"1", "0", "1", "2", "2", "2", "2000"}, "host_rank 2"},
        {{"1", "0", "1", "2", "1", "2147483648", "2000"}, "hosts 2147483648"},
        {{"1", "0", "1", "2", "1", "2", "65536"}, "master_port 65536"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const *n = cases[i].numbers;
        char order[512];
        snprintf(order, sizeof order,
                 "\"start\":%s,\"attempt\":%s,\"first_rank\":%s,\"world\":%s,\"host_rank\":%s,\"hosts\":%s,"
                 "\"master_addr\":\"127.0.0.1\",\"master_port\":%s",
                 n[0], n[1], n[2], n[3], n[4], n[5], n[6]);
        CHECK(obey(order) == 1);
        CHECK(host_says("sent an invalid order: ") && host_says(cases[i].complaint));
    }
    CHECK(obey("\"end\":1,\"code\":4294967296") == 1); /* not the 0 that its low bits are */
}

/* ---- Process managers ---- */

typedef struct manager {
    int fd;
    const char *answer;
} manager;

static void *answer_twice(void *argument)
{
    const manager *m = argument;
    static const char first[] = "cmd=response_to_init rc=0 pmi_version=2\n";
    char question[256];
    if (recv(m->fd, question, sizeof question, 0) > 0 && send(m->fd, first, strlen(first), 0) > 0 &&
        recv(m->fd, question, sizeof question, 0) > 0)
        (void)!send(m->fd, m->answer, strlen(m->answer), 0);
    return NULL;
}

static void lengths_of_a_process_manager_are_checked(void)
{
    static const char *const wrong[] = {"-6    cmd=fullinit-response;rc=0;size=2;", "+6    cmd=fullinit-response;",
                                        "      cmd=fullinit-response;rc=0;size=2;", "6 6   cmd=fullinit-response;"};
    for (size_t i = 0; i <= sizeof wrong / sizeof *wrong; i++) {
        bool right = i == sizeof wrong / sizeof *wrong;
        int ends[2];
        ls_pmi pmi;
        ls_message why = {{0}};
        pthread_t thread;
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
        manager m = {ends[1], right ? "34    cmd=fullinit-response;rc=0;size=2;" : wrong[i]};
        pthread_create(&thread, NULL, answer_twice, &m);
        ls_status status = ls_pmi_open(&pmi, &ls_pmi_2, ends[0], 0, 2, 60, &why);
        pthread_join(thread, NULL);
        CHECK_MSG(right ? !status : status == LS_ERR_PEER && strstr(why.text, "unexpected answer to"), "%s: %s",
                  m.answer, why.text);
        close(ends[0]);
        close(ends[1]);
    }
}

/* ---- Lists ---- */

static void lists_of_many_hosts_are_read(void)
{
    ls_host_list hosts = {0};
    ls_message why = {{0}};
    CHECK(ls_host_list_expand("a[0-255]b[0-254]", &hosts, &why) == LS_OK);
    CHECK(hosts.count == 256 * 255);
    CHECK_TEXT(hosts.host[hosts.count - 1].name, "a255b254");
    ls_host_list_free(&hosts);
    /* The same name, again and again, as often as there are ways to write it. */
    char list[64 * 8] = "";
    for (int i = 0; i < 60; i++) strcat(list, "[0,0,0]");
    CHECK(ls_host_list_expand(list, &hosts, &why) == LS_ERR_MEMORY);
    CHECK_TEXT(why.text, "too many hosts");
}

static void tokens_are_not_shown(void)
{
    CHECK(run("LOCKSTEP_JOB_TOKEN=s3cret LOCKSTEP_COMM_TOKEN=s3cret " LOCKSTEP_COMMAND " env") == 0);
    CHECK(says("LOCKSTEP_JOB_TOKEN") && !strstr(output, "s3cret"));
}

/* ---- What a killed launcher leaves ---- */

static ls_plan make_plan(const char *const *environment)
{
    static uint8_t none[1];
    return (ls_plan){
        .opts = {.num_processes = 1, .run_id = "none"}, .inherited = environment, .redirected = none, .teed = none};
}

static void folders_of_dead_launchers_go(void)
{
    make_folder();
    char setting[128], left[600], lived[600];
    snprintf(setting, sizeof setting, "TMPDIR=%s", folder);
    const char *const environment[] = {setting, NULL};
    ls_plan plan = make_plan(environment);
    int ends[2];
    CHECK(pipe(ends) == 0);
    for (int lives = 1; lives >= 0; lives--) {
        pid_t child = fork();
        if (child == 0) {
            ls_logs logs;
            if (!ls_logs_open(&logs, &plan) || !ls_logs_begin(&logs, 0)) _exit(1);
            (void)!write(ends[1], logs.root, sizeof logs.root);
            if (lives) pause();
            _exit(0); /* killed: nothing is cleared away */
        }
        CHECK(read(ends[0], lives ? lived : left, 600) == 600);
        if (lives) job[0] = child;
        else waitpid(child, NULL, 0);
    }
    char own[200];
    snprintf(own, sizeof own, "%s", path("lockstep_backup")); /* named alike, and somebody's own */
    CHECK(mkdir(own, 0755) == 0 && access(left, F_OK) == 0);
    ls_logs logs;
    CHECK(ls_logs_open(&logs, &plan));
    CHECK(access(left, F_OK) != 0);
    CHECK(access(lived, F_OK) == 0 && access(own, F_OK) == 0);
    snprintf(left, sizeof left, "%s", logs.root);
    CHECK(ls_logs_begin(&logs, 0) && access(left, F_OK) == 0);
    ls_logs_close(&logs);
    CHECK(access(left, F_OK) != 0);
    kill(job[0], SIGKILL);
    waitpid(job[0], NULL, 0);
    close(ends[0]);
    close(ends[1]);
}

int main(int argc, char **argv)
{
    begin_shell(argc, argv);
    CHECK_RUN(lists_of_many_hosts_are_read);
    CHECK_RUN(lengths_of_a_process_manager_are_checked);
    CHECK_RUN(tokens_are_not_shown);
    CHECK_RUN(folders_of_dead_launchers_go);
    CHECK_RUN(a_crowd_that_says_nothing_keeps_nobody_out);
    CHECK_RUN(refusals_do_not_fill_the_log);
    CHECK_RUN(numbers_of_hosts_are_checked);
    CHECK_RUN(numbers_of_leaders_are_checked);
    CHECK_RUN(strangers_are_not_listened_to_for_long);
    return check_done();
}
