/* file.c - files appear complete or not at all, and nothing is left behind. */
#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "check.h"

static char folder[] = "/tmp/lockstep_file_XXXXXX";
static ls_message why;

static char *path_of(const char *name)
{
    static char path[4][256];
    static int turn;
    char *room = path[turn++ % 4];
    snprintf(room, 256, "%s/%s", folder, name);
    return room;
}

static int file_count(void)
{
    DIR *dir = opendir(folder);
    int count = -2; /* . and .. */
    while (dir && readdir(dir)) count++;
    closedir(dir);
    return count;
}

static bool holds(const char *name, const char *text)
{
    size_t size = 0;
    char *got = ls_file_read(path_of(name), 1000, &size, &why);
    bool same = got && size == strlen(text) && strcmp(got, text) == 0;
    ls_sys_free(got);
    return same;
}

static void a_file_appears_when_it_is_published(void)
{
    ls_file_out out;
    CHECK(ls_file_write(path_of("a"), "old", 3, true, &why));
    CHECK(ls_file_create(&out, path_of("a"), true, &why) && ls_file_put(&out, "ne", 2, &why) &&
          ls_file_put(&out, "w", 1, &why));
    CHECK(ls_file_seal(&out, &why));
    CHECK(holds("a", "old"));
    CHECK(ls_file_publish(&out, &why));
    CHECK(holds("a", "new") && file_count() == 1);
    ls_file_discard(&out);
    CHECK(holds("a", "new"));
    unlink(path_of("a"));
}

static void a_discarded_file_leaves_nothing(void)
{
    ls_file_out out;
    CHECK(ls_file_create(&out, path_of("a"), true, &why) && ls_file_put(&out, "x", 1, &why));
    ls_file_discard(&out);
    CHECK(file_count() == 0);
}

static void large_pieces_and_small_ones_keep_their_order(void)
{
    enum { LARGE = 3 << 20 };
    char *large = malloc(LARGE);
    for (int i = 0; i < LARGE; i++) large[i] = (char)(i * 7);
    ls_file_out out;
    CHECK(ls_file_create(&out, path_of("a"), true, &why));
    for (int i = 0; i < LARGE;) {
        int n = i % 3 ? 900 : (1 << 20) - 13;
        if (n > LARGE - i) n = LARGE - i;
        CHECK(ls_file_put(&out, large + i, (size_t)n, &why));
        i += n;
    }
    CHECK(ls_file_seal(&out, &why) && ls_file_publish(&out, &why));
    ls_file_bytes file;
    CHECK(ls_file_load(&file, path_of("a"), SIZE_MAX, &why));
    CHECK(file.size == LARGE && file.there == LARGE && !file.changed && memcmp(file.bytes, large, LARGE) == 0);
    ls_file_unload(&file);
    CHECK(ls_file_load(&file, path_of("a"), 100, &why));
    CHECK(file.size == LARGE && file.there == 100 && memcmp(file.bytes, large, 100) == 0);
    ls_file_unload(&file);
    unlink(path_of("a"));
    free(large);
}

/* A limit on the size of files stands for a full disk: write() fails in the middle. */
static void a_full_disk_leaves_the_old_file(void)
{
    CHECK(ls_file_write(path_of("a"), "old", 3, true, &why));
    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 4096;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    static char bytes[2 << 20];
    bool written = ls_file_write(path_of("a"), bytes, sizeof bytes, true, &why);
    bool buffered = ls_file_write(path_of("a"), bytes, 8192, true, &why);
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK(!written && !buffered && strstr(why.text, "File too large") && strstr(why.text, folder));
    CHECK(holds("a", "old") && file_count() == 1);
    unlink(path_of("a"));
}

static void a_living_writer_is_not_disturbed_and_a_dead_one_is_no_hindrance(void)
{
    CHECK(ls_file_write(path_of("b.part"), "left by a crash", 15, true, &why));
    CHECK(ls_file_write(path_of("b"), "1", 1, true, &why));
    CHECK(holds("b", "1") && file_count() == 1);
    ls_file_out out;
    CHECK(ls_file_create(&out, path_of("b"), true, &why) && ls_file_put(&out, "2", 1, &why));
    CHECK(!ls_file_write(path_of("b"), "3", 1, true, &why) && strstr(why.text, "another process is writing it"));
    CHECK(ls_file_seal(&out, &why) && ls_file_publish(&out, &why));
    CHECK(holds("b", "2") && file_count() == 1);
    unlink(path_of("b"));
}

static void what_cannot_be_done_is_said_with_its_path(void)
{
    ls_file_bytes file;
    CHECK(!ls_file_load(&file, path_of("none"), SIZE_MAX, &why) && strstr(why.text, "none: No such file"));
    CHECK(!ls_file_load(&file, folder, SIZE_MAX, &why) && strstr(why.text, "it is a folder"));
    CHECK(mkfifo(path_of("pipe"), 0600) == 0);
    CHECK(!ls_file_load(&file, path_of("pipe"), SIZE_MAX, &why) && strstr(why.text, "it is not a regular file"));
    unlink(path_of("pipe"));
    CHECK(!ls_file_write(path_of("none/a"), "x", 1, true, &why) && strstr(why.text, "none/a: No such file"));
    CHECK(!ls_file_write(folder, "x", 1, true, &why)); /* a folder is in the place of the file */
    CHECK(file_count() == 0);
    char part[64];
    snprintf(part, sizeof part, "%s.part", folder);
    CHECK(ls_path_kind_of(part) == LS_PATH_NONE && ls_path_kind_of(folder) == LS_PATH_FOLDER);
    CHECK(ls_file_write(path_of("a"), "long", 4, false, &why));
    CHECK(!ls_file_read(path_of("a"), 3, NULL, &why) && strstr(why.text, "too large"));
    CHECK(!ls_folder_make(path_of("a"), &why) && strstr(why.text, "it is a file"));
    unlink(path_of("a"));
    char deep[200];
    snprintf(deep, sizeof deep, "%s/x/y/z", folder);
    CHECK(ls_folder_make(deep, &why) && ls_folder_make(deep, &why) && ls_folder_sync(deep, &why));
    rmdir(deep);
    rmdir(path_of("x/y"));
    rmdir(path_of("x"));
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    if (!mkdtemp(folder)) return 1;
    CHECK_RUN(a_file_appears_when_it_is_published);
    CHECK_RUN(a_discarded_file_leaves_nothing);
    CHECK_RUN(large_pieces_and_small_ones_keep_their_order);
    CHECK_RUN(a_full_disk_leaves_the_old_file);
    CHECK_RUN(a_living_writer_is_not_disturbed_and_a_dead_one_is_no_hindrance);
    CHECK_RUN(what_cannot_be_done_is_said_with_its_path);
    rmdir(folder);
    return check_done();
}
