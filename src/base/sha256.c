/* sha256.c - SHA-256 and HMAC. */
#include "base/sha256.h"

#include <string.h>

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turn(uint32_t x, int right)
{
    return x >> right | x << (32 - right);
}

static void take_block(uint32_t state[8], const unsigned char *block)
{
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t small0 = turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t small1 = turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + small0 + w[i - 7] + small1;
    }
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t big1 = turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25);
        uint32_t big0 = turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22);
        uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        uint32_t first = s[7] + big1 + choice + round_constants[i] + w[i];
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += first;
        s[0] = first + big0 + majority;
    }
    for (int i = 0; i < 8; i++) state[i] += s[i];
}

void ls_sha256_begin(ls_sha256 *hash)
{
    *hash = (ls_sha256){
        .state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void ls_sha256_add(ls_sha256 *hash, const void *bytes, size_t size)
{
    const unsigned char *from = bytes;
    while (size) {
        size_t used = hash->total % LS_SHA256_BLOCK, piece = LS_SHA256_BLOCK - used;
        if (piece > size) piece = size;
        memcpy(hash->rest + used, from, piece);
        hash->total += piece;
        from += piece;
        size -= piece;
        if (used + piece == LS_SHA256_BLOCK) take_block(hash->state, hash->rest);
    }
}

void ls_sha256_end(ls_sha256 *hash, unsigned char digest[LS_SHA256_BYTES])
{
    static const unsigned char padding[LS_SHA256_BLOCK] = {0x80};
    unsigned char bits[8];
    for (int i = 0; i < 8; i++) bits[i] = (unsigned char)(hash->total * 8 >> (56 - 8 * i));
    size_t used = hash->total % LS_SHA256_BLOCK;
    ls_sha256_add(hash, padding, used < 56 ? 56 - used : 120 - used);
    ls_sha256_add(hash, bits, sizeof bits);
    for (int i = 0; i < LS_SHA256_BYTES; i++) digest[i] = (unsigned char)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void ls_hmac_begin(ls_hmac *mac, const void *key, size_t size)
{
    unsigned char block[LS_SHA256_BLOCK] = {0}, inner[LS_SHA256_BLOCK], outer[LS_SHA256_BLOCK];
    if (size > sizeof block) {
        ls_sha256 hash;
        ls_sha256_begin(&hash);
        ls_sha256_add(&hash, key, size);
        ls_sha256_end(&hash, block);
    } else if (size) {
        memcpy(block, key, size);
    }
    for (int i = 0; i < LS_SHA256_BLOCK; i++) {
        inner[i] = block[i] ^ 0x36;
        outer[i] = block[i] ^ 0x5c;
    }
    ls_sha256_begin(&mac->inner);
    ls_sha256_add(&mac->inner, inner, sizeof inner);
    ls_sha256_begin(&mac->outer);
    ls_sha256_add(&mac->outer, outer, sizeof outer);
}

void ls_hmac_add(ls_hmac *mac, const void *bytes, size_t size)
{
    ls_sha256_add(&mac->inner, bytes, size);
}

void ls_hmac_end(ls_hmac *mac, char hex[LS_SHA256_HEX + 1])
{
    unsigned char digest[LS_SHA256_BYTES];
    ls_sha256_end(&mac->inner, digest);
    ls_sha256_add(&mac->outer, digest, sizeof digest);
    ls_sha256_end(&mac->outer, digest);
    for (int i = 0; i < LS_SHA256_BYTES; i++) {
        hex[2 * i] = "0123456789abcdef"[digest[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    hex[LS_SHA256_HEX] = '\0';
}

bool ls_equal_in_constant_time(const void *a, const void *b, size_t size)
{
    const unsigned char *left = a, *right = b;
    volatile unsigned char difference = 0;
    for (size_t i = 0; i < size; i++) difference = (unsigned char)(difference | (left[i] ^ right[i]));
    return difference == 0;
}
