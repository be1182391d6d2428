/* link.h - the session's process, seen from the kernel: started, given cells, watched, ended. */
#ifndef LOCKSTEP_NOTEBOOK_LINK_H
#define LOCKSTEP_NOTEBOOK_LINK_H

#include <sys/types.h>

#include "base/message.h"
#include "cell/text.h"
#include "session/wire.h"

typedef struct session_link {
    const char *program; /* lockstep-session */
    pid_t process;       /* holds the session's values */
    pid_t running;       /* runs the cell: its group gets signals; 0 between cells */
    int socket, output, errors;
    int death; /* readable once `process` has ended */
} session_link;

bool link_start(session_link *link, const char *program, ls_message *why);
/* End the session and all that it started, also in earlier cells. */
void link_end(session_link *link);

bool link_request(session_link *link, const cell_request *request);
bool link_input(session_link *link, const char *line);
bool link_has_message(const session_link *link);
/* Take it; its payload replaces the contents of `payload`. False: the session has closed its end. */
bool link_receive(session_link *link, session_message *to, string *payload);
/* The session lives on in another process. */
void link_follow(session_link *link, pid_t process);
/* It has ended, or shall: how, as waitpid() tells it. One that lives on for seconds is killed. */
int link_bury(session_link *link);
/* Send a signal to the running cell and what it has started. */
void link_signal(const session_link *link, int number);

/* How a process ended, in words: "Segmentation fault", "exit(3) was called". */
void link_explain(int status, ls_message *words);

#endif
