/* count.c - count the GPUs that a program would find, without starting the driver.
 *
 * CUDA cannot be used in a process that was forked after CUDA was started, and launchers count GPUs before they fork.
 * So device files are counted instead, and CUDA_VISIBLE_DEVICES is read the way the driver reads it. */
#include "count.h"

#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *cuda_driver_error(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!driver) return dlerror();
    dlclose(driver);
    return NULL;
}

int cuda_present(const char *path, bool driver)
{
    DIR *folder = opendir(path);
    int count = 0;
    if (!folder) return 0;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        const char *number = entry->d_name + 6;
        if (strncmp(entry->d_name, "nvidia", 6) == 0 && *number && strspn(number, "0123456789") == strlen(number))
            count++;
    }
    bool of_windows = faccessat(dirfd(folder), "dxg", F_OK, 0) == 0;
    closedir(folder);
    return count == 0 && driver && of_windows ? 1 : count;
}

/* The first word of the list: returns what follows it. */
static const char *next_word(const char *list, char *word, size_t size)
{
    size_t length = strcspn(list, ",");
    const char *after = list + length + (list[length] == ',');
    while (length && isspace((unsigned char)*list)) list++, length--;
    while (length && isspace((unsigned char)list[length - 1])) length--;
    snprintf(word, size, "%.*s", (int)length, list);
    return after;
}

int cuda_visible(const char *list, int present)
{
    int seen = 0;
    char word[128];
    if (!list) return present;
    while (*list) {
        list = next_word(list, word, sizeof word);
        bool by_name = strncmp(word, "GPU-", 4) == 0 || strncmp(word, "MIG-", 4) == 0;
        if (!by_name && !(isdigit((unsigned char)*word) && strtol(word, NULL, 10) < present))
            break; /* CUDA stops at the first that it cannot find */
        seen++;
    }
    return seen;
}

bool cuda_visible_word(const char *list, int index, char *word, size_t size)
{
    if (!list) return snprintf(word, size, "%d", index) > 0;
    for (; index > 0; index--) list = next_word(list, word, size);
    next_word(list, word, size);
    return *word != '\0';
}

int cuda_count(void)
{
    return cuda_visible(getenv("CUDA_VISIBLE_DEVICES"), cuda_present("/dev", !cuda_driver_error()));
}
