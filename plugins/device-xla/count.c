/* count.c - count the chips that a process may use, before there is a client: the process may still fork. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xla.h"

#ifndef SYSTEM_ROOT
#define SYSTEM_ROOT "" /* where /dev and /sys are: elsewhere in a test */
#endif
#define GOOGLE "0x1ae0" /* as the system writes the number of a vendor */

/* XLA's CPU library makes chips of the CPU, in every process: one for each process is always there. */
enum { OF_THE_CPU = 1024 };

const char *xla_visible_chips(void)
{
    const char *visible = getenv("TPU_VISIBLE_CHIPS"); /* by a launcher */
    if (!visible || !*visible) visible = getenv("TPU_VISIBLE_DEVICES");
    return visible && *visible ? visible : NULL;
}

static int count_listed(const char *list)
{
    int count = 1;
    for (const char *at = strchr(list, ','); at; at = strchr(at + 1, ',')) count++;
    return count;
}

/* The number in a file of a device's folder; false: it is not known. */
static bool read_number(const char *folder, const char *name, char number[8])
{
    char path[400];
    snprintf(path, sizeof path, "%.380s/%s", folder, name);
    FILE *file = fopen(path, "r");
    bool known = file && fscanf(file, "%7s", number) == 1;
    if (file) fclose(file);
    return known;
}

static bool is_tpu(const char *folder)
{
    static const char *const tpus[] = {
#define LS_TPU(number, kind) number,
#include <lockstep/tpus.def>
#undef LS_TPU
    };
    char vendor[8], device[8];
    if (read_number(folder, "vendor", vendor) && strcmp(vendor, GOOGLE) != 0) return false;
    if (!read_number(folder, "device", device)) return true;
    for (size_t i = 0; i < sizeof tpus / sizeof *tpus; i++)
        if (strcmp(device, tpus[i]) == 0) return true;
    return false;
}

/* The system gives GPUs, network cards and disks such files, too. What it does not know counts as a TPU. */
static bool may_be_tpu(const char *file)
{
    char pattern[300];
    glob_t all;
    snprintf(pattern, sizeof pattern, SYSTEM_ROOT "/sys/kernel/iommu_groups/%s/devices/*", strrchr(file, '/') + 1);
    if (glob(pattern, 0, NULL, &all) != 0) return true;
    bool found = false;
    for (size_t i = 0; i < all.gl_pathc && !found; i++) found = is_tpu(all.gl_pathv[i]);
    globfree(&all);
    return found;
}

static int count_files(const char *pattern, bool (*counts)(const char *file))
{
    glob_t all;
    int count = 0;
    if (glob(pattern, 0, NULL, &all) != 0) return 0;
    for (size_t i = 0; i < all.gl_pathc; i++) count += !counts || counts(all.gl_pathv[i]);
    globfree(&all);
    return count;
}

/* TPUs that this process may use; 0: the host has none. */
static int count_tpus(void)
{
    const char *visible = xla_visible_chips();
    if (visible) return count_listed(visible);
    int older = count_files(SYSTEM_ROOT "/dev/accel[0-9]*", NULL);
    return older ? older : count_files(SYSTEM_ROOT "/dev/vfio/[0-9]*", may_be_tpu);
}

int xla_chips_asked(const char **text)
{
    const char *asked = getenv("LOCKSTEP_XLA_CHIPS");
    *text = asked;
    if (!asked || !*asked) return 1;
    if (strcmp(asked, "all") == 0) return 0;
    char *end;
    long count = strtol(asked, &end, 10);
    return *end || count < 1 || count > PJRT_MOST_CHIPS ? -1 : (int)count;
}

int xla_count(void)
{
    const char *text;
    int tpus = count_tpus(), size = xla_chips_asked(&text);
    if (size <= 0 || (tpus && tpus < size)) return 1; /* what is wrong with it is told when the device is opened */
    return !tpus ? OF_THE_CPU : tpus / size;
}
