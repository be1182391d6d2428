/* meet.c - what a process says where those of one host meet: to rank 0, or (first bit of the first byte) as rank 0. The
 * second bit puts the job's number in eager, the third lets a file come with it. Whatever was said, the one that
 * belongs to the job is heard after it, and no file stays open. */
#include "comm/shm/meet.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/hash.h"
#include "fuzz/fuzz.h"

static char job[64];
static uint64_t number;
static struct sockaddr_un address;
static socklen_t address_length;
static char said[64];
static size_t said_length;
static bool with_file;

static void begin(void)
{
    ls_hash hash;
    snprintf(job, sizeof job, "fuzz %d", (int)getpid());
    ls_hash_begin(&hash);
    ls_hash_add(&hash, job, strlen(job));
    number = ls_hash_end(&hash);
    address.sun_family = AF_UNIX;
    int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "lockstep-%u-%016llx-0",
                          (unsigned)getuid(), (unsigned long long)number);
    address_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static void claimed(void *user, const char *words)
{
    (void)user;
    FUZZ_CHECK(words);
}

/* ---- to rank 0 ---- */

static void *come(void *unused)
{
    (void)unused;
    int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), tries = 0;
    while (connect(connection, (struct sockaddr *)&address, address_length) != 0) {
        FUZZ_CHECK(++tries < 5000); /* where is rank 0? */
        usleep(200);
    }
    FUZZ_CHECK(send(connection, said, said_length, MSG_NOSIGNAL) == (ssize_t)said_length);
    shutdown(connection, SHUT_WR);
    ls_message why;
    int file = ls_meet(job, 1, 2, 1, NULL, &why);
    if (file >= 0) close(file);
    close(connection);
    return NULL;
}

static void to_rank_0(void)
{
    pthread_t other;
    ls_meeting *meeting;
    ls_message why;
    FUZZ_CHECK(pthread_create(&other, NULL, come, NULL) == 0);
    int file = ls_meet(job, 0, 2, 1, &meeting, &why);
    if (meeting) ls_meeting_watch(meeting, claimed, NULL);
    pthread_join(other, NULL);
    ls_meeting_end(meeting);
    if (file >= 0) close(file);
}

/* ---- as rank 0 ---- */

static void answer(int connection, const void *words, size_t length, bool carries_file)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } part = {0};
    struct iovec text = {(void *)(uintptr_t)words, length};
    struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1};
    int files[2] = {open("/dev/null", O_RDONLY | O_CLOEXEC), open("/dev/null", O_RDONLY | O_CLOEXEC)};
    if (carries_file && length) { /* two, where one is expected */
        message.msg_control = &part;
        message.msg_controllen = sizeof part;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        *header =
            (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof files)};
        memcpy(CMSG_DATA(header), files, sizeof files);
    }
    char greeting[64];
    if (recv(connection, greeting, sizeof greeting, 0) > 0) (void)!sendmsg(connection, &message, MSG_NOSIGNAL);
    close(files[0]);
    close(files[1]);
    close(connection);
}

/* First what was chosen, then a welcome, until the listener is shut down. */
static void *receive(void *listener)
{
    struct {
        uint64_t job;
        int32_t verdict, size, pid, holder;
    } welcome = {.job = number, .size = 2};
    for (int turn = 0;; turn++) {
        int connection = accept4(*(int *)listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection < 0) return NULL;
        if (turn == 0) answer(connection, said, said_length, with_file);
        else answer(connection, &welcome, sizeof welcome, true);
    }
}

static void as_rank_0(void)
{
    pthread_t other;
    ls_message why;
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    FUZZ_CHECK(bind(listener, (struct sockaddr *)&address, address_length) == 0 && listen(listener, 4) == 0);
    FUZZ_CHECK(pthread_create(&other, NULL, receive, &listener) == 0);
    int file = ls_meet(job, 1, 2, 1, NULL, &why);
    shutdown(listener, SHUT_RDWR);
    pthread_join(other, NULL);
    close(listener);
    if (file >= 0) close(file);
}

static int open_files(void)
{
    int count = 0;
    for (int file = 0; file < 64; file++) count += fcntl(file, F_GETFD) >= 0;
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 1 || size > sizeof said) return 0;
    if (!number) begin();
    said_length = size - 1;
    memcpy(said, bytes + 1, said_length);
    if (bytes[0] & 2 && said_length >= sizeof number) memcpy(said, &number, sizeof number);
    with_file = bytes[0] & 4;
    int before = open_files();
    if (bytes[0] & 1) as_rank_0();
    else to_rank_0();
    FUZZ_CHECK(open_files() == before);
    return 0;
}
