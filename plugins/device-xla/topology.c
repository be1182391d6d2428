/* topology.c - chips that are not there: what the library knows about them, and what a program compiled for them
 * needs. */
#include <stdio.h>
#include <string.h>

#include "pjrt.h"

#define WHAT "LOCKSTEP_XLA_TOPOLOGY"

ls_status pjrt_describe(pjrt *p, const char *name, ls_message *why)
{
    pjrt_object_args nothing = {.object = NULL};
    pjrt_topology_args create = {.name = name, .name_size = strlen(name)};
    XLA_TRY(PJRT_CALL(p, Plugin_Initialize, &nothing, WHAT, why));
    ls_status status = PJRT_CALL(p, TopologyDescription_Create, &create, WHAT, why);
    if (status == LS_ERR_UNSUPPORTED)
        return xla_refuse(why, status,
                          WHAT "=%.40s: this PJRT library cannot compile for chips that are not there, but libtpu can "
                               "(pip install libtpu)",
                          name);
    XLA_TRY(status);
    pjrt_list_args platform = {.object = create.topology}, version = platform, chips = platform;
    XLA_TRY(PJRT_CALL(p, TopologyDescription_PlatformName, &platform, WHAT, why));
    XLA_TRY(PJRT_CALL(p, TopologyDescription_PlatformVersion, &version, WHAT, why));
    XLA_TRY(PJRT_CALL(p, TopologyDescription_GetDeviceDescriptions, &chips, WHAT, why));
    pjrt_copy_text(&platform, p->platform, sizeof p->platform);
    pjrt_copy_text(&version, p->version, sizeof p->version);
    p->chip_count = chips.length;
    p->topology = create.topology;
    return LS_OK;
}

static const pjrt_value *find(const pjrt_value *values, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (values[i].name_size == strlen(name) && memcmp(values[i].name, name, values[i].name_size) == 0)
            return &values[i];
    return NULL;
}

ls_status pjrt_kind(const pjrt *p, char *kind, size_t size, int64_t *memory, ls_message *why)
{
    ls_message ignored;
    pjrt_list_args chips = {.object = p->topology}, attributes = chips;
    XLA_TRY(PJRT_CALL(p, TopologyDescription_GetDeviceDescriptions, &chips, WHAT, why));
    const void *const *list = chips.list;
    pjrt_list_args name = {.object = chips.length ? list[0] : NULL};
    if (name.object) XLA_TRY(PJRT_CALL(p, DeviceDescription_Kind, &name, WHAT, why));
    pjrt_copy_text(&name, kind, size);
    *memory = 0;
    if (PJRT_CALL(p, TopologyDescription_Attributes, &attributes, WHAT, &ignored)) return LS_OK;
    const pjrt_value *limit = find(attributes.list, attributes.length, "device_memory_bytes_limit");
    if (limit && limit->type == PJRT_VALUE_INTEGER) *memory = limit->value.integer;
    return LS_OK;
}

ls_status pjrt_measure(const pjrt *p, const pjrt_executable *executable, pjrt_needs *needs, ls_message *why)
{
    pjrt_memory_args memory = {.executable = executable};
    pjrt_cost_args cost = {.executable = executable};
    XLA_TRY(PJRT_CALL(p, Executable_GetCompiledMemoryStats, &memory, "memory of a program", why));
    XLA_TRY(PJRT_CALL(p, Executable_GetCostAnalysis, &cost, "operations of a program", why));
    const pjrt_value *operations = find(cost.values, cost.count, "flops");
    *needs = (pjrt_needs){.code = memory.code,
                          .arguments = memory.arguments,
                          .results = memory.results,
                          .aliased = memory.aliased,
                          .temporaries = memory.temporaries,
                          .peak = memory.peak};
    if (operations && operations->type == PJRT_VALUE_FLOAT) needs->operations = (double)operations->value.real;
    return LS_OK;
}
