/* hosts.c - jobs of several hosts: several launchers on this machine that meet at 127.0.0.1. */
#include "shell.h"

enum { HOSTS = 3 };

static pid_t job[HOSTS];
static char words[4096]; /* what a host printed */

static const char *file_of(int host)
{
    char name[16];
    snprintf(name, sizeof name, "host%d", host);
    return path(name);
}

/* One host of a job where each has its rank. Beats are quick and patience is long: the machine may be busy. */
static void start_host(int rank, int hosts, int port, const char *options, const char *program)
{
    char line[1024], name[16];
    snprintf(name, sizeof name, "host%d", rank);
    snprintf(line, sizeof line,
             "--nnodes %d --node-rank %d --master-addr 127.0.0.1 --master-port %d --shutdown-timeout 5 --no-pin "
             "--rdzv-conf join_timeout=20,heartbeat=0.2,dead_after=1 %s %s",
             hosts, rank, port, options, program);
    job[rank] = start_as(line, name);
}

/* One host of an elastic job. */
static void join(int which, const char *range, int port, const char *options, const char *program)
{
    char line[1024], name[16];
    snprintf(name, sizeof name, "host%d", which);
    snprintf(line, sizeof line,
             "--nnodes %s --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:%d --shutdown-timeout 5 --no-pin "
             "--rdzv-conf join_timeout=20,heartbeat=0.2,dead_after=1,last_call_timeout=0.3 %s %s",
             range, port, options, program);
    job[which] = start_as(line, name);
}

/* Exit code of a host; what it printed is in `words`. */
static int end_host(int which)
{
    int code = end_of(job[which]);
    FILE *file = fopen(file_of(which), "r");
    size_t length = file ? fread(words, 1, sizeof words - 1, file) : 0;
    words[length] = '\0';
    if (file) fclose(file);
    return code;
}

static bool host_says(const char *text)
{
    bool found = strstr(words, text) != NULL;
    if (!found) fprintf(stderr, "no \"%s\" in:\n%s\n", text, words);
    return found;
}

/* ---- Fixed sizes ---- */

static void numbers_all_workers(void)
{
    make_folder();
    int port = find_port();
    const char *program =
        "sh -c 'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE $MASTER_PORT'";
    start_host(2, 3, port, "--nproc-per-node 1", program); /* before there is a leader */
    start_host(1, 3, port, "--nproc-per-node 2", program);
    usleep(200000);
    start_host(0, 3, port, "--nproc-per-node 1", program);
    char expected[64];
    CHECK(end_host(0) == 0);
    snprintf(expected, sizeof expected, "0/4 0/1 0/3 %d\n", port);
    CHECK_TEXT(words, expected);
    CHECK(end_host(1) == 0);
    CHECK(host_says("1/4 0/2 1/3") && host_says("2/4 1/2 1/3"));
    CHECK(end_host(2) == 0);
    CHECK(host_says("3/4 0/1 2/3"));
}

static void tells_all_hosts_the_cause(void)
{
    make_folder();
    int port = find_port();
    for (int i = 0; i < 3; i++) start_host(i, 3, port, "", WORKER " 2=say 7");
    for (int i = 0; i < 3; i++) {
        CHECK(end_host(i) == 7);
        CHECK(host_says("first cause: rank 2 (local rank 0, host ") && host_says("    the last words\n"));
    }
}

static void counts_restarts_once(void)
{
    make_folder();
    int port = find_port();
    /* In turn: host 1 fails, host 0 fails, both succeed. */
    const char *program =
        "sh -c 'echo n=$TORCHELASTIC_RESTART_COUNT; case $RANK$TORCHELASTIC_RESTART_COUNT in 10|01) exit 3;; "
        "?2) exit 0;; *) sleep 100;; esac'";
    for (int i = 0; i < 2; i++) start_host(i, 2, port, "--max-restarts 2", program);
    for (int i = 0; i < 2; i++) {
        CHECK(end_host(i) == 0);
        CHECK(host_says("n=2\n"));
    }
    for (int i = 0; i < 2; i++) start_host(i, 2, port, "--max-restarts 1", program); /* the port is free again */
    for (int i = 0; i < 2; i++) CHECK(end_host(i) == 3);
}

/* ---- Loss ---- */

static void notices_a_lost_host(int number, const char *reason)
{
    make_folder();
    int port = find_port();
    char program[256];
    snprintf(program, sizeof program, WORKER " save %s", path("marks"));
    for (int i = 0; i < 3; i++) start_host(i, 3, port, "", program);
    wait_for(path("marks"), "ready", 3);
    kill(job[2], number);
    for (int i = 0; i < 2; i++) {
        CHECK(end_host(i) == 1);
        CHECK(host_says("was lost: ") && host_says(reason));
    }
    CHECK(count_lines(path("marks"), "saved") >= 2); /* survivors had time to save */
    kill(job[2], SIGCONT);
    end_host(2);
}

static void notices_a_killed_host(void)
{
    notices_a_lost_host(SIGKILL, "it closed the connection");
}

static void notices_a_silent_host(void)
{
    notices_a_lost_host(SIGSTOP, "no sign of life for");
}

static void waits_for_a_lost_host(void)
{
    make_folder();
    int port = find_port();
    char program[512];
    snprintf(program, sizeof program,
             "sh -c 'echo ready >>%s; if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then sleep 100; fi'", path("marks"));
    for (int i = 0; i < 2; i++) start_host(i, 2, port, "--max-restarts 1", program);
    wait_for(path("marks"), "ready", 2);
    kill(job[1], SIGKILL);
    end_of(job[1]);
    start_host(1, 2, port, "--max-restarts 1", program);
    CHECK(end_host(0) == 0);
    CHECK(end_host(1) == 0);
}

static void survives_the_loss_of_the_leader(void)
{
    make_folder();
    int port = find_port();
    char program[512];
    snprintf(program, sizeof program,
             "sh -c 'echo ready$TORCHELASTIC_RESTART_COUNT >>%s; if [ -f %s ]; then exit 0; fi; [ "
             "$TORCHELASTIC_RESTART_COUNT = 1 ] || "
             "[ $RANK = 0 ] || exit 5; sleep 100'",
             path("marks"), path("finish"));
    for (int i = 0; i < 2; i++) start_host(i, 2, port, "--max-restarts 2", program);
    wait_for(path("marks"), "ready1", 2); /* one restart is used up */
    kill(job[0], SIGKILL);
    end_of(job[0]);
    run("touch %s", path("finish"));
    start_host(0, 2, port, "--max-restarts 2", program);
    CHECK(end_host(0) == 0);
    CHECK(end_host(1) == 0);
    CHECK(host_says("the leader at 127.0.0.1:"));
    CHECK(count_lines(path("marks"), "ready1") == 4); /* the new leader knows what was used up */
}

static void ends_without_the_leader(void)
{
    make_folder();
    int port = find_port();
    char program[256];
    snprintf(program, sizeof program, WORKER " save %s", path("marks"));
    for (int i = 0; i < 2; i++) start_host(i, 2, port, "", program);
    wait_for(path("marks"), "ready", 2);
    kill(job[0], SIGKILL);
    end_of(job[0]);
    CHECK(end_host(1) == 1);
    CHECK(host_says("the leader at 127.0.0.1:") && host_says(" was lost: "));
}

static void passes_signals_on_to_all(void)
{
    for (int told = 0; told < 2; told++) {
        make_folder();
        int port = find_port();
        char program[256];
        snprintf(program, sizeof program, WORKER " save %s", path("marks"));
        for (int i = 0; i < 2; i++) start_host(i, 2, port, "", program);
        wait_for(path("marks"), "ready", 2);
        kill(job[told], SIGTERM);
        CHECK(end_host(0) == 143);
        CHECK(end_host(1) == 143);
        CHECK(count_lines(path("marks"), "saved") == 2);
    }
}

/* ---- Strangers ---- */

static void refuses_strangers(void)
{
    make_folder();
    int port = find_port();
    char program[256];
    snprintf(program, sizeof program, "sh -c 'while [ ! -f %s ]; do sleep 0.05; done'", path("go"));
    setenv("LOCKSTEP_JOB_TOKEN", "secret", 1);
    start_host(0, 2, port, "", program);
    setenv("LOCKSTEP_JOB_TOKEN", "guess", 1);
    start_host(1, 2, port, "", program);
    CHECK(end_host(1) == 1);
    CHECK(host_says("refuses this host: it does not know the job token"));

    /* Others who find the port: nonsense, silence, a message too long. */
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
    start_host(1, 2, port, "", program);
    usleep(300000);
    char line[512];
    snprintf(line, sizeof line,
             "--nnodes 2 --node-rank 1 --master-addr 127.0.0.1 --master-port %d --rdzv-conf heartbeat=0.2 true", port);
    job[2] = start_as(line, "host2");
    CHECK(end_host(2) == 1);
    CHECK(host_says("another host has this rank"));
    unsetenv("LOCKSTEP_JOB_TOKEN");
    run("touch %s", path("go"));
    CHECK(end_host(0) == 0);
    CHECK(end_host(1) == 0);
}

static void names_what_is_in_the_way(void)
{
    make_folder();
    int port = find_port(), yes = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(port + 1))};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    CHECK(bind(fd, (struct sockaddr *)&here, sizeof here) == 0 && listen(fd, 1) == 0);
    start_host(0, 2, port, "", "true");
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
    CHECK(says("1 of 2 hosts came within"));
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
    CHECK(says("1 of 2 hosts came")); /* this is the first, and leads */
    run("printf 'leader.invalid\\n127.0.0.1\\n' >%s", file);
    CHECK(run(LAUNCH "--hostfile %s --rdzv-conf join_timeout=0.3 true", file) == 1 &&
          says("no leader at leader.invalid"));
    run("printf 'other.invalid\\n' >%s", file);
    CHECK(run(LAUNCH "--hostfile %s true", file) == 2 && says("no line names this host"));
    CHECK(run(LAUNCH "--hostfile %s -n 2 true", file) == 2 && says("leave out --num_processes"));
    CHECK(run(LAUNCH "--hostfile %s --nnodes 2 true", file) == 2 && says("leave out --nnodes"));
    CHECK(run(LAUNCH "--hostfile %s true", path("none")) == 2 && says("No such file"));
}

static void starts_a_missing_program_once(void)
{
    make_folder();
    int port = find_port();
    close(open(path("script"), O_CREAT | O_WRONLY, 0755));
    run("printf '#!/no/such/interpreter\\n' >%s", path("script"));
    for (int i = 0; i < 2; i++) start_host(i, 2, port, "--max-restarts 5", path("script"));
    for (int i = 0; i < 2; i++) CHECK(end_host(i) == 127);
}

/* ---- Elastic ---- */

static void grows_and_shrinks(void)
{
    make_folder();
    int port = find_port();
    char program[512];
    /* Ends when told to, with 0 once the file is there. */
    snprintf(program, sizeof program, "sh -c 'echo world$WORLD_SIZE >>%s; while [ ! -f %s ]; do sleep 0.05; done'",
             path("marks"), path("finish"));
    join(0, "1:3", port, "", program);
    wait_for(path("marks"), "world1", 1);
    join(1, "1:3", port, "", program);
    wait_for(path("marks"), "world2", 2);
    join(2, "1:3", port, "", program);
    wait_for(path("marks"), "world3", 3);
    CHECK(count_lines(path("marks"), "world3") == 3);
    kill(job[1], SIGTERM); /* leaves as a pod does that is scaled down: no failure */
    CHECK(end_host(1) == 143);
    wait_for(path("marks"), "world2", 4);
    CHECK(count_lines(path("marks"), "world2") >= 4);
    run("touch %s", path("finish"));
    CHECK(end_host(0) == 0);
    CHECK(end_host(2) == 0);
}

static void goes_on_with_fewer_after_a_loss(void)
{
    make_folder();
    int port = find_port();
    char program[512];
    snprintf(program, sizeof program,
             "sh -c 'echo world$WORLD_SIZE.$TORCHELASTIC_RESTART_COUNT >>%s; while [ ! -f %s ]; do sleep 0.05; done'",
             path("marks"), path("finish"));
    for (int i = 0; i < 3; i++) join(i, "2:3", port, "--max-restarts 1", program);
    wait_for(path("marks"), "world3.0", 3);
    kill(job[2], SIGKILL); /* may be any, also the leader: they all run on this machine, and another takes over */
    end_of(job[2]);
    for (int i = 0; i < 20000 && count_lines(path("marks"), "world2.") < 2; i++) usleep(1000);
    CHECK(count_lines(path("marks"), "world2.") >= 2);
    run("touch %s", path("finish"));
    CHECK(end_host(0) == 0);
    CHECK(end_host(1) == 0);
}

static void another_takes_over_on_this_machine(void)
{
    make_folder();
    int port = find_port();
    char program[512];
    snprintf(program, sizeof program, "sh -c 'echo world$WORLD_SIZE >>%s; while [ ! -f %s ]; do sleep 0.05; done'",
             path("marks"), path("finish"));
    join(0, "1:2", port, "", program);
    wait_for(path("marks"), "world1", 1);
    join(1, "1:2", port, "", program);
    wait_for(path("marks"), "world2", 2);
    kill(job[0], SIGKILL);
    end_of(job[0]);
    wait_for(path("marks"), "world1", 2);
    CHECK(count_lines(path("marks"), "world1") == 2);
    run("touch %s", path("finish"));
    CHECK(end_host(1) == 0);
}

int main(int argc, char **argv)
{
    begin_shell(argc, argv);
    CHECK_RUN(numbers_all_workers);
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
    CHECK_RUN(reads_host_files);
    CHECK_RUN(starts_a_missing_program_once);
    CHECK_RUN(grows_and_shrinks);
    CHECK_RUN(goes_on_with_fewer_after_a_loss);
    CHECK_RUN(another_takes_over_on_this_machine);
    return check_done();
}
