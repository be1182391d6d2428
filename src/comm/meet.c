/* meet.c - one process makes the shared file, the others come for it. */
#include "comm/meet.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/hash.h"
#include "comm/segment.h"

enum { RETRY = 10000 /* microseconds */, SECOND = 1000000000 };

/* What a process says when it comes, and what it is told. */
typedef struct greeting {
    uint64_t job;
    int32_t rank, size;
} greeting;

static uint64_t hash_of(const char *job)
{
    ls_hash hash;
    ls_hash_begin(&hash);
    ls_hash_add(&hash, job, strlen(job));
    return ls_hash_end(&hash);
}

/* A name that is no file: it goes with the socket. */
static socklen_t address_of(uint64_t job, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "lockstep-%u-%016llx",
                          (unsigned)getuid(), (unsigned long long)job);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static bool is_ours(int connection)
{
    struct ucred peer;
    socklen_t bytes = sizeof peer;
    return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == getuid();
}

/* The part of a message that carries a file. */
typedef union file_part {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
} file_part;

static bool send_file(int connection, int file, const greeting *words)
{
    file_part part = {0};
    struct iovec text = {(void *)(uintptr_t)words, sizeof *words};
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = &part, .msg_controllen = sizeof part};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof file)};
    memcpy(CMSG_DATA(header), &file, sizeof file);
    return sendmsg(connection, &message, MSG_NOSIGNAL) == (ssize_t)sizeof *words;
}

static int receive_file(int connection, greeting *words)
{
    file_part part = {0};
    struct iovec text = {words, sizeof *words};
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = &part, .msg_controllen = sizeof part};
    int file = -1;
    if (recvmsg(connection, &message, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof *words) return -1;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_type == SCM_RIGHTS) memcpy(&file, CMSG_DATA(header), sizeof file);
    return file;
}

/* One that came: it gets the file, or no answer. Returns its rank; -1: it does not belong here. */
static int serve(int listener, int file, const greeting *mine)
{
    int connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC), rank = -1;
    greeting theirs;
    struct timeval moment = {.tv_sec = 1};
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment);
    if (connection >= 0 && is_ours(connection) && recv(connection, &theirs, sizeof theirs, 0) == sizeof theirs &&
        theirs.job == mine->job && theirs.rank > 0 && theirs.rank < mine->size && send_file(connection, file, mine) &&
        theirs.size == mine->size)
        rank = theirs.rank;
    if (connection >= 0) close(connection);
    return rank;
}

static int host(const greeting *mine, int64_t deadline, ls_message *why)
{
    struct sockaddr_un address;
    socklen_t bytes = address_of(mine->job, &address);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), file = -1;
    bool come[LS_SEGMENT_MOST] = {false};
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, bytes) != 0 || listen(listener, mine->size) != 0) {
        snprintf(why->text, sizeof why->text, "rank 0 cannot wait for the others: %s%s", strerror(errno),
                 errno == EADDRINUSE ? "; another job here has the same MASTER_ADDR and MASTER_PORT" : "");
        goto done;
    }
    file = ls_segment_make(mine->size, why);
    for (int missing = mine->size - 1; file >= 0 && missing > 0;) {
        struct pollfd wait = {.fd = listener, .events = POLLIN};
        int rank = poll(&wait, 1, 100) > 0 ? serve(listener, file, mine) : -1;
        if (rank > 0 && !come[rank]) come[rank] = true, missing--;
        if (missing && deadline && ls_comm_clock() > deadline) {
            int first = 1;
            while (come[first]) first++;
            snprintf(why->text, sizeof why->text, "%d of %d processes did not come, rank %d is the first of them",
                     missing, mine->size, first);
            close(file);
            file = -1;
        }
    }
done:
    if (listener >= 0) close(listener);
    return file;
}

static int visit(const greeting *mine, int64_t deadline, ls_message *why)
{
    struct sockaddr_un address;
    socklen_t bytes = address_of(mine->job, &address);
    for (int64_t now; now = ls_comm_clock(), !deadline || now < deadline;) {
        int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), file = -1;
        greeting theirs = {0};
        /* Rank 0 may listen, and be stopped. */
        struct timeval rest = {.tv_sec = (deadline - now) / SECOND, .tv_usec = (deadline - now) % SECOND / 1000 | 1};
        if (deadline) setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &rest, sizeof rest);
        if (connect(connection, (struct sockaddr *)&address, bytes) == 0 && is_ours(connection) &&
            send(connection, mine, sizeof *mine, MSG_NOSIGNAL) == (ssize_t)sizeof *mine)
            file = receive_file(connection, &theirs);
        close(connection);
        if (file >= 0 && theirs.size == mine->size) return file;
        if (file >= 0) {
            close(file);
            snprintf(why->text, sizeof why->text, "rank %d is one of %d processes, rank 0 one of %d", mine->rank,
                     mine->size, theirs.size);
            return -1;
        }
        usleep(RETRY);
    }
    snprintf(why->text, sizeof why->text, "rank %d of %d waited for rank 0, which did not come", mine->rank,
             mine->size);
    return -1;
}

int ls_meet(const char *job, int rank, int size, int64_t seconds, ls_message *why)
{
    greeting mine = {hash_of(job), rank, size};
    int64_t deadline = seconds ? ls_comm_clock() + seconds * SECOND : 0;
    return rank == 0 ? host(&mine, deadline, why) : visit(&mine, deadline, why);
}
