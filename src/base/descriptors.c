/* descriptors.c - keep files off stdin, stdout and stderr. */
#include "base/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Before main(), so that no function of the library can come first. */
__attribute__((constructor)) void ls_descriptors_fill(void)
{
    int before = errno;
    for (int d = STDIN_FILENO; d <= STDERR_FILENO; d++)
        if (fcntl(d, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) != d) break; /* the lowest free one */
    errno = before;
}

int ls_descriptor_open(const char *path, int flags, mode_t mode)
{
    int descriptor = open(path, flags | O_CLOEXEC, mode);
    if (descriptor < 0 || descriptor > STDERR_FILENO) return descriptor;
    int above = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), error = errno;
    close(descriptor);
    errno = error;
    return above;
}
