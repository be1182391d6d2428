/* gpu_device.c - the asynchronous device as "cuda", on hosts without a GPU.
 *
 * PRETENDED_GPUS: how many there are; CUDA_VISIBLE_DEVICES shows some of them. PRETENDED_FAILURE: why they cannot be
 * opened. PRETENDED_TABLE: the plug-in has none. PRETENDED_GROUP: why it has no collectives of its own.
 * PRETENDED_CONNECTION: why all ranks but the first cannot open them. */
#define ls_plugin_v2 async_plugin
#include "async_device.c"
#undef ls_plugin_v2

#include <lockstep/group.h>

#include "../../plugins/device-cuda/count.h"

static int pretended_count(void)
{
    const char *count = getenv("PRETENDED_GPUS");
    return cuda_visible(getenv("CUDA_VISIBLE_DEVICES"), count ? atoi(count) : 0);
}

static ls_status pretended_open(const ls_host *host, const ls_device_open_args *args, void **handle, ls_message *why)
{
    const char *failure = getenv("PRETENDED_FAILURE");
    if (!failure) return device_open(host, args, handle, why);
    snprintf(why->text, sizeof why->text, "%s", failure);
    return LS_ERR_DEVICE;
}

static ls_status pretended_id(void *handle, char id[LS_GROUP_ID_BYTES], ls_message *why)
{
    (void)handle, (void)id;
    const char *failure = getenv("PRETENDED_GROUP");
    snprintf(why->text, sizeof why->text, "%s", failure ? failure : "");
    return failure ? LS_ERR_UNSUPPORTED : LS_OK;
}

static ls_status pretended_connect(void *handle, const char id[LS_GROUP_ID_BYTES], int rank, int size, void **group,
                                   ls_message *why)
{
    (void)id, (void)size;
    *group = handle;
    if (rank == 0) return LS_OK; /* only some may fail */
    snprintf(why->text, sizeof why->text, "%s", getenv("PRETENDED_CONNECTION"));
    *group = NULL;
    return LS_ERR_DEVICE;
}

static void forget_group(void *group)
{
    (void)group;
}

extern void ls_plugin_describe(int index, char *text, size_t size);

void ls_plugin_describe(int index, char *text, size_t size)
{
    char word[64];
    if (cuda_visible_word(getenv("CUDA_VISIBLE_DEVICES"), index, word, sizeof word))
        snprintf(text, size, "Pretended GPU %s, 80.0 GiB, driver 1.2", word);
}

extern ls_plugin_entry ls_plugin_v2;

const ls_device_table *ls_plugin_v2(const ls_host *host)
{
    static const ls_group_table groups = {
        .id = pretended_id, .open = pretended_connect, .abort = forget_group, .close = forget_group};
    static _Thread_local ls_device_table table; /* the library copies it */
    const ls_device_table *plain = async_plugin(host);
    if (!plain || getenv("PRETENDED_TABLE")) return NULL;
    table = *plain;
    table.name = "cuda";
    table.count = pretended_count;
    table.open = pretended_open;
    if (getenv("PRETENDED_GROUP") || getenv("PRETENDED_CONNECTION")) table.group = &groups;
    return &table;
}
