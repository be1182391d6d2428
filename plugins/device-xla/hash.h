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

/* Mix two words into the state. */
static inline void xla_hash_add(uint64_t state[2], const uint64_t word[2])
{
    const uint64_t first = 0x9e3779b97f4a7c15u, second = 0xc2b2ae3d27d4eb4fu;
    state[0] = xla_hash_turn(state[0] ^ word[0] * first, 31) * second + state[1];
    state[1] = xla_hash_turn(state[1] ^ word[1] * second, 33) * first + state[0];
}

/* Two chains, which a CPU follows at the same time. */
static inline void xla_hash(const void *bytes, size_t count, uint64_t hash[2])
{
    const uint8_t *at = bytes;
    uint64_t even[2] = {count, ~(uint64_t)count}, odd[2] = {0}, word[4];
    for (size_t n = count; n; at += sizeof word, n -= sizeof word) {
        if (n < sizeof word) {
            memset(word, 0, sizeof word);
            memcpy(word, at, n);
            n = sizeof word;
        } else {
            memcpy(word, at, sizeof word);
        }
        xla_hash_add(even, word);
        xla_hash_add(odd, word + 2);
    }
    xla_hash_add(even, odd);
    hash[0] = xla_hash_blend(even[0] + xla_hash_blend(even[1]));
    hash[1] = xla_hash_blend(even[1] ^ hash[0]);
}

#endif
