/* cpus.c - assign CPUs to this process if several processes of the job run on one machine.
 *
 * A launcher may have given each process its own CPUs (Open MPI and srun do), or all CPUs to all. Processes tell each
 * other which they may use: those that may use the same ones divide them, in rank order. The options that must be equal
 * are sent along: this is the first exchange of a job. */
#include "base/cpus.h"
#include "base/hash.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/pin.h"
#include "launch/placement.h"
#include "run/alike.h"

typedef struct cpu_info {
    uint64_t machine; /* the same for processes on one kernel */
    uint64_t cpus;    /* and with the same allowed CPUs */
    ls_terms terms;   /* sent along: must be equal in all processes */
} cpu_info;

/* This process's index among those that may use the same CPUs, and their number. */
static bool find_place(ls_run *run, const cpu_info *mine, int *place, int *sharers)
{
    ls_comm *comm = run->comm;
    ls_message why = {{0}};
    *place = 0;
    *sharers = 1;
    if (comm->size == 1) return true;
    cpu_info *all = ls_sys_alloc((size_t)comm->size * sizeof *all);
    ls_status status = all ? ls_comm_all_gather(comm, mine, all, sizeof *mine, "ls_init", &why) : LS_ERR_MEMORY;
    if (!status) *sharers = 0;
    for (int r = 0; !status && r < comm->size; r++) {
        if (!ls_terms_agree(run, &all[0].terms, &all[r].terms, r)) break;
        if (all[r].machine != mine->machine || all[r].cpus != mine->cpus) continue;
        *place += r < comm->rank;
        ++*sharers;
    }
    ls_sys_free(all);
    if (status) ls_fail(&run->errors, status, "ls_init: %s", all ? why.text : "no memory");
    return !ls_failed(run);
}

bool ls_session_take_cpus(ls_run *run)
{
    int count = ls_cpus_allowed(NULL, 0), place, sharers;
    int *cpus = ls_sys_alloc((size_t)count * sizeof *cpus);
    if (!cpus) return ls_fail(&run->errors, LS_ERR_MEMORY, "ls_init: no memory"), false;
    ls_cpus_allowed(cpus, count);
    cpu_info mine = {ls_machine_key(), ls_hash_of(cpus, (size_t)count * sizeof *cpus), ls_terms_of(run)};
    int *first = find_place(run, &mine, &place, &sharers) ? ls_sys_alloc((size_t)(sharers + 1) * sizeof *first) : NULL;
    if (first) {
        bool enough = ls_placement("", cpus, count, sharers, first);
        int begin = enough ? first[place] : 0, share = enough ? first[place + 1] - begin : 1;
        ls_parallel_share(sharers > 1 ? share : 0, run->session->local_world);
        /* The user asked for more threads than that: the system places them. */
        if (enough && ls_parallel_width() <= share)
            ls_pin_begin(cpus + begin, share, NULL), run->session->pinned = true;
    } else if (!ls_failed(run)) {
        ls_fail(&run->errors, LS_ERR_MEMORY, "ls_init: no memory");
    }
    ls_sys_free(first);
    ls_sys_free(cpus);
    return !ls_failed(run);
}

void ls_session_leave_cpus(ls_session *session)
{
    if (session->pinned) ls_pin_end();
    session->pinned = false;
    ls_parallel_share(0, 1);
}
