/* identity.c - what compiled programs depend on besides their text, as one number: part of the names of their files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "pjrt.h"

/* Variables with options of the compiler. */
static const char *const variables[] = {"XLA_FLAGS", "LIBTPU_INIT_ARGS"};

static uint64_t add(uint64_t so_far, const void *bytes, size_t count)
{
    uint64_t hash[2], both[2] = {so_far};
    xla_hash(bytes, count, hash);
    both[1] = hash[0];
    xla_hash(both, sizeof both, hash);
    return hash[0];
}

/* Code for one CPU may use instructions that another lacks. */
static uint64_t add_instructions(uint64_t so_far)
{
    char line[4000];
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, "flags", 5) != 0 && strncmp(line, "Features", 8) != 0) continue;
        so_far = add(so_far, line, strlen(line));
        break;
    }
    if (f) fclose(f);
    return so_far;
}

ls_status pjrt_identify(pjrt *p, ls_message *why)
{
    uint64_t all = add(0, &p->table->version.minor, sizeof p->table->version.minor);
    all = add(all, p->platform, strlen(p->platform));
    all = add(all, p->version, strlen(p->version));
    if (p->chip_count) {
        pjrt_description_args chip = {.chip = p->chips[0]};
        XLA_TRY(PJRT_CALL(p, Device_GetDescription, &chip, "device \"xla\"", why));
        pjrt_list_args kind = {.object = chip.description};
        XLA_TRY(PJRT_CALL(p, DeviceDescription_Kind, &kind, "device \"xla\"", why));
        all = add(all, kind.list, kind.length);
    }
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *options = getenv(variables[i]);
        all = add(all, options, options ? strlen(options) : 0);
    }
    p->identity = add_instructions(all);
    return LS_OK;
}
