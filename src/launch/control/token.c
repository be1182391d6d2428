/* token.c - SHA-256 (FIPS 180-4) and HMAC (RFC 2104). */
#include "launch/control/token.h"

#include "launch/control/hex.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { BLOCK = 64 };

typedef struct sha {
    uint32_t h[8];
    uint64_t total;
    uint8_t block[BLOCK];
} sha;

static const uint32_t rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, int bits)
{
    return x >> bits | x << (32 - bits);
}

static void take_block(sha *s)
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++) {
        const uint8_t *b = s->block + 4 * i;
        w[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[i - 7] + (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(v, s->h, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t e = v[4], a = v[0];
        uint32_t first =
            v[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & v[5]) ^ (~e & v[6])) + rounds[i] + w[i];
        uint32_t second = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += first;
        v[0] = first + second;
    }
    for (int i = 0; i < 8; i++) s->h[i] += v[i];
}

static void begin(sha *s)
{
    *s = (sha){.h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

static void add(sha *s, const void *bytes, size_t size)
{
    const uint8_t *from = bytes;
    for (size_t i = 0; i < size; i++) {
        s->block[s->total++ % BLOCK] = from[i];
        if (s->total % BLOCK == 0) take_block(s);
    }
}

static void end(sha *s, uint8_t digest[LS_DIGEST])
{
    uint64_t bits = 8 * s->total;
    add(s, &(uint8_t){0x80}, 1);
    while (s->total % BLOCK != 56) add(s, &(uint8_t){0}, 1);
    for (int i = 7; i >= 0; i--) add(s, &(uint8_t){(uint8_t)(bits >> (8 * i))}, 1);
    for (int i = 0; i < LS_DIGEST; i++) digest[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

void ls_sha256(const void *bytes, size_t size, uint8_t digest[LS_DIGEST])
{
    sha s;
    begin(&s);
    add(&s, bytes, size);
    end(&s, digest);
}

/* ---- Proofs --------------------------------------------------------------------------------------------------- */

void ls_token_challenge(char text[LS_PROOF])
{
    uint8_t number[LS_DIGEST];
    if (getrandom(number, sizeof number, 0) != (ssize_t)sizeof number) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        ls_sha256(&now, sizeof now, number);
    }
    ls_hex_write(number, sizeof number, text);
}

void ls_token_prove(const char *token, const char *role, const char *challenge, char proof[LS_PROOF])
{
    uint8_t key[BLOCK] = {0}, inner[LS_DIGEST];
    if (strlen(token) > BLOCK) ls_sha256(token, strlen(token), key);
    else memcpy(key, token, strlen(token));
    sha s;
    for (int i = 0; i < BLOCK; i++) key[i] ^= 0x36;
    begin(&s);
    add(&s, key, sizeof key);
    add(&s, role, strlen(role));
    add(&s, challenge, strlen(challenge));
    end(&s, inner);
    for (int i = 0; i < BLOCK; i++) key[i] ^= 0x36 ^ 0x5c;
    begin(&s);
    add(&s, key, sizeof key);
    add(&s, inner, sizeof inner);
    end(&s, inner);
    ls_hex_write(inner, sizeof inner, proof);
}

bool ls_token_same(const char *proof, const char *expected)
{
    if (!proof || strlen(proof) != strlen(expected)) return false;
    unsigned differ = 0;
    for (size_t i = 0; expected[i]; i++) differ |= (unsigned)(proof[i] ^ expected[i]);
    return differ == 0;
}
