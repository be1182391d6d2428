/* failure.c - what happens to a job of several hosts when something is killed, stopped, cut off or late: it ends soon,
 * with the first cause on every host and the right exit code, and leaves nothing behind. */
#include "job.h"

/* ---- Beginning ---- */

static void every_worker_has_its_number(void)
{
    for (int hosts = 2; hosts <= 3; hosts++) {
        start_hosts(hosts, "", "sh -c 'echo $(hostname) $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE'");
        for (int i = 0; i < hosts; i++) {
            CHECK(end_host(i) == 0);
            for (int local = 0; local < 2; local++) {
                char expected[64];
                snprintf(expected, sizeof expected, "%c %d/%d %d/2\n", host_name(i), 2 * i + local, 2 * hosts, local);
                CHECK(host_says(expected));
            }
        }
    }
}

/* As in Kubernetes, where names of pods come into being with them. */
static void a_name_may_resolve_late(void)
{
    make_folder();
    for (int i = 0; i < 2; i++) {
        char where[128];
        snprintf(where, sizeof where, "--nnodes 2 --node-rank %d --master-addr late --master-port 4000", i);
        start_launcher(i, where, "", "true");
    }
    usleep(700000);
    CHECK(waitpid(job[1], NULL, WNOHANG) == 0); /* it waits */
    for (int i = 0; i < 2; i++) CHECK(run(HOSTS " on %c sh -c 'echo 10.83.0.1 late >>/etc/hosts'", host_name(i)) == 0);
    expect_ends(2, 0, "");
}

static void a_busy_port_is_named(void)
{
    make_folder();
    /* What is in the way is a launcher of another job that waits there for its second host. */
    start_host(0, 2, "--rdzv-conf join_timeout=4", "true");
    pid_t other = job[0];
    CHECK(run("for i in $(seq 500); do " HOSTS " on a ss -Htln | grep -q :4001 && exit 0; sleep 0.01; done; exit 1") ==
          0);
    start_host(0, 2, "", "true");
    CHECK(end_host(0) == 1);
    CHECK(host_says("Address already in use") && host_says("--main_process_port"));
    kill(other, SIGTERM);
    end_of(other);
}

/* ---- Workers ---- */

static void a_killed_worker_ends_all(void)
{
    start_waiting(3, "");
    int pid = pid_of_rank(3);
    char cause[128];
    snprintf(cause, sizeof cause, "first cause: rank 3 (local rank 1, host b, pid %d) was killed by SIGKILL", pid);
    kill(pid, SIGKILL);
    expect_ends(3, 128 + SIGKILL, cause);
    for (int i = 0; i < 3; i++) CHECK(termination_log_says(i, cause));
    CHECK(count_lines(path("marks"), "saved") == 5); /* the others had time to save */
    expect_nothing_left();
}

static void exit_codes_are_passed_on(void)
{
    start_hosts(2, "", WORKER " 3=say 7");
    expect_ends(2, 7, "first cause: rank 3 (local rank 1, host b, ");
    CHECK(host_says("exited with code 7") && host_says("    the last words\n"));
    expect_nothing_left();
}

/* How long host a took to notice what happened: printed, not judged. */
static void print_delay(const char *event, double since)
{
    wait_for_cause(0);
    printf("%s was noticed after %.2f s\n", event, now() - since);
}

static void a_stopped_worker_is_noticed(void)
{
    start_waiting(2, "");
    double since = now();
    kill(pid_of_rank(3), SIGSTOP);
    print_delay("a stopped worker", since);
    expect_ends(2, 128 + SIGSTOP, "first cause: rank 3 (local rank 1, host b, ");
    CHECK(host_says("was stopped by SIGSTOP"));
    expect_nothing_left();

    start_waiting(2, "--rdzv-conf dead_after=1000"); /* not if it may: it is woken, and all goes on */
    kill(pid_of_rank(3), SIGSTOP);
    usleep(100000);
    kill(pid_of_rank(3), SIGCONT);
    kill(job[0], SIGTERM);
    expect_ends(2, 128 + SIGTERM, "");
}

static void a_storm_of_restarts_is_ended(void)
{
    start_hosts(2, "--max-restarts 100", WORKER " 1=exit 9");
    expect_ends(2, 9, "first cause: rank 1 ");
    char text[32] = "";
    CHECK(run("grep -c 'first cause' %s", path("host0")) == 0);
    snprintf(text, sizeof text, "%.20s", output);
    CHECK_MSG(atoi(text) > 1 && atoi(text) < 20, "%s restarts", text);
    expect_nothing_left();
}

/* ---- Hosts ---- */

static void a_killed_launcher_takes_its_workers_with_it(void)
{
    start_waiting(3, "");
    kill(job[1], SIGKILL);
    CHECK(end_host(1) == 1000 + SIGKILL);
    for (int i = 0; i < 3; i += 2) {
        CHECK(end_host(i) == 1);
        CHECK(host_says("first cause: host b with 2 workers from host rank 1 was lost: it closed the connection"));
    }
    CHECK(count_lines(path("marks"), "saved") == 4);
    expect_nothing_left();
}

static void a_killed_leader_ends_all(void)
{
    start_waiting(3, "");
    kill(job[0], SIGKILL);
    CHECK(end_host(0) == 1000 + SIGKILL);
    for (int i = 1; i < 3; i++) {
        CHECK(end_host(i) == 1);
        CHECK(host_says("first cause: the leader at a:4001 was lost"));
    }
    expect_nothing_left();
}

static void a_stopped_launcher_is_noticed(void)
{
    start_waiting(2, "");
    double since = now();
    kill(job[1], SIGSTOP);
    print_delay("a stopped host", since);
    CHECK(end_host(0) == 1);
    CHECK(host_says("first cause: host b with 2 workers from host rank 1 was lost: no heartbeat for "));
    kill(job[1], SIGCONT); /* it finds itself alone, and ends what it has */
    CHECK(end_host(1) == 1);
    expect_nothing_left();
}

static void a_cut_cable_is_noticed_on_both_sides(void)
{
    start_waiting(3, "");
    double since = now();
    set_cable('c', "down");
    print_delay("a cut cable", since);
    for (int i = 0; i < 2; i++) {
        CHECK(end_host(i) == 1);
        CHECK(host_says("first cause: host c with 2 workers from host rank 2 was lost: no heartbeat for "));
    }
    CHECK(end_host(2) == 1);
    CHECK(host_says("first cause: the leader at a:4001 was lost: no heartbeat"));
    CHECK(count_lines(path("marks"), "saved") == 6);
    set_cable('c', "up");
    expect_nothing_left();
}

/* ---- Going on ---- */

/* Two attempts: the first waits to be ended, the one after let_finish() ends well. */
static const char *second_attempt_ends(void)
{
    static char program[512];
    snprintf(program, sizeof program,
             "sh -c 'if [ ! -f %s/finish ]; then exec " WORKER " save %s/marks; fi; echo again $RANK >>%s/marks'",
             folder, folder, folder);
    return program;
}

static void let_finish(void)
{
    close(open(path("finish"), O_CREAT | O_WRONLY, 0644));
}

static void begin_two_attempts(int hosts)
{
    make_folder();
    for (int i = 0; i < hosts; i++) start_host(i, hosts, "--max-restarts 1", second_attempt_ends());
    wait_for(path("marks"), "ready", 2 * hosts);
}

static void a_lost_host_may_come_back(void)
{
    for (int lost = 0; lost < 2; lost++) { /* 0: the leader */
        begin_two_attempts(2);
        kill(job[lost], SIGKILL);
        end_of(job[lost]);
        let_finish();
        start_host(lost, 2, "--max-restarts 1", second_attempt_ends());
        expect_ends(2, 0, "");
        CHECK(count_lines(path("marks"), "again") == 4);
        expect_nothing_left();
    }
}

static void a_cable_may_be_mended(void)
{
    begin_two_attempts(2);
    let_finish();
    set_cable('b', "down");
    for (int i = 0; i < 2; i++) wait_for_cause(i);
    set_cable('b', "up");
    expect_ends(2, 0, "was lost: no heartbeat");
    CHECK(count_lines(path("marks"), "again") == 4);
    expect_nothing_left();
}

/* Slow and lossy is not lost. */
static void a_bad_network_is_endured(void)
{
    for (int i = 0; i < 2; i++) {
        pid_t netem = start_netem('b', i ? 0 : 20, i ? 5 : 0);
        start_waiting(2, "");
        usleep(2500000); /* longer than a silent host would be endured */
        kill(job[0], SIGTERM);
        expect_ends(2, 128 + SIGTERM, "");
        CHECK(count_lines(path("marks"), "saved") == 4);
        end_netem(netem, 'b');
    }
}

int main(int argc, char **argv)
{
    begin_beside(3, argc, argv);
    processes_before = count_processes(NULL);
    CHECK_RUN(every_worker_has_its_number);
    CHECK_RUN(a_name_may_resolve_late);
    CHECK_RUN(a_busy_port_is_named);
    CHECK_RUN(a_killed_worker_ends_all);
    CHECK_RUN(exit_codes_are_passed_on);
    CHECK_RUN(a_stopped_worker_is_noticed);
    CHECK_RUN(a_storm_of_restarts_is_ended);
    CHECK_RUN(a_killed_launcher_takes_its_workers_with_it);
    CHECK_RUN(a_killed_leader_ends_all);
    CHECK_RUN(a_stopped_launcher_is_noticed);
    CHECK_RUN(a_cut_cable_is_noticed_on_both_sides);
    CHECK_RUN(a_lost_host_may_come_back);
    CHECK_RUN(a_cable_may_be_mended);
    CHECK_RUN(a_bad_network_is_endured);
    return check_done();
}
