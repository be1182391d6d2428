/* choices.c - choices are there for the next program, and a file that is not as it should be does no harm. */
#include "../../plugins/device-cuda/choices.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

#define FOLDER "choices_cache"
#define NAME "library-9.1 NVIDIA/H200"
#define PATH FOLDER "/lockstep/library-9.1-NVIDIA-H200"

static void write_file(const char *text)
{
    FILE *file = fopen(PATH, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static int64_t file_size(void)
{
    struct stat found;
    return stat(PATH, &found) == 0 ? (int64_t)found.st_size : -1;
}

/* What the next program finds for a key. */
static int found_anew(int64_t key)
{
    cuda_choices *choices = cuda_choices_open(NAME);
    int found = cuda_choices_find(choices, &key, sizeof key);
    cuda_choices_close(choices);
    return found;
}

static void keep(int64_t key, int chosen)
{
    cuda_choices *choices = cuda_choices_open(NAME);
    cuda_choices_keep(choices, &key, sizeof key, chosen);
    CHECK(cuda_choices_find(choices, &key, sizeof key) == chosen);
    cuda_choices_close(choices);
}

static void the_next_program_knows(void)
{
    CHECK(found_anew(1) == CUDA_CHOICE_UNKNOWN);
    keep(1, 3), keep(2, 0), keep(3, CUDA_MOST_CHOICE);
    CHECK(found_anew(1) == 3 && found_anew(2) == 0 && found_anew(3) == CUDA_MOST_CHOICE);
    CHECK(found_anew(4) == CUDA_CHOICE_UNKNOWN);
    keep(1, 2);
    CHECK(found_anew(1) == 2);
    CHECK(access(FOLDER "/lockstep/library-9.1 NVIDIA", F_OK) != 0); /* a name is no path */
}

static void two_programs_at_once_lose_nothing(void)
{
    cuda_choices *one = cuda_choices_open(NAME), *two = cuda_choices_open(NAME);
    for (int64_t key = 100; key < 200; key++) cuda_choices_keep(key % 2 ? one : two, &key, sizeof key, (int)key % 7);
    cuda_choices_close(one), cuda_choices_close(two);
    for (int64_t key = 100; key < 200; key++) CHECK(found_anew(key) == (int)key % 7);
}

static void damaged_lines_are_ignored(void)
{
    keep(5, 4);
    char good[64] = "";
    FILE *file = fopen(PATH, "r");
    while (fgets(good, sizeof good, file)) continue; /* the last line is the one for 5 */
    fclose(file);
    static const char *const damaged[] = {"\n",
                                          "no line of ours\n",
                                          "0123456789abcdef 1",
                                          "0123456789abcdef x1\n",
                                          "0000000000000000 01\n",
                                          "0123456789abcdef-01\n"};
    char text[256];
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        snprintf(text, sizeof text, "%s%s%s", damaged[i], i == 2 ? "\n" : "", good);
        write_file(text);
        CHECK_MSG(found_anew(5) == 4, "case %zu", i);
    }
    snprintf(text, sizeof text, "%.12s", good); /* the end of the file was lost */
    write_file(text);
    CHECK(found_anew(5) == CUDA_CHOICE_UNKNOWN);
    keep(6, 1); /* on the damaged line, which is lost with it */
    keep(5, 4);
    CHECK(found_anew(5) == 4);
}

static void the_file_stops_growing(void)
{
    cuda_choices *choices = cuda_choices_open(NAME);
    for (int64_t key = 1000; key < 10000; key++) cuda_choices_keep(choices, &key, sizeof key, 1);
    CHECK(file_size() < 100000);
    int64_t last = 9999;
    CHECK(cuda_choices_find(choices, &last, sizeof last) == CUDA_CHOICE_UNKNOWN);
    cuda_choices_close(choices);
}

static void check_forgotten(void)
{
    cuda_choices *choices = cuda_choices_open(NAME);
    int64_t key = 1;
    CHECK(cuda_choices_find(choices, &key, sizeof key) == CUDA_CHOICE_UNKNOWN);
    cuda_choices_keep(choices, &key, sizeof key, 2);
    CHECK(cuda_choices_find(choices, &key, sizeof key) == 2);
    cuda_choices_close(choices);
}

static void without_a_folder_choices_last_as_long_as_the_program(void)
{
    setenv("LOCKSTEP_HOME", "/dev/null/nowhere", 1);
    check_forgotten();
    unsetenv("LOCKSTEP_HOME");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "", 1);
    for (int i = 0; i < 2; i++) check_forgotten(); /* a file in the root would be remembered */
    unsetenv("HOME");
    for (int i = 0; i < 2; i++) check_forgotten();
    setenv("XDG_CACHE_HOME", FOLDER, 1);
}

static void a_file_that_is_too_long_begins_anew(void)
{
    FILE *file = fopen(PATH, "w");
    for (int i = 0; i < 20000; i++) CHECK(fputs("no line of ours\n", file) >= 0);
    CHECK(fclose(file) == 0);
    keep(7, 2);
    CHECK(found_anew(7) == 2 && file_size() == 20);
}

static void a_file_for_reading_is_read(void)
{
    if (geteuid() == 0) CHECK_SKIP("root may write everything");
    keep(8, 5);
    CHECK(chmod(PATH, 0400) == 0);
    CHECK(found_anew(8) == 5);
    keep(9, 1);
    CHECK(found_anew(9) == CUDA_CHOICE_UNKNOWN);
    CHECK(chmod(PATH, 0600) == 0);
}

static void what_is_no_file_does_no_harm(void)
{
    remove(PATH);
    CHECK(mkfifo(PATH, 0600) == 0); /* reading it would wait for a writer */
    for (int i = 0; i < 2; i++) check_forgotten();
    CHECK(remove(PATH) == 0 && mkdir(PATH, 0700) == 0);
    for (int i = 0; i < 2; i++) check_forgotten();
    CHECK(rmdir(PATH) == 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    unsetenv("LOCKSTEP_HOME");
    setenv("XDG_CACHE_HOME", FOLDER, 1);
    remove(PATH);
    CHECK_RUN(the_next_program_knows);
    CHECK_RUN(two_programs_at_once_lose_nothing);
    CHECK_RUN(damaged_lines_are_ignored);
    CHECK_RUN(the_file_stops_growing);
    CHECK_RUN(a_file_that_is_too_long_begins_anew);
    CHECK_RUN(a_file_for_reading_is_read);
    CHECK_RUN(what_is_no_file_does_no_harm);
    CHECK_RUN(without_a_folder_choices_last_as_long_as_the_program);
    remove(PATH);
    return check_done();
}
