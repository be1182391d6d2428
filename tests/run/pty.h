/* pty.h - run a function in a child process whose terminal is ours, and read what it puts there. */
#ifndef LOCKSTEP_TESTS_PTY_H
#define LOCKSTEP_TESTS_PTY_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static inline bool has_terminals(void)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    bool usable = master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0;
    int terminal = usable ? open(ptsname(master), O_RDWR | O_NOCTTY) : -1;
    if (terminal >= 0) close(terminal);
    if (master >= 0) close(master);
    return terminal >= 0;
}

/* stdout and stderr of the child are a terminal with `columns`. Returns the exit code, -1 if it did not exit. */
static inline int run_on_terminal(int columns, int (*body)(void), char *text, size_t size)
{
    text[0] = '\0';
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) return -1;
    int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    struct winsize window = {.ws_row = 24, .ws_col = (unsigned short)columns};
    if (terminal < 0 || ioctl(terminal, TIOCSWINSZ, &window) != 0) return -1;
    pid_t child = fork();
    if (child == 0) {
        dup2(terminal, STDOUT_FILENO);
        dup2(terminal, STDERR_FILENO);
        close(master);
        close(terminal);
        int code = body();
        fflush(NULL);
        _exit(code);
    }
    close(terminal);
    size_t length = 0;
    ssize_t got;
    while (length + 1 < size && (got = read(master, text + length, size - 1 - length)) > 0) length += (size_t)got;
    text[length] = '\0';
    close(master);
    int status = -1;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What the terminal shows at the end, with "\n" between lines: after a carriage return, text overwrites the line from
 * its start. Blanks at line ends are dropped. `to` must be as large as `text`. */
static inline void screen_of(const char *text, char *to)
{
    size_t start = 0, column = 0, end = 0; /* of the current line, counted from `start` */
    for (; *text; text++) {
        if (*text == '\r') {
            column = 0;
        } else if (*text == '\n') {
            while (end > 0 && to[start + end - 1] == ' ') end--;
            to[start + end] = '\n';
            start += end + 1;
            column = end = 0;
        } else {
            to[start + column++] = *text;
            if (column > end) end = column;
        }
    }
    while (end > 0 && to[start + end - 1] == ' ') end--;
    to[start + end] = '\0';
}

#endif
