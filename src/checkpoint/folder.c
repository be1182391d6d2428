/* folder.c - publish, replace, number and remove checkpoint folders. */
#include "checkpoint/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/manifest.h"

static bool set_reason(ls_message *why, const char *what, const char *path, const char *reason)
{
    ls_message_set(why, "could not %s %.160s: %s", what, path, reason);
    return false;
}

static char *joined(const char *a, const char *b)
{
    size_t length = strlen(a) + strlen(b) + 1;
    char *text = ls_sys_alloc(length);
    if (text) snprintf(text, length, "%s%s", a, b);
    return text;
}

/* ---- removing ---- */

/* Remove a folder with its contents, without following links. False with errno if something could not be removed. */
static bool remove_tree(int parent, const char *name)
{
    int descriptor = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor < 0) return errno == ENOENT;
    DIR *folder = fdopendir(descriptor);
    if (!folder) return close(descriptor), false;
    bool ok = true;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (unlinkat(dirfd(folder), entry->d_name, 0) != 0)
            ok = (errno == EISDIR || errno == EPERM) && remove_tree(dirfd(folder), entry->d_name) && ok;
    }
    closedir(folder);
    return unlinkat(parent, name, AT_REMOVEDIR) == 0 && ok;
}

/* ---- one folder ---- */

/* May this path become a checkpoint? */
static bool is_free(const char *folder, ls_message *why)
{
    ls_path_kind kind = ls_path_kind_of(folder);
    if (kind == LS_PATH_NONE) return true;
    if (kind != LS_PATH_FOLDER) return set_reason(why, "save to", folder, "it is not a folder");
    char *manifest = joined(folder, "/" LS_MANIFEST);
    if (!manifest) return set_reason(why, "save to", folder, "no memory");
    bool is_checkpoint = ls_path_kind_of(manifest) == LS_PATH_FILE;
    ls_sys_free(manifest);
    if (is_checkpoint) return true;
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, NULL);
    for (int i = 0; i < count; i++) free(entries[i]);
    if (count >= 0) free(entries);
    return count == 2 || set_reason(why, "save to", folder, "it contains other things than a checkpoint");
}

char *ls_folder_begin(const char *folder, ls_message *why)
{
    if (!is_free(folder, why)) return NULL;
    char *part = joined(folder, LS_FOLDER_PART);
    if (!part) set_reason(why, "save to", folder, "no memory");
    else if (!remove_tree(AT_FDCWD, part)) set_reason(why, "remove", part, strerror(errno));
    else if (ls_folder_make(part, why)) return part;
    ls_sys_free(part);
    return NULL;
}

/* Flush every file of a folder and its subfolders, and their names, to disk; all are written first, so that the disk
 * takes them in one go. */
static bool sync_tree(int parent, const char *name, ls_message *why)
{
    int descriptor = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat about;
    bool ok = descriptor >= 0 && fstat(descriptor, &about) == 0 && (fsync(descriptor) == 0 || errno == EINVAL);
    if (!ok) set_reason(why, "write", name, strerror(errno));
    bool is_folder = ok && S_ISDIR(about.st_mode);
    DIR *entries = is_folder ? fdopendir(descriptor) : NULL;
    if (is_folder && !entries) ok = set_reason(why, "open", name, strerror(errno));
    for (struct dirent *entry; entries && ok && (entry = readdir(entries));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            ok = sync_tree(dirfd(entries), entry->d_name, why);
    if (entries) closedir(entries);
    else if (descriptor >= 0) close(descriptor);
    return ok;
}

/* Exchange the part with an existing folder, which becomes the part: atomically if the system can. */
static bool exchange(const char *part, const char *folder)
{
    if (renameat2(AT_FDCWD, part, AT_FDCWD, folder, RENAME_EXCHANGE) == 0) return true;
    if (errno != EINVAL && errno != ENOSYS) return false;
    char *old = joined(folder, ".old");
    bool ok = old && remove_tree(AT_FDCWD, old) && rename(folder, old) == 0 && rename(part, folder) == 0 &&
              rename(old, part) == 0;
    ls_sys_free(old);
    return ok;
}

bool ls_folder_publish(const char *folder, ls_message *why)
{
    char *part = joined(folder, LS_FOLDER_PART);
    if (!part) return set_reason(why, "save to", folder, "no memory");
    bool replaces = ls_path_kind_of(folder) == LS_PATH_FOLDER;
    bool ok = sync_tree(AT_FDCWD, part, why);
    if (ok && (replaces ? !exchange(part, folder) : rename(part, folder) != 0))
        ok = set_reason(why, "publish", folder, strerror(errno));
    ok = ok && ls_folder_sync_above(folder, why);
    if (ok && replaces) remove_tree(AT_FDCWD, part);
    ls_sys_free(part);
    return ok;
}

void ls_folder_discard(const char *folder)
{
    char *part = joined(folder, LS_FOLDER_PART);
    if (part) remove_tree(AT_FDCWD, part);
    ls_sys_free(part);
}

/* ---- numbered folders ---- */

/* N of "checkpoint_N", or of "checkpoint_N.part" for parts; -1 for other names. */
static int64_t number_of(const char *name, bool part)
{
    size_t stem = strlen(LS_CHECKPOINT_STEM);
    if (strncmp(name, LS_CHECKPOINT_STEM, stem) != 0 || name[stem] < '0' || name[stem] > '9') return -1;
    char *end;
    if (name[stem] == '0' && name[stem + 1] >= '0' && name[stem + 1] <= '9') return -1;
    long long n = strtoll(name + stem, &end, 10); /* saturates if it does not fit */
    return n <= LS_CHECKPOINT_LAST && strcmp(end, part ? LS_FOLDER_PART : "") == 0 ? n : -1;
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t numbers_in(const char *parent, bool parts, int64_t **numbers)
{
    *numbers = NULL;
    DIR *folder = opendir(parent);
    int64_t count = 0, capacity = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        int64_t n = number_of(entry->d_name, parts);
        if (n < 0) continue;
        if (count == capacity) {
            capacity = capacity ? capacity * 2 : 16;
            int64_t *grown = ls_sys_realloc(*numbers, (size_t)capacity * sizeof *grown);
            if (!grown) break;
            *numbers = grown;
        }
        (*numbers)[count++] = n;
    }
    if (folder) closedir(folder);
    if (count) qsort(*numbers, (size_t)count, sizeof **numbers, ascending);
    return count;
}

int64_t ls_folder_numbers(const char *parent, int64_t **numbers)
{
    return numbers_in(parent, false, numbers);
}

char *ls_folder_numbered(const char *parent, int64_t n)
{
    size_t length = strlen(parent) + sizeof "/" LS_CHECKPOINT_STEM + 24;
    char *path = ls_sys_alloc(length);
    if (path) snprintf(path, length, "%s/" LS_CHECKPOINT_STEM "%lld", parent, (long long)n);
    return path;
}

/* It is renamed first, so that an interrupted removal does not look like a damaged checkpoint. */
static void remove_numbered(const char *parent, int64_t n)
{
    char *path = ls_folder_numbered(parent, n), *part = path ? joined(path, LS_FOLDER_PART) : NULL;
    if (part && !(remove_tree(AT_FDCWD, part) && rename(path, part) == 0 && remove_tree(AT_FDCWD, part)))
        ls_log_line(LS_LOG_WARN, "cannot remove the checkpoint %s: %s", path, strerror(errno));
    ls_sys_free(part);
    ls_sys_free(path);
}

void ls_folder_prune(const char *parent, int64_t limit)
{
    int64_t *numbers, *parts, count = ls_folder_numbers(parent, &numbers),
                              part_count = numbers_in(parent, true, &parts);
    for (int64_t i = 0; i + limit < count; i++) remove_numbered(parent, numbers[i]);
    for (int64_t i = 0; i < part_count && count && parts[i] < numbers[count - 1]; i++) {
        char *path = ls_folder_numbered(parent, parts[i]);
        if (path) ls_folder_discard(path);
        ls_sys_free(path);
    }
    ls_sys_free(numbers);
    ls_sys_free(parts);
}
