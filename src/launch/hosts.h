/* hosts.h - lists of hosts in the formats of schedulers and mpirun. */
#ifndef LOCKSTEP_LAUNCH_HOSTS_H
#define LOCKSTEP_LAUNCH_HOSTS_H

#include "base/message.h"
typedef struct ls_host_slot {
    char name[256];
    int slots; /* processes it may run; 1 if the list does not say */
} ls_host_slot;

typedef struct ls_host_list {
    ls_host_slot *host; /* in the order of the list, each name once */
    int count, room;
    int *place, places; /* hash table from name to index + 1 */
    int named;          /* names in the list, counting repetitions */
} ls_host_list;

/* Slurm's compressed form: "gpu[01-03,07],login,rack[1-2]n[1-4]". `to` must be empty. */
ls_status ls_host_list_expand(const char *list, ls_host_list *to, ls_message *why);

/* A host file of Open MPI ("host slots=4 max_slots=8"), of MPICH ("host:4") or of Intel MPI ("host:4" or "host"), with
 * comments after '#'. A repeated host gets the slots of both lines. `to` must be empty. */
ls_status ls_host_list_parse(const char *text, ls_host_list *to, ls_message *why);

void ls_host_list_free(ls_host_list *hosts);

/* Slurm's "2(x3),1": the number for one host, counted from 0; 0 if missing or unreadable. */
int ls_host_list_tasks(const char *list, int host);

#endif
