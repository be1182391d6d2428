/* count.c - count the GPUs that a program would find, without starting the driver.
 *
 * CUDA cannot be used in a process that was forked after CUDA was started, and launchers count GPUs before they fork.
 * So device files are counted instead, and CUDA_VISIBLE_DEVICES is read the way the driver reads it. */
#include "count.h"

#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Loading the driver's library does not start it. */
static bool has_driver(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver) dlclose(driver);
    return driver != NULL;
}

/* Files /dev/nvidia0, /dev/nvidia1, ...; a container has those of its own GPUs. Linux on Windows has one for all. */
static int device_files(void)
{
    DIR *folder = opendir("/dev");
    int count = 0;
    if (!folder) return 0;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        const char *number = entry->d_name + 6;
        if (strncmp(entry->d_name, "nvidia", 6) == 0 && *number && strspn(number, "0123456789") == strlen(number))
            count++;
    }
    closedir(folder);
    return count == 0 && access("/dev/dxg", F_OK) == 0 ? 1 : count;
}

int cuda_visible(const char *list, int present)
{
    int seen = 0;
    if (!list) return present;
    while (*list) {
        size_t length = strcspn(list, ",");
        while (length && isspace((unsigned char)*list)) list++, length--;
        bool is_number = length && isdigit((unsigned char)*list);
        bool by_name = strncmp(list, "GPU-", 4) == 0 || strncmp(list, "MIG-", 4) == 0;
        if (!by_name && !(is_number && atoi(list) < present)) break; /* CUDA stops at the first that it cannot find */
        seen++;
        list += length + (list[length] == ',');
    }
    return seen;
}

int cuda_count(void)
{
    int present = device_files();
    return present && has_driver() ? cuda_visible(getenv("CUDA_VISIBLE_DEVICES"), present) : 0;
}
