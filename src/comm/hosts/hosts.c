/* hosts.c - the communicator between hosts: join, split, run, close. */
#include "comm/hosts/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "comm/hosts/internal.h"

#include <lockstep/version.h>

static const ls_comm_table table;

/* ---- creating and closing ---- */

static void free_request_set(ls_request_set *set)
{
    ls_sys_free(set->inflight);
}

static void close_job(ls_hosts_job *job, bool orderly)
{
    if (!job) return;
    if (orderly) ls_job_notify(job, LS_URGENT_FAREWELL, job->rank, "");
    if (job->urgent) job->transport->cancel(job->link, job->urgent);
    if (job->link) job->transport->close(job->link, orderly);
    pthread_mutex_destroy(&job->lock);
    ls_sys_free(job->host);
    ls_sys_free(job->left);
    ls_sys_free(job->notices);
    ls_sys_free(job);
}

static void close_hosts(ls_comm *comm)
{
    ls_hosts *h = (ls_hosts *)comm;
    if (!h) return;
    bool orderly = h->local && !h->local->broken.text[0] && !ls_segment_aborted(h->local->segment);
    if (h->local && ls_segment_aborted(h->local->segment)) ls_job_forward_abort(h->job);
    ls_job_unregister(h);
    if (h->job->link) ls_hosts_drop(h);
    if (h->link) h->job->transport->close(h->link, orderly);
    if (h->whole_job) close_job(h->job, orderly);
    if (h->local) ls_comm_close(&h->local->comm);
    for (int i = 0; i < LS_HOSTS_SLOTS; i++) free_request_set(&h->in[i]), free_request_set(&h->out[i]);
    free_request_set(&h->eagers);
    free_request_set(&h->sent);
    free_request_set(&h->addresses);
    for (int i = 0; h->ranks && i < h->hosts; i++) ls_sys_free(h->ranks[i]);
    ls_sys_free(h->ranks);
    ls_sys_free(h->width);
    ls_sys_free(h->place);
    ls_sys_free(h->job_ranks);
    ls_sys_free(h->scratch);
    ls_sys_free(h->eagers_in);
    ls_sys_free(h->eager_to);
    ls_sys_free(h->eager_from);
    ls_sys_free(h->relayed);
    ls_sys_free(h->last);
    pthread_mutex_destroy(&h->lock);
    ls_sys_free(h);
}

/* Number the hosts, and the ranks on each. host: [size] equal values mean the same host. */
static bool find_places(ls_hosts *h, const int *host)
{
    int size = h->comm.size;
    h->width = ls_sys_alloc((size_t)size * sizeof *h->width);
    h->ranks = ls_sys_alloc((size_t)size * sizeof *h->ranks);
    h->place = ls_sys_alloc((size_t)size * sizeof *h->place);
    if (!h->width || !h->ranks || !h->place) return false;
    for (int r = 0; r < size; r++) {
        int number = h->hosts;
        for (int earlier = 0; earlier < r && number == h->hosts; earlier++)
            if (host[earlier] == host[r]) number = h->place[earlier].host;
        if (number == h->hosts) h->hosts++;
        h->place[r] = (ls_rank_place){number, h->width[number]++};
    }
    h->one_per_host = h->hosts == size;
    h->host = h->place[h->comm.rank].host;
    for (int i = 0; i < h->hosts; i++) {
        h->ranks[i] = ls_sys_alloc((size_t)h->width[i] * sizeof **h->ranks);
        if (!h->ranks[i]) return false;
    }
    for (int r = 0; r < size; r++) h->ranks[h->place[r].host][h->place[r].local] = r;
    return true;
}

/* Allocate room for `capacity` messages. */
static bool reserve(ls_request_set *set, int capacity)
{
    set->inflight = ls_sys_alloc((size_t)capacity * sizeof *set->inflight);
    set->capacity = set->inflight ? capacity : 0;
    return set->inflight != NULL;
}

/* Allocate buffers for pieces and eager messages in flight. */
static bool alloc_buffers(ls_hosts *h)
{
    enum { LINES = 128, WIDENING = 2 }; /* rounding up to cache lines; f16 and bf16 summed as f32 */
    size_t size = (size_t)h->comm.size;
    h->piece = size * LS_HOSTS_PART;
    if (h->piece < LS_HOSTS_PIECE) h->piece = LS_HOSTS_PIECE;
    if (h->piece > LS_HOSTS_LARGE) h->piece = LS_HOSTS_LARGE;
    size_t each = h->piece / size + LINES;
    h->scratch_bytes = WIDENING * ((size_t)(h->hosts + 1) * each + h->piece + size * LINES);
    h->scratch_bytes = (h->scratch_bytes + 63) / 64 * 64;
    h->scratch = ls_sys_alloc(LS_HOSTS_SLOTS * h->scratch_bytes);
    h->eagers_in = ls_sys_alloc(size * sizeof *h->eagers_in);
    h->eager_to = ls_sys_alloc(size * sizeof *h->eager_to);
    h->eager_from = ls_sys_alloc(size * sizeof(ls_eager *));
    h->last = ls_sys_alloc(size * sizeof *h->last);
    bool many = h->hosts > h->job->direct;
    if (many) h->relayed = ls_sys_alloc((size_t)h->hosts * sizeof(ls_eager));
    bool ok = h->scratch && h->eagers_in && h->eager_to && h->eager_from && h->last && (h->relayed || !many) &&
              reserve(&h->eagers, h->comm.size) && reserve(&h->sent, h->comm.size);
    for (int i = 0; i < LS_HOSTS_SLOTS && ok; i++)
        ok = reserve(&h->in[i], 2 * h->comm.size) && reserve(&h->out[i], 2 * h->comm.size);
    return ok;
}

/* Without a link yet. job_ranks is copied; takes ownership of `local`, also on failure. */
static ls_hosts *new_hosts(ls_hosts_job *job, ls_comm *local, int rank, int size, const int *job_ranks, ls_message *why)
{
    ls_hosts *h = ls_sys_alloc(sizeof *h);
    int *host = ls_sys_alloc((size_t)size * sizeof *host);
    if (!h || !host) {
        ls_message_set(why, "no memory for a communicator");
        ls_comm_close(local);
        ls_sys_free(host);
        return ls_sys_free(h), NULL;
    }
    *h = (ls_hosts){.comm = {.table = &table, .rank = rank, .size = size}, .job = job, .local = (ls_shm *)local};
    pthread_mutex_init(&h->lock, NULL);
    h->local->listen = ls_hosts_listen;
    h->local->listener = h;
    h->addresses.on_job_link = true;
    h->job_ranks = ls_sys_alloc((size_t)size * sizeof *h->job_ranks);
    for (int r = 0; h->job_ranks && r < size; r++) {
        h->job_ranks[r] = job_ranks[r];
        host[r] = job->host[job_ranks[r]];
    }
    bool ok = h->job_ranks && find_places(h, host) && alloc_buffers(h);
    ls_sys_free(host);
    if (!ok) ls_message_set(why, "no memory for a communicator");
    h->stage = ok ? local->table->share(local, LS_HOSTS_SLOTS * h->piece, why) : NULL;
    if (!h->stage) return close_hosts(&h->comm), NULL;
    h->stage -= (size_t)local->rank * LS_HOSTS_SLOTS * h->piece; /* stage of local rank 0 */
    return h;
}

/* ---- joining ---- */

static ls_hosts_job *make_job(const ls_hosts_opts *o, ls_message *why)
{
    size_t n = (size_t)o->size;
    ls_hosts_job *job = ls_sys_alloc(sizeof *job);
    if (!job) return ls_message_set(why, "no memory"), NULL;
    *job = (ls_hosts_job){.transport = o->transport, .segment = o->segment, .rank = o->rank, .size = o->size};
    job->direct = o->direct ? o->direct : LS_HOSTS_DIRECT;
    pthread_mutex_init(&job->lock, NULL);
    job->host = ls_sys_alloc(n * sizeof *job->host);
    job->left = ls_sys_alloc(n * sizeof *job->left);
    job->notices = ls_sys_alloc(n * sizeof(ls_link_request *));
    if (job->host && job->left && job->notices) {
        memcpy(job->host, o->host, n * sizeof *job->host);
        job->link = o->transport->open(&(ls_link_open_args){.rank = o->rank, .size = o->size}, why);
        if (job->link) return job;
    }
    close_job(job, false);
    return NULL;
}

/* Whoever brought the ranks together also gathers their addresses, padded to the longest: rank 0 may have to pass all
 * of them to everyone. */
static ls_status gather_addresses(ls_hosts_job *job, const ls_hosts_opts *o, char **all, size_t *each, ls_message *why)
{
    char mine[LS_LINK_ADDRESS_MOST] = {0};
    uint64_t bytes = job->transport->address(job->link, mine);
    if (!bytes) return LS_OK; /* this transport finds the other ranks by itself */
    if (!o->all_gather)
        return ls_explain(why, LS_ERR_UNSUPPORTED, "transport %s needs a way to exchange addresses",
                          job->transport->name);
    uint64_t *lengths = ls_sys_alloc((size_t)o->size * sizeof *lengths);
    ls_status status = lengths ? o->all_gather(o->user, &bytes, sizeof bytes, lengths, why) : LS_ERR_MEMORY;
    for (int r = 0; r < o->size && !status; r++)
        if (lengths[r] > *each) *each = lengths[r];
    ls_sys_free(lengths);
    if (!status && *each <= sizeof mine) *all = ls_sys_alloc((size_t)o->size * *each);
    if (!status && !*all) status = LS_ERR_MEMORY;
    if (status == LS_ERR_MEMORY) ls_message_set(why, "no memory for addresses");
    return status ? status : o->all_gather(o->user, mine, *each, *all, why);
}

static ls_status connect_job(ls_hosts_job *job, const ls_hosts_opts *o, ls_message *why)
{
    char *addresses = NULL;
    size_t each = 0;
    ls_status status = gather_addresses(job, o, &addresses, &each, why);
    if (!status) status = job->transport->connect(job->link, addresses, each, why);
    if (!status) status = ls_job_begin_listening(job, why);
    ls_sys_free(addresses);
    return status;
}

/* Every rank sends its address of `bytes` to every other rank, over the link of the job.
 *  all: [size][LS_LINK_ADDRESS_MOST] */
static ls_status exchange_addresses(ls_hosts *h, char *all, size_t bytes, ls_message *why)
{
    int me = h->comm.rank, size = h->comm.size;
    char *mine = all + (size_t)me * LS_LINK_ADDRESS_MOST;
    ls_status status = LS_OK;
    for (int r = 0; r < size && !status; r++)
        if (r != me)
            status = ls_hosts_receive(h, &h->addresses, r, all + (size_t)r * LS_LINK_ADDRESS_MOST, LS_LINK_ADDRESS_MOST,
                                      why);
    for (int i = 1; i < size && !status; i++)
        status = ls_hosts_send(h, &h->addresses, (me + i) % size, mine, bytes, why);
    return status ? status : ls_hosts_await(h, &h->addresses, why);
}

/* Called by all ranks: open this communicator's own link. */
static ls_status open_link(ls_hosts *h, ls_message *why)
{
    const ls_transport *transport = h->job->transport;
    ls_link_open_args opts = {.rank = h->comm.rank, .size = h->comm.size, .of = h->job->link, .ranks = h->job_ranks};
    char *all = ls_sys_alloc((size_t)h->comm.size * LS_LINK_ADDRESS_MOST);
    ls_status status = LS_OK;
    pthread_mutex_lock(&h->job->lock);
    h->link = all ? transport->open(&opts, why) : NULL;
    pthread_mutex_unlock(&h->job->lock);
    if (!all) ls_message_set(why, "no memory for addresses");
    size_t bytes = h->link ? transport->address(h->link, all + (size_t)h->comm.rank * LS_LINK_ADDRESS_MOST) : 0;
    if (!h->link) status = LS_ERR_PEER;
    else if (bytes) status = exchange_addresses(h, all, bytes, why);
    if (!status) status = transport->connect(h->link, all, bytes ? LS_LINK_ADDRESS_MOST : 0, why);
    if (status) ls_hosts_drop(h);
    ls_sys_free(all);
    if (!status) ls_job_register(h);
    if (!status || h->local->broken.text[0]) return status;
    h->local->broken = *why; /* other ranks are waiting for this one */
    ls_segment_abort(h->job->segment, h->job->rank, why->text);
    ls_job_forward_abort(h->job);
    return h->local->status = status;
}

/* Ranks of different versions could not talk to each other. */
static ls_status check_versions(ls_hosts *h, ls_message *why)
{
    enum { ROOM = 24 };
    char mine[ROOM] = {0}, *all = ls_sys_alloc((size_t)h->comm.size * ROOM);
    if (!all) return ls_explain(why, LS_ERR_MEMORY, "no memory");
    snprintf(mine, sizeof mine, "%s", ls_version());
    ls_status status = ls_comm_all_gather(&h->comm, mine, all, ROOM, "ls_init", why);
    for (int r = 1; r < h->comm.size && !status; r++) {
        const char *theirs = all + (size_t)r * ROOM;
        if (memcmp(theirs, all, ROOM) == 0) continue;
        status = ls_shm_break(h->local, "rank 0 has Lockstep %.*s, rank %d has %.*s", ROOM, all, r, ROOM, theirs);
        *why = h->local->broken;
    }
    ls_sys_free(all);
    return status;
}

/* The ranks of this host, in rank order; *number: index of this rank among them. */
static ls_status find_neighbours(const ls_hosts_opts *o, int *ranks, int *number, ls_message *why)
{
    int here = 0;
    if (o->size > LS_HOSTS_MOST)
        return ls_explain(why, LS_ERR_UNSUPPORTED, "%d processes; at most %d are supported", o->size,
                          (int)LS_HOSTS_MOST);
    for (int r = 0; r < o->size; r++) {
        if (o->host[r] != o->host[o->rank]) continue;
        if (r == o->rank) *number = here;
        if (here < LS_SEGMENT_MOST) ranks[here] = r;
        here++;
    }
    if (here == (int)o->segment->header->size) return LS_OK;
    return ls_explain(why, LS_ERR_VALUE, "%d ranks are on the host of rank %d, but its shared memory is for %u", here,
                      o->rank, o->segment->header->size);
}

ls_comm *ls_hosts_join(const ls_hosts_opts *o, ls_message *why)
{
    int number = 0, ranks[LS_SEGMENT_MOST];
    if (find_neighbours(o, ranks, &number, why) != LS_OK) return NULL;
    ls_comm *local = ls_shm_join_host(o->segment, number, ranks, why);
    if (!local || local->size == o->size) return local;
    ls_hosts_job *job = make_job(o, why);
    int *job_ranks = ls_sys_alloc((size_t)o->size * sizeof *job_ranks);
    ls_status status = job && job_ranks ? connect_job(job, o, why) : LS_ERR_PEER;
    if (status) {
        local->table->abort(local, why->text);
        close_job(job, false);
        ls_comm_close(local);
        ls_sys_free(job_ranks);
        return NULL;
    }
    for (int r = 0; r < o->size; r++) job_ranks[r] = r;
    ls_hosts *h = new_hosts(job, local, o->rank, o->size, job_ranks, why);
    ls_sys_free(job_ranks);
    if (!h) return close_job(job, false), NULL;
    h->whole_job = true;
    status = open_link(h, why);
    if (!status) status = ls_comm_barrier(&h->comm, "ls_init", why);
    if (!status) status = check_versions(h, why);
    if (status) return close_hosts(&h->comm), NULL;
    return &h->comm;
}

/* ---- splitting ---- */

typedef struct split_request {
    int32_t colour, key, rank;
} split_request;

static int by_key(const void *a, const void *b)
{
    const split_request *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : x->rank - y->rank;
}

static ls_comm *split_into(ls_hosts *h, int colour, int key, split_request *all, int *ranks, int *job_ranks,
                           ls_message *why)
{
    int count = 0, rank = 0, hosts = 1;
    split_request mine = {colour, key, h->comm.rank};
    if (ls_comm_all_gather(&h->comm, &mine, all, sizeof mine, "split", why) != LS_OK) return NULL;
    for (int r = 0; r < h->comm.size; r++)
        if (all[r].colour == colour) all[count++] = all[r];
    qsort(all, (size_t)count, sizeof *all, by_key);
    for (int r = 0; r < count; r++) {
        ranks[r] = all[r].rank;
        job_ranks[r] = h->job_ranks[ranks[r]];
        if (ranks[r] == h->comm.rank) rank = r;
        if (h->place[ranks[r]].host != h->place[ranks[0]].host) hosts = 2;
    }
    ls_comm *local = h->local->comm.table->split(&h->local->comm, colour, key, why);
    if (!local) return NULL;
    if (hosts == 1) { /* a wait in the new communicator must not progress this one's messages */
        ((ls_shm *)local)->listen = ls_job_listen;
        ((ls_shm *)local)->listener = h->job;
        return local;
    }
    ls_hosts *part = new_hosts(h->job, local, rank, count, job_ranks, why);
    if (!part) return NULL;
    if (open_link(part, why) == LS_OK) return &part->comm;
    close_hosts(&part->comm);
    return NULL;
}

static ls_comm *split(ls_comm *comm, int colour, int key, ls_message *why)
{
    size_t n = (size_t)comm->size;
    split_request *all = ls_sys_alloc(n * sizeof *all);
    int *ranks = ls_sys_alloc(2 * n * sizeof *ranks);
    ls_comm *part = NULL;
    if (all && ranks) part = split_into((ls_hosts *)comm, colour, key, all, ranks, ranks + n, why);
    else ls_message_set(why, "no memory for a communicator");
    ls_sys_free(all);
    ls_sys_free(ranks);
    return part;
}

/* ---- running ---- */

/* The headers of this host's ranks are in shared memory: they must match, and sizes must be those this rank expects. */
static ls_status check_headers(ls_hosts *h, const ls_comm_call *call)
{
    bool parts = call->kind == LS_COMM_ALL_GATHER || call->kind == LS_COMM_REDUCE_SCATTER;
    size_t element = ls_dtype_size(call->dtype);
    const ls_ring_entry *first = &ls_shm_header(h->local, 0)->what;
    for (int l = 0; l < ls_hosts_width(h); l++) {
        const ls_ring_entry *header = &ls_shm_header(h->local, l)->what;
        int rank = h->ranks[h->host][l];
        if (!ls_headers_agree(first, header) || (parts && !call->counts && first->count != header->count))
            return ls_shm_disagree(h->local, h->job_ranks[h->ranks[h->host][0]], first, h->job_ranks[rank], header);
        if (parts && call->counts && call->counts[rank] != header->count)
            return ls_shm_wrong_size(h->local, h->job_ranks[rank], (size_t)header->count * element,
                                     (size_t)call->counts[rank] * element);
    }
    return LS_OK;
}

static ls_status collective(ls_hosts *h, const ls_comm_call *call, ls_message *why)
{
    bool pairs = call->kind == LS_COMM_GATHER || call->kind == LS_COMM_SCATTER || call->kind == LS_COMM_ALL_TO_ALL;
    bool small = !pairs && ls_hosts_is_small(h, call);
    if (small) ls_hosts_small_put(h, call);
    ls_status status = ls_shm_step(h->local, why);
    if (status) return status;
    status = check_headers(h, call);
    if (status) {
        *why = h->local->broken;
        return status;
    }
    if (pairs) return ls_hosts_pairs(h, call, why);
    return small ? ls_hosts_small(h, call, why) : ls_hosts_pieces(h, call, why);
}

static ls_status run(ls_comm *comm, const ls_comm_call *call, ls_message *why)
{
    ls_hosts *h = (ls_hosts *)comm;
    ls_ring_entry *slot;
    bool message = call->kind == LS_COMM_SEND || call->kind == LS_COMM_RECEIVE;
    h->local->comm.ignores_cancel = comm->ignores_cancel;
    h->local->comm.background = comm->background;
    ls_status status = ls_shm_begin(h->local, comm, call, &slot, why);
    if (!status) {
        status = message ? ls_hosts_message(h, call, why) : collective(h, call, why);
        ls_shm_end(h->local, slot, status, why);
    }
    if (status) {
        ls_hosts_drop(h);
        ls_job_forward_abort(h->job);
    }
    return status;
}

/* ---- the rest ---- */

static void *share(ls_comm *comm, size_t bytes, ls_message *why)
{
    ls_comm *local = &((ls_hosts *)comm)->local->comm;
    return local->table->share(local, bytes, why);
}

static void abort_job(ls_comm *comm, const char *reason)
{
    ls_hosts *h = (ls_hosts *)comm;
    ls_segment_abort(h->job->segment, h->job->rank, reason);
    ls_job_forward_abort(h->job);
}

static void cancel(ls_comm *comm)
{
    ls_hosts *h = (ls_hosts *)comm;
    h->local->comm.table->cancel(&h->local->comm);
    ls_job_notify(h->job, LS_URGENT_CANCEL, h->job->rank, "");
}

/* Messages may still be in flight: a new link makes sure that nothing sent before arrives after. */
static void reset(ls_comm *comm)
{
    ls_hosts *h = (ls_hosts *)comm;
    ls_message why = {{0}};
    bool ignores_cancel = comm->ignores_cancel;
    ls_hosts_drop(h);
    h->local->comm.table->reset(&h->local->comm);
    h->turn = 0;                          /* ranks may have stopped at different pieces */
    h->local->comm.ignores_cancel = true; /* the host's first rank may not have cleared the cancel yet */
    ls_job_unregister(h);
    if (h->link) h->job->transport->close(h->link, false);
    h->local->status = open_link(h, &why);
    h->local->comm.ignores_cancel = ignores_cancel;
}

static ls_segment *segment_of(ls_comm *comm)
{
    return ((ls_hosts *)comm)->job->segment;
}

static const ls_comm_table table = {"hosts", run, split, share, abort_job, cancel, reset, close_hosts, segment_of};
