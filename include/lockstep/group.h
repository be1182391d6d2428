/* group.h - collectives by the device's own library, such as NCCL: an optional part of the device contract (plugin.h).
 *
 * A group is one rank's end of several processes whose devices reach each other without the host. The library opens one
 * for each communicator that is called with memory of the device, and hands it the calls: `in` and `out` are addresses
 * of the device. All ranks make the same calls in the same order, and none is handed over before every rank has come to
 * it; so a call waits for devices, never for a process that failed. What a group cannot do goes through the host. */
#ifndef LOCKSTEP_GROUP_H
#define LOCKSTEP_GROUP_H

#include <lockstep/collective.h>
#include <lockstep/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LS_GROUP_ID_BYTES 128 /* as much as an ncclUniqueId */

typedef struct ls_group_table {
    /* What the ranks of a new group have in common: rank 0 makes it, and all are given it. */
    ls_status (*id)(void *device, char id[LS_GROUP_ID_BYTES], ls_message *why);
    /* Called by all ranks; may wait for them. */
    ls_status (*open)(void *device, const char id[LS_GROUP_ID_BYTES], int rank, int size, void **group,
                      ls_message *why);
    /* In stream order. LS_ERR_UNSUPPORTED where it lacks the call, by what all ranks know alike: kind, type, operation,
     * counts. The description is valid until this returns. */
    ls_status (*run)(void *group, ls_stream *stream, const ls_comm_call *call, ls_message *why);
    /* What has failed so far. Asked before each call. */
    ls_status (*error)(void *group, ls_message *why);
    /* Others will not come any more: what is under way fails, and streams that wait for it go on. The group is closed
     * next. */
    void (*abort)(void *group);
    void (*close)(void *group);
} ls_group_table;

#ifdef __cplusplus
}
#endif
#endif
