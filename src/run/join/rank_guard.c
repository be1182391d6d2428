/* rank_guard.c - detect two jobs that were given the same address, so that they do not train one model.
 *
 * The processes of such jobs look the same: rank 1 says the same in both. But each rank is claimed twice, and rank 0,
 * which keeps the address open as long as it runs, receives the second claim. In the first minute either of the two may
 * be the wrong one, so all stop. Later only the newcomer is refused. */
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "comm/shm/segment.h"
#include "run/join/join.h"

enum { START_SECONDS = 60 }; /* in which processes started together have joined */

struct ls_rank_guard {
    int file; /* of the memory that tells all processes to stop */
    int64_t startup_until;
    ls_meeting *meeting;
    ls_exchange *exchange;
};

static void claimed(void *user, const char *words)
{
    const ls_rank_guard *guard = user;
    if (ls_comm_clock() < guard->startup_until) ls_segment_abandon(guard->file, words);
    ls_log_line(LS_LOG_WARN, "%s", words);
}

ls_rank_guard *ls_rank_guard_open(int file, ls_meeting *meeting, ls_exchange *exchange)
{
    ls_rank_guard *guard = meeting || ls_exchange_can_watch(exchange) ? ls_sys_alloc(sizeof *guard) : NULL;
    if (!guard) {
        ls_meeting_end(meeting);
        ls_exchange_close(exchange);
        return NULL;
    }
    *guard = (ls_rank_guard){dup(file), ls_comm_clock() + (int64_t)START_SECONDS * 1000000000, meeting, exchange};
    if (meeting) ls_meeting_watch(meeting, claimed, guard);
    if (exchange) ls_exchange_watch(exchange, claimed, guard);
    return guard;
}

void ls_rank_guard_close(ls_rank_guard *guard)
{
    if (!guard) return;
    ls_meeting_end(guard->meeting);
    ls_exchange_close(guard->exchange);
    if (guard->file >= 0) close(guard->file);
    ls_sys_free(guard);
}
