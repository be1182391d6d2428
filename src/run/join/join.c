/* join.c - find the other processes of the job and join them, whichever launcher started them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "comm/shm/meet.h"
#include "comm/shm/shm.h"
#include "run/join/join.h"
#include "run/session.h"

#include <unistd.h>

int ls_share_memory(const ls_place *place, const char *name, ls_meeting **meeting, ls_message *why)
{
    int inherited = (int)ls_config_count(LS_SETTING_COMM_FILE);
    if (place->local_world > LS_SEGMENT_MOST) {
        ls_message_set(why, "%d processes on a host; at most %d can work together", place->local_world,
                       (int)LS_SEGMENT_MOST);
        return -1;
    }
    if (inherited && !ls_segment_taken(inherited, place->local_rank)) return dup(inherited); /* for who looks later */
    return ls_meet(name, place->local_rank, place->local_world, (int64_t)ls_config_count(LS_SETTING_COMM_TIMEOUT),
                   meeting, why);
}

/* A name that is the same in all processes of a job and differs between jobs. */
static void name_job(const ls_identity *who, char *name, size_t size)
{
    const char *token = ls_config_text(LS_SETTING_COMM_TOKEN);
    int file = (int)ls_config_count(LS_SETTING_COMM_FILE);
    uint64_t inherited[2];
    /* Hydra's processes share nothing but their parent. */
    long parent = who->bootstrap == LS_BOOTSTRAP_PMI1 ? (long)getppid() : 0;
    if (file && ls_segment_token(file, inherited))
        snprintf(name, size, "%016" PRIx64 "%016" PRIx64, inherited[0], inherited[1]);
    else if (*token) snprintf(name, size, "%s", token);
    else snprintf(name, size, "%s:%d %s %d %ld", who->master_addr, who->master_port, who->job, who->attempt, parent);
}

/* Processes that are certainly all on this host need no help to find each other. */
static bool are_together(const ls_identity *who)
{
    if (ls_config_count(LS_SETTING_COMM_FILE)) return who->local_world == who->world;
    if (who->hosts > 0 || who->local_world > 0) return who->hosts == 1 || who->local_world == who->world;
    return who->bootstrap == LS_BOOTSTRAP_STORE &&
           (strcmp(who->master_addr, "127.0.0.1") == 0 || strcmp(who->master_addr, "localhost") == 0);
}

static ls_status join_together(ls_comm **comm, ls_place *place, ls_rank_guard **guard, const ls_identity *who,
                               ls_message *why)
{
    char job[640];
    ls_meeting *meeting = NULL;
    name_job(who, job, sizeof job);
    int file = ls_share_memory(&(ls_place){who->rank, who->world}, job, &meeting, why);
    ls_segment *segment = file < 0 ? NULL : ls_segment_open(file, who->world, why);
    if (segment) *guard = ls_rank_guard_open(segment->file, meeting, NULL);
    else ls_meeting_end(meeting);
    *comm = segment ? ls_shm_join(segment, who->rank, why) : NULL;
    ls_segment_release(segment);
    *place = (ls_place){who->local_rank >= 0 ? who->local_rank : who->rank, who->world};
    return *comm ? LS_OK : LS_ERR_PEER;
}

bool ls_session_find_others(ls_run *run)
{
    ls_identity who;
    ls_place place;
    ls_message why = {{0}};
    ls_comm *comm = NULL;
    ls_rank_guard **guard = &run->session->guard;
    ls_status status = ls_identity_read((const char *const *)environ, &who, &why);
    if (!status) ls_log_set_rank(who.rank);
    if (!status && who.world == 1) return true;
    if (!status)
        status = are_together(&who) ? join_together(&comm, &place, guard, &who, &why)
                                    : ls_join_hosts(&comm, &place, guard, &who, &why);
    if (status) return ls_fail(&run->errors, status, "ls_init: %s", why.text), false;
    ls_session_join(run, comm);
    run->session->local_rank = place.local_rank;
    run->session->local_world = place.local_world;
    snprintf(run->session->meeting_host, sizeof run->session->meeting_host, "%s", who.master_addr);
    return true;
}
