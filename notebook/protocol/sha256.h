/* sha256.h - SHA-256 (FIPS 180-4) and HMAC (RFC 2104) with it: signatures of Jupyter's messages. */
#ifndef LOCKSTEP_NOTEBOOK_SHA256_H
#define LOCKSTEP_NOTEBOOK_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_BLOCK = 64, SHA256_HEX = 2 * SHA256_BYTES };

typedef struct sha256 {
    uint32_t state[8];
    uint64_t total;
    unsigned char rest[SHA256_BLOCK];
} sha256;

void sha256_begin(sha256 *hash);
void sha256_add(sha256 *hash, const void *bytes, size_t size);
void sha256_end(sha256 *hash, unsigned char digest[SHA256_BYTES]);

typedef struct hmac {
    sha256 inner, outer;
} hmac;

void hmac_begin(hmac *mac, const void *key, size_t size);
void hmac_add(hmac *mac, const void *bytes, size_t size);
/* In lower-case hexadecimal digits, zero-terminated. */
void hmac_end(hmac *mac, char hex[SHA256_HEX + 1]);

/* Are these bytes equal? Takes the same time wherever they differ, so that a signature cannot be guessed byte by
 * byte. */
bool equal_in_constant_time(const void *a, const void *b, size_t size);

#endif
