/* hosts.c - processes on several hosts: which of them share one, and the transport between hosts.
 *
 * All processes exchange a description of themselves. Processes with the same key share a host: they have inherited the
 * same memory from a launcher or, without one, can meet at a local socket. They allocate shared memory together, in
 * rank order, and connect to the other hosts over a transport. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config.h"
#include "base/hash.h"
#include "base/machine.h"
#include "base/memory.h"
#include "comm/hosts/hosts.h"
#include "comm/hosts/link_gather.h"
#include "comm/hosts/transport.h"
#include "comm/shm/shm.h"
#include "launch/bootstrap/exchange.h"
#include "run/join/join.h"

typedef struct peer_info {
    uint64_t host[2];    /* key: the same for processes on one host */
    uint64_t meeting[2]; /* a unique name, for those who share a host with this process */
    char transport[16];  /* "": none */
} peer_info;

typedef struct search {
    ls_identity *who;
    const ls_transport *transport; /* NULL: none, see reason */
    ls_message reason;
    ls_exchange *exchange; /* NULL if the transport finds the others by itself */
    int64_t seconds;       /* to wait for others; 0: no limit */
    peer_info *peers;      /* [world] */
    int *host;             /* [world] number of each rank's host */
    int hosts;
} search;

/* ---- Transport ------------------------------------------------------------------------------------------------ */

/* The MPI whose mpirun started this process; NULL: none, or an unsupported one. */
static const char *own_mpi(const ls_identity *who)
{
    static const char *const names[][2] = {{"Open MPI", "openmpi"}, {"Hydra", "mpich"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(who->source, names[i][0]) == 0) return names[i][1];
    return NULL;
}

static const char *package_of(const char *transport)
{
    static const char *const packages[][2] = {{"ucx", "libucx0"}, {"openmpi", "libopenmpi3"}, {"mpich", "libmpich12"}};
    for (size_t i = 0; i < sizeof packages / sizeof *packages; i++)
        if (strcmp(transport, packages[i][0]) == 0) return packages[i][1];
    return "the missing library";
}

static const ls_transport *choose_transport(const ls_identity *who, ls_message *why)
{
    const char *wanted = ls_config_text(LS_SETTING_COMM_TRANSPORT), *mpi = own_mpi(who);
    bool any = strcmp(wanted, "auto") == 0;
    const ls_transport *found = NULL;
    ls_message reason = {{0}};
    if (strcmp(wanted, "mpi") == 0) {
        if (!mpi) {
            ls_message_set(why,
                           "LOCKSTEP_COMM_TRANSPORT=mpi, but %s started this process, not mpirun: unset it, or use ucx",
                           who->source);
            return NULL;
        }
        wanted = mpi;
    }
    if (any && mpi) found = ls_transport_load(mpi, &reason);
    if (any) wanted = "ucx";
    if (!found) found = ls_transport_load(wanted, &reason);
    if (!found)
        ls_message_set(why, "no transport between hosts: %s: %.130s; install %s", wanted, reason.text,
                       package_of(wanted));
    return found;
}

/* ---- Descriptions --------------------------------------------------------------------------------------------- */

/* Processes that inherited a launcher's memory share a host if it is the same memory; others if machine, network and
 * user are the same. */
static void find_key(uint64_t key[2])
{
    int inherited = (int)ls_config_count(LS_SETTING_COMM_FILE);
    if (inherited && ls_segment_token(inherited, key)) return;
    struct stat network = {0};
    stat("/proc/self/ns/net", &network);
    uint64_t numbers[4] = {ls_machine_key(), network.st_dev, network.st_ino, getuid()};
    key[0] = ls_hash_of(numbers, sizeof numbers);
    key[1] = 0; /* differs from a launcher's random token */
}

/* An all-gather over the exchange, as transports call it. */
static ls_status gather(void *user, const void *mine, size_t bytes, void *all, ls_message *why)
{
    const search *s = user;
    return ls_exchange_all_gather(s->exchange, mine, bytes, all, s->seconds ? (double)s->seconds : INFINITY, why);
}

static bool finds_others(const search *s)
{
    return s->transport && s->transport->finds_others;
}

static ls_status gather_peers(search *s, ls_message *why)
{
    peer_info mine = {.transport = ""};
    find_key(mine.host);
    if (getrandom(mine.meeting, sizeof mine.meeting, 0) != (ssize_t)sizeof mine.meeting)
        mine.meeting[0] = (uint64_t)ls_comm_clock();
    snprintf(mine.transport, sizeof mine.transport, "%s", s->transport ? s->transport->name : "");
    if (finds_others(s))
        return ls_link_gather(s->transport, s->who->rank, s->who->world, &mine, sizeof mine, s->peers, s->seconds, why);
    return gather(s, &mine, sizeof mine, s->peers, why);
}

/* Hosts are numbered in the order of their lowest ranks. */
static void number_hosts(search *s, ls_place *place)
{
    for (int r = 0; r < s->who->world; r++) {
        int first = 0;
        while (memcmp(s->peers[first].host, s->peers[r].host, sizeof s->peers[r].host) != 0) first++;
        s->host[r] = first == r ? s->hosts++ : s->host[first];
    }
    *place = (ls_place){0};
    for (int r = 0; r < s->who->world; r++) {
        if (s->host[r] != s->host[s->who->rank]) continue;
        place->local_rank += r < s->who->rank;
        place->local_world++;
    }
}

/* Do all hosts have the same transport? */
static ls_status check_transports(const search *s, ls_message *why)
{
    if (!s->transport) {
        *why = s->reason;
        return LS_ERR_UNSUPPORTED;
    }
    const char *mine = s->peers[s->who->rank].transport;
    for (int r = 0; r < s->who->world; r++) {
        const char *other = s->peers[r].transport;
        if (strncmp(other, mine, sizeof s->peers[r].transport) == 0) continue;
        return ls_explain(why, LS_ERR_UNSUPPORTED, "rank %d has transport %.16s between hosts, rank %d %.16s: %s",
                          s->who->rank, mine, r, *other ? other : "none",
                          *other ? "set LOCKSTEP_COMM_TRANSPORT for all"
                                 : "`lockstep env` there shows what is missing");
    }
    return LS_OK;
}

/* ---- Memory of this host -------------------------------------------------------------------------------------- */

static ls_segment *open_segment(const search *s, const ls_place *place, ls_message *why)
{
    int first = 0;
    while (s->host[first] != s->host[s->who->rank]) first++;
    char name[64];
    const uint64_t *number = s->peers[first].meeting;
    snprintf(name, sizeof name, "%016" PRIx64 "%016" PRIx64, number[0], number[1]);
    int file = ls_share_memory(place, name, NULL, why);
    return file < 0 ? NULL : ls_segment_open(file, place->local_world, why);
}

/* ---- Joining -------------------------------------------------------------------------------------------------- */

static ls_status join(ls_comm **comm, search *s, const ls_place *place, ls_rank_guard **guard, ls_message *why)
{
    ls_status status = s->hosts > 1 ? check_transports(s, why) : LS_OK;
    if (status) return status;
    ls_segment *segment = open_segment(s, place, why);
    if (!segment) return LS_ERR_PEER;
    ls_hosts_opts opts = {.transport = s->transport,
                          .rank = s->who->rank,
                          .size = s->who->world,
                          .host = s->host,
                          .segment = segment,
                          .all_gather = s->exchange ? gather : NULL,
                          .user = s};
    *comm = s->hosts > 1 ? ls_hosts_join(&opts, why) : ls_shm_join(segment, s->who->rank, why);
    if (*comm && s->who->rank == 0) {
        *guard = ls_rank_guard_open(segment->file, NULL, s->exchange);
        s->exchange = NULL;
    }
    ls_segment_release(segment);
    return *comm ? LS_OK : LS_ERR_PEER;
}

ls_status ls_join_hosts(ls_comm **comm, ls_place *place, ls_rank_guard **guard, ls_identity *who, ls_message *why)
{
    search s = {.who = who, .seconds = (int64_t)ls_config_count(LS_SETTING_COMM_TIMEOUT)};
    s.transport = choose_transport(who, &s.reason);
    ls_status status = LS_OK;
    if (!finds_others(&s)) status = ls_exchange_open(&s.exchange, who, s.seconds ? (double)s.seconds : INFINITY, why);
    if (!status && who->world == 1) { /* only PMIx knew */
        ls_exchange_close(s.exchange);
        *comm = ls_comm_self();
        *place = (ls_place){0, 1};
        return LS_OK;
    }
    if (!status) {
        s.peers = ls_sys_alloc((size_t)who->world * sizeof *s.peers);
        s.host = ls_sys_alloc((size_t)who->world * sizeof *s.host);
        status = s.peers && s.host ? LS_OK : LS_ERR_MEMORY;
        if (status) ls_message_set(why, "no memory for %d processes", who->world);
    }
    if (!status) status = gather_peers(&s, why);
    if (!status) {
        number_hosts(&s, place);
        status = join(comm, &s, place, guard, why);
    }
    ls_exchange_close(s.exchange);
    ls_sys_free(s.peers);
    ls_sys_free(s.host);
    return status;
}
