/* machine.c - identify this machine. */
#include "base/machine.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"

uint64_t ls_machine_key(void)
{
    char text[256] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (!file || !fgets(text, sizeof text, file)) gethostname(text, sizeof text - 1);
    if (file) fclose(file);
    return ls_hash_of(text, strlen(text));
}

uint64_t ls_host_key(void)
{
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    uint64_t both[2] = {ls_machine_key(), ls_hash_of(name, strlen(name))};
    return ls_hash_of(both, sizeof both);
}
