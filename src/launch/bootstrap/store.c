/* store.c - the side of all ranks but 0: find rank 0, send it bytes, receive those of all. */
#include "launch/bootstrap/store.h"

#include "base/memory.h"
#include "launch/bootstrap/store_inside.h"
#include "launch/control/hex.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FIRST_PAUSE 0.02 /* seconds between tries to reach rank 0; they grow */
#define LONGEST_PAUSE 1.0

void ls_store_prove(const ls_store *store, const char *role, const char *challenge, char proof[LS_PROOF])
{
    char text[32];
    snprintf(text, sizeof text, "%s of attempt %d", role, store->attempt);
    ls_token_prove(store->token, text, challenge, proof);
}

/* ---- Messages from rank 0 ------------------------------------------------------------------------------------- */

LS_PRINTF(3, 4) static void give_up(ls_store *store, ls_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!store->status) ls_message_set_list(&store->reason, format, args);
    va_end(args);
    if (!store->status) store->status = status;
    ls_wire_close(&store->wire);
}

static void say_hello(ls_store *store, const char *challenge)
{
    char proof[LS_PROOF], name[65] = "", self[17];
    gethostname(name, sizeof name - 1);
    ls_store_prove(store, "process", challenge, proof);
    ls_token_challenge(store->challenge);
    snprintf(self, sizeof self, "%016" PRIx64, store->self);
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_integer(&w, "hello", LS_STORE_VERSION);
    ls_json_put_text(&w, "proof", proof);
    ls_json_put_text(&w, "challenge", store->challenge);
    ls_json_put_text(&w, "host", name);
    ls_json_put_text(&w, "self", self);
    ls_json_put_integer(&w, "pid", getpid());
    ls_json_put_integer(&w, "rank", store->rank);
    ls_json_put_integer(&w, "world", store->world);
    ls_json_put_integer(&w, "attempt", store->attempt);
    ls_json_put_end(&w);
    ls_wire_send(&store->wire, &w);
}

static void on_welcome(ls_store *store, const char *proof)
{
    char expected[LS_PROOF];
    ls_store_prove(store, "rank 0", store->challenge, expected);
    store->welcome = store->wire.trusted = ls_token_same(proof, expected);
    if (!store->welcome)
        give_up(store, LS_ERR_PEER, "the server at %s:%d does not know the token of this job", store->address,
                store->port);
}

static void take(ls_store *store, const ls_json *message)
{
    const char *text = ls_json_text(ls_json_get(message, "bytes"));
    size_t bytes = text ? strlen(text) / 2 : 0, left = store->size * (size_t)store->world - store->taken;
    if (ls_json_integer(ls_json_get(message, "take"), -1) == store->round && text && bytes <= left &&
        ls_hex_read(text, store->all + store->taken, bytes)) {
        store->taken += bytes;
        store->answered = bytes == left;
    } else give_up(store, LS_ERR_PEER, "rank 0 sent an unexpected message");
}

static void on_message(ls_wire *wire, const ls_json *message)
{
    ls_store *store = wire->owner;
    const char *text;
    if ((text = ls_json_text(ls_json_get(message, "store")))) say_hello(store, text);
    else if ((text = ls_json_text(ls_json_get(message, "refused"))))
        give_up(store, LS_ERR_PEER, "rank %d was refused by rank 0 at %s:%d: %s", store->rank, store->address,
                store->port, text);
    else if ((text = ls_json_text(ls_json_get(message, "welcome")))) on_welcome(store, text);
    else if (!store->welcome)
        give_up(store, LS_ERR_PEER, "the server at %s:%d is not rank 0 of a job: set MASTER_PORT to a free port",
                store->address, store->port);
    else if ((text = ls_json_text(ls_json_get(message, "failed")))) give_up(store, LS_ERR_PEER, "rank 0: %s", text);
    else take(store, message);
}

static void on_end(ls_wire *wire, const char *why)
{
    ls_store *store = wire->owner;
    store->lost = true;
    if (store->welcome) give_up(store, LS_ERR_PEER, "rank 0 at %s:%d is gone: %s", store->address, store->port, why);
    else ls_message_set(&store->reason, "%s", why);
}

/* ---- Connecting ----------------------------------------------------------------------------------------------- */

/* Try one connection until it succeeds or fails, for at most the time of a greeting. */
static void try_to_reach(ls_store *store, int turn, int64_t deadline)
{
    int64_t greeting = ls_after(LS_STORE_GREETING);
    int fd = ls_wire_connect(store->address, store->port, turn, &store->reason);
    store->lost = fd < 0 || !ls_wire_open(&store->wire, store->loop, fd, true);
    while (!store->lost && !store->welcome && !store->status && ls_now() < deadline && ls_now() < greeting)
        ls_loop_wait(store->loop, deadline < greeting ? deadline : greeting);
    if (store->welcome) return;
    if (!store->lost && !store->status) ls_message_set(&store->reason, "no greeting");
    ls_wire_close(&store->wire);
}

static ls_status reach(ls_store *store, int64_t deadline, double seconds, ls_message *why)
{
    double pause = FIRST_PAUSE;
    for (int turn = 0; ls_now() < deadline; turn++) {
        try_to_reach(store, turn, deadline);
        if (store->welcome || store->status) break;
        int64_t until = ls_after(pause);
        while (ls_now() < until && ls_now() < deadline) ls_loop_wait(store->loop, until < deadline ? until : deadline);
        pause = pause * 2 < LONGEST_PAUSE ? pause * 2 : LONGEST_PAUSE;
    }
    if (!store->welcome && !store->status)
        return ls_explain(why, LS_ERR_PEER, "rank %d of %d did not find rank 0 at %.80s:%d within %g s: %.80s",
                          store->rank, store->world, store->address, store->port, seconds, store->reason.text);
    if (store->status) *why = store->reason;
    return store->status;
}

ls_status ls_store_open(ls_store **to, const ls_store_opts *opts, double seconds, ls_message *why)
{
    *to = NULL;
    ls_store *store = ls_sys_alloc(sizeof *store);
    int loop = store ? ls_loop_open() : -1;
    if (loop < 0) {
        ls_message_set(why, "no memory or file descriptors left to connect to the other processes");
        ls_sys_free(store);
        return LS_ERR_MEMORY;
    }
    snprintf(store->address, sizeof store->address, "%s", opts->host);
    snprintf(store->token, sizeof store->token, "%s", opts->token);
    store->port = opts->port;
    store->rank = opts->rank;
    store->world = opts->world;
    store->attempt = opts->attempt;
    store->self = opts->self;
    store->loop = loop;
    store->wire.on_message = on_message;
    store->wire.on_end = on_end;
    store->wire.owner = store;
    int64_t deadline = ls_after(seconds);
    ls_status status =
        store->rank == 0 ? ls_store_host_open(store, deadline, seconds, why) : reach(store, deadline, seconds, why);
    if (status) ls_store_close(store);
    else *to = store;
    return status;
}

void ls_store_close(ls_store *store)
{
    if (!store) return;
    ls_store_host_close(store);
    ls_wire_close(&store->wire);
    close(store->loop);
    ls_sys_free(store);
}

/* ---- Exchange ------------------------------------------------------------------------------------------------- */

static ls_status give(ls_store *store, const void *mine, size_t size, ls_message *why)
{
    char *text = ls_sys_alloc(2 * size + 1);
    if (!text) return ls_explain(why, LS_ERR_MEMORY, "no memory for %zu bytes", size);
    ls_hex_write(mine, size, text);
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_integer(&w, "give", store->round);
    ls_json_put_text(&w, "bytes", text);
    ls_json_put_end(&w);
    ls_wire_send(&store->wire, &w);
    ls_sys_free(text);
    return LS_OK;
}

ls_status ls_store_all_gather(ls_store *store, const void *mine, size_t size, void *all, double seconds,
                              ls_message *why)
{
    if (size > LS_STORE_MOST)
        return ls_explain(why, LS_ERR_VALUE, "%zu bytes per rank; at most %d can be exchanged", size, LS_STORE_MOST);
    int64_t deadline = ls_after(seconds);
    store->round++;
    if (store->host) return ls_store_host_all_gather(store, mine, size, all, deadline, seconds, why);
    store->all = all;
    store->size = size;
    store->taken = 0;
    store->answered = false;
    ls_status status = store->status ? LS_OK : give(store, mine, size, why);
    if (status) return status;
    while (!store->status && !store->answered && ls_now() < deadline) ls_loop_wait(store->loop, deadline);
    if (store->answered) return LS_OK;
    give_up(store, LS_ERR_PEER, "rank 0 at %s:%d did not answer within %g s", store->address, store->port, seconds);
    *why = store->reason;
    return store->status;
}
