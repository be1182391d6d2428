/* lookout.c - detect two jobs that were given the same address, so that they do not train one model.
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

struct ls_lookout {
    int file; /* of the memory that tells all processes to stop */
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
    *lookout = (ls_lookout){dup(file), ls_comm_clock() + (int64_t)START_SECONDS * 1000000000, meeting, exchange};
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
