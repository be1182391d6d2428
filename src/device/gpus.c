/* gpus.c - count the GPUs of this host. */
#include "device/gpus.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/library.h"

bool ls_driver_is_there(const char *files)
{
    for (const char *file = files; *file;) {
        char path[1024];
        size_t length = strcspn(file, ":");
        snprintf(path, sizeof path, "%.*s", (int)length, file);
        if (access(path, F_OK) == 0) return true;
        file += length + (file[length] == ':');
    }
    return false;
}

int ls_gpus_count(ls_message *why)
{
    if (!ls_driver_is_there(ls_config_text(LS_SETTING_GPU_FILES)) || !ls_library_installed(LS_GPU_PLUGIN)) return 0;
    return ls_device_count(LS_GPU_PLUGIN, why);
}
