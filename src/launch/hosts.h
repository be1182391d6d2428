/* hosts.h - lists of hosts as schedulers and mpirun write them. */
#ifndef LOCKSTEP_LAUNCH_HOSTS_H
#define LOCKSTEP_LAUNCH_HOSTS_H

#include "base/message.h"
typedef struct ls_host_slot {
    char name[256];
    int slots; /* processes it may hold; 1 where the list does not say */
} ls_host_slot;

typedef struct ls_host_list {
    ls_host_slot *host; /* in the order of the list, each name once */
    int count, room;
    int *place, places; /* a table of numbers into it, from 1, by name */
    int named;          /* names that the list held, with those that came again */
} ls_host_list;

/* Slurm's compressed form: "gpu[01-03,07],login,rack[1-2]n[1-4]". `to` is empty. */
ls_status ls_host_list_expand(const char *list, ls_host_list *to, ls_message *why);

/* A host file of Open MPI ("host slots=4 max_slots=8"), of MPICH ("host:4") or of Intel MPI ("host:4" or "host"), with
 * comments after '#'. A host that comes again gets the slots of both lines. `to` is empty. */
ls_status ls_host_list_parse(const char *text, ls_host_list *to, ls_message *why);

void ls_host_list_free(ls_host_list *hosts);

/* Slurm's "2(x3),1": the number for one host, counted from 0; 0 when it is not there or cannot be read. */
int ls_host_list_tasks(const char *list, int host);

#endif
