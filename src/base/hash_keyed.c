/* hash_keyed.c - SipHash-1-3 with a random key per process: whoever chooses the texts cannot know which of them
 * collide in a table. */
#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/hash.h"

static uint64_t key[2];

static void draw_key(void)
{
    if (getrandom(key, sizeof key, GRND_NONBLOCK) == (ssize_t)sizeof key) return;
    /* No random numbers yet, early after boot: use what is hard to guess from outside. */
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    key[0] = (uint64_t)now.tv_nsec * 0x9E3779B185EBCA87u ^ (uint64_t)now.tv_sec;
    key[1] = (uint64_t)(uintptr_t)&now;
}

static uint64_t rotated(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void mix(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotated(v[1], 13) ^ v[0];
    v[3] = rotated(v[3], 16) ^ v[2];
    v[0] = rotated(v[0], 32) + v[3];
    v[2] += v[1];
    v[3] = rotated(v[3], 21) ^ v[0];
    v[1] = rotated(v[1], 17) ^ v[2];
    v[2] = rotated(v[2], 32);
}

uint64_t ls_hash_with_key(const uint64_t with[2], const void *from, size_t size)
{
    const unsigned char *bytes = from;
    uint64_t v[4] = {with[0] ^ 0x736f6d6570736575u, with[1] ^ 0x646f72616e646f6du, with[0] ^ 0x6c7967656e657261u,
                     with[1] ^ 0x7465646279746573u};
    uint64_t word = 0, last = (uint64_t)size << 56;
    for (; size >= 8; size -= 8, bytes += 8) {
        memcpy(&word, bytes, 8);
        v[3] ^= word;
        mix(v);
        v[0] ^= word;
    }
    for (size_t i = 0; i < size; i++) last |= (uint64_t)bytes[i] << 8 * i;
    v[3] ^= last;
    mix(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++) mix(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t ls_hash_keyed(const void *bytes, size_t size)
{
    static pthread_once_t drawn = PTHREAD_ONCE_INIT;
    pthread_once(&drawn, draw_key);
    return ls_hash_with_key(key, bytes, size);
}
