/* keys.h - keys and values that the processes of a job share: rank 0 keeps them, the others ask it over TCP. PJRT
 * libraries of several processes find each other by them. */
#ifndef LOCKSTEP_XLA_KEYS_H
#define LOCKSTEP_XLA_KEYS_H

#include <lockstep/plugin.h>

typedef struct xla_keys xla_keys;

/* Called by all peers, once. It lasts as long as the process, as clients that use it do. */
ls_status xla_keys_open(const ls_peers *peers, xla_keys **keys, ls_message *why);

/* What was asked for, or why not. */
typedef enum xla_answer { XLA_KEY_OK, XLA_KEY_MISSING, XLA_KEY_LOST } xla_answer;

typedef struct xla_bytes {
    char *at;
    size_t count;
} xla_bytes;

/* From any thread. The value replaces one that the key has. LOST: rank 0 does not answer. */
xla_answer xla_keys_put(xla_keys *keys, xla_bytes key, xla_bytes value);
/* Wait for the key; MISSING: until the time was over. value->at is to be freed. */
xla_answer xla_keys_get(xla_keys *keys, xla_bytes key, int milliseconds, xla_bytes *value);

#endif
