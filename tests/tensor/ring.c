/* ring.c - addresses that are handed out once: order, memory, limits. */
#include "tensor/ring.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "check.h"

enum { STRIDE = 256, PER_CHUNK = LS_RING_CHUNK / STRIDE - 1 };

typedef struct object {
    int64_t number; /* 0: dead */
    char rest[STRIDE - 8];
} object;

static bool lives(const void *memory)
{
    return ((const object *)memory)->number != 0;
}

static ls_ring new_ring(void)
{
    return (ls_ring){.stride = STRIDE, .is_living = lives};
}

static object *take(ls_ring *ring, int64_t number)
{
    object *o = ls_ring_take(ring);
    if (o) memset(o, 1, sizeof *o), o->number = number;
    return o;
}

static void give(ls_ring *ring, object *o)
{
    o->number = 0;
    ls_ring_give(ring, o);
}

/* Bytes of memory behind this process, its page tables, and how many mappings it has. */
static void footprint(int64_t *bytes, int *mappings)
{
    char line[256];
    long kb;
    *bytes = *mappings = 0;
    FILE *status = fopen("/proc/self/status", "r"), *maps = fopen("/proc/self/maps", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "RssAnon: %ld", &kb) == 1 || sscanf(line, "VmPTE: %ld", &kb) == 1) *bytes += kb * 1024;
    while (maps && fgets(line, sizeof line, maps)) ++*mappings;
    if (status) fclose(status);
    if (maps) fclose(maps);
}

/* Ten million objects with a hundred alive at a time, through more than one reservation. */
static void no_address_comes_twice(void)
{
    enum { ALIVE = 100, MADE = 10 * 1000 * 1000, SAMPLES = 1000 };
    ls_ring ring = new_ring();
    object *alive[ALIVE] = {0}, *sample[SAMPLES];
    int jumps = 0;
    const object *before = NULL;
    uint64_t calls = 0;
    for (int64_t i = 0; i < MADE; i++) {
        object **slot = &alive[i % ALIVE];
        if (*slot) give(&ring, *slot);
        *slot = take(&ring, i + 1);
        if (*slot <= before) jumps++;
        before = *slot;
        if (i % (MADE / SAMPLES) == 0) sample[i / (MADE / SAMPLES)] = *slot;
        if (i == 10 * PER_CHUNK) calls = ls_sys_calls();
    }
    CHECK(ring.reservations > 1 && jumps < ring.reservations);
    CHECK(ls_sys_calls() - calls == (uint64_t)ring.reservations - 1); /* nothing but addresses was asked for */
    for (int i = 0; i < SAMPLES; i++) CHECK(!lives(sample[i]) && ls_ring_holds(&ring, sample[i]));
    for (int i = 0; i < ALIVE; i++) CHECK(lives(alive[i]));
    CHECK(!ls_ring_holds(&ring, &ring) && !ls_ring_holds(&ring, (char *)alive[0] + 8));
    ls_ring_free(&ring);
}

static void memory_stays_what_is_alive(void)
{
    int64_t bytes, bytes_before;
    int mappings, mappings_before;
    footprint(&bytes_before, &mappings_before);
    ls_ring ring = new_ring();
    for (int64_t i = 0; i < 20 * 1000 * 1000; i++) give(&ring, take(&ring, 1));
    footprint(&bytes, &mappings);
    CHECK(bytes - bytes_before < 8 << 20);
    CHECK(mappings - mappings_before < 100);
    ls_ring_free(&ring);
    footprint(&bytes, &mappings);
#ifndef LS_SANITIZE_ADDRESS /* whose allocator keeps what was freed */
    CHECK(bytes - bytes_before < 1 << 20 && mappings <= mappings_before);
#endif
}

static void what_is_kept_holds_no_more_than_its_page(void)
{
    enum { KEPT = 1000 };
    static object *kept[KEPT];
    int64_t bytes, bytes_before;
    int mappings;
    footprint(&bytes_before, &mappings);
    ls_ring ring = new_ring();
    for (int i = 0; i < KEPT; i++) {
        kept[i] = take(&ring, i + 1);
        for (int k = 0; k < PER_CHUNK; k++) give(&ring, take(&ring, 1));
    }
    footprint(&bytes, &mappings);
    long page = sysconf(_SC_PAGESIZE);
    CHECK(bytes - bytes_before < KEPT * 4 * page + (32 << 20)); /* object, counts, page tables */
    for (int i = 0; i < KEPT; i++) CHECK(kept[i]->number == i + 1 && kept[i]->rest[0] == 1);
    for (int i = 0; i < KEPT; i++) give(&ring, kept[i]);
    for (int i = 0; i < 2 * KEPT * PER_CHUNK; i++) give(&ring, take(&ring, 1)); /* their chunks serve again */
    ls_ring_free(&ring);
}

static void age_is_counted_in_objects(void)
{
    ls_ring ring = new_ring();
    object *first = take(&ring, 1);
    CHECK(ls_ring_newer(&ring, first) == 0);
    for (int i = 0; i < PER_CHUNK / 2; i++) take(&ring, 1);
    CHECK(ls_ring_newer(&ring, first) == PER_CHUNK / 2);
    for (int i = 0; i < 10 * PER_CHUNK; i++) give(&ring, take(&ring, 1));
    CHECK(ls_ring_newer(&ring, first) == PER_CHUNK / 2 + 10 * PER_CHUNK);
    CHECK(ls_ring_newer(&ring, &ring) == -1);
    ls_ring_free(&ring);
}

/* In a child: where addresses are few they come round, but never those of living objects. */
static int go_round(void)
{
    struct rlimit limit = {(rlim_t)1 << 30, (rlim_t)1 << 30};
    if (setrlimit(RLIMIT_AS, &limit)) return 2;
    ls_ring ring = new_ring();
    object *kept[3] = {0};
    const object *before = NULL;
    int rounds = 0;
    for (int64_t i = 0; i < 1000 * 1000; i++) {
        object *o = take(&ring, i + 1);
        if (!o) return 3;
        for (int k = 0; k < 3; k++)
            if (o == kept[k]) return 4;
        if (i % (20 * PER_CHUNK) == 7 && i / (20 * PER_CHUNK) < 3) kept[i / (20 * PER_CHUNK)] = o;
        else give(&ring, o);
        rounds += o < before;
        before = o;
    }
    for (int k = 0; k < 3; k++)
        if (!kept[k] || kept[k]->number != k * 20 * PER_CHUNK + 8) return 5;
    if (rounds < 2 || (size_t)(ring.end - ring.base) > limit.rlim_cur / 16) return 6;
    /* all of it alive is more than there is room for: refused, not overwritten */
    int64_t made = 0;
    while (take(&ring, 1) && made < 10 * 1000 * 1000) made++;
    return made < 10 * 1000 * 1000 && kept[0]->number == 8 ? 0 : 7;
}

static void limited_processes_go_round(void)
{
#ifndef LS_SANITIZE_ADDRESS /* needs more addresses than such a limit leaves */
    int status = -1;
    pid_t child = fork();
    if (child == 0) _exit(go_round());
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#endif
}

static void children_have_their_own(void)
{
    ls_ring ring = new_ring();
    object *shared = take(&ring, 42);
    pid_t child = fork();
    for (int i = 0; i < 20 * PER_CHUNK; i++) give(&ring, take(&ring, child ? 1 : 2));
    if (child == 0) {
        shared->number = 43;
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0 && shared->number == 42);
    ls_ring_free(&ring);
}

static void no_memory_is_no_object(void)
{
    for (uint64_t n = 1; n < 20; n++) {
        ls_ring ring = new_ring();
        ls_sys_fail_at(n);
        for (int i = 0; i < 4 * PER_CHUNK; i++) {
            object *o = take(&ring, 1);
            if (o && i % 2) give(&ring, o);
        }
        ls_sys_fail_at(0);
        CHECK(take(&ring, 1)); /* later there is some again */
        ls_ring_free(&ring);
    }
}

/* As runs that follow each other: what one had made is dead for all that come after it. */
static void a_ring_goes_on_where_another_was_left(void)
{
#if defined(LS_SANITIZE_THREAD) && defined(__aarch64__)
    CHECK_SKIP("the thread sanitizer leaves too few addresses here: they come round");
#endif
    enum { RINGS = 2000 };
    static object *of[RINGS];
    int64_t bytes, bytes_before = 0;
    int mappings, mappings_before = 0;
    for (int i = 0; i < RINGS; i++) {
        ls_ring ring = new_ring();
        of[i] = take(&ring, i + 1);
        for (int k = 0; k < i; k += 1 + i / 20)
            CHECK(of[k] != of[i] && !lives(of[k]) && ls_ring_was_left(&ring, of[k]));
        CHECK(!ls_ring_was_left(&ring, of[i]) && !ls_ring_was_left(&ring, &ring));
        ls_ring_leave(&ring);
        CHECK(!lives(of[i]) && ls_ring_was_left(&ring, of[i]) && !ls_ring_holds(&ring, of[i]));
        if (i == 10) footprint(&bytes_before, &mappings_before);
    }
    footprint(&bytes, &mappings);
    CHECK(bytes - bytes_before < 8 << 20 && mappings - mappings_before < 20);

    ls_ring one = new_ring(), two = new_ring(); /* side by side they do not share */
    object *a = take(&one, 1), *b = take(&two, 2);
    CHECK(lives(a) && lives(b) && !ls_ring_holds(&one, b) && !ls_ring_holds(&two, a));
    ls_ring_leave(&one);
    CHECK(!lives(a) && lives(b) && ls_ring_was_left(&two, a));
    ls_ring_leave(&two);
}

/* The thread sanitizer's own memory grows with every address. */
#ifdef LS_SANITIZE_THREAD
#define CHECK_RUN_MEASURED(function) (void)function
#else
#define CHECK_RUN_MEASURED(function) CHECK_RUN_SLOW(function)
#endif

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN_SLOW(no_address_comes_twice);
    CHECK_RUN_MEASURED(memory_stays_what_is_alive);
    CHECK_RUN_MEASURED(what_is_kept_holds_no_more_than_its_page);
    CHECK_RUN(age_is_counted_in_objects);
    CHECK_RUN_FORK(limited_processes_go_round);
    CHECK_RUN_FORK(children_have_their_own);
    CHECK_RUN(no_memory_is_no_object);
    CHECK_RUN(a_ring_goes_on_where_another_was_left); /* the last: rings above begin without addresses */
    return check_done();
}
