/* group.h - collectives by the device's own library, such as NCCL: an optional part of the device contract (plugin.h).
 *
 * A group is one rank's end of a connection between devices that reach each other without the host. The library opens
 * one for each communicator that is called with device memory, and passes it the calls: `in` and `out` are device
 * addresses. All ranks make the same calls in the same order, and a call is passed on only when every rank has reached
 * it; so a call waits for devices, never for a process that failed. Calls a group lacks go through the host. */
#ifndef LOCKSTEP_GROUP_H
#define LOCKSTEP_GROUP_H

#include <lockstep/collective.h>
#include <lockstep/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LS_GROUP_ID_BYTES 128 /* as much as an ncclUniqueId */

/* What was recorded and not executed yet. It is compared before a call: where ranks differ in it, the call goes through
 * the host, so that each executes its own; if calls of the group are part of it, that would be too late: an error. */
typedef struct ls_group_state {
    uint64_t hash; /* 0: it does not matter, as for calls that the group lacks */
    bool has_calls;
} ls_group_state;

typedef struct ls_group_table {
    /* Identifies a new group: rank 0 makes it, and all ranks pass it to open(). */
    ls_status (*id)(void *device, char id[LS_GROUP_ID_BYTES], ls_message *why);
    /* Called by all ranks; may wait for them. */
    ls_status (*open)(void *device, const char id[LS_GROUP_ID_BYTES], int rank, int size, void **group,
                      ls_message *why);
    /* In stream order. LS_ERR_UNSUPPORTED if it lacks the call; that may depend only on what all ranks have in common:
     * kind, type, operation, counts. The description is valid until this returns. */
    ls_status (*run)(void *group, ls_stream *stream, const ls_comm_call *call, ls_message *why);
    /* Report the first failure so far, if any. Called before each `run`. */
    ls_status (*error)(void *group, ls_message *why);
    /* Other ranks are gone: calls in progress must fail, and streams that wait for them must continue. close() is
     * called next. */
    void (*abort)(void *group);
    void (*close)(void *group);
    /* (optional) For a device that compiles one program for all ranks, with the call in it: what it has recorded. */
    ls_group_state (*state)(void *group, const ls_comm_call *call);
} ls_group_table;

#ifdef __cplusplus
}
#endif
#endif
