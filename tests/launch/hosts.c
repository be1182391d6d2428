/* hosts.c - jobs of several hosts: several launchers on this machine that meet at 127.0.0.1. */
#include "launchers.h"

static int port;                      /* where they meet */
static const char *dead_after = "30"; /* seconds */

static void begin_job(void)
{
    make_folder();
    port = find_port();
}

/* The launcher of one host. Patience is long, since the machine may be busy. */
static void start_launcher(int which, const char *hosts, const char *conf, const char *options, const char *program)
{
    char line[1024], name[16];
    snprintf(name, sizeof name, "host%d", which);
    snprintf(line, sizeof line,
             "%s --shutdown-timeout 20 --no-pin --rdzv-conf join_timeout=60,heartbeat=1,dead_after=%s%s %s %s", hosts,
             dead_after, conf, options, program);
    job[which] = start_as(line, name);
}

/* One host of a job where each has its rank. */
static void start_as_rank(int which, int rank, int hosts, const char *options, const char *program)
{
    char line[128];
    snprintf(line, sizeof line, "--nnodes %d --node-rank %d --master-addr 127.0.0.1 --master-port %d", hosts, rank,
             port);
    start_launcher(which, line, "", options, program);
}

static void start_host(int rank, int hosts, const char *options, const char *program)
{
    start_as_rank(rank, rank, hosts, options, program);
}

static void start_hosts(int hosts, const char *options, const char *program)
{
    for (int i = 0; i < hosts; i++) start_host(i, hosts, options, program);
}

/* One host of an elastic job. */
static void join(int which, const char *range, const char *options, const char *program)
{
    char line[128];
    snprintf(line, sizeof line, "--nnodes %s --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:%d", range, port);
    start_launcher(which, line, ",last_call_timeout=0.3", options, program);
}

static void lose_host(int which)
{
    kill(job[which], SIGKILL);
    end_of(job[which]);
}

/* ---- Programs: all write to the file "marks" ---- */

__attribute__((format(printf, 1, 2))) static const char *filled(const char *format, ...)
{
    static char program[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(program, sizeof program, format, args);
    va_end(args);
    return program;
}

/* Says "ready", and "saved" when it is told to end. */
static const char *saves(void)
{
    return filled(WORKER " save %s", path("marks"));
}

/* Says `mark`, which the shell fills in, and ends when it is told to, with 0 after let_finish(). */
static const char *marks_and_waits(const char *mark)
{
    return filled("sh -c 'echo %s >>%s; while [ ! -f %s ]; do sleep 0.05; done'", mark, path("marks"), path("finish"));
}

static void let_finish(void)
{
    close(open(path("finish"), O_CREAT | O_WRONLY, 0644));
}

static void wait_for_marks(const char *mark, int count)
{
    wait_for(path("marks"), mark, count);
}

static int count_marks(const char *mark)
{
    return count_lines(path("marks"), mark);
}

/* ---- Ends ---- */

/* All hosts from the first on end with this code. */
static void expect_ends(int hosts, int code)
{
    for (int i = 0; i < hosts; i++) CHECK(end_host(i) == code);
}

/* ---- Fixed sizes ---- */

static void numbers_all_workers(void)
{
    begin_job();
    const char *program =
        "sh -c 'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $MASTER_PORT'";
    start_host(2, 3, "--nproc-per-node 1", program); /* before there is a leader */
    start_host(1, 3, "--nproc-per-node 2", program);
    usleep(200000);
    start_host(0, 3, "--nproc-per-node 1", program);
    char expected[64];
    CHECK(end_host(0) == 0);
    snprintf(expected, sizeof expected, "0/4 0/1 0/3 %d\n", port);
    CHECK_TEXT(words, expected);
    CHECK(end_host(1) == 0);
    CHECK(host_says("1/4 0/2 1/3") && host_says("2/4 1/2 1/3"));
    CHECK(end_host(2) == 0);
    CHECK(host_says("3/4 0/1 2/3"));
}

/* Where one pod that ends with 0 makes the whole job a success, none may before all have. */
static void early_hosts_wait_for_the_others(void)
{
    for (int early = 0; early < 2; early++) {
        begin_job();
        start_hosts(2, "",
                    filled("sh -c 'echo up >>%s; while [ $RANK != %d ] && [ ! -f %s ]; do sleep 0.05; done'",
                           path("marks"), early, path("finish")));
        wait_for_marks("up", 2);
        usleep(300000);
        CHECK(waitpid(job[early], NULL, WNOHANG) == 0);
        let_finish();
        expect_ends(2, 0);
    }
}

/* Local ranks would be the same on all. */
static void marks_lines_with_the_rank_in_the_job(void)
{
    begin_job();
    start_hosts(2, "--prefix", "echo here");
    for (int i = 0; i < 2; i++) {
        CHECK(end_host(i) == 0);
        CHECK_TEXT(words, i ? "[default1]:here\n" : "[default0]:here\n");
    }
}

static void tells_all_hosts_the_cause(void)
{
    begin_job();
    start_hosts(3, "", WORKER " 2=say 7");
    for (int i = 0; i < 3; i++) {
        CHECK(end_host(i) == 7);
        CHECK(host_says("first cause: rank 2 (local rank 0, host ") && host_says("    the last words\n"));
    }
}

static void counts_restarts_once(void)
{
    begin_job();
    /* In turn: host 1 fails, host 0 fails, both succeed. */
    const char *program =
        "sh -c 'echo n=$TORCHELASTIC_RESTART_COUNT; case $RANK$TORCHELASTIC_RESTART_COUNT in 10|01) exit 3;; "
        "?2) exit 0;; *) sleep 100;; esac'";
    start_hosts(2, "--max-restarts 2", program);
    for (int i = 0; i < 2; i++) {
        CHECK(end_host(i) == 0);
        CHECK(host_says("n=2\n"));
    }
    start_hosts(2, "--max-restarts 1", program); /* the port is free again */
    expect_ends(2, 3);
}

/* ---- Loss ---- */

static void notices_a_lost_host(int number, const char *reason)
{
    begin_job();
    start_hosts(3, "", saves());
    wait_for_marks("ready", 3);
    kill(job[2], number);
    for (int i = 0; i < 2; i++) {
        CHECK(end_host(i) == 1);
        CHECK(host_says("was lost: ") && host_says(reason));
    }
    CHECK(count_marks("saved") >= 2); /* survivors had time to save */
    kill(job[2], SIGCONT);
    end_host(2);
}

static void notices_a_killed_host(void)
{
    notices_a_lost_host(SIGKILL, "it closed the connection");
}

static void notices_a_silent_host(void)
{
    dead_after = "3";
    notices_a_lost_host(SIGSTOP, "no heartbeat for");
    dead_after = "30";
}

static void waits_for_a_lost_host(void)
{
    begin_job();
    const char *program =
        filled("sh -c 'echo ready >>%s; if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then sleep 100; fi'", path("marks"));
    start_hosts(2, "--max-restarts 1", program);
    wait_for_marks("ready", 2);
    lose_host(1);
    start_host(1, 2, "--max-restarts 1", program);
    expect_ends(2, 0);
}

static void survives_the_loss_of_the_leader(void)
{
    begin_job();
    const char *program = filled("sh -c 'echo ready$TORCHELASTIC_RESTART_COUNT >>%s; if [ -f %s ]; then exit 0; fi; [ "
                                 "$TORCHELASTIC_RESTART_COUNT = 1 ] || "
                                 "[ $RANK = 0 ] || exit 5; sleep 100'",
                                 path("marks"), path("finish"));
    start_hosts(2, "--max-restarts 2", program);
    wait_for_marks("ready1", 2); /* one restart is used up */
    lose_host(0);
    let_finish();
    start_host(0, 2, "--max-restarts 2", program);
    expect_ends(2, 0);
    CHECK(host_says("the leader at 127.0.0.1:"));
    CHECK(count_marks("ready1") == 2 && count_marks("ready2") == 2); /* one more, and the new leader knows it */
}

static void ends_without_the_leader(void)
{
    begin_job();
    start_hosts(2, "", saves());
    wait_for_marks("ready", 2);
    lose_host(0);
    CHECK(end_host(1) == 1);
    CHECK(host_says("the leader at 127.0.0.1:") && host_says(" was lost: "));
}

static void passes_signals_on_to_all(void)
{
    for (int told = 0; told < 2; told++) {
        begin_job();
        start_hosts(2, "", saves());
        wait_for_marks("ready", 2);
        kill(job[told], SIGTERM);
        expect_ends(2, 143);
        CHECK(count_marks("saved") == 2);
    }
}

/* ---- Strangers ---- */

static void refuses_strangers(void)
{
    begin_job();
    const char *program = marks_and_waits("here");
    setenv("LOCKSTEP_JOB_TOKEN", "secret", 1);
    start_host(0, 2, "", program);
    setenv("LOCKSTEP_JOB_TOKEN", "guess", 1);
    start_host(1, 2, "", program);
    CHECK(end_host(1) == 1);
    CHECK(host_says("refuses this host: it does not know the job token"));

    /* Others who find the port: nonsense, what only a leader says, no proof. */
    for (int i = 0; i < 3; i++) {
        struct sockaddr_in there = {
            .sin_family = AF_INET, .sin_port = htons((uint16_t)(port + 1)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        static const char *const sent[] = {"GET / HTTP/1.0\r\n\r\n", "{\"start\":1}\n",
                                           "{\"hello\":1,\"proof\":\"\"}\n"};
        if (connect(fd, (struct sockaddr *)&there, sizeof there) == 0) CHECK(write(fd, sent[i], strlen(sent[i])) > 0);
        close(fd);
    }
    setenv("LOCKSTEP_JOB_TOKEN", "secret", 1);
    start_host(1, 2, "", program);
    wait_for_marks("here", 2);
    start_as_rank(2, 1, 2, "", "true");
    CHECK(end_host(2) == 1);
    CHECK(host_says("another host has this rank"));
    unsetenv("LOCKSTEP_JOB_TOKEN");
    let_finish();
    expect_ends(2, 0);
}

static void names_what_is_in_the_way(void)
{
    begin_job();
    int yes = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(port + 1))};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    CHECK(bind(fd, (struct sockaddr *)&here, sizeof here) == 0 && listen(fd, 1) == 0);
    start_host(0, 2, "", "true");
    CHECK(end_host(0) == 1);
    CHECK(host_says("Address already in use") && host_says("--main_process_port"));
    close(fd);
    CHECK(run(LAUNCH
              "--nnodes 2 --node-rank 1 --master-addr 127.0.0.1 --master-port %d --rdzv-conf join_timeout=0.5 true",
              port) == 1);
    CHECK(says("no leader at 127.0.0.1:") && says("Connection refused"));
    CHECK(run(LAUNCH "--nnodes 2 --node-rank 1 --master-addr no-such-host.invalid --rdzv-conf join_timeout=0.5 true") ==
          1);
    CHECK(says("no-such-host.invalid"));
    CHECK(run(LAUNCH "--nnodes 2 --master-addr 127.0.0.1 --master-port %d --rdzv-conf join_timeout=0.5 true", port) ==
          1);
    CHECK(says("only 1 of 2 hosts joined within"));
}

/* Both sides, long before they give up. */
static void says_what_it_waits_for(void)
{
    begin_job();
    CHECK(run(LAUNCH
              "--nnodes 2 --node-rank 1 --master-addr 127.0.0.1 --master-port %d --rdzv-conf join_timeout=6 true",
              port) == 1);
    CHECK(says(" yet: Connection refused; this host tries for 6 s (join_timeout)"));
    CHECK(run(LAUNCH "--nnodes 2 --master-addr 127.0.0.1 --master-port %d --rdzv-conf join_timeout=6 true", port) == 1);
    CHECK(says("1 of 2 hosts have come; the others have 6 s (join_timeout) to reach 127.0.0.1:"));
}

/* All workers hear of the same other port. */
static void workers_get_a_free_port(void)
{
    begin_job();
    int yes = 1, fd = socket(AF_INET, SOCK_STREAM, 0), ports[2] = {0};
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    CHECK(bind(fd, (struct sockaddr *)&here, sizeof here) == 0 && listen(fd, 1) == 0);
    start_hosts(2, "", "sh -c 'echo at $MASTER_PORT'");
    for (int i = 0; i < 2; i++) {
        CHECK(end_host(i) == 0);
        const char *at = strstr(words, "at ");
        if (i == 0) CHECK(host_says("is already in use; workers use port"));
        while (at && sscanf(at, "at %d\n", &ports[i]) != 1) at = strstr(at + 1, "at ");
    }
    CHECK(ports[0] > 0 && ports[0] == ports[1] && ports[0] != port);
    close(fd);
}

static void reads_host_files(void)
{
    make_folder();
    const char *file = path("hosts");
    run("printf '127.0.0.1 slots=2 # here\\n' >%s", file);
    CHECK(run(LAUNCH "--hostfile %s sh -c 'echo $RANK/$WORLD_SIZE' | sort", file) == 0);
    CHECK_TEXT(output, "0/2\n1/2\n");
    run("printf '127.0.0.1:2\\nother.invalid:2\\n' >%s", file);
    CHECK(run(LAUNCH "--hostfile %s --master-port %d --rdzv-conf join_timeout=0.3 true", file, find_port()) == 1);
    CHECK(says("1 of 2 hosts joined")); /* this is the first, and leads */
    run("printf 'leader.invalid\\n127.0.0.1\\n' >%s", file);
    CHECK(run(LAUNCH "--hostfile %s --rdzv-conf join_timeout=0.3 true", file) == 1 &&
          says("no leader at leader.invalid"));
    run("printf 'other.invalid\\n' >%s", file);
    CHECK(run(LAUNCH "--hostfile %s true", file) == 2 && says("this host is not in it"));
    CHECK(run(LAUNCH "--hostfile %s -n 2 true", file) == 2 && says("omit --num_processes"));
    CHECK(run(LAUNCH "--hostfile %s --nnodes 2 true", file) == 2 && says("omit --nnodes"));
    CHECK(run(LAUNCH "--hostfile %s true", path("none")) == 2 && says("No such file"));
}

static void starts_a_missing_program_once(void)
{
    begin_job();
    close(open(path("script"), O_CREAT | O_WRONLY, 0755));
    run("printf '#!/no/such/interpreter\\n' >%s", path("script"));
    start_hosts(2, "--max-restarts 5", path("script"));
    expect_ends(2, 127);
}

/* ---- Elastic ---- */

/* The second host comes when the first is at work. */
static void join_one_by_one(const char *hosts, const char *program, const char *alone, const char *both)
{
    join(0, hosts, "", program);
    wait_for_marks(alone, 1);
    join(1, hosts, "", program);
    wait_for_marks(both, 2);
}

static void grows_and_shrinks(void)
{
    begin_job();
    const char *program = marks_and_waits("world$WORLD_SIZE");
    join_one_by_one("1:3", program, "world1", "world2");
    join(2, "1:3", "", program);
    wait_for_marks("world3", 3);
    CHECK(count_marks("world3") == 3);
    kill(job[1], SIGTERM); /* leaves as a pod does that is scaled down: no failure */
    CHECK(end_host(1) == 143);
    wait_for_marks("world2", 4);
    CHECK(count_marks("world2") >= 4);
    let_finish();
    CHECK(end_host(0) == 0);
    CHECK(end_host(2) == 0);
}

/* torchrun's is_host: both could, by the endpoint's name. */
static void the_user_says_who_leads(void)
{
    begin_job();
    const char *program = "sh -c 'echo $GROUP_RANK/$GROUP_WORLD_SIZE'";
    for (int i = 0; i < 2; i++) {
        char range[128];
        snprintf(range, sizeof range, "--nnodes 2 --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:%d", port);
        start_launcher(i, range, i ? ",is_host=1" : ",is_host=0", "", program);
        usleep(300000);
    }
    CHECK(end_host(0) == 0);
    CHECK_TEXT(words, "1/2\n");
    CHECK(end_host(1) == 0);
    CHECK_TEXT(words, "0/2\n");
}

static void goes_on_with_fewer_after_a_loss(void)
{
    begin_job();
    const char *program = marks_and_waits("world$WORLD_SIZE.$TORCHELASTIC_RESTART_COUNT");
    for (int i = 0; i < 3; i++) join(i, "2:3", "--max-restarts 1", program);
    wait_for_marks("world3.0", 3);
    lose_host(2); /* may be any, also the leader: they all run on this machine, and another takes over */
    wait_for_marks("world2.", 2);
    CHECK(count_marks("world2.") >= 2);
    let_finish();
    expect_ends(2, 0);
}

static void another_takes_over_on_this_machine(void)
{
    begin_job();
    const char *program = marks_and_waits("world$WORLD_SIZE.$TORCHELASTIC_RESTART_COUNT");
    join(0, "1:2", "--max-restarts 1", program);
    wait_for_marks("world1.0", 1);
    join(1, "1:2", "--max-restarts 1", program);
    wait_for_marks("world2.0", 2);
    lose_host(0);
    wait_for_marks("world1.1", 1);
    CHECK(count_marks("world1.1") == 1);
    let_finish();
    CHECK(end_host(1) == 0);
}

/* A leader that goes down with its host costs a restart, as any host does. */
static void elastic_jobs_have_a_budget_too(void)
{
    begin_job();
    join_one_by_one("1:2", marks_and_waits("world$WORLD_SIZE"), "world1", "world2");
    lose_host(0);
    CHECK(end_host(1) == 1 && host_says(" was lost: "));
}

/* One that is told to end does not: its pod is replaced. */
static void a_leader_may_leave(void)
{
    begin_job();
    join_one_by_one("1:2", marks_and_waits("world$WORLD_SIZE.$TORCHELASTIC_RESTART_COUNT"), "world1.0", "world2.0");
    kill(job[0], SIGTERM);
    CHECK(end_host(0) == 143);
    wait_for_marks("world1.0", 2);
    let_finish();
    CHECK(end_host(1) == 0);
}

int main(int argc, char **argv)
{
    begin_shell(argc, argv);
    CHECK_RUN(numbers_all_workers);
    CHECK_RUN(early_hosts_wait_for_the_others);
    CHECK_RUN(marks_lines_with_the_rank_in_the_job);
    CHECK_RUN(tells_all_hosts_the_cause);
    CHECK_RUN(counts_restarts_once);
    CHECK_RUN(notices_a_killed_host);
    CHECK_RUN(notices_a_silent_host);
    CHECK_RUN(waits_for_a_lost_host);
    CHECK_RUN(survives_the_loss_of_the_leader);
    CHECK_RUN(ends_without_the_leader);
    CHECK_RUN(passes_signals_on_to_all);
    CHECK_RUN(refuses_strangers);
    CHECK_RUN(names_what_is_in_the_way);
    CHECK_RUN(says_what_it_waits_for);
    CHECK_RUN(workers_get_a_free_port);
    CHECK_RUN(reads_host_files);
    CHECK_RUN(starts_a_missing_program_once);
    CHECK_RUN(grows_and_shrinks);
    CHECK_RUN(the_user_says_who_leads);
    CHECK_RUN(goes_on_with_fewer_after_a_loss);
    CHECK_RUN(another_takes_over_on_this_machine);
    CHECK_RUN(elastic_jobs_have_a_budget_too);
    CHECK_RUN(a_leader_may_leave);
    return check_done();
}
