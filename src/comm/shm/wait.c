/* wait.c - waiting for other processes: spin briefly, then sleep; every wait has a limit. */
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "comm/shm/shm.h"

enum { SPINS = 3000, SPINS_IN_BACKGROUND = 100, YIELDS = 64, NAP = 5000000 /* ns */, SHORT_NAP = 100000 };

void ls_line_raise(ls_line *line, uint32_t count)
{
    atomic_store(&line->count, count);
    if (atomic_load(&line->sleepers)) ls_futex_wake_shared(&line->count);
}

bool ls_line_reached(ls_line *line, uint32_t count)
{
    return (int32_t)(atomic_load_explicit(&line->count, memory_order_acquire) - count) >= 0;
}

static ls_status give_up(ls_shm *shm, bool dead, int rank, const char *format, va_list args)
{
    ls_message_set_list(&shm->broken, format, args);
    if (dead) ls_segment_report_dead(shm->segment, rank, shm->broken.text);
    else ls_segment_abort(shm->segment, rank, shm->broken.text);
    return LS_ERR_PEER;
}

ls_status ls_shm_break(ls_shm *shm, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ls_status status = give_up(shm, false, -1, format, args);
    va_end(args);
    return status;
}

ls_status ls_shm_report_dead(ls_shm *shm, int rank, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ls_status status = give_up(shm, true, rank, format, args);
    va_end(args);
    return status;
}

ls_status ls_shm_report_dead_member(ls_shm *shm, const ls_member *member)
{
    char last[200];
    ls_ring_describe_last(member, last, sizeof last);
    return ls_shm_report_dead(shm, member->rank, "rank %d (process %d) died; its last call: %s", member->rank,
                              member->pid, last);
}

bool ls_headers_agree(const ls_ring_entry *a, const ls_ring_entry *b)
{
    bool sizes_may_differ = a->kind == LS_COMM_ALL_GATHER || a->kind == LS_COMM_GATHER || a->kind == LS_COMM_SCATTER ||
                            a->kind == LS_COMM_ALL_TO_ALL || a->kind == LS_COMM_REDUCE_SCATTER;
    return a->kind == b->kind && a->dtype == b->dtype && a->op == b->op && a->peer == b->peer && a->shape == b->shape &&
           (sizes_may_differ || a->count == b->count);
}

ls_status ls_shm_disagree(ls_shm *shm, int rank_a, const ls_ring_entry *a, int rank_b, const ls_ring_entry *b)
{
    char of_a[200], of_b[200];
    ls_ring_describe(a, of_a, sizeof of_a);
    ls_ring_describe(b, of_b, sizeof of_b);
    return ls_shm_break(shm, "processes disagree: rank %d calls %s, rank %d calls %s", rank_a, of_a, rank_b, of_b);
}

ls_status ls_shm_wrong_size(ls_shm *shm, int from, size_t sent, size_t wanted)
{
    char mine[200];
    ls_ring_describe(&shm->entry, mine, sizeof mine);
    return ls_shm_break(shm, "rank %d expects %zu bytes from rank %d in %s, which has %zu",
                        ls_shm_job_rank(shm, shm->comm.rank), wanted, from, mine, sent);
}

static bool is_stopped(int pid)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    char *after = file && fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL; /* names may contain anything */
    if (file) fclose(file);
    return after && (after[2] == 'T' || after[2] == 't');
}

bool ls_shm_interrupted(const ls_shm *shm)
{
    return ls_segment_aborted(shm->segment) || (!shm->comm.ignores_cancel && ls_segment_cancelled(shm->segment) >= 0);
}

ls_status ls_shm_interruption(ls_shm *shm)
{
    int cancelled = ls_segment_cancelled(shm->segment);
    if (ls_segment_aborted(shm->segment)) {
        ls_segment_reason(shm->segment, &shm->broken);
        return LS_ERR_PEER;
    }
    return ls_explain(&shm->broken, LS_ERR_MEMORY, "rank %d ran out of memory", cancelled);
}

bool ls_shm_must_warn(ls_shm *shm, int64_t waited)
{
    const int64_t usual = 10000000000, patience = shm->timeout && shm->timeout / 2 < usual ? shm->timeout / 2 : usual;
    _Atomic uint64_t *warned = &shm->segment->header->warned;
    uint64_t call = (uint64_t)shm->group << 32 | (uint32_t)shm->entry.number;
    if (waited <= patience || shm->warned_call == shm->entry.began) return false;
    shm->warned_call = shm->entry.began; /* ranks in different calls take turns at `warned` */
    return atomic_exchange(warned, call) != call;
}

void ls_shm_warn(const ls_shm *shm, int64_t waited, int them, const char *last)
{
    char mine[200], limit[64] = "waits without limit";
    ls_ring_describe(&shm->entry, mine, sizeof mine);
    if (shm->timeout) snprintf(limit, sizeof limit, "gives up after %.0f s", (double)shm->timeout / 1e9);
    ls_log_line(LS_LOG_WARN,
                "rank %d has waited %.1f s for rank %d in %s; last call of rank %d: %s; %s (LOCKSTEP_COMM_TIMEOUT)",
                ls_shm_job_rank(shm, shm->comm.rank), (double)waited / 1e9, them, mine, them, last, limit);
}

/* Called every few milliseconds of sleep: is there still a rank to wait for? */
static ls_status check_peer(ls_shm *shm, int peer, int64_t began, ls_line *line, uint32_t count)
{
    ls_segment *segment = shm->segment;
    if (ls_shm_interrupted(shm) && !ls_line_reached(line, count)) return ls_shm_interruption(shm);
    int number = shm->member[peer];
    const ls_member *member = &segment->header->member[number];
    bool left = atomic_load_explicit(&member->state, memory_order_acquire) == LS_MEMBER_LEFT;
    bool dead = ls_segment_dead(segment, number);
    int64_t waited = ls_comm_clock() - began;
    bool late = shm->timeout && waited > shm->timeout;
    if (ls_line_reached(line, count)) return LS_OK;
    bool warn = !left && !dead && !late && ls_shm_must_warn(shm, waited);
    if (!left && !dead && !late && !warn) return ls_shm_check_deadlock(shm, line, count, peer, began);
    int them = ls_shm_job_rank(shm, peer), me = ls_shm_job_rank(shm, shm->comm.rank);
    char mine[200], theirs[200];
    ls_ring_describe(&shm->entry, mine, sizeof mine);
    ls_ring_describe_last(member, theirs, sizeof theirs);
    if (warn) return ls_shm_warn(shm, waited, them, theirs), LS_OK;
    if (left)
        return ls_shm_break(shm, "rank %d has finished, but rank %d waits for it in %s; last call of rank %d: %s", them,
                            me, mine, them, theirs);
    if (dead) return ls_shm_report_dead_member(shm, member);
    return ls_shm_break(shm, "rank %d waited %.1f s for rank %d in %s; last call of rank %d (process %d%s): %s", me,
                        (double)waited / 1e9, them, mine, them, member->pid,
                        is_stopped(member->pid) ? ", which is stopped" : "", theirs);
}

ls_status ls_line_await(ls_shm *shm, ls_line *line, uint32_t count, int peer, ls_message *why)
{
    int spins = shm->comm.background ? SPINS_IN_BACKGROUND : SPINS;
    for (int i = 0; i < spins; i++) {
        if (ls_line_reached(line, count)) return LS_OK;
        if (ls_shm_interrupted(shm)) break;
        ls_spin_hint();
    }
    for (int i = 0; i < YIELDS && !ls_shm_interrupted(shm); i++) {
        if (ls_line_reached(line, count)) return LS_OK;
        sched_yield();
    }
    int64_t began = ls_comm_clock();
    ls_status status = LS_OK;
    while (!ls_line_reached(line, count)) {
        long nap = shm->listen && shm->listen(shm->listener) ? SHORT_NAP : NAP;
        status = check_peer(shm, peer, began, line, count);
        if (status) {
            *why = shm->broken;
            break;
        }
        atomic_fetch_add(&line->sleepers, 1);
        uint32_t seen = atomic_load(&line->count);
        if ((int32_t)(seen - count) < 0) ls_futex_wait_shared(&line->count, seen, nap);
        atomic_fetch_sub(&line->sleepers, 1);
    }
    ls_shm_end_wait(shm, peer, began);
    return status;
}

ls_status ls_shm_step(ls_shm *shm, ls_message *why)
{
    int rank = shm->comm.rank, size = shm->comm.size;
    ls_line_raise(&shm->lines[rank], ++shm->step);
    ls_status status = LS_OK;
    for (int i = 1; i < size && !status; i++) {
        int peer = (rank + i) % size;
        status = ls_line_await(shm, &shm->lines[peer], shm->step, peer, why);
    }
    return status;
}
