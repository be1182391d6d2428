/* wire.h - control connections between hosts: messages, one JSON object per line, over a nonblocking socket. */
#ifndef LOCKSTEP_LAUNCH_CONTROL_WIRE_H
#define LOCKSTEP_LAUNCH_CONTROL_WIRE_H

#include "base/json.h"
#include "launch/control/loop.h"

typedef struct ls_wire {
    ls_watched_fd watch; /* fd -1: closed */
    int loop;
    bool connecting;
    bool parting; /* nothing more is sent; received data is ignored */
    char *in, *out;
    size_t in_length, in_room, out_length, out_room;
    bool trusted;  /* the other side is verified: its messages may be long */
    int64_t heard; /* when something was last received */
    int64_t spoke; /* when something was last sent */
    /* Called with a message, and at the end of the connection with the reason. Both may close the wire. */
    void (*on_message)(struct ls_wire *wire, const ls_json *message);
    void (*on_end)(struct ls_wire *wire, const char *why);
    void *owner;
} ls_wire;

/* Take over a connected or connecting socket. The caller has set the two functions and the owner. */
bool ls_wire_open(ls_wire *wire, int loop, int fd, bool connecting);
void ls_wire_close(ls_wire *wire); /* may already be closed */
/* Send nothing more, and wait for the other side to close too, which `on_end` reports. Closing a connection with unread
 * data resets it, and the other side may lose what it has not received yet. */
void ls_wire_part(ls_wire *wire);
#define LS_CLOSE_TIMEOUT 2.0 /* seconds to wait for that */
static inline bool ls_wire_is_open(const ls_wire *wire)
{
    return wire->watch.ready && wire->watch.fd >= 0;
}

/* Send one object; takes the writer's text. */
void ls_wire_send(ls_wire *wire, ls_json_writer *message);
/* Send {"name": value}. */
void ls_wire_say(ls_wire *wire, const char *name, int64_t value);

/* Has the other side of an open wire said nothing for more than `limit` ns? What has arrived counts, even if this
 * process had no time to read it. */
bool ls_wire_is_silent(const ls_wire *wire, int64_t now, int64_t limit);

/* Start a connection to host:port; -1 with the reason in `why`. A name may have several addresses: increase `turn` at
 * each retry to use the next one. */
int ls_wire_connect(const char *host, int port, int turn, ls_message *why);
/* Listen on that port of every address of this host. -1 with the reason in `why` and in errno. */
int ls_wire_listen(int port, ls_message *why);
/* Does the name refer to an address of this host? */
bool ls_wire_is_here(const char *host);

#endif
