/* channels.c - the five sockets of a kernel, on ZeroMQ. */
#include "channels.h"

#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "base/file.h"
#include "base/memory.h"

/* ---- Opening ---- */

static void *bind_socket(const channels *c, int type, const ls_json *file, const char *port, ls_message *why)
{
    const char *transport = ls_json_text(ls_json_get(file, "transport")), *ip = ls_json_text(ls_json_get(file, "ip"));
    long long number = ls_json_integer(ls_json_get(file, port), -1);
    if (!transport || !ip || number < 0) {
        ls_message_set(why, "the connection file has no transport, ip or %s", port);
        return NULL;
    }
    char address[512];
    bool is_tcp = strcmp(transport, "tcp") == 0;
    snprintf(address, sizeof address, "%s://%s%s%lld", transport, ip, is_tcp ? ":" : "-", number);
    void *socket = zmq_socket(c->context, type);
    int linger = 1000; /* milliseconds for the last messages */
    if (socket && zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger) == 0 && zmq_bind(socket, address) == 0)
        return socket;
    ls_message_set(why, "%s: %s", address, zmq_strerror(zmq_errno()));
    if (socket) zmq_close(socket);
    return NULL;
}

static bool bind_all(channels *c, const ls_json *file, ls_message *why)
{
    const char *scheme = ls_json_text(ls_json_get(file, "signature_scheme")),
               *key = ls_json_text(ls_json_get(file, "key"));
    if (scheme && *scheme && strcmp(scheme, "hmac-sha256") != 0) {
        ls_message_set(why, "messages are signed by \"%s\"; this kernel knows hmac-sha256 only", scheme);
        return false;
    }
    c->key = copy_text(key ? key : "");
    return (c->shell = bind_socket(c, ZMQ_ROUTER, file, "shell_port", why)) &&
           (c->control = bind_socket(c, ZMQ_ROUTER, file, "control_port", why)) &&
           (c->input = bind_socket(c, ZMQ_ROUTER, file, "stdin_port", why)) &&
           (c->iopub = bind_socket(c, ZMQ_PUB, file, "iopub_port", why)) &&
           (c->heartbeat = bind_socket(c, ZMQ_REP, file, "hb_port", why));
}

bool channels_open(channels *c, const char *connection_file, ls_message *why)
{
    enum { LARGEST = 1 << 16 };
    *c = (channels){.context = zmq_ctx_new()};
    random_name(c->session);
    size_t size;
    char *bytes = ls_file_read(connection_file, LARGEST, &size, why);
    ls_json *file = bytes ? ls_json_read(bytes, size, why) : NULL;
    bool ok = file && bind_all(c, file, why);
    ls_json_free(file);
    ls_sys_free(bytes);
    if (!ok) channels_close(c);
    return ok;
}

void channels_close(channels *c)
{
    void *sockets[] = {c->shell, c->control, c->iopub, c->input, c->heartbeat};
    for (int i = 0; i < 5; i++)
        if (sockets[i]) zmq_close(sockets[i]);
    if (c->context) zmq_ctx_term(c->context);
    ls_sys_free(c->key);
    *c = (channels){0};
}

/* ---- Messages ---- */

enum { MOST_FRAMES = 32 };

/* All frames of what has arrived; those beyond the limit are dropped. Their number. */
static size_t receive_frames(void *socket, zmq_msg_t frames[MOST_FRAMES])
{
    size_t count = 0;
    for (bool more = true; more;) {
        zmq_msg_t one;
        zmq_msg_init(&one);
        if (zmq_msg_recv(&one, socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&one);
            break;
        }
        more = zmq_msg_more(&one) != 0;
        if (count < MOST_FRAMES) frames[count++] = one;
        else zmq_msg_close(&one);
    }
    return count;
}

bool channels_receive(channels *c, void *socket, message *to)
{
    zmq_msg_t received[MOST_FRAMES];
    frame frames[MOST_FRAMES];
    size_t count = receive_frames(socket, received);
    for (size_t i = 0; i < count; i++) frames[i] = (frame){zmq_msg_data(&received[i]), zmq_msg_size(&received[i])};
    ls_message why;
    bool ok = count && message_read(to, frames, count, c->key, &why);
    if (count && !ok) fprintf(stderr, "lockstep-kernel: a message was refused: %s\n", why.text);
    for (size_t i = 0; i < count; i++) zmq_msg_close(&received[i]);
    return ok;
}

static void send_text(void *socket, const char *bytes, size_t size, bool more)
{
    zmq_send(socket, bytes, size, more ? ZMQ_SNDMORE : 0);
}

static void send_answer(channels *c, void *socket, const message *parent, const char *type, const char *content)
{
    answer a;
    answer_write(&a, parent, type, content, c->session, c->key);
    send_text(socket, "<IDS|MSG>", 9, true);
    send_text(socket, a.signature, strlen(a.signature), true);
    for (int i = 0; i < MESSAGE_PARTS; i++)
        send_text(socket, a.parts[i].bytes, a.parts[i].length, i + 1 < MESSAGE_PARTS);
    answer_free(&a);
}

void channels_reply(channels *c, void *socket, const message *parent, const char *type, const char *content)
{
    for (int i = 0; i < parent->identity_count; i++)
        send_text(socket, text_view(&parent->identities[i]), parent->identities[i].length, true);
    send_answer(c, socket, parent, type, content);
}

void channels_publish(channels *c, const message *parent, const char *type, const char *content)
{
    send_text(c->iopub, type, strlen(type), true); /* the topic */
    send_answer(c, c->iopub, parent, type, content);
}

void channels_echo(channels *c)
{
    zmq_msg_t beat;
    zmq_msg_init(&beat);
    if (zmq_msg_recv(&beat, c->heartbeat, ZMQ_DONTWAIT) < 0 || zmq_msg_send(&beat, c->heartbeat, 0) < 0)
        zmq_msg_close(&beat);
}
