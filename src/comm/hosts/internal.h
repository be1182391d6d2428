/* internal.h - shared by the files of the communicator between hosts.
 *
 * A call begins with headers in shared memory, as on one host. Then ranks that exchange data send each other an eager
 * message: the header, and the data if it fits after it. Longer data follows in messages of at most one piece. */
#ifndef LOCKSTEP_COMM_HOSTS_INTERNAL_H
#define LOCKSTEP_COMM_HOSTS_INTERNAL_H

#include "comm/hosts/hosts.h"
#include "comm/shm/shm.h"

enum {
    LS_EAGER_DATA = 8 << 10,   /* most bytes of data sent along with a header */
    LS_HOSTS_PIECE = 1 << 20,  /* least bytes of an array in flight at once; grows */
    LS_HOSTS_PART = 256 << 10, /* by this much per rank, lest messages between many hosts get tiny, */
    LS_HOSTS_LARGE = 16 << 20, /* up to this limit */
    LS_HOSTS_SLOTS = 4,        /* pieces in flight */
    LS_HOSTS_DIRECT = 16,      /* most hosts that exchange directly: a message costs a core 2 us, a relay round 20
                                   * us */
    LS_HOSTS_MOST = 4096,      /* most ranks of a job */
};

/* ---- On the wire ---- */

typedef struct ls_eager {
    ls_ring_entry what;
    uint64_t bytes; /* of data from the sender: in this message, or in later ones */
    char data[LS_EAGER_DATA];
} ls_eager;

typedef enum ls_urgency { LS_URGENT_ABORT, LS_URGENT_CANCEL, LS_URGENT_FAREWELL } ls_urgency;

typedef struct ls_urgent {
    int32_t kind;
    int32_t rank;    /* in the job, that caused it; -1: none */
    uint32_t resets; /* the segment's reset count when it was sent */
    char words[sizeof(ls_message)];
} ls_urgent;

/* ---- In this process ---- */

/* A message in flight. */
typedef struct ls_inflight {
    ls_link_request *request; /* NULL: done */
    int peer;
    bool receiving; /* else sending */
} ls_inflight;

/* Messages that are waited for together. */
typedef struct ls_request_set {
    ls_inflight *inflight;
    int count, capacity;
    bool on_job_link;
} ls_request_set;

/* Shared by all communicators of a process: a link between all ranks that carries urgent notices and addresses. Any
 * waiting thread may poll it, hence the lock. */
typedef struct ls_hosts_job {
    const ls_transport *transport;
    struct ls_hosts *first; /* list of communicators with their own link, which any waiting thread progresses */
    ls_segment *segment;
    ls_link *link;
    pthread_mutex_t lock;
    int rank, size, direct; /* direct: see LS_HOSTS_DIRECT */
    int *host;              /* [size] */
    _Atomic bool *left;     /* [size] ranks that have closed in order (LS_URGENT_FAREWELL) */
    bool listening;
    ls_urgent notice; /* receive buffer for the next notice */
    ls_link_request *urgent;
    ls_link_request **notices; /* [size] sends of ls_job_notify in flight */
} ls_hosts_job;

/* Where a rank is. */
typedef struct ls_rank_place {
    int host;  /* from 0, in order of their lowest ranks */
    int local; /* index among the ranks of its host */
} ls_rank_place;

typedef struct ls_hosts {
    ls_comm comm;
    ls_shm *local; /* the ranks of this host; also numbers calls and records failures */
    ls_hosts_job *job;
    bool whole_job;        /* has all ranks of the job, and frees the job when closed */
    ls_link *link;         /* its own; replaced if messages were abandoned on it */
    pthread_mutex_t lock;  /* protects the link */
    struct ls_hosts *next; /* in job->first */
    int host, hosts;
    bool one_per_host;    /* no host has more than one rank */
    ls_rank_place *place; /* [size] */
    int *job_ranks;       /* [size] rank of each in the job */
    int *width;           /* [hosts] number of ranks on each */
    int **ranks;          /* [hosts][width] ranks on each */

    char *stage;                    /* shared by the ranks of this host: [width][LS_HOSTS_SLOTS][piece] */
    size_t piece;                   /* bytes of an array in flight at once; also the longest message */
    char *scratch;                  /* [LS_HOSTS_SLOTS][scratch_bytes] */
    size_t scratch_bytes;           /* for one piece */
    uint64_t turn;                  /* number of pieces so far; selects the slot of the next */
    ls_eager *eagers_in, *eager_to; /* [size] */
    ls_eager **eager_from;          /* [size] where each rank's eager message is: in eagers_in or in relayed */
    char *relayed;                  /* eager messages of all hosts, packed; NULL: hosts exchange directly */
    ls_ring_entry *last;            /* [size] last header received from each */
    ls_request_set eagers, sent;    /* of the current call: eager messages to receive; everything sent */
    ls_request_set addresses;
    ls_request_set in[LS_HOSTS_SLOTS]; /* receives and sends of each piece */
    ls_request_set out[LS_HOSTS_SLOTS];
} ls_hosts;

/* The rank on `host` that sums the part of `owner`, and receives its result. */
static inline int ls_hosts_holder(const ls_hosts *h, int host, int owner)
{
    return h->ranks[host][h->place[owner].local % h->width[host]];
}

static inline int ls_hosts_width(const ls_hosts *h)
{
    return h->local->comm.size;
}

/* The type in which a host's sum is sent: f16 and bf16 go as f32, so that they are rounded once, at the end. */
static inline ls_dtype ls_hosts_wire(const ls_hosts *h, const ls_comm_call *call)
{
    bool half = call->dtype == LS_BF16 || call->dtype == LS_F16;
    return half && !h->one_per_host && ls_comm_reduces(call->kind) ? LS_F32 : call->dtype;
}

/* Stage of a rank of this host for the piece of a turn. */
static inline char *ls_hosts_stage(const ls_hosts *h, int local, uint64_t turn)
{
    return h->stage + ((size_t)local * LS_HOSTS_SLOTS + (size_t)(turn % LS_HOSTS_SLOTS)) * h->piece;
}

/* ---- wait.c: messages ---- */

/* Start sending to, or receiving from, a rank. */
ls_status ls_hosts_send(ls_hosts *h, ls_request_set *set, int peer, const void *data, size_t bytes, ls_message *why);
ls_status ls_hosts_receive(ls_hosts *h, ls_request_set *set, int peer, void *data, size_t bytes, ls_message *why);
/* Wait for all of them. */
ls_status ls_hosts_await(ls_hosts *h, ls_request_set *set, ls_message *why);
/* For ranks waiting in shared memory: progress messages, since other hosts may wait for them. True: some are in
 * flight. */
bool ls_hosts_listen(void *h);
/* Cancel everything in flight. */
void ls_hosts_drop(ls_hosts *h);

/* ---- urgent.c: urgent notices between all ranks of the job ---- */

bool ls_job_listen(void *job); /* always false: nothing in flight */
ls_status ls_job_begin_listening(ls_hosts_job *job, ls_message *why);
/* Between these two calls, any thread that listens also progresses the link of this communicator. */
void ls_job_register(ls_hosts *h);
void ls_job_unregister(ls_hosts *h);
/* Send a notice to all ranks of other hosts; gives up after a short wait. */
void ls_job_notify(ls_hosts_job *job, ls_urgency kind, int rank, const char *words);
/* If this host's segment was aborted, make sure that other hosts know. */
void ls_job_forward_abort(ls_hosts_job *job);

/* ---- Calls whose headers are in shared memory ---- */

/* eager.c: send `peer` the header of this call and, if they fit, the `bytes` of data; expect its eager message; wait
 * for all expected ones, which arrive in h->eager_from. */
ls_status ls_eager_send(ls_hosts *h, int peer, const void *data, size_t bytes, ls_message *why);
ls_status ls_eager_expect(ls_hosts *h, int peer, ls_message *why);
ls_status ls_eagers_await(ls_hosts *h, ls_message *why);
/* The eager message of `peer` has arrived, directly or relayed: check that it belongs to this call. */
ls_status ls_eager_check(ls_hosts *h, int peer, ls_message *why);
/* `peer` is gone. If it had already announced a different call, report that disagreement; else LS_OK. */
ls_status ls_eager_check_lost(ls_hosts *h, int peer, ls_message *why);

/* exchange.c: called by the first rank of each host. They all get each other's eager messages in h->eager_from; the
 * caller has put its own data into eager_to[rank]. */
ls_status ls_hosts_exchange(ls_hosts *h, ls_message *why);

/* small.c: barrier, broadcast, all-gather and reductions whose share per host fits into an eager message. */
bool ls_hosts_is_small(const ls_hosts *h, const ls_comm_call *call);
void ls_hosts_small_put(ls_hosts *h, const ls_comm_call *call); /* before headers are compared */
ls_status ls_hosts_small(ls_hosts *h, const ls_comm_call *call, ls_message *why);
/* pieces.c: the same for any size. */
ls_status ls_hosts_pieces(ls_hosts *h, const ls_comm_call *call, ls_message *why);
/* pairs.c: gather, scatter, all-to-all; send and receive. */
ls_status ls_hosts_pairs(ls_hosts *h, const ls_comm_call *call, ls_message *why);
ls_status ls_hosts_message(ls_hosts *h, const ls_comm_call *call, ls_message *why);

#endif
