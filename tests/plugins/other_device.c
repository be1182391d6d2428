/* other_device.c - a plug-in that was built for another list of operators, as an old one is: it must not be used. */
#include <lockstep/plugin.h>

static int device_count(void)
{
    return 1;
}

extern ls_plugin_entry ls_plugin_v2;

const ls_device_table *ls_plugin_v2(const ls_host *host)
{
    static const ls_device_table table = {
        .abi = LS_PLUGIN_ABI,
        .size = sizeof(ls_device_table),
        .call_size = sizeof(ls_call),
        .operators = "copy fill lerp arange ",
        .name = "other",
        .count = device_count,
    };
    (void)host;
    return &table;
}
