/* room.c - the folders of profiles: which one a run gets, and who has left files in it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "run/profile/profile.h"
#include "tensor/exchange.h"

/* ---- files ---- */

bool ls_profile_path(char path[LS_PROFILE_PATH], const char *folder, const char *name, ls_message *why)
{
    if (snprintf(path, LS_PROFILE_PATH, "%s/%s", folder, name) < LS_PROFILE_PATH) return true;
    ls_message_set(why, "%.100s...: the path is too long", folder);
    return false;
}

bool ls_profile_part(char path[LS_PROFILE_PATH], const char *folder, int rank, int world, const char *format,
                     ls_message *why)
{
    char name[64];
    snprintf(name, sizeof name, format, rank, world);
    return ls_profile_path(path, folder, name, why);
}

static bool read_name(const char *name, int *rank, int *world)
{
    int end = 0;
    return sscanf(name, LS_PROFILE_EVENTS "%n", rank, world, &end) == 2 && end > 0 && !name[end];
}

static int is_part(const struct dirent *entry)
{
    return read_name(entry->d_name, &(int){0}, &(int){0});
}

static int by_rank(const struct dirent **a, const struct dirent **b)
{
    int x = 0, y = 0;
    read_name((*a)->d_name, &x, &(int){0});
    read_name((*b)->d_name, &y, &(int){0});
    return (x > y) - (x < y);
}

bool ls_profile_list(ls_profile_parts *parts, const char *folder, ls_message *why)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_part, by_rank);
    *parts = (ls_profile_parts){0};
    if (count < 0) return ls_message_set(why, "%s: %s", folder, strerror(errno)), false;
    parts->of = ls_sys_alloc((size_t)(count + 1) * sizeof *parts->of);
    for (int i = 0; i < count; i++) {
        if (parts->of) read_name(entries[i]->d_name, &parts->of[i].rank, &parts->of[i].world);
        free(entries[i]);
    }
    free(entries);
    parts->count = parts->of ? count : 0;
    if (!parts->of) ls_message_set(why, "out of memory");
    return parts->of != NULL;
}

/* ---- the folder of a run ---- */

typedef enum claimed { FAILED, TAKEN, OURS } claimed;

/* Takes a folder for this run, unless another one has begun or left its profile there. */
static claimed claim(const char *room, ls_message *why)
{
    char path[LS_PROFILE_PATH];
    ls_profile_parts parts;
    if (!ls_folder_make(room, why) || !ls_profile_path(path, room, LS_PROFILE_BEGUN, why) ||
        !ls_profile_list(&parts, room, why))
        return FAILED;
    ls_sys_free(parts.of);
    if (parts.count) return TAKEN;
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0) return close(file), OURS;
    if (errno == EEXIST) return TAKEN;
    ls_message_set(why, "%s: %s", path, strerror(errno));
    return FAILED;
}

static bool room_of(char room[LS_PROFILE_PATH], const char *folder, int number, ls_message *why)
{
    int length = number == 1 ? snprintf(room, LS_PROFILE_PATH, "%s", folder)
                             : snprintf(room, LS_PROFILE_PATH, LS_PROFILE_NEXT, folder, number);
    if (length >= LS_PROFILE_PATH) ls_message_set(why, "%.100s...: the path is too long", folder);
    return length < LS_PROFILE_PATH;
}

/* Processes that looked for themselves would part where one of an earlier job has left nothing. */
bool ls_profile_claim(char room[LS_PROFILE_PATH], ls_run *run, const char *folder)
{
    ls_message why = {{0}};
    int32_t number = 0; /* 0: failed */
    if (ls_is_main(run)) {
        claimed is = TAKEN;
        while (is == TAKEN) is = room_of(room, folder, ++number, &why) ? claim(room, &why) : FAILED;
        if (is == FAILED) number = 0;
    }
    if (!ls_exchange_broadcast(run, &number, sizeof number, 0, "LOCKSTEP_PROFILE")) return false;
    if (number && room_of(room, folder, number, &why)) return true;
    ls_fail(&run->errors, LS_ERR_IO, "LOCKSTEP_PROFILE: %s", why.text[0] ? why.text : "process 0 has found no folder");
    return false;
}

void ls_profile_unclaim(const char *room)
{
    char path[LS_PROFILE_PATH];
    if (ls_profile_path(path, room, LS_PROFILE_BEGUN, NULL)) unlink(path);
}
