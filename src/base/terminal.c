/* terminal.c - one status line per process, kept below everything else that is written.
 *
 * The line is erased with blanks instead of an escape sequence, so that any terminal works. */
#include "base/terminal.h"

#include "base/memory.h"

#include <pthread.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    char status[LS_TERMINAL_STATUS];
    size_t drawn;     /* characters of it that are on the terminal; 0: none */
    bool inside_line; /* the last text did not end its line: the status line waits */
} terminal = {.lock = PTHREAD_MUTEX_INITIALIZER};

int ls_terminal_columns(int descriptor)
{
    if (!isatty(descriptor)) return 0;
    struct winsize size;
    return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

size_t ls_terminal_width_of(const char *text)
{
    size_t width = 0;
    for (; *text; text++) width += (*text & 0xc0) != 0x80; /* all but continuation bytes */
    return width;
}

static void wipe(void)
{
    if (terminal.drawn) fprintf(stderr, "\r%*s\r", (int)terminal.drawn, "");
    terminal.drawn = 0;
}

static void draw(void)
{
    if (terminal.inside_line) return;
    size_t width = ls_terminal_width_of(terminal.status), before = terminal.drawn;
    if (width) fprintf(stderr, "\r%s%*s", terminal.status, before > width ? (int)(before - width) : 0, "");
    else wipe();
    terminal.drawn = width;
    fflush(stderr);
}

void ls_terminal_write(FILE *to, const char *text, size_t length)
{
    if (length == 0) return;
    pthread_mutex_lock(&terminal.lock);
    bool meets_status = terminal.status[0] && isatty(fileno(to));
    if (meets_status) {
        wipe();
        fflush(stderr);
    }
    fwrite(text, 1, length, to);
    if (meets_status) {
        fflush(to);
        terminal.inside_line = text[length - 1] != '\n';
        draw();
    }
    pthread_mutex_unlock(&terminal.lock);
}

void ls_terminal_print(FILE *to, const char *format, va_list args)
{
    char few[1024];
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(few, sizeof few, format, args);
    char *many = length >= (int)sizeof few ? ls_sys_alloc((size_t)length + 1) : NULL;
    if (many) vsnprintf(many, (size_t)length + 1, format, again);
    else if (length >= (int)sizeof few) length = sizeof few - 1; /* out of memory: print as much as fits */
    if (length > 0) ls_terminal_write(to, many ? many : few, (size_t)length);
    ls_sys_free(many);
    va_end(again);
}

void ls_terminal_status(const char *line)
{
    pthread_mutex_lock(&terminal.lock);
    size_t length = strnlen(line, LS_TERMINAL_STATUS - 1);
    memcpy(terminal.status, line, length);
    terminal.status[length] = '\0';
    draw();
    if (length == 0) terminal.inside_line = false;
    pthread_mutex_unlock(&terminal.lock);
}
