/* link.c - the session's process, seen from the kernel. */
#include "link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void close_all(session_link *link)
{
    int *files[] = {&link->socket, &link->output, &link->errors, &link->death};
    for (int i = 0; i < 4; i++) {
        if (*files[i] >= 0) close(*files[i]);
        *files[i] = -1;
    }
}

/* In the child: standard output and error go to the kernel; nothing comes in. */
static void become_session(const char *program, int socket, int output, int errors)
{
    char number[16];
    snprintf(number, sizeof number, "%d", socket);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(output, 1) < 0 || dup2(errors, 2) < 0) _exit(127);
    fcntl(socket, F_SETFD, 0);
    signal(SIGINT, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    execl(program, program, number, (char *)NULL);
    _exit(127);
}

static void watch(session_link *link)
{
    if (link->death >= 0) close(link->death);
    link->death = (int)syscall(SYS_pidfd_open, link->process, 0);
}

bool link_start(session_link *link, const char *program, ls_message *why)
{
    int sockets[2], output[2] = {-1, -1}, errors[2] = {-1, -1};
    *link = (session_link){.program = program, .socket = -1, .output = -1, .errors = -1, .death = -1};
    if (access(program, X_OK) < 0) return ls_message_set(why, "%s: %s", program, strerror(errno)), false;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0 || pipe2(output, O_CLOEXEC) < 0 ||
        pipe2(errors, O_CLOEXEC) < 0 || (link->process = fork()) < 0)
        return ls_message_set(why, "the session cannot be started: %s", strerror(errno)), false;
    if (link->process == 0) become_session(program, sockets[1], output[1], errors[1]);
    close(sockets[1]);
    close(output[1]);
    close(errors[1]);
    link->socket = sockets[0];
    link->output = output[0];
    link->errors = errors[0];
    int files[] = {link->socket, link->output, link->errors};
    for (int i = 0; i < 3; i++) fcntl(files[i], F_SETFL, O_NONBLOCK);
    watch(link);
    return true;
}

/* A child of this process; 0: there is none. Processes whose parents have ended become children of the kernel. */
static pid_t any_child(void)
{
    char path[64];
    int child = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *children = fopen(path, "re");
    if (!children) return 0;
    if (fscanf(children, "%d", &child) != 1) child = 0;
    fclose(children);
    return child;
}

void link_end(session_link *link)
{
    link_signal(link, SIGKILL);
    if (link->process > 0) kill(link->process, SIGKILL);
    link_bury(link);
    for (pid_t child; (child = any_child());) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    close_all(link);
}

bool link_request(session_link *link, const cell_request *request)
{
    return send(link->socket, request, sizeof *request, MSG_NOSIGNAL) == sizeof *request;
}

bool link_input(session_link *link, const char *line)
{
    input_line packet = {0};
    int length = line ? snprintf(packet.bytes, sizeof packet.bytes, "%.*s\n", (int)sizeof packet.bytes - 2, line) : 0;
    packet.size = length;
    return send(link->socket, &packet, sizeof packet, MSG_NOSIGNAL) == sizeof packet;
}

bool link_has_message(const session_link *link)
{
    struct pollfd socket = {.fd = link->socket, .events = POLLIN};
    return poll(&socket, 1, 0) == 1 && (socket.revents & POLLIN);
}

static void read_payload(int file, string *payload)
{
    struct stat about;
    if (fstat(file, &about) < 0) return;
    char piece[65536];
    ssize_t got;
    for (off_t at = 0; at < about.st_size && (got = pread(file, piece, sizeof piece, at)) > 0; at += got)
        text_put(payload, piece, (size_t)got);
}

bool link_receive(session_link *link, session_message *to, string *payload)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec bytes = {.iov_base = to, .iov_len = sizeof *to};
    struct msghdr packet = {
        .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    ssize_t got = recvmsg(link->socket, &packet, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    text_clear(payload);
    struct cmsghdr *header = got > 0 ? CMSG_FIRSTHDR(&packet) : NULL;
    if (header && header->cmsg_type == SCM_RIGHTS) {
        int file;
        memcpy(&file, CMSG_DATA(header), sizeof file);
        read_payload(file, payload);
        close(file);
    }
    to->name[WIRE_NAME - 1] = '\0';
    return got == sizeof *to;
}

void link_follow(session_link *link, pid_t process)
{
    link->running = 0;
    if (process == link->process) return;
    link_bury(link);
    link->process = process;
    watch(link);
}

/* The kernel must stay able to answer: it waits for the end of a process, but not for ever. */
static bool ends_soon(const session_link *link)
{
    enum { MILLISECONDS = 2000 };
    struct pollfd death = {.fd = link->death, .events = POLLIN};
    return poll(&death, 1, MILLISECONDS) == 1;
}

int link_bury(session_link *link)
{
    int status = 0;
    if (link->process > 0) {
        if (!ends_soon(link) && kill(link->process, SIGKILL) == 0) ends_soon(link);
        waitpid(link->process, &status, WNOHANG);
    }
    while (waitpid(-1, NULL, WNOHANG) > 0) continue; /* what it left behind comes to the kernel */
    link->process = link->running = 0;
    return status;
}

void link_signal(const session_link *link, int number)
{
    pid_t group = link->running ? link->running : link->process;
    if (group > 0) kill(-group, number);
}

void link_explain(int status, ls_message *words)
{
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        ls_message_set(words, "Killed by SIGKILL: another program sent it, or the system was out of memory");
    else if (WIFSIGNALED(status)) ls_message_set(words, "%s", strsignal(WTERMSIG(status)));
    else ls_message_set(words, "exit(%d) was called", WEXITSTATUS(status));
}
