/* wire.c - both ends of a connection between hosts, in one loop. */
#include "check.h"

#include "launch/control/wire.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct end {
    ls_wire wire;
    int heard; /* messages, which are numbered from 0 */
    bool in_order;
    char why[128]; /* it ended; "" as long as it has not */
} end;

static void on_message(ls_wire *wire, const ls_json *message)
{
    end *e = wire->owner;
    e->in_order &= ls_json_integer(ls_json_get(message, "number"), -1) == e->heard++;
}

static void on_end(ls_wire *wire, const char *why)
{
    end *e = wire->owner;
    snprintf(e->why, sizeof e->why, "%s", why);
}

static void open_end(end *e, int loop, int fd, bool connecting)
{
    *e = (end){.in_order = true, .wire = {.on_message = on_message, .on_end = on_end, .owner = e}};
    CHECK(ls_wire_open(&e->wire, loop, fd, connecting));
}

static void open_pair(int loop, end *caller, end *called)
{
    ls_message why = {""};
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    int listener = ls_wire_listen(0, &why);
    CHECK_MSG(listener >= 0 && getsockname(listener, (struct sockaddr *)&address, &size) == 0, "%s", why.text);
    /* The port stands at the same place in addresses of both kinds. */
    int fd = ls_wire_connect("127.0.0.1", ntohs(((struct sockaddr_in *)&address)->sin_port), 0, &why), other = -1;
    CHECK_MSG(fd >= 0, "%s", why.text);
    for (int i = 0; i < 10000 && (other = accept(listener, NULL, NULL)) < 0; i++) usleep(1000);
    CHECK(other >= 0);
    close(listener);
    open_end(caller, loop, fd, true);
    open_end(called, loop, other, false);
}

static bool both_ended(int loop, const end *a, const end *b)
{
    int64_t deadline = ls_after(60);
    while (!(a->why[0] && b->why[0]) && ls_now() < deadline) ls_loop_wait(loop, deadline);
    return a->why[0] && b->why[0];
}

/* Though it lies there unread what the other side has said. */
static void the_last_words_are_heard(void)
{
    int loop = ls_loop_open();
    end leader, host;
    open_pair(loop, &host, &leader);
    while (host.wire.connecting) ls_loop_wait(loop, ls_after(60));
    ls_wire_say(&host.wire, "number", 0);
    int said = 0;
    while (leader.wire.out_length == 0) ls_wire_say(&leader.wire, "number", said++); /* more than the sockets hold */
    ls_wire_part(&leader.wire);
    ls_wire_say(&leader.wire, "number", said); /* too late */
    CHECK(both_ended(loop, &leader, &host));
    CHECK_MSG(host.heard == said && host.in_order, "%d of %d, then: %s", host.heard, said, host.why);
    CHECK_MSG(strcmp(host.why, "it closed the connection") == 0, "%s", host.why);
    CHECK(leader.heard == 0);
    close(loop);
}

static void what_arrived_unread_is_no_silence(void)
{
    int loop = ls_loop_open();
    end leader, host;
    open_pair(loop, &host, &leader);
    while (host.wire.connecting) ls_loop_wait(loop, ls_after(60));
    ls_wire_say(&host.wire, "number", 0);
    CHECK(!ls_wire_is_silent(&leader.wire, ls_after(60), 1));
    while (!leader.heard) ls_loop_wait(loop, ls_after(60));
    CHECK(ls_wire_is_silent(&leader.wire, ls_after(60), 1));
    CHECK(!ls_wire_is_silent(&leader.wire, ls_after(60), INT64_MAX));
    ls_wire_close(&host.wire);
    CHECK(!ls_wire_is_silent(&leader.wire, ls_after(60), 1)); /* it has ended, which is another reason */
    ls_wire_close(&leader.wire);
    close(loop);
}

/* One that is killed may not have read everything, and nothing can be sent to it: all that it said arrives, and one
 * reason. */
static void one_that_is_killed_closed_the_connection(void)
{
    for (int late = 0; late < 2; late++) {
        int loop = ls_loop_open();
        end leader, host;
        open_pair(loop, &host, &leader);
        while (host.wire.connecting) ls_loop_wait(loop, ls_after(60));
        ls_wire_say(&host.wire, "number", 0);
        if (!late) ls_wire_say(&leader.wire, "number", 0);
        ls_wire_close(&host.wire);
        if (late) /* the answers to what nobody hears */
            for (int i = 0; i < 2; i++) ls_wire_say(&leader.wire, "number", i);
        while (!leader.why[0]) ls_loop_wait(loop, ls_after(60));
        CHECK(leader.heard == 1 && leader.in_order);
        CHECK_TEXT(leader.why, "it closed the connection");
        close(loop);
    }
}

static void both_may_part(void)
{
    int loop = ls_loop_open();
    end leader, host;
    open_pair(loop, &host, &leader);
    ls_wire_part(&leader.wire);
    ls_wire_part(&host.wire); /* before it knows that it is connected */
    CHECK(both_ended(loop, &leader, &host));
    ls_wire_part(&host.wire); /* a closed one stays closed */
    CHECK(!ls_wire_is_open(&host.wire) && !ls_wire_is_open(&leader.wire));
    close(loop);
}

int main(void)
{
    CHECK_RUN(the_last_words_are_heard);
    CHECK_RUN(what_arrived_unread_is_no_silence);
    CHECK_RUN(one_that_is_killed_closed_the_connection);
    CHECK_RUN(both_may_part);
    return check_done();
}
