/* chips.c - which chips a device has, once there is a client. */
#include <stdlib.h>
#include <string.h>

#include "xla.h"

ls_status xla_find_team(const pjrt *p, int index, pjrt_team *team, ls_message *why)
{
    const char *text;
    int asked = xla_chips_asked(&text), there = (int)p->chip_count;
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
