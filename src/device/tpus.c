/* tpus.c - count the TPU chips of this host. */
#include "device/tpus.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/library.h"
#include "device/gpus.h"

#define GOOGLE "0x1ae0" /* who also makes network cards */

static const struct {
    const char *number, *kind;
} devices[] = {
#define LS_TPU(number, kind) {number, kind},
#include <lockstep/tpus.def>
#undef LS_TPU
};

/* What a device's file of this name says: a number of 6 characters. */
static void read_number(const char *folder, const char *device, const char *name, char number[8])
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s/%s", folder, device, name);
    FILE *file = fopen(path, "r");
    number[0] = '\0';
    if (file && fscanf(file, "%7s", number) != 1) number[0] = '\0';
    if (file) fclose(file);
}

static const char *kind_of(const char *folder, const char *device)
{
    char vendor[8], number[8];
    read_number(folder, device, "vendor", vendor);
    if (strcmp(vendor, GOOGLE) != 0) return NULL;
    read_number(folder, device, "device", number);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (strcmp(devices[i].number, number) == 0) return devices[i].kind;
    return NULL;
}

int ls_tpus_count(const char **kind)
{
    const char *folder = ls_config_text(LS_SETTING_TPU_FOLDER), *last = NULL;
    int count = 0;
    bool usable = ls_driver_is_there(ls_config_text(LS_SETTING_TPU_FILES)) && ls_library_installed(LS_TPU_PLUGIN);
    DIR *list = usable ? opendir(folder) : NULL;
    for (struct dirent *entry; list && (entry = readdir(list));) {
        const char *found = entry->d_name[0] == '.' ? NULL : kind_of(folder, entry->d_name);
        if (found) last = found;
        count += found != NULL;
    }
    if (list) closedir(list);
    if (kind) *kind = last;
    return count;
}
