/* append.c - records are written at a known offset, so that the next one overwrites what a failed write may have
 * left. */
#include "track/append.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/memory.h"

/* End of the last complete line; -1 if the file cannot be read. */
static int64_t end_of_lines(int descriptor, int64_t size)
{
    char block[4096];
    while (size > 0) {
        size_t wanted = size < (int64_t)sizeof block ? (size_t)size : sizeof block;
        if (pread(descriptor, block, wanted, size - (int64_t)wanted) != (ssize_t)wanted) return -1;
        const char *last = memrchr(block, '\n', wanted);
        if (last) return size - (int64_t)wanted + (last - block) + 1;
        size -= (int64_t)wanted;
    }
    return 0;
}

static bool refuse(const char *path, ls_message *why)
{
    ls_message_set(why, "%s: %s", path, strerror(errno));
    return false;
}

bool ls_append_open(ls_append *file, const char *path, ls_message *why)
{
    /* A symbolic link here was made by someone else: its target is not ours to write to. */
    int descriptor = ls_descriptor_open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0666);
    if (descriptor < 0 && errno == ELOOP) {
        ls_message_set(why, "%.200s is a symbolic link; remove it", path);
        return false;
    }
    if (descriptor < 0) return refuse(path, why);
    struct stat status;
    if (fstat(descriptor, &status) != 0) goto close_it;
    int64_t size = end_of_lines(descriptor, status.st_size);
    if (size < 0 || (size < status.st_size && ftruncate(descriptor, size) != 0)) goto close_it;
    *file = (ls_append){.descriptor = descriptor, .size = size, .path = ls_sys_alloc(strlen(path) + 1)};
    errno = ENOMEM;
    if (!file->path) goto close_it;
    strcpy(file->path, path);
    return true;
close_it:
    refuse(path, why);
    close(descriptor);
    return false;
}

bool ls_append_write(ls_append *file, const void *bytes, size_t size, ls_message *why)
{
    const char *from = bytes;
    for (size_t done = 0; done < size;) {
        ssize_t written = pwrite(file->descriptor, from + done, size - done, file->size + (int64_t)done);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            if (written == 0) errno = ENOSPC;
            refuse(file->path, why);
            /* Readers should not see half a record; if truncating fails too, the next record overwrites it. */
            if (ftruncate(file->descriptor, file->size) != 0) errno = 0;
            return false;
        }
        done += (size_t)written;
    }
    file->size += (int64_t)size;
    return true;
}

void ls_append_close(ls_append *file)
{
    if (!file->path) return;
    close(file->descriptor);
    ls_sys_free(file->path);
    *file = (ls_append){0};
}
