/* output.c - standard output and error: whatever a cell did to them, the next one prints below itself.
 *
 * fclose() is in the place of the C library's: calls of cells find it first. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "session.h"

/* The two pipes to the kernel, at descriptors that cells do not know. Of the process, as stdout is. */
static int pipes[2];
static FILE *streams[2];

void output_open(void)
{
    enum { OUT_OF_THE_WAY = 100 };
    streams[0] = stdout;
    streams[1] = stderr;
    for (int i = 0; i < 2; i++) pipes[i] = fcntl(STDOUT_FILENO + i, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
}

void output_begin(void)
{
    for (int i = 0; i < 2; i++) {
        int number = STDOUT_FILENO + i;
        dup2(pipes[i], number);
        if (fileno(streams[i]) != number) streams[i] = fdopen(number, "w"); /* a freopen() has failed */
        clearerr(streams[i]);
    }
    stdout = streams[0];
    stderr = streams[1];
    setvbuf(stdout, NULL, _IOLBF, 0);
    setvbuf(stderr, NULL, _IONBF, 0);
}

/* Standard output and error lose their descriptor only: the stream is needed again. */
int fclose(FILE *stream)
{
    if (stream == streams[0] || stream == streams[1]) {
        int flushed = fflush(stream), closed = close(fileno(stream));
        return flushed || closed ? EOF : 0;
    }
    int (*of_library)(FILE *);
    void *symbol = dlsym(RTLD_NEXT, "fclose");
    memcpy(&of_library, &symbol, sizeof of_library);
    return of_library(stream);
}
