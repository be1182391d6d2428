/* hash.h - XXH64 of bytes in pieces: detects damage at memory speed, and is the same in every process; not secure
 * against attackers. And a keyed hash for tables whose names come from untrusted files, which is different in every
 * process: never store it. */
#ifndef LOCKSTEP_BASE_HASH_H
#define LOCKSTEP_BASE_HASH_H

#include "base/message.h"
typedef struct ls_hash {
    uint64_t lane[4];
    uint64_t total;
    unsigned char rest[32]; /* the last total % 32 bytes, not yet hashed */
} ls_hash;

void ls_hash_begin(ls_hash *hash);
void ls_hash_add(ls_hash *hash, const void *bytes, size_t size);
uint64_t ls_hash_end(const ls_hash *hash); /* of all bytes so far; more may follow */
uint64_t ls_hash_of(const void *bytes, size_t size);

/* SipHash-1-3 with the key of this process, or with one that is given. */
uint64_t ls_hash_keyed(const void *bytes, size_t size);
uint64_t ls_hash_with_key(const uint64_t key[2], const void *bytes, size_t size);

/* XXH64 of a whole file, and its size. */
bool ls_hash_file(const char *path, uint64_t *hash, uint64_t *size, ls_message *why);

#endif
