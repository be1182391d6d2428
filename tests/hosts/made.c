/* made.c - the hosts that other tests run beside are what they are said to be. */
#include "beside.h"

static void hosts_have_names_addresses_and_little_shared_memory(void)
{
    CHECK(run(HOSTS " on b sh -c 'hostname; ip -brief address show eth0; getent hosts a; df -k /dev/shm'") == 0);
    CHECK(says("b\n") && says("10.83.0.2/24") && says("10.83.0.1       a") && says("65536"));
    CHECK(run(HOSTS " on c hostname") == 255 && says("no way to host c"));
}

static void hosts_see_their_own_interfaces(void)
{
    CHECK(run(HOSTS " on b sh -c 'ip link show eth0 | grep -c \"$(cat /sys/class/net/eth0/address)\"'") == 0);
    CHECK_TEXT(output, "1\n");
}

/* As mpirun calls it. */
static void a_shell_reads_what_comes_by_rsh(void)
{
    CHECK(run(HOSTS " rsh -x b 'hostname;' 'exit' 7") == 7);
    CHECK_TEXT(output, "b\n");
}

/* What a command says beside two hosts of its own, seen from here. */
static void nothing_is_left_behind(void)
{
    const char *mark = path("mark");
    CHECK(run(HOSTS " 2 sh -c '" HOSTS " on b sh -c \"setsid sleep 4711 & echo >%s\"; exit 5'", mark) == 5);
    CHECK(access(mark, F_OK) == 0); /* it was started */
    CHECK(count_processes("sleep 4711") == 0);
    CHECK(run(HOSTS " 2 sh -c 'kill -9 $$'") == 128 + SIGKILL);
}

static void cables_can_be_cut(void)
{
    const char *line = "launch --nnodes 2 --node-rank %d --master-addr a --no-pin --rdzv-conf join_timeout=%s true";
    for (int cut = 0; cut < 2; cut++) {
        char command[2][1024], arguments[512];
        if (cut) set_cable('b', "down");
        for (int i = 0; i < 2; i++) {
            snprintf(arguments, sizeof arguments, line, i, cut ? "1" : "30");
            snprintf(command[i], sizeof command[i], LOCKSTEP_COMMAND " %s", arguments);
        }
        pid_t a = start_on('a', command[0], "a"), b = start_on('b', command[1], "b");
        CHECK(end_of(a) == cut);
        CHECK(end_of(b) == cut);
        if (cut) set_cable('b', "up");
    }
}

int main(int argc, char **argv)
{
    begin_beside(2, argc, argv);
    CHECK_RUN(hosts_have_names_addresses_and_little_shared_memory);
    CHECK_RUN(hosts_see_their_own_interfaces);
    CHECK_RUN(a_shell_reads_what_comes_by_rsh);
    CHECK_RUN(nothing_is_left_behind);
    CHECK_RUN(cables_can_be_cut);
    return check_done();
}
