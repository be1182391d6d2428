/* tpu.c - the variables of libtpu for one process per chip. */
#include "launch/tpu.h"

#include "base/log.h"
#include "base/status.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_PORT = 8476, LONGEST_ADDRESSES = 1 << 16 };

/* How the chips of a host that are used are arranged; NULL: not in any such number. */
static const char *bounds_of_host(int chips)
{
    return chips == 1 ? "1,1,1" : chips == 2 ? "1,2,1" : chips == 4 ? "2,2,1" : chips == 8 ? "2,4,1" : NULL;
}

/* "4x4" as "4,4,1"; false, and nothing is written: it is no arrangement of so many chips. */
static bool read_bounds(const char *topology, int chips, char bounds[40])
{
    int x = 0, y = 0, z = 0, end = 0;
    if (sscanf(topology, "%dx%dx%d%n", &x, &y, &z, &end) < 3) {
        z = 1;
        if (sscanf(topology, "%dx%d%n", &x, &y, &end) < 2) return false;
    }
    if (topology[end] || x <= 0 || y <= 0 || z <= 0 || (long long)x * y * z != chips) return false;
    snprintf(bounds, 40, "%d,%d,%d", x, y, z);
    return true;
}

static int count_words(const char *list)
{
    int count = list && *list;
    for (; list && *list; list++) count += *list == ',';
    return count;
}

/* "a:8476,a:8477,b:8476,b:8477"; false: it is too long. */
static bool list_addresses(const char *names, int processes, char text[LONGEST_ADDRESSES])
{
    size_t used = 0;
    for (const char *name = names; *name; name += strcspn(name, ","), name += *name == ',')
        for (int i = 0; i < processes && used < LONGEST_ADDRESSES; i++)
            used += (size_t)snprintf(text + used, LONGEST_ADDRESSES - used, "%s%.*s:%d", used ? "," : "",
                                     (int)strcspn(name, ","), name, FIRST_PORT + i);
    return used < LONGEST_ADDRESSES;
}

/* Names and chips of hosts are in the order of their ranks, and of all of them: a host that is not there, or that takes
 * another's place, would make libtpu wait for it. */
static bool check_places(const ls_plan *plan)
{
    if (plan->opts.elastic) {
        ls_log_line(
            LS_LOG_ERROR,
            "launch: one process per TPU chip on several hosts needs all of them, in their order: give "
            "--nnodes N and --node-rank, not MIN:MAX or --rdzv-backend c10d; or start one process on each host");
        return false;
    }
    int rank = plan->opts.host_rank;
    int worker = ls_environment_integer(plan->inherited, "TPU_WORKER_ID", 0, INT_MAX, rank);
    if (worker == rank) return true;
    ls_log_line(LS_LOG_ERROR,
                "launch: --node-rank %d, but TPU_WORKER_ID=%d is the place of this host in TPU_WORKER_HOSTNAMES: they "
                "must be the same",
                rank, worker);
    return false;
}

/* Nothing on a host tells who the others are, or how they are connected, if its variables do not. */
static bool check_hosts(const ls_plan *plan)
{
    char bounds[40], addresses[LONGEST_ADDRESSES];
    const char *names = ls_environment_get(plan->inherited, "TPU_WORKER_HOSTNAMES"),
               *topology = ls_environment_get(plan->inherited, "TPU_TOPOLOGY");
    int hosts = plan->opts.max_hosts, processes = plan->opts.num_processes;
    if (hosts == 1) return true;
    if (!check_places(plan)) return false;
    if (count_words(names) != hosts || !topology || !read_bounds(topology, hosts * processes, bounds))
        ls_log_line(
            LS_LOG_ERROR,
            "launch: one process per TPU chip on %d hosts needs TPU_WORKER_HOSTNAMES=name,name,... of all hosts and "
            "TPU_TOPOLOGY=4x4, the arrangement of all %d chips; or start one process on each host",
            hosts, hosts * processes);
    else if (!list_addresses(names, processes, addresses))
        ls_log_line(
            LS_LOG_ERROR,
            "launch: the addresses of %d processes by TPU_WORKER_HOSTNAMES have more than %d bytes: use shorter "
            "names, or start one process on each host",
            hosts * processes, LONGEST_ADDRESSES);
    else return true;
    return false;
}

bool ls_tpu_settle(ls_plan *plan)
{
    int processes = plan->opts.num_processes, chips = processes > 1 ? ls_plan_tpus(plan) : 0;
    if (!chips) return true;
    if (processes > chips)
        ls_log_line(
            LS_LOG_ERROR,
            "launch: %d processes for %d TPU chip%s, but a chip belongs to one process: start one for each chip "
            "(--num_processes %d), or train on the CPU (--cpu)",
            processes, chips, LS_S(chips), chips);
    else if (!bounds_of_host(processes))
        ls_log_line(LS_LOG_ERROR, "launch: %d processes on TPU chips of a host: only 1, 2, 4 or 8 can be connected",
                    processes);
    else plan->on_tpu = check_hosts(plan);
    return plan->on_tpu;
}

void ls_tpu_environment(const ls_plan *plan, const ls_assignment *a, int local_rank, ls_environment *to)
{
    char bounds[40], addresses[LONGEST_ADDRESSES];
    int processes = plan->opts.num_processes;
    const char *topology = ls_environment_get(plan->inherited, "TPU_TOPOLOGY"), *names = "localhost";
    snprintf(bounds, sizeof bounds, "%s", bounds_of_host(processes));
    if (a->hosts > 1) { /* both were checked */
        names = ls_environment_get(plan->inherited, "TPU_WORKER_HOSTNAMES");
        read_bounds(topology, a->world, bounds);
    }
    ls_environment_set(to, "TPU_CHIPS_PER_PROCESS_BOUNDS", "1,1,1");
    ls_environment_set(to, "TPU_PROCESS_BOUNDS", "%s", bounds);
    ls_environment_set(to, "TPU_VISIBLE_CHIPS", "%d", local_rank);
    ls_environment_set(to, "TPU_PROCESS_PORT", "%d", FIRST_PORT + local_rank);
    ls_environment_set(to, "CLOUD_TPU_TASK_ID", "%d", a->first_rank + local_rank);
    list_addresses(names, processes, addresses);
    ls_environment_set(to, "TPU_PROCESS_ADDRESSES", "%s", addresses);
    if (!ls_environment_get(plan->inherited, "ALLOW_MULTIPLE_LIBTPU_LOAD"))
        ls_environment_set(to, "ALLOW_MULTIPLE_LIBTPU_LOAD", "1"); /* by several processes of a host */
}
