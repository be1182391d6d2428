/* channels.h - the five sockets between Jupyter and a kernel: shell and control (requests), iopub (what everybody
 * sees), stdin (questions to the user) and the heartbeat. */
#ifndef LOCKSTEP_NOTEBOOK_CHANNELS_H
#define LOCKSTEP_NOTEBOOK_CHANNELS_H

#include "message.h"

typedef struct channels {
    void *context;
    void *shell, *control, *iopub, *input, *heartbeat;
    char *key;        /* that messages are signed with */
    char session[33]; /* of this kernel, in every header */
} channels;

/* Bind them as a connection file says. */
bool channels_open(channels *c, const char *connection_file, ls_message *why);
void channels_close(channels *c);

/* One message, if a valid one has arrived on this socket. Others are reported on stderr and dropped. */
bool channels_receive(channels *c, void *socket, message *to);
/* An answer, or a question, to whoever sent `parent`. */
void channels_reply(channels *c, void *socket, const message *parent, const char *type, const char *content);
/* Something for everybody, caused by `parent`, which may be NULL. */
void channels_publish(channels *c, const message *parent, const char *type, const char *content);
/* Return a heartbeat. */
void channels_echo(channels *c);

#endif
