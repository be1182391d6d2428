/* hash.c - XXH64: four lanes of multiply, rotate, multiply over blocks of 32 bytes, then mixed into one number. */
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

#define PRIME1 0x9E3779B185EBCA87u
#define PRIME2 0xC2B2AE3D27D4EB4Fu
#define PRIME3 0x165667B19E3779F9u
#define PRIME4 0x85EBCA77C2B2AE63u
#define PRIME5 0x27D4EB2F165667C5u

enum { BLOCK = 32, READ_BYTES = 1 << 18 };

static uint64_t rotated(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static uint64_t word(const unsigned char *bytes)
{
    uint64_t x;
    memcpy(&x, bytes, sizeof x);
    return x;
}

static uint64_t taken_in(uint64_t lane, uint64_t input)
{
    return rotated(lane + input * PRIME2, 31) * PRIME1;
}

void ls_hash_begin(ls_hash *hash)
{
    *hash = (ls_hash){.lane = {PRIME1 + PRIME2, PRIME2, 0, 0 - PRIME1}};
}

static void add_blocks(ls_hash *hash, const unsigned char *bytes, size_t blocks)
{
    uint64_t a = hash->lane[0], b = hash->lane[1], c = hash->lane[2], d = hash->lane[3];
    for (; blocks; blocks--, bytes += BLOCK) {
        a = taken_in(a, word(bytes));
        b = taken_in(b, word(bytes + 8));
        c = taken_in(c, word(bytes + 16));
        d = taken_in(d, word(bytes + 24));
    }
    hash->lane[0] = a;
    hash->lane[1] = b;
    hash->lane[2] = c;
    hash->lane[3] = d;
}

void ls_hash_add(ls_hash *hash, const void *from, size_t size)
{
    const unsigned char *bytes = from;
    size_t held = hash->total % BLOCK;
    hash->total += size;
    if (held) {
        size_t room = BLOCK - held, part = size < room ? size : room;
        memcpy(hash->rest + held, bytes, part);
        if (part < room) return;
        add_blocks(hash, hash->rest, 1);
        bytes += part;
        size -= part;
    }
    add_blocks(hash, bytes, size / BLOCK);
    if (size % BLOCK) memcpy(hash->rest, bytes + size / BLOCK * BLOCK, size % BLOCK);
}

static uint64_t merged(const ls_hash *hash)
{
    const uint64_t *lane = hash->lane;
    uint64_t x = rotated(lane[0], 1) + rotated(lane[1], 7) + rotated(lane[2], 12) + rotated(lane[3], 18);
    for (int i = 0; i < 4; i++) x = (x ^ taken_in(0, lane[i])) * PRIME1 + PRIME4;
    return x;
}

uint64_t ls_hash_end(const ls_hash *hash)
{
    uint64_t x = hash->total >= BLOCK ? merged(hash) : PRIME5;
    x += hash->total;
    const unsigned char *rest = hash->rest;
    size_t size = hash->total % BLOCK;
    for (; size >= 8; size -= 8, rest += 8) x = rotated(x ^ taken_in(0, word(rest)), 27) * PRIME1 + PRIME4;
    if (size >= 4) {
        uint32_t half;
        memcpy(&half, rest, sizeof half);
        x = rotated(x ^ half * PRIME1, 23) * PRIME2 + PRIME3;
        size -= 4;
        rest += 4;
    }
    for (; size; size--, rest++) x = rotated(x ^ *rest * PRIME5, 11) * PRIME1;
    x = (x ^ (x >> 33)) * PRIME2;
    x = (x ^ (x >> 29)) * PRIME3;
    return x ^ (x >> 32);
}

uint64_t ls_hash_of(const void *bytes, size_t size)
{
    ls_hash hash;
    ls_hash_begin(&hash);
    ls_hash_add(&hash, bytes, size);
    return ls_hash_end(&hash);
}

bool ls_hash_file(const char *path, uint64_t *hash, uint64_t *size, ls_message *why)
{
    ls_hash h;
    ls_hash_begin(&h);
    void *buffer = ls_sys_alloc(READ_BYTES);
    int descriptor = buffer ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t got = buffer && descriptor >= 0 ? 1 : -1;
    while (got > 0) {
        got = read(descriptor, buffer, READ_BYTES);
        if (got > 0) ls_hash_add(&h, buffer, (size_t)got);
        else if (got < 0 && errno == EINTR) got = 1;
    }
    if (got < 0) ls_message_set(why, "could not read %.160s: %s", path, buffer ? strerror(errno) : "no memory");
    if (descriptor >= 0) close(descriptor);
    ls_sys_free(buffer);
    *hash = ls_hash_end(&h);
    *size = h.total;
    return got == 0;
}
