/* meet.c - rank 0 makes the shared file and hands it to the other ranks over a socket. */
#include "comm/shm/meet.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/memory.h"
#include "comm/shm/segment.h"

enum {
    RETRY = 10000, /* microseconds */
    SECOND = 1000000000,
    NAMES = 16 /* tried in turn, since other users may have taken some */
};

/* Sent by a process that joins. */
typedef struct greeting {
    uint64_t job;
    uint64_t self; /* ls_process_self() */
    int32_t rank, size;
    int32_t pid;
    int32_t unused;
} greeting;

typedef enum verdict { WELCOME, OTHER_SIZE, TAKEN, NOT_NOW } verdict;

/* Reply of rank 0; with WELCOME it carries the file. */
typedef struct answer {
    uint64_t job;
    int32_t verdict, size;
    int32_t pid, holder; /* of rank 0; of the process that has the rank, if TAKEN */
} answer;

struct ls_meeting {
    int listener;
    greeting mine;
    greeting joined[LS_SEGMENT_MOST]; /* by rank; size 0: not yet */
    bool complete;
    ls_fd_watcher *watcher;
    ls_claim_fn *claimed;
    void *user;
};

static uint64_t hash_of(const char *job)
{
    ls_hash hash;
    ls_hash_begin(&hash);
    ls_hash_add(&hash, job, strlen(job));
    return ls_hash_end(&hash);
}

/* ---- names ---- */

/* An abstract name: it is not a file and disappears with the socket. */
static socklen_t address_of(uint64_t job, int number, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "lockstep-%u-%016llx-%d",
                          (unsigned)getuid(), (unsigned long long)job, number);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static bool peer_of(int connection, struct ucred *peer)
{
    socklen_t bytes = sizeof *peer;
    return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, peer, &bytes) == 0;
}

static bool is_ours(int connection)
{
    struct ucred peer;
    return peer_of(connection, &peer) && peer.uid == getuid();
}

/* Connect to the process that has the name. -1: there is none, or it belongs to another user (*stranger). */
static int connect_to(uint64_t job, int number, struct ucred *peer, bool *stranger)
{
    struct sockaddr_un address;
    socklen_t bytes = address_of(job, number, &address);
    int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool there = connection >= 0 && connect(connection, (struct sockaddr *)&address, bytes) == 0;
    *stranger = there && (!peer_of(connection, peer) || peer->uid != getuid());
    if (there && !*stranger) return connection;
    if (connection >= 0) close(connection);
    return -1;
}

/* Listen at the first free name, unless a process of this user already has one of them. -1 on failure. */
static int take_name(uint64_t job, int size, ls_message *why)
{
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), error = listener < 0 ? errno : EADDRINUSE;
    struct ucred peer = {0};
    for (int number = 0; listener >= 0 && number < NAMES; number++) {
        bool stranger;
        int other = connect_to(job, number, &peer, &stranger);
        if (other < 0) continue;
        close(other);
        close(listener);
        ls_message_set(why,
                       "rank 0 cannot wait for the others: process %d is rank 0 of another job here with the same "
                       "MASTER_ADDR and MASTER_PORT: give each job its own port",
                       (int)peer.pid);
        return -1;
    }
    for (int number = 0; error == EADDRINUSE && listener >= 0 && number < NAMES; number++) {
        struct sockaddr_un address;
        socklen_t bytes = address_of(job, number, &address);
        if (bind(listener, (struct sockaddr *)&address, bytes) == 0 && listen(listener, size) == 0) return listener;
        error = errno;
    }
    if (listener >= 0) close(listener);
    ls_message_set(why, "rank 0 cannot wait for the others: %s%s", strerror(error),
                   error == EADDRINUSE
                       ? "; another user has taken the socket names of this job: set LOCKSTEP_COMM_TOKEN to a "
                         "secret, the same for all processes of the job"
                       : "");
    return -1;
}

/* ---- messages ---- */

/* The part of a message that carries a file. */
typedef union file_part {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
} file_part;

/* Sends the file along unless it is -1. */
static bool send_answer(int connection, int file, const answer *words)
{
    file_part part = {0};
    struct iovec text = {(void *)(uintptr_t)words, sizeof *words};
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1};
    if (file >= 0) {
        message.msg_control = &part;
        message.msg_controllen = sizeof part;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        *header =
            (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof file)};
        memcpy(CMSG_DATA(header), &file, sizeof file);
    }
    return sendmsg(connection, &message, MSG_NOSIGNAL) == (ssize_t)sizeof *words;
}

/* False: no answer. The caller owns *file in either case; -1 if none was received. */
static bool receive_answer(int connection, answer *words, int *file)
{
    file_part part = {0};
    struct iovec text = {words, sizeof *words};
    struct msghdr message = {.msg_iov = &text,
                             .msg_iovlen = 1,
                             .msg_control = &part,
                             .msg_controllen = CMSG_LEN(sizeof *file)}; /* CMSG_SPACE would leave room for two */
    *file = -1;
    ssize_t got = recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
    struct cmsghdr *header = got >= 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof *file))
        memcpy(file, CMSG_DATA(header), sizeof *file);
    return got == (ssize_t)sizeof *words;
}

/* ---- rank 0 ---- */

static verdict decide(const ls_meeting *m, const greeting *theirs)
{
    const greeting *first = &m->joined[theirs->rank];
    if (theirs->size != m->mine.size) return OTHER_SIZE;
    if (first->size && first->self != theirs->self) return TAKEN;
    return m->complete ? NOT_NOW : WELCOME; /* a process that finished this run may be starting its next */
}

/* Accept one process: it gets the file or a refusal; no answer if it is not of this job. True, with a message in
 * *claim, if two processes claim a rank. */
static bool serve(ls_meeting *m, int file, ls_message *claim)
{
    int connection = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC);
    if (connection < 0) return false;
    greeting theirs = {0};
    struct timeval moment = {.tv_sec = 1};
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment);
    bool taken = false;
    if (is_ours(connection) && recv(connection, &theirs, sizeof theirs, 0) == sizeof theirs &&
        theirs.job == m->mine.job && theirs.rank > 0 && theirs.rank < m->mine.size) {
        greeting *first = &m->joined[theirs.rank];
        verdict v = decide(m, &theirs);
        answer words = {m->mine.job, (int32_t)v, m->mine.size, m->mine.pid, first->pid};
        taken = v == TAKEN;
        if (send_answer(connection, v == WELCOME ? file : -1, &words) && v == WELCOME) *first = theirs;
        if (taken)
            snprintf(
                claim->text, sizeof claim->text,
                "rank %d was claimed twice, by processes %d and %d: two jobs with one MASTER_ADDR and MASTER_PORT? "
                "Give each its own port",
                theirs.rank, first->pid, theirs.pid);
    }
    close(connection);
    return taken;
}

static int first_missing(const ls_meeting *m, int *missing)
{
    int first = 0;
    *missing = 0;
    for (int r = m->mine.size - 1; r > 0; r--)
        if (!m->joined[r].size) first = r, ++*missing;
    return first;
}

/* Returns the file; -1: ranks are missing, or one was claimed twice. */
static int gather(ls_meeting *m, int64_t deadline, ls_message *why)
{
    int file = ls_segment_make(m->mine.size, why), missing;
    for (int first; file >= 0 && (first = first_missing(m, &missing));) {
        struct pollfd wait = {.fd = m->listener, .events = POLLIN};
        bool twice = poll(&wait, 1, 100) > 0 && serve(m, file, why), late = deadline && ls_comm_clock() > deadline;
        if (late && !twice)
            ls_message_set(why, "%d of %d processes did not join; the first missing is rank %d", missing, m->mine.size,
                           first);
        if (!twice && !late) continue;
        ls_segment_abandon(file, why->text); /* releases ranks that already have it */
        close(file);
        file = -1;
    }
    m->complete = true;
    return file;
}

static int lead(ls_meeting **meeting, const greeting *mine, int64_t deadline, ls_message *why)
{
    ls_meeting *m = ls_sys_alloc(sizeof *m);
    if (!m) return ls_message_set(why, "no memory to meet the others"), -1;
    m->mine = *mine;
    m->listener = take_name(mine->job, mine->size, why);
    int file = m->listener >= 0 ? gather(m, deadline, why) : -1;
    if (file >= 0 && meeting) *meeting = m;
    else ls_meeting_end(m);
    return file;
}

static void serve_latecomer(void *arg)
{
    ls_meeting *m = arg;
    ls_message claim;
    if (serve(m, -1, &claim)) m->claimed(m->user, claim.text);
}

void ls_meeting_watch(ls_meeting *m, ls_claim_fn *claimed, void *user)
{
    m->claimed = claimed;
    m->user = user;
    m->watcher = ls_fd_watcher_start(m->listener, serve_latecomer, m);
}

void ls_meeting_end(ls_meeting *m)
{
    if (!m) return;
    ls_fd_watcher_stop(m->watcher);
    if (m->listener >= 0) close(m->listener);
    ls_sys_free(m);
}

/* ---- the others ---- */

/* Ask the process behind one of the names. False: there is none yet, or it is not ready. */
static bool ask(const greeting *mine, int number, int64_t patience, answer *words, int *file)
{
    struct ucred peer;
    bool stranger;
    int connection = connect_to(mine->job, number, &peer, &stranger);
    if (connection < 0) return false;
    /* Rank 0 may be listening, but stopped. */
    struct timeval rest = {.tv_sec = patience / SECOND, .tv_usec = patience % SECOND / 1000 | 1};
    if (patience) setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &rest, sizeof rest);
    *file = -1;
    bool answered = send(connection, mine, sizeof *mine, MSG_NOSIGNAL) == (ssize_t)sizeof *mine &&
                    receive_answer(connection, words, file) && words->job == mine->job && words->verdict != NOT_NOW;
    if (!answered && *file >= 0) close(*file);
    close(connection);
    return answered;
}

static int take_answer(const greeting *mine, const answer *words, int file, ls_message *why)
{
    if (words->verdict == WELCOME && file >= 0) return file;
    if (words->verdict == OTHER_SIZE)
        ls_message_set(why, "rank %d expects %d processes, rank 0 expects %d", mine->rank, mine->size, words->size);
    else
        ls_message_set(
            why,
            "rank %d was refused by rank 0, process %d: this is process %d, and process %d has that rank: two "
            "jobs with one MASTER_ADDR and MASTER_PORT? Give each its own port",
            mine->rank, words->pid, mine->pid, words->holder);
    if (file >= 0) close(file);
    return -1;
}

static int join(const greeting *mine, int64_t deadline, ls_message *why)
{
    for (int64_t now; now = ls_comm_clock(), !deadline || now < deadline;) {
        answer words = {0};
        int file;
        for (int number = 0; number < NAMES; number++)
            if (ask(mine, number, deadline ? deadline - now : 0, &words, &file))
                return take_answer(mine, &words, file, why);
        usleep(RETRY);
    }
    ls_message_set(why, "rank %d of %d waited for rank 0, which did not start", mine->rank, mine->size);
    return -1;
}

int ls_meet(const char *job, int rank, int size, int64_t seconds, ls_meeting **meeting, ls_message *why)
{
    greeting mine = {
        .job = hash_of(job), .self = ls_process_self(), .rank = rank, .size = size, .pid = (int32_t)getpid()};
    int64_t deadline = seconds ? ls_comm_clock() + seconds * SECOND : 0;
    if (meeting) *meeting = NULL;
    return rank == 0 ? lead(meeting, &mine, deadline, why) : join(&mine, deadline, why);
}
