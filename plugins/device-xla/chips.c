/* chips.c - which chips a device has. */
#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "xla.h"

/* XLA's CPU library makes chips of the CPU, in every process: one for each process is always there. */
enum { OF_THE_CPU = 1024 };

/* ---- before a client is there ---- */

static int count_files(const char *pattern)
{
    glob_t all;
    if (glob(pattern, 0, NULL, &all) != 0) return 0;
    int count = (int)all.gl_pathc;
    globfree(&all);
    return count;
}

static int count_listed(const char *list)
{
    int count = 1;
    for (const char *at = strchr(list, ','); at; at = strchr(at + 1, ',')) count++;
    return count;
}

/* TPUs that this process may use; 0: the host has none. */
static int count_tpus(void)
{
    const char *visible = getenv("TPU_VISIBLE_CHIPS"); /* by a launcher */
    if (!visible || !*visible) visible = getenv("TPU_VISIBLE_DEVICES");
    if (visible && *visible) return count_listed(visible);
    int older = count_files("/dev/accel[0-9]*");
    return older ? older : count_files("/dev/vfio/[0-9]*");
}

/* Chips of a device; 0: all that there are; -1: the variable is neither a number nor "all". */
static int chips_of_device(const char **text)
{
    const char *asked = getenv("LOCKSTEP_XLA_CHIPS");
    *text = asked;
    if (!asked || !*asked) return 1;
    if (strcmp(asked, "all") == 0) return 0;
    char *end;
    long count = strtol(asked, &end, 10);
    return *end || count < 1 || count > PJRT_MOST_CHIPS ? -1 : (int)count;
}

int xla_count(void)
{
    const char *text;
    int tpus = count_tpus(), size = chips_of_device(&text);
    if (size <= 0 || (tpus && tpus < size)) return 1; /* what is wrong with it is told when the device is opened */
    return !tpus ? OF_THE_CPU : tpus / size;
}

/* ---- of a client ---- */

ls_status xla_find_team(const pjrt *p, int index, pjrt_team *team, ls_message *why)
{
    const char *text;
    int asked = chips_of_device(&text), there = (int)p->chip_count;
    *team = (pjrt_team){.count = asked ? asked : there < PJRT_MOST_CHIPS ? there : PJRT_MOST_CHIPS};
    if (asked < 0)
        return xla_refuse(why, LS_ERR_VALUE, "LOCKSTEP_XLA_CHIPS=%.40s: it must be a number from 1 to %d, or all", text,
                          PJRT_MOST_CHIPS);
    if (team->count > there)
        return xla_refuse(why, LS_ERR_DEVICE, "LOCKSTEP_XLA_CHIPS=%.40s: this process has %d %s chips", text, there,
                          p->platform);
    int devices = there / team->count;
    if (strcmp(p->platform, "cpu") == 0) index %= devices;
    if (index >= devices)
        return xla_refuse(why, LS_ERR_DEVICE, "device \"xla:%d\": this process has %d %s chips, %d for each device",
                          index, there, p->platform, team->count);
    team->first = index * team->count;
    return LS_OK;
}

/* ---- of all processes ---- */

typedef struct member {
    int32_t knows_others, count;
    int32_t ids[PJRT_MOST_CHIPS];
} member;

ls_status xla_find_joint(const pjrt *p, pjrt_team team, const ls_peers *peers, pjrt_joint *joint, ls_message *why)
{
    *joint = (pjrt_joint){.rank = 0};
    member mine = {.knows_others = p->knows_others, .count = team.count};
    member *all = calloc((size_t)peers->size, sizeof *all);
    int *ids = calloc((size_t)peers->size * PJRT_MOST_CHIPS, sizeof *ids);
    bool has_room = all && ids;
    for (int i = 0; i < team.count; i++) mine.ids[i] = p->chip_ids[team.first + i];
    ls_status status = has_room ? peers->all_gather(peers->user, &mine, all, sizeof mine, why)
                                : xla_refuse(why, LS_ERR_MEMORY, "device \"xla\": no memory for a list of chips");
    bool joins = !status && peers->size * team.count <= PJRT_MOST_JOINT;
    for (int r = 0; r < peers->size && joins; r++) {
        joins = all[r].knows_others && all[r].count == team.count;
        for (int i = 0; i < PJRT_MOST_CHIPS; i++) ids[r * PJRT_MOST_CHIPS + i] = all[r].ids[i];
    }
    if (joins) *joint = (pjrt_joint){.rank = peers->rank, .count = peers->size, .ids = ids};
    else free(ids);
    free(all);
    return status;
}
