/* home.c - what plug-ins share: folders for what they found out, and lists of names. */
#include "../../plugins/home.h"

#include <unistd.h>

#include "../../plugins/names.h"
#include "check.h"
#include "folder.h"

#define FOLDER "plugins_home"

/* Folders of 100 letters each, longer than a small buffer, then a file. */
static void deep_folders_are_made(void)
{
    char path[2000] = FOLDER;
    for (int i = 0; i < 12; i++) {
        size_t used = strlen(path);
        memset(path + used, 'a', 101);
        path[used] = '/', path[used + 101] = 0;
    }
    strcat(path, "/file");
    folder_fresh(FOLDER);
    home_make_folders(path);
    FILE *file = fopen(path, "w");
    CHECK_MSG(file, "a folder of %s is missing", path);
    if (file) fclose(file);
    folder_remove(FOLDER);
}

static void paths_that_are_too_long_make_no_folder(void)
{
    char path[6000] = FOLDER "/";
    memset(path + strlen(path), 'a', 5000);
    strcat(path, "/file");
    folder_remove(FOLDER);
    home_make_folders(path);
    CHECK(access(FOLDER, F_OK) != 0);
}

static void names_are_whole_or_left_out(void)
{
    char names[12] = "";
    names_add(names, sizeof names, "sort");
    names_add(names, sizeof names, "softmax"); /* one letter too many */
    CHECK(strcmp(names, "sort") == 0);
    names_add(names, sizeof names, "matmul");
    CHECK(strcmp(names, "sort matmul") == 0);
    names_add(names, sizeof names, "");
    CHECK(strcmp(names, "sort matmul") == 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(deep_folders_are_made);
    CHECK_RUN(paths_that_are_too_long_make_no_folder);
    CHECK_RUN(names_are_whole_or_left_out);
    return check_done();
}
