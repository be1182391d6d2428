/* tpu_device.c - the asynchronous device as "xla", on hosts without TPUs. TPU_VISIBLE_CHIPS: the chips that the process
 * has, as for libtpu; without it, all 8. PRETENDED_FAILURE: why they cannot be opened. */
#define ls_plugin_v2 async_plugin
#include "async_device.c"
#undef ls_plugin_v2

static int pretended_count(void)
{
    const char *visible = getenv("TPU_VISIBLE_CHIPS");
    int count = visible ? 1 : 8;
    for (; visible && *visible; visible++) count += *visible == ',';
    return count;
}

static ls_status pretended_open(const ls_host *host, const ls_device_open_args *args, void **handle, ls_message *why)
{
    const char *failure = getenv("PRETENDED_FAILURE");
    if (!failure) return device_open(host, args, handle, why);
    snprintf(why->text, sizeof why->text, "%s", failure);
    return LS_ERR_DEVICE;
}

extern void ls_plugin_describe(int index, char *text, size_t size);

void ls_plugin_describe(int index, char *text, size_t size)
{
    const char *visible = getenv("TPU_VISIBLE_CHIPS");
    snprintf(text, size, "Pretended chip %d", visible ? atoi(visible) : index);
}

extern ls_plugin_entry ls_plugin_v2;

const ls_device_table *ls_plugin_v2(const ls_host *host)
{
    static _Thread_local ls_device_table table; /* the library copies it */
    const ls_device_table *plain = async_plugin(host);
    if (!plain) return NULL;
    table = *plain;
    table.name = "xla";
    table.count = pretended_count;
    table.open = pretended_open;
    return &table;
}
