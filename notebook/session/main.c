/* main.c - the session of a notebook: load cells, run them, tell the kernel what came of it.
 *
 * lockstep-session SOCKET: the number of the socket to the kernel. Started by lockstep-kernel only. */
#include <dlfcn.h>
#include <errno.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <lockstep/notebook.h>

#include "display.h"
#include "session.h"

/* Cells call functions without a session among their arguments, and signals belong to the process: hence globals. */
static int kernel_socket = -1;
static pid_t session_process; /* this one, unless a cell has forked */
static volatile sig_atomic_t interrupted, passed_on;

/* Is this a process that the running cell has forked? */
static bool is_copy(void)
{
    return getpid() != session_process;
}

/* ---- To the kernel ---- */

static int payload_file(const void *bytes, size_t size)
{
    int file = memfd_create("payload", MFD_CLOEXEC);
    if (file < 0) return -1;
    for (size_t done = 0; done < size;) {
        ssize_t wrote = write(file, (const char *)bytes + done, size - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) {
            close(file);
            return -1;
        }
        done += (size_t)wrote;
    }
    return file;
}

/* What is printed from now on comes after this message: the kernel takes what was printed, then the message. If the
 * kernel is busy for a second, the cell goes on. */
static void wait_until_received(void)
{
    const struct timespec moment = {.tv_nsec = 20 * 1000};
    int unread = 0;
    for (int i = 0; i < 50000 && ioctl(kernel_socket, SIOCOUTQ, &unread) == 0 && unread > 0; i++)
        nanosleep(&moment, NULL);
}

void session_send(const session_message *message, const void *payload, size_t size)
{
    fflush(NULL);
    if (message->event == SESSION_RESULT && is_copy()) return; /* a cell has one value */
    int file = payload ? payload_file(payload, size) : -1;
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec bytes = {.iov_base = (void *)(uintptr_t)message, .iov_len = sizeof *message};
    struct msghdr packet = {.msg_iov = &bytes, .msg_iovlen = 1};
    if (file >= 0) {
        packet.msg_control = control.space;
        packet.msg_controllen = sizeof control.space;
        struct cmsghdr *header = CMSG_FIRSTHDR(&packet);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &file, sizeof file);
    }
    ssize_t sent;
    do sent = sendmsg(kernel_socket, &packet, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (file >= 0) close(file);
    if (sent < 0) _exit(1); /* the kernel is gone */
    wait_until_received();
}

void session_tell(const session_message *message)
{
    if (!is_copy()) send(kernel_socket, message, sizeof *message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void ls_notebook_set(void *variable, const void *value, size_t size)
{
    memcpy(variable, value, size);
}

void ls_notebook_size(const char *name, size_t count)
{
    session_message size = {.event = SESSION_SIZE, .number = (int64_t)count};
    snprintf(size.name, sizeof size.name, "%s", name);
    session_send(&size, NULL, 0);
}

/* ---- Interrupts ---- */

/* A training loop learns of it from ls_should_stop(), which listens to SIGUSR1 once it was asked. */
void interrupt_pass_on(void)
{
    struct sigaction listening;
    if (!interrupted || passed_on || sigaction(SIGUSR1, NULL, &listening) != 0) return;
    if (listening.sa_handler == SIG_DFL || listening.sa_handler == SIG_IGN) return;
    passed_on = 1;
    raise(SIGUSR1);
}

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
    passed_on = 0;
    interrupt_pass_on();
}

bool ls_notebook_interrupted(void)
{
    return interrupted;
}

/* ---- Cells ---- */

static void refuse(void)
{
    const char *why = dlerror();
    session_message message = {.event = SESSION_NOT_LOADED, .process = getpid()};
    session_send(&message, why ? why : "unknown reason", why ? strlen(why) : 14);
}

static void report_end(void)
{
    session_message done = {.event = SESSION_DONE, .process = getpid()};
    snprintf(done.name, sizeof done.name, "%s", failure_kind());
    session_send(&done, done.name[0] ? failure_words() : NULL, strlen(failure_words()));
}

/* dlsym returns an object pointer; POSIX says that it may be a function. */
static void call(void *symbol)
{
    void (*function)(void);
    memcpy(&function, &symbol, sizeof function);
    function();
}

static void run(const cell_request *request)
{
    output_begin();
    snapshot_obstacle obstacle = snapshot_prevented_by();
    snapshot_state snapshot = request->runs && !obstacle ? snapshot_begin() : SNAPSHOT_NONE;
    if (snapshot == SNAPSHOT_RESTORED) return;
    if (snapshot == SNAPSHOT_NONE && !obstacle) obstacle = SNAPSHOT_REFUSED;
    session_process = getpid();
    input_begin();
    failure_begin();
    crash_begin(request->path);
    display_begin(request->number);
    interrupted = 0; /* from the next line on the kernel may interrupt */
    session_send(&(session_message){.event = SESSION_STARTED, .process = getpid(), .number = obstacle}, NULL, 0);
    void *library = dlopen(request->path, RTLD_NOW | RTLD_GLOBAL);
    char name[32];
    snprintf(name, sizeof name, "ls_cell_%d", request->number);
    void *function = library ? dlsym(library, name) : NULL;
    if (function && request->runs) call(function);
    if (is_copy()) { /* what it has changed is its own: only the session goes on to the next cell */
        fflush(NULL);
        _exit(0);
    }
    curves_end();
    runs_note_errors();
    if (function) report_end();
    else refuse();
    if (snapshot == SNAPSHOT_TAKEN) snapshot_end();
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("lockstep-session is started by lockstep-kernel, the kernel for notebooks\n", stderr);
        return 2;
    }
    kernel_socket = atoi(argv[1]);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const struct sigaction listen = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &listen, NULL);
    crash_open();
    output_open();
    input_open(&kernel_socket);
    progress_open();
    for (;;) {
        cell_request request;
        ssize_t got = recv(kernel_socket, &request, sizeof request, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got != sizeof request) return 0; /* the kernel is gone */
        run(&request);
    }
}
