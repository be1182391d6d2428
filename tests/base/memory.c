/* memory.c - system memory is counted, fails where it is told to, and maps with huge pages. */
#include "base/memory.h"

#include "base/capture.h"
#include "check.h"

#include <stdint.h>

static void blocks_are_zeroed_and_counted(void)
{
    uint64_t before = ls_sys_calls();
    unsigned char *block = ls_sys_alloc(1000);
    int sum = 0;
    for (int i = 0; i < 1000; i++) sum |= block[i];
    CHECK(block && sum == 0);
    block[999] = 7;
    block = ls_sys_realloc(block, 5000);
    CHECK(block && block[999] == 7);
    ls_sys_free(block);
    ls_sys_free(NULL);
    void *empty = ls_sys_alloc(0);
    CHECK(empty != NULL);
    ls_sys_free(empty);
    CHECK(ls_sys_calls() == before + 3);
}

static void the_nth_request_fails(void)
{
    ls_sys_fail_at(3);
    void *first = ls_sys_alloc(8), *second = ls_sys_alloc(8);
    CHECK(first && second);
    CHECK(ls_sys_realloc(first, 64) == NULL); /* the old block is still ours */
    first = ls_sys_realloc(first, 64);
    CHECK(first != NULL);
    ls_sys_free(first);
    ls_sys_free(second);
    ls_sys_fail_at(1);
    CHECK(ls_sys_map(4096) == NULL);
    ls_sys_fail_at(1);
    ls_sys_fail_at(0);
    void *after = ls_sys_alloc(8);
    CHECK(after != NULL);
    ls_sys_free(after);
}

static int fails_second(void)
{
    uint64_t before = ls_sys_calls();
    while (ls_sys_calls() < 49) ls_sys_free(ls_sys_alloc(1));
    bool fails = before < 50 && ls_sys_alloc(1) == NULL;
    void *next = ls_sys_alloc(1);
    bool recovers = next != NULL;
    ls_sys_free(next);
    return fails && recovers ? 0 : 1;
}

static void the_environment_names_a_request(void)
{
    char text[256];
    CHECK(run_captured("LOCKSTEP_FAIL_ALLOC=50", fails_second, text, sizeof text) == 0);
    CHECK_TEXT(text, "");
}

static void maps_are_aligned_and_writable(void)
{
    size_t sizes[] = {0, 1, 4096, 4097, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, 5 << 20, 32 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *block = ls_sys_map(sizes[i]);
        CHECK(block != NULL);
        if (!block) continue;
        CHECK((uintptr_t)block % 4096 == 0);
        CHECK(sizes[i] < (2 << 20) || (uintptr_t)block % (2 << 20) == 0);
        if (sizes[i]) block[0] = block[sizes[i] - 1] = 1;
        ls_sys_unmap(block, sizes[i]);
    }
    CHECK(ls_sys_map(SIZE_MAX) == NULL);
    CHECK(ls_sys_map(SIZE_MAX - (1 << 20)) == NULL);
    CHECK(ls_sys_map(SIZE_MAX / 2) == NULL);
    ls_sys_unmap(NULL, 4096);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(the_environment_names_a_request); /* first: settings are read once */
    CHECK_RUN(blocks_are_zeroed_and_counted);
    CHECK_RUN(the_nth_request_fails);
    CHECK_RUN(maps_are_aligned_and_writable);
    return check_done();
}
