/* input.c - standard input: every line is asked of the user. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/socket.h>

#include <lockstep/notebook.h>

#include "session.h"

/* The rest of a line that did not fit into the reader's buffer. */
static input_line line;
static size_t taken;

/* Ask for a line; false: the cell was interrupted, or nobody can be asked. */
static bool ask(int socket)
{
    session_send(&(session_message){.event = SESSION_INPUT}, NULL, 0);
    struct pollfd answer = {.fd = socket, .events = POLLIN};
    while (poll(&answer, 1, -1) < 0)
        if (errno != EINTR || ls_notebook_interrupted()) return false;
    taken = 0;
    return recv(socket, &line, sizeof line, 0) == sizeof line && line.size > 0;
}

void input_begin(void)
{
    line.size = 0;
    __fpurge(stdin);
    clearerr(stdin);
}

static ssize_t read_input(void *cookie, char *to, size_t size)
{
    if (taken >= (size_t)line.size && !ask(*(const int *)cookie)) {
        line.size = 0;
        return 0;
    }
    size_t left = (size_t)line.size - taken;
    if (left > size) left = size;
    memcpy(to, line.bytes + taken, left);
    taken += left;
    return (ssize_t)left;
}

void input_open(int *socket)
{
    FILE *asks = fopencookie(socket, "r", (cookie_io_functions_t){.read = read_input});
    if (!asks) return; /* standard input stays empty */
    setvbuf(asks, NULL, _IONBF, 0);
    stdin = asks;
}
