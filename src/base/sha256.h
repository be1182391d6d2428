/* sha256.h - SHA-256 (FIPS 180-4) and HMAC (RFC 2104) with it: proofs of the job token, signatures of
 * Jupyter's messages. */
#ifndef LOCKSTEP_BASE_SHA256_H
#define LOCKSTEP_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_SHA256_BYTES = 32, LS_SHA256_BLOCK = 64, LS_SHA256_HEX = 2 * LS_SHA256_BYTES };

typedef struct ls_sha256 {
    uint32_t state[8];
    uint64_t total;
    unsigned char rest[LS_SHA256_BLOCK];
} ls_sha256;

void ls_sha256_begin(ls_sha256 *hash);
void ls_sha256_add(ls_sha256 *hash, const void *bytes, size_t size);
void ls_sha256_end(ls_sha256 *hash, unsigned char digest[LS_SHA256_BYTES]);

typedef struct ls_hmac {
    ls_sha256 inner, outer;
} ls_hmac;

void ls_hmac_begin(ls_hmac *mac, const void *key, size_t size);
void ls_hmac_add(ls_hmac *mac, const void *bytes, size_t size);
/* In lower-case hexadecimal digits, zero-terminated. */
void ls_hmac_end(ls_hmac *mac, char hex[LS_SHA256_HEX + 1]);

/* Are these bytes equal? Takes the same time wherever they differ, so that a signature cannot be guessed byte by
 * byte. */
bool ls_equal_in_constant_time(const void *a, const void *b, size_t size);

#endif
