/* inside.h - what the files of the communicator between hosts share.
 *
 * A call begins with headers in shared memory, as on one host. Then ranks that exchange anything send each other an
 * eager message: the header, and what fits behind it. Longer data follow in messages of at most a piece. */
#ifndef LOCKSTEP_COMM_HOSTS_INSIDE_H
#define LOCKSTEP_COMM_HOSTS_INSIDE_H

#include "comm/hosts/hosts.h"
#include "comm/shm/shm.h"

enum {
    LS_EAGER_DATA = 8 << 10,   /* bytes that travel with a header */
    LS_HOSTS_PIECE = 1 << 20,  /* bytes of an array that are under way together, at least, */
    LS_HOSTS_PART = 256 << 10, /* for each rank, so that many hosts do not drown in small messages, */
    LS_HOSTS_LARGE = 16 << 20, /* and at most */
    LS_HOSTS_SLOTS = 4,        /* pieces for which there is room */
    LS_HOSTS_FEW = 16,         /* hosts that tell each other directly: each message costs a core 2 us, a round 20 */
    LS_HOSTS_MOST = 4096,      /* ranks of a job */
};

/* ---- On the way ---- */

typedef struct ls_eager {
    ls_ring_entry what;
    uint64_t bytes; /* that the sender brings, behind this or after it */
    char data[LS_EAGER_DATA];
} ls_eager;

typedef enum ls_urgency { LS_URGENT_ABORT, LS_URGENT_CANCEL, LS_URGENT_FAREWELL } ls_urgency;

typedef struct ls_urgent {
    int32_t kind;
    int32_t rank;    /* of the job, because of which; -1: none */
    uint32_t resets; /* how often it was begun anew */
    char words[sizeof(ls_message)];
} ls_urgent;

/* ---- In this process ---- */

/* A message under way. */
typedef struct ls_inflight {
    ls_link_request *request; /* NULL: it is done */
    int peer;
    bool comes; /* it is received, else sent */
} ls_inflight;

/* Messages that are waited for together. */
typedef struct ls_request_set {
    ls_inflight *inflight;
    int count, capacity;
    bool by_job; /* on the link of the job */
} ls_request_set;

/* What all communicators of a process share: a link over all ranks on which urgent news and addresses travel. Whoever
 * waits listens to it, hence the lock. */
typedef struct ls_hosts_job {
    const ls_transport *transport;
    struct ls_hosts *first; /* communicators with a link of their own, which whoever waits looks after */
    ls_segment *segment;
    ls_link *link;
    pthread_mutex_t lock;
    int rank, size, few;
    int *host;          /* [size] */
    _Atomic bool *left; /* [size] they have said farewell */
    bool listening;
    ls_urgent heard; /* into which the next news come */
    ls_link_request *urgent;
    ls_link_request **telling; /* [size] room for news on their way */
} ls_hosts_job;

/* Where a rank is. */
typedef struct ls_seat {
    int host;  /* from 0, in the order of their first ranks */
    int local; /* number among the ranks of its host */
} ls_seat;

typedef struct ls_hosts {
    ls_comm comm;
    ls_shm *local; /* the ranks of this host; counts calls, keeps what is broken */
    ls_hosts_job *job;
    bool of_all;           /* all ranks of the job; the job goes with it */
    ls_link *link;         /* its own; one that messages were left on is replaced */
    pthread_mutex_t lock;  /* of the link */
    struct ls_hosts *next; /* of the job */
    int host, hosts;
    bool one_each; /* no host has more than one rank */
    ls_seat *seat; /* [size] */
    int *names;    /* [size] ranks in the job */
    int *width;    /* [hosts] ranks of each */
    int **ranks;   /* [hosts][width] */

    char *stage;                    /* shared by the ranks of this host: [width][LS_HOSTS_SLOTS][piece] */
    size_t piece;                   /* bytes of an array that are under way together, and of a message at most */
    char *scratch;                  /* [LS_HOSTS_SLOTS][scratch_bytes] */
    size_t scratch_bytes;           /* for one piece */
    uint64_t turn;                  /* pieces so far: the slot of the next */
    ls_eager *eagers_in, *eager_to; /* [size] */
    ls_eager **came;     /* [size] where the eager message of each comes: in eagers_in, or among those passed on */
    char *passed_on;     /* eager messages of all hosts, one behind the other; NULL: there are few */
    ls_ring_entry *last; /* [size] what was heard from each last */
    ls_request_set eagers, sent; /* of the call at hand: eager messages that come; whatever goes */
    ls_request_set addresses;
    ls_request_set in[LS_HOSTS_SLOTS]; /* of a piece: what comes, what goes */
    ls_request_set out[LS_HOSTS_SLOTS];
} ls_hosts;

/* The rank that sums for `owner` on a host, and keeps the results for it. */
static inline int ls_hosts_holder(const ls_hosts *h, int host, int owner)
{
    return h->ranks[host][h->seat[owner].local % h->width[host]];
}

static inline int ls_hosts_width(const ls_hosts *h)
{
    return h->local->comm.size;
}

/* The type in which the sum of a host travels: halves are rounded once, at the end. */
static inline ls_dtype ls_hosts_wire(const ls_hosts *h, const ls_comm_call *call)
{
    bool half = call->dtype == LS_BF16 || call->dtype == LS_F16;
    return half && !h->one_each && ls_comm_reduces(call->kind) ? LS_F32 : call->dtype;
}

/* Room of a rank of this host for the piece of a turn. */
static inline char *ls_hosts_stage(const ls_hosts *h, int local, uint64_t turn)
{
    return h->stage + ((size_t)local * LS_HOSTS_SLOTS + (size_t)(turn % LS_HOSTS_SLOTS)) * h->piece;
}

/* ---- wait.c: messages ---- */

/* Begin to send to, or to receive from, a rank. */
ls_status ls_hosts_send(ls_hosts *h, ls_request_set *set, int peer, const void *data, size_t bytes, ls_message *why);
ls_status ls_hosts_receive(ls_hosts *h, ls_request_set *set, int peer, void *data, size_t bytes, ls_message *why);
/* Wait for all of them. */
ls_status ls_hosts_await(ls_hosts *h, ls_request_set *set, ls_message *why);
/* For who waits in shared memory: let messages go on, since others may wait for them before they come there. True: some
 * are under way. */
bool ls_hosts_listen(void *h);
/* Give up whatever is under way. */
void ls_hosts_drop(ls_hosts *h);

/* ---- urgent.c: news of the job ---- */

bool ls_job_listen(void *job); /* false: that was all; of which the first receive was begun by: */
ls_status ls_job_begin_listening(ls_hosts_job *job, ls_message *why);
/* From now on, and no longer, whoever listens lets messages on the link of this communicator go on. */
void ls_job_enlist(ls_hosts *h);
void ls_job_discharge(ls_hosts *h);
/* Tell all ranks of other hosts, as far as they can be reached within a moment. */
void ls_job_tell(ls_hosts_job *job, ls_urgency kind, int rank, const char *words);
/* The segment of this host was given up: see to it that other hosts know. */
void ls_job_spread(ls_hosts_job *job);

/* ---- Calls whose headers lie in shared memory ---- */

/* eager.c: send a rank the header of this call with `bytes` of data to come, of which `data` may be the first;
 * and await those of all ranks from which one was expected, in h->came. */
ls_status ls_eager_send(ls_hosts *h, int peer, const void *data, size_t bytes, ls_message *why);
ls_status ls_eager_expect(ls_hosts *h, int peer, ls_message *why);
ls_status ls_eagers_await(ls_hosts *h, ls_message *why);
/* The eager message of a rank has come, or was passed on: is it of this call? */
ls_status ls_eager_judge(ls_hosts *h, int peer, ls_message *why);
/* A rank is gone. It may have been through with its call, and that another than this: then why, else LS_OK. */
ls_status ls_eager_of_lost(ls_hosts *h, int peer, ls_message *why);

/* meet.c: the first ranks of all hosts get each other's eager messages, in h->came, with what the caller has put
 * into its own (eager_to[rank]). */
ls_status ls_hosts_meet(ls_hosts *h, ls_message *why);

/* small.c: barrier, broadcast, all-gather and reductions, where each host's share fits into an eager message. */
bool ls_hosts_is_small(const ls_hosts *h, const ls_comm_call *call);
void ls_hosts_small_put(ls_hosts *h, const ls_comm_call *call); /* before the headers are seen */
ls_status ls_hosts_small(ls_hosts *h, const ls_comm_call *call, ls_message *why);
/* pieces.c: the same of any size. */
ls_status ls_hosts_pieces(ls_hosts *h, const ls_comm_call *call, ls_message *why);
/* pairs.c: gather, scatter, all-to-all; messages. */
ls_status ls_hosts_pairs(ls_hosts *h, const ls_comm_call *call, ls_message *why);
ls_status ls_hosts_message(ls_hosts *h, const ls_comm_call *call, ls_message *why);

#endif
