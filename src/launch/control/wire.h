/* wire.h - the control plane between hosts: messages, one JSON object a line, over a connection that never blocks. */
#ifndef LOCKSTEP_LAUNCH_CONTROL_WIRE_H
#define LOCKSTEP_LAUNCH_CONTROL_WIRE_H

#include "base/json.h"
#include "launch/control/loop.h"

typedef struct ls_wire {
    ls_watch watch; /* fd -1: closed */
    int loop;
    bool connecting;
    bool parting; /* nothing more is said; what still comes is not listened to */
    char *in, *out;
    size_t in_length, in_room, out_length, out_room;
    bool trusted;  /* the other side has proved who it is: its messages may be long */
    int64_t heard; /* when the other side last gave a sign of life */
    int64_t spoke; /* when we did */
    /* What comes in, and the end of the connection, with the reason in words. Both may close the wire. */
    void (*on_message)(struct ls_wire *wire, const ls_json *message);
    void (*on_end)(struct ls_wire *wire, const char *why);
    void *owner;
} ls_wire;

/* Take over a connected socket, or one that is just connecting. The caller has set the two functions and the owner. */
bool ls_wire_open(ls_wire *wire, int loop, int fd, bool connecting);
void ls_wire_close(ls_wire *wire); /* a closed one stays closed */
/* Say nothing more, and wait for the other side to hang up too: `on_end` tells. A connection that is just closed while
 * something lies there unread is reset, and takes with it what the other side has not received yet. */
void ls_wire_part(ls_wire *wire);
#define LS_LAST_WORDS 2.0 /* seconds to wait for that; then the other side is not there any more */
static inline bool ls_wire_is_open(const ls_wire *wire)
{
    return wire->watch.ready && wire->watch.fd >= 0;
}

/* Send one object; takes the writer's text. */
void ls_wire_send(ls_wire *wire, ls_json_writer *message);
/* Send {"name": value}. */
void ls_wire_say(ls_wire *wire, const char *name, int64_t value);

/* A connection that is being made to host:port, -1 with the reason in `why`. A name may stand for several addresses:
 * who tries again raises `turn`, and takes the next one. */
int ls_wire_connect(const char *host, int port, int turn, ls_message *why);
/* A socket that listens on that port of every address of this host. -1 with the reason in `why` and in errno. */
int ls_wire_listen(int port, ls_message *why);
/* Does the name stand for an address of this host? */
bool ls_wire_is_here(const char *host);

#endif
