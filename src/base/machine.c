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
