/* comm.h - collectives on raw host memory, and the processes they run between.
 *
 * A communicator is a table of functions; `self` is the one of a process that is alone. All ranks make the same calls
 * in the same order. Functions return LS_OK or a status with the reason in `why`; after a failure the communicator is
 * of no more use. */
#ifndef LOCKSTEP_COMM_COMM_H
#define LOCKSTEP_COMM_COMM_H

#include <lockstep/plugin.h>

typedef enum ls_comm_op { LS_COMM_SUM, LS_COMM_MAX, LS_COMM_MIN } ls_comm_op;

typedef struct ls_comm ls_comm;

typedef struct ls_comm_table {
    const char *name;
    /* data[i] = op over ranks of data[i], count elements, the same bits on every rank. */
    ls_status (*all_reduce)(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, ls_comm_op op, ls_message *why);
    /* all = the `bytes` of rank 0, of rank 1, ... */
    ls_status (*all_gather)(ls_comm *comm, const void *mine, void *all, size_t bytes, ls_message *why);
    ls_status (*broadcast)(ls_comm *comm, void *data, size_t bytes, int from, ls_message *why);
    ls_status (*barrier)(ls_comm *comm, ls_message *why);
    void (*close)(ls_comm *comm);
} ls_comm_table;

struct ls_comm {
    const ls_comm_table *table;
    int rank, size;
};

/* Of this process alone: every collective leaves things as they are. Constant, shared, need not be closed. */
ls_comm *ls_comm_self(void);

#endif
