/* claim.c - reserve a folder with a locked file in it.
 *
 * ".lockstep" is locked (flock) and has a line about its owner. The lock ends with the process that holds it, however
 * that ends; the run removes the file, and a file left by a killed process is ignored. Only the main process of a
 * job claims folders. */
#include "base/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/descriptors.h"
#include "base/log.h"
#include "base/memory.h"

#define FILE_NAME ".lockstep"
enum { PATIENCE_MS = 1000, PAUSE_MS = 20, LINE = 600 };

struct ls_claim {
    char *path; /* of the file */
    int descriptor;
    dev_t device; /* of the folder */
    ino_t inode;
    ls_claim *next;
};

/* ---- who ---- */

/* The command line of this process, arguments separated by blanks. */
static void command_line(char *text, size_t size)
{
    FILE *file = fopen("/proc/self/cmdline", "re");
    size_t got = file ? fread(text, 1, size - 1, file) : 0;
    if (file) fclose(file);
    while (got && !text[got - 1]) got--;
    text[got] = '\0';
    for (size_t i = 0; i < got; i++)
        if ((unsigned char)text[i] <= ' ') text[i] = ' ';
}

static void write_owner(int descriptor)
{
    char line[LINE], command[400], host[100] = "", since[40];
    struct tm parts;
    time_t now = time(NULL);
    gethostname(host, sizeof host - 1);
    strftime(since, sizeof since, "%Y-%m-%d %H:%M:%S", localtime_r(&now, &parts));
    command_line(command, sizeof command);
    int length = snprintf(line, sizeof line, "process %d on %s, since %s: %s", (int)getpid(), host, since, command);
    size_t size = length < LINE ? (size_t)length : LINE - 1;
    if (ftruncate(descriptor, 0) != 0 || pwrite(descriptor, line, size, 0) < 0)
        ls_log_line(LS_LOG_DEBUG, "could not note the owner of a claimed folder: %s", strerror(errno));
}

/* The owner's line, made printable. */
static void read_owner(int descriptor, char line[LINE])
{
    ssize_t got = pread(descriptor, line, LINE - 1, 0);
    line[got > 0 ? got : 0] = '\0';
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~') *c = '?';
    if (!line[0]) snprintf(line, LINE, "its owner is unknown");
}

/* ---- the lock ---- */

typedef enum outcome { LOCKED, WITHOUT, BUSY, FAILED } outcome;

static outcome lock_once(const char *path, int *descriptor)
{
    *descriptor = ls_descriptor_open(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0666);
    if (*descriptor < 0) return FAILED;
    if (flock(*descriptor, LOCK_EX | LOCK_NB) != 0) return errno == EWOULDBLOCK ? BUSY : WITHOUT;
    /* The previous owner may have removed the file between our two calls: then we locked a file without a name. */
    struct stat ours, named;
    bool same = fstat(*descriptor, &ours) == 0 && lstat(path, &named) == 0 && ours.st_ino == named.st_ino &&
                ours.st_dev == named.st_dev;
    return same ? LOCKED : BUSY;
}

/* Retry for a moment: a run that is being restarted may still be ending. */
static outcome lock(const char *path, int *descriptor)
{
    outcome result;
    for (int waited = 0;; waited += PAUSE_MS) {
        result = lock_once(path, descriptor);
        if (result != BUSY || waited >= PATIENCE_MS) return result;
        close(*descriptor);
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
    }
}

static void let_go(ls_claim *claim, bool remove)
{
    if (remove && claim->descriptor >= 0) unlink(claim->path);
    if (claim->descriptor >= 0) close(claim->descriptor);
    ls_sys_free(claim->path);
    ls_sys_free(claim);
}

/* ---- lists of them ---- */

static bool is_ours(const ls_claim *c, const struct stat *folder)
{
    while (c && (c->device != folder->st_dev || c->inode != folder->st_ino)) c = c->next;
    return c != NULL;
}

bool ls_claim_folder(ls_claim **claims, const char *folder, const char *who, ls_errors *errors)
{
    struct stat about;
    char path[PATH_MAX], owner[LINE];
    if (stat(folder, &about) != 0 || snprintf(path, sizeof path, "%s/" FILE_NAME, folder) >= PATH_MAX)
        return ls_fail(errors, LS_ERR_IO, "%s: %s: %s", who, folder, strerror(errno)), false;
    if (is_ours(*claims, &about)) return true;
    size_t length = strlen(path) + 1;
    ls_claim *claim = ls_sys_alloc(sizeof *claim);
    char *copy = claim ? ls_sys_alloc(length) : NULL;
    if (!copy) {
        ls_sys_free(claim);
        return ls_fail(errors, LS_ERR_MEMORY, "%s: no memory", who), false;
    }
    memcpy(copy, path, length);
    *claim = (ls_claim){.path = copy, .descriptor = -1, .device = about.st_dev, .inode = about.st_ino};
    outcome result = lock(path, &claim->descriptor);
    switch (result) {
    case LOCKED: write_owner(claim->descriptor); break;
    case WITHOUT:
        ls_log_line(LS_LOG_WARN, "%s cannot be locked (%s): make sure that no other run writes into it", folder,
                    strerror(errno));
        break;
    case BUSY:
        read_owner(claim->descriptor, owner);
        ls_fail(errors, LS_ERR_STATE,
                "%s: %s is in use by a run that has not ended (%s); end it, or use another folder", who, folder, owner);
        break;
    case FAILED: ls_fail(errors, LS_ERR_IO, "%s: %s: %s", who, path, strerror(errno)); break;
    }
    if (result == BUSY || result == FAILED) return let_go(claim, false), false;
    claim->next = *claims;
    *claims = claim;
    return true;
}

void ls_claims_end(ls_claim **claims)
{
    for (ls_claim *c = *claims, *next; c; c = next) {
        next = c->next;
        let_go(c, true);
    }
    *claims = NULL;
}
