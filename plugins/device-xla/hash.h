/* hash.h - 128 bits that stand for any number of bytes: what has the same hash is taken to be the same. */
#ifndef LOCKSTEP_XLA_HASH_H
#define LOCKSTEP_XLA_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t xla_hash_turn(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static inline uint64_t xla_hash_blend(uint64_t x)
{
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

static inline void xla_hash(const void *bytes, size_t count, uint64_t hash[2])
{
    const uint64_t first = 0x9e3779b97f4a7c15u, second = 0xc2b2ae3d27d4eb4fu;
    const uint8_t *at = bytes;
    uint64_t a = count, b = ~(uint64_t)count, word[2];
    for (size_t n; count; at += n, count -= n) {
        n = count < sizeof word ? count : sizeof word;
        word[0] = word[1] = 0;
        memcpy(word, at, n);
        a = xla_hash_turn(a ^ word[0] * first, 31) * second + b;
        b = xla_hash_turn(b ^ word[1] * second, 33) * first + a;
    }
    hash[0] = xla_hash_blend(a + xla_hash_blend(b));
    hash[1] = xla_hash_blend(b ^ hash[0]);
}

#endif
