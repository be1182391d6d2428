/* lookout.c - two jobs that were told the same address must not train one model.
 *
 * Nothing tells processes of such jobs from each other: what rank 1 says is the same in both. But each rank is claimed
 * twice then, and rank 0, which keeps the address for as long as it runs, hears of the second claim. In the first
 * moments either of the two may be the wrong one: all stop. Later only the newcomer is sent away. */
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "comm/shm/segment.h"
#include "run/join/join.h"

enum { MOMENTS = 60 }; /* seconds in which processes that were started together have come */

struct ls_lookout {
    int file; /* of the memory that tells all to stop */
    int64_t doubtful_until;
    ls_meeting *meeting;
    ls_exchange *exchange;
};

static void claimed(void *user, const char *words)
{
    const ls_lookout *lookout = user;
    if (ls_comm_clock() < lookout->doubtful_until) ls_segment_abandon(lookout->file, words);
    ls_log_line(LS_LOG_WARN, "%s", words);
}

ls_lookout *ls_lookout_open(int file, ls_meeting *meeting, ls_exchange *exchange)
{
    ls_lookout *lookout = meeting || ls_exchange_can_watch(exchange) ? ls_sys_alloc(sizeof *lookout) : NULL;
    if (!lookout) {
        ls_meeting_end(meeting);
        ls_exchange_close(exchange);
        return NULL;
    }
    *lookout = (ls_lookout){dup(file), ls_comm_clock() + (int64_t)MOMENTS * 1000000000, meeting, exchange};
    if (meeting) ls_meeting_watch(meeting, claimed, lookout);
    if (exchange) ls_exchange_watch(exchange, claimed, lookout);
    return lookout;
}

void ls_lookout_close(ls_lookout *lookout)
{
    if (!lookout) return;
    ls_meeting_end(lookout->meeting);
    ls_exchange_close(lookout->exchange);
    if (lookout->file >= 0) close(lookout->file);
    ls_sys_free(lookout);
}
