/* meet.c - how clients of several processes become one: PJRT's questions about keys are answered by the job's store. */
#include <stdlib.h>
#include <string.h>

#include "keys.h"
#include "pjrt.h"

enum { DEADLINE_EXCEEDED = 4, NOT_FOUND = 5, UNAVAILABLE = 14 }; /* codes of errors */
#define LOST "the store of the job does not answer"

/* Errors are made by the library that asked. */
static pjrt_error *fail(pjrt_callback_error *const *make, int code, const char *text)
{
    return (*make)(code, text, strlen(text));
}

static void release(char *value)
{
    free(value);
}

/* Wait for the key; if it does not come, an error with this code and text. */
static pjrt_error *find(pjrt_get_args *args, int code, const char *missing)
{
    xla_bytes key = {(char *)(uintptr_t)args->key, args->key_size}, value;
    xla_answer a = xla_keys_get(args->user, key, args->milliseconds, &value);
    if (a == XLA_KEY_MISSING) return fail(args->error, code, missing);
    if (a == XLA_KEY_LOST) return fail(args->error, UNAVAILABLE, LOST);
    args->value = value.at;
    args->value_size = value.count;
    args->release = release;
    return NULL;
}

static pjrt_error *get(pjrt_get_args *args)
{
    return find(args, DEADLINE_EXCEEDED, "no process has set the key in time");
}

static pjrt_error *try_get(pjrt_try_get_args *args)
{
    pjrt_get_args now = {.key = args->key, .key_size = args->key_size, .error = args->error, .user = args->user};
    pjrt_error *error = find(&now, NOT_FOUND, "no process has set the key");
    args->value = now.value;
    args->value_size = now.value_size;
    args->release = now.release;
    return error;
}

static pjrt_error *put(pjrt_put_args *args)
{
    xla_bytes key = {(char *)(uintptr_t)args->key, args->key_size};
    xla_bytes value = {(char *)(uintptr_t)args->value, args->value_size};
    if (xla_keys_put(args->user, key, value) == XLA_KEY_OK) return NULL;
    return fail(args->error, UNAVAILABLE, LOST);
}

static pjrt_value number(const char *name, int64_t value)
{
    return (pjrt_value){.size = sizeof(pjrt_value),
                        .name = name,
                        .name_size = strlen(name),
                        .type = PJRT_VALUE_INTEGER,
                        .value.integer = value,
                        .count = 1};
}

ls_status pjrt_meet(const pjrt *p, const ls_peers *peers, pjrt_value options[2], pjrt_create_args *create,
                    ls_message *why)
{
    xla_keys *keys;
    XLA_TRY(xla_keys_open(peers, &keys, why));
    options[0] = number("node_id", peers->rank);
    options[1] = number("num_nodes", peers->size);
    create->options = options;
    create->option_count = p->numbers_itself ? 0 : 2;
    create->get = get;
    create->put = put;
    create->try_get = try_get;
    create->get_user = create->put_user = create->try_get_user = keys;
    return LS_OK;
}
