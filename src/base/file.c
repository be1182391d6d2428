/* file.c - files in memory, and files that appear complete or not at all. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/memory.h"
#include "base/parallel.h"

/* "could not open PATH: No such file or directory"; only the end of a long path is shown. Returns false. */
static bool report(ls_message *why, const char *what, const char *path, const char *reason)
{
    enum { SHOWN = 140 };
    size_t length = strlen(path);
    bool cut = length > SHOWN;
    ls_message_set(why, "could not %s %s%.*s: %.60s", what, cut ? "..." : "", SHOWN, cut ? path + length - SHOWN : path,
                   reason);
    return false;
}

static bool report_errno(ls_message *why, const char *what, const char *path)
{
    return report(why, what, path, strerror(errno));
}

/* ---- reading ---- */

ls_path_kind ls_path_kind_of(const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0) return LS_PATH_NONE;
    return S_ISREG(about.st_mode) ? LS_PATH_FILE : S_ISDIR(about.st_mode) ? LS_PATH_FOLDER : LS_PATH_OTHER;
}

#define BECAME_SHORTER "it was truncated while it was read"

static int open_file(const char *path, struct stat *about, ls_message *why)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a pipe would block */
    if (descriptor < 0) return report_errno(why, "open", path), -1;
    if (fstat(descriptor, about) != 0) report_errno(why, "open", path);
    else if (!S_ISREG(about->st_mode))
        report(why, "read", path, S_ISDIR(about->st_mode) ? "it is a folder" : "it is not a regular file");
    else return descriptor;
    close(descriptor);
    return -1;
}

enum { LOAD_GRAIN = 8 << 20 }; /* fewest bytes per thread */

typedef struct loading {
    int descriptor;
    char *to;
    atomic_int error; /* errno of a failed read; -1: the file was truncated */
} loading;

static void load_range(void *user, int64_t begin, int64_t end)
{
    loading *l = user;
    while (begin < end && !atomic_load(&l->error)) {
        ssize_t got = pread(l->descriptor, l->to + begin, (size_t)(end - begin), begin);
        if (got < 0 && errno == EINTR) continue;
        if (got > 0) begin += got;
        else atomic_store(&l->error, got < 0 ? errno : -1);
    }
}

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool ls_file_load(ls_file_bytes *file, const char *path, size_t limit, ls_message *why)
{
    struct stat before, after;
    int descriptor = open_file(path, &before, why);
    if (descriptor < 0) return false;
    size_t size = (size_t)before.st_size, wanted = size < limit ? size : limit;
    loading l = {.descriptor = descriptor, .to = ls_sys_map(wanted)};
    if (l.to) ls_parallel_for((int64_t)wanted, LOAD_GRAIN, load_range, &l);
    bool known = fstat(descriptor, &after) == 0;
    close(descriptor);
    int error = atomic_load(&l.error);
    if (!l.to) return report(why, "read", path, "no memory");
    if (error) {
        ls_sys_unmap(l.to, wanted);
        return report(why, "read", path, error < 0 ? BECAME_SHORTER : strerror(error));
    }
    bool changed = !known || after.st_size != before.st_size || !same_time(after.st_mtim, before.st_mtim);
    *file = (ls_file_bytes){l.to, wanted, size, changed};
    return true;
}

void ls_file_unload(ls_file_bytes *file)
{
    ls_sys_unmap(file->bytes, file->there);
    *file = (ls_file_bytes){0};
}

char *ls_file_read(const char *path, size_t limit, size_t *size, ls_message *why)
{
    struct stat about;
    int descriptor = open_file(path, &about, why);
    if (descriptor < 0) return NULL;
    size_t expected = (size_t)about.st_size, used = 0;
    char *text = NULL;
    if (expected > limit) report(why, "read", path, "it is too large");
    else if (!(text = ls_sys_alloc(expected + 1))) report(why, "read", path, "no memory");
    while (text && used < expected) {
        ssize_t got = read(descriptor, text + used, expected - used);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) {
            report(why, "read", path, got < 0 ? strerror(errno) : BECAME_SHORTER);
            ls_sys_free(text);
            text = NULL;
        } else {
            used += (size_t)got;
        }
    }
    close(descriptor);
    if (text && size) *size = used;
    return text;
}

/* ---- writing ---- */

enum { BUFFER_BYTES = 4 << 20 };

static void forget(ls_file_out *out)
{
    if (out->descriptor >= 0) close(out->descriptor);
    ls_sys_free(out->path);
    ls_sys_free(out->part);
    ls_sys_unmap(out->buffer, BUFFER_BYTES);
    *out = (ls_file_out){.descriptor = -1};
}

void ls_file_discard(ls_file_out *out)
{
    if (!out->path) return;
    unlink(out->part);
    forget(out);
}

static bool give_up(ls_file_out *out, ls_message *why, const char *what, const char *reason)
{
    report(why, what, out->path, reason);
    ls_file_discard(out);
    return false;
}

/* Open the temporary file and lock it. -1: another process is writing it (EBUSY), or it cannot be created. */
static int open_part(const char *part)
{
    for (;;) {
        int descriptor = ls_descriptor_open(part, O_WRONLY | O_CREAT | O_NOFOLLOW, 0666);
        if (descriptor < 0) return -1;
        bool locked = flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; /* not all file systems lock */
        /* Its owner may have published the file between our two calls: then we locked the published file. */
        struct stat ours, named;
        bool same = fstat(descriptor, &ours) == 0 && stat(part, &named) == 0 && ours.st_ino == named.st_ino &&
                    ours.st_dev == named.st_dev;
        if (locked && same && ftruncate(descriptor, 0) == 0) return descriptor;
        int error = !locked ? EBUSY : errno;
        close(descriptor);
        if (locked && !same) continue;
        errno = error;
        return -1;
    }
}

/* With `sync` there is no point in going through the page cache: bypassing it saves a copy and leaves the cache to
 * others. File systems that cannot do so use the cache. */
static bool set_direct(int descriptor, bool on)
{
    int flags = fcntl(descriptor, F_GETFL);
    return flags >= 0 && fcntl(descriptor, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

bool ls_file_create(ls_file_out *out, const char *path, bool sync, ls_message *why)
{
    size_t length = strlen(path);
    *out = (ls_file_out){.descriptor = -1};
    char *copy = ls_sys_alloc(length + 1), *part = ls_sys_alloc(length + sizeof ".part");
    char *buffer = ls_sys_map(BUFFER_BYTES); /* page-aligned, as direct writes require */
    if (!copy || !part || !buffer) {
        ls_sys_free(copy);
        ls_sys_free(part);
        ls_sys_unmap(buffer, BUFFER_BYTES);
        return report(why, "write", path, "no memory");
    }
    memcpy(copy, path, length);
    memcpy(part, path, length);
    memcpy(part + length, ".part", sizeof ".part");
    *out = (ls_file_out){.path = copy, .part = part, .buffer = buffer, .descriptor = open_part(part), .sync = sync};
    if (out->descriptor >= 0) {
        out->direct = sync && set_direct(out->descriptor, true);
        return true;
    }
    report(why, "write", path, errno == EBUSY ? "another process is writing it" : strerror(errno));
    forget(out); /* the file, if it exists, is not ours */
    return false;
}

static bool write_all(ls_file_out *out, const char *bytes, size_t size)
{
    while (size) {
        ssize_t done = write(out->descriptor, bytes, size < SSIZE_MAX ? size : SSIZE_MAX);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0 && errno == EINVAL && out->direct) { /* the blocks are larger than ours, or a partial write */
            out->direct = false;
            if (set_direct(out->descriptor, false)) continue;
        }
        if (done < 0) return false;
        bytes += done;
        size -= (size_t)done;
    }
    return true;
}

static bool flush(ls_file_out *out)
{
    size_t size = out->buffered;
    out->buffered = 0;
    return write_all(out, out->buffer, size);
}

bool ls_file_put(ls_file_out *out, const void *bytes, size_t size, ls_message *why)
{
    const char *at = bytes;
    while (size) {
        size_t room = BUFFER_BYTES - out->buffered, some = size < room ? size : room;
        if (!out->direct && size >= BUFFER_BYTES / 8) { /* without the buffer */
            if (!flush(out) || !write_all(out, at, size)) return give_up(out, why, "write", strerror(errno));
            return true;
        }
        memcpy(out->buffer + out->buffered, at, some);
        out->buffered += some;
        at += some;
        size -= some;
        if (out->buffered == BUFFER_BYTES && !flush(out)) return give_up(out, why, "write", strerror(errno));
    }
    return true;
}

bool ls_file_seal(ls_file_out *out, ls_message *why)
{
    if (out->direct) out->direct = !set_direct(out->descriptor, false); /* the rest is not whole blocks */
    if (!flush(out) || (out->sync && fsync(out->descriptor) != 0)) return give_up(out, why, "write", strerror(errno));
    ls_sys_unmap(out->buffer, BUFFER_BYTES);
    out->buffer = NULL;
    return true; /* stays open: the lock keeps others away until it is published */
}

bool ls_file_publish(ls_file_out *out, ls_message *why)
{
    if (rename(out->part, out->path) != 0) return give_up(out, why, "write", strerror(errno));
    int failed = close(out->descriptor); /* some file systems report failed writes only here */
    out->descriptor = -1;
    bool ok = failed ? report_errno(why, "write", out->path) : !out->sync || ls_folder_sync_above(out->path, why);
    forget(out);
    return ok;
}

bool ls_file_write(const char *path, const void *bytes, size_t size, bool sync, ls_message *why)
{
    ls_file_out out;
    return ls_file_create(&out, path, sync, why) && ls_file_put(&out, bytes, size, why) && ls_file_seal(&out, why) &&
           ls_file_publish(&out, why);
}

/* ---- folders ---- */

bool ls_folder_make(const char *path, ls_message *why)
{
    char part[PATH_MAX];
    size_t length = strlen(path);
    if (length >= sizeof part) return report(why, "create the folder", path, strerror(ENAMETOOLONG));
    memcpy(part, path, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (path[i] && path[i] != '/') continue;
        part[i] = 0;
        bool made = mkdir(part, 0777) == 0;
        if (!made && errno != EEXIST) return report_errno(why, "create the folder", part);
        if (made && path[i] && !ls_folder_sync_above(part, why)) return false;
        part[i] = path[i];
    }
    if (ls_path_kind_of(path) != LS_PATH_FOLDER) return report(why, "create the folder", path, "it is a file");
    return true;
}

bool ls_folder_sync(const char *path, ls_message *why)
{
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return report_errno(why, "open the folder", path);
    /* Some file systems cannot sync a folder (EINVAL): then there is nothing more to do. */
    bool ok = fsync(descriptor) == 0 || errno == EINVAL;
    if (!ok) report_errno(why, "sync the folder", path);
    close(descriptor);
    return ok;
}

/* The folder that contains a file or folder. */
static bool folder_above(const char *path, char folder[PATH_MAX], ls_message *why)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    if (length >= PATH_MAX) return report(why, "find the folder of", path, strerror(ENAMETOOLONG));
    memcpy(folder, path, length);
    folder[length] = 0;
    if (!length) strcpy(folder, slash ? "/" : ".");
    return true;
}

bool ls_folder_make_above(const char *path, ls_message *why)
{
    char folder[PATH_MAX];
    return folder_above(path, folder, why) && ls_folder_make(folder, why);
}

bool ls_folder_sync_above(const char *path, ls_message *why)
{
    char folder[PATH_MAX];
    return folder_above(path, folder, why) && ls_folder_sync(folder, why);
}
