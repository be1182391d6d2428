/* device.c - choose the device of a run, so that every process of a host has a GPU or a TPU chip of its own. */
#include "run/device.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/memory.h"
#include "device/gpus.h"
#include "device/tpus.h"
#include "tensor/exchange.h"

/* Who decided on the device: it determines what a failure tells the user. */
typedef enum decider { BY_PROGRAM, BY_ENVIRONMENT, BY_ITSELF } decider;

/* A failure, with what the user can do about it. */
static void fail(ls_run *run, decider who, ls_status code, const char *name, const char *why)
{
    ls_errors_clear(&run->errors);
    bool is_cpu = strcmp(name, "cpu") == 0; /* chosen for want of a GPU, or to avoid one */
    if (who == BY_PROGRAM || is_cpu) ls_fail(&run->errors, code, "%s", why);
    else if (who == BY_ENVIRONMENT)
        ls_fail(&run->errors, code,
                "ls_init: LOCKSTEP_DEVICE=%s, set by a launcher if GPUs or TPUs are requested: %s. To train on the "
                "CPU, unset it, or launch with --cpu, without --multi_gpu, --gpu_ids and --tpu",
                name, why);
    else
        ls_fail(&run->errors, code,
                "ls_init: there is a %s, but it cannot be used: %s. To train on the CPU, give --use_cpu or set "
                "LOCKSTEP_USE_CPU=1",
                strcmp(name, LS_TPU_PLUGIN) == 0 ? "TPU" : "GPU", why);
}

/* The name of a device, perhaps without an index. NULL (and an error) if there is a GPU that cannot be used. */
static const char *decide(ls_run *run, const char *given, decider *who)
{
    const char *asked = ls_config_text(LS_SETTING_DEVICE);
    ls_message why = {{0}};
    *who = given ? BY_PROGRAM : BY_ENVIRONMENT;
    if (given) return given;
    if (ls_config_switch(LS_SETTING_USE_CPU)) return "cpu";
    if (*asked) return asked;
    *who = BY_ITSELF;
    int count = ls_gpus_count(&why);
    if (count > 0) return LS_GPU_PLUGIN;
    if (count == 0) return ls_tpus_count(NULL) ? LS_TPU_PLUGIN : "cpu";
    return fail(run, BY_ITSELF, LS_ERR_DEVICE, LS_GPU_PLUGIN, why.text), NULL;
}

/* ---- one device for each process ---- */

/* What a process of the job takes. */
typedef struct claim {
    uint64_t host_key;
    int32_t processes, devices; /* of its host */
    char host[64];
    char device[160]; /* in words that differ between the devices of a host */
} claim;

/* The first rank with the device of this rank. */
static int first_with_device(const claim *all, int rank)
{
    int r = 0;
    while (all[r].host_key != all[rank].host_key || strcmp(all[r].device, all[rank].device) != 0) r++;
    return r;
}

/* Several processes of a host would take turns on one GPU and each need memory of it: slower than one process. All
 * processes find the same pair, including those with a GPU of their own. */
static void refuse_sharing(ls_run *run, const char *plugin, const claim *all)
{
    const char *unit = strcmp(plugin, LS_TPU_PLUGIN) == 0 ? "TPU chip" : "GPU";
    for (int r = 1; r < ls_world_size(run); r++) {
        int other = first_with_device(all, r), count = all[r].devices;
        if (other == r) continue;
        ls_fail(&run->errors, LS_ERR_DEVICE,
                "ls_init: ranks %d and %d would share a %s (%s): host %s has %d processes for %d %s%s. Start one for "
                "each %s (--num_processes %d), train on the CPU (--cpu), or set LOCKSTEP_SHARE_GPU=1 to share it",
                other, r, unit, all[r].device, all[r].host, all[r].processes, count, unit, LS_S(count), unit, count);
        ls_errors_print(&run->errors, true);
        ls_exchange_barrier(run, "ls_init"); /* a launcher ends the process that prints when one of the others ends */
        return;
    }
}

/* Compare the devices of all processes: all of them call this. */
static bool devices_differ(ls_run *run, const char *plugin, int index, int count)
{
    int world = ls_world_size(run);
    claim mine = {.host_key = ls_host_key(), .processes = ls_local_world_size(run), .devices = count};
    claim *all = ls_sys_alloc((size_t)world * sizeof *all);
    if (!all) return ls_fail(&run->errors, LS_ERR_MEMORY, "ls_init: no memory"), false;
    gethostname(mine.host, sizeof mine.host - 1);
    ls_device_describe(plugin, index, mine.device, sizeof mine.device);
    if (ls_exchange_all(run, &mine, all, sizeof mine, "ls_init: devices of processes")) {
        for (int r = 0; r < world; r++)
            ls_log_of_job(LS_LOG_INFO, "rank %d trains on %s of %s", r, all[r].device, all[r].host);
        if (!ls_config_switch(LS_SETTING_SHARE_GPU)) refuse_sharing(run, plugin, all);
    }
    ls_sys_free(all);
    return !ls_failed(run);
}

/* Of a plug-in's devices, local rank k takes number k. Where a process sees fewer than there are processes, the
 * launcher may have given each of them its own: the first is taken, and devices_differ() detects if it is not so. */
static bool take_own(ls_run *run, const char *plugin, char *name, size_t size)
{
    ls_message why = {{0}};
    int given = ls_device_index(plugin), local = ls_local_rank(run), index = given;
    char plain[500];
    snprintf(plain, sizeof plain, "%s", plugin);
    if (given >= 0) *strrchr(plain, ':') = '\0';
    int count = ls_device_count(plain, &why);
    if (count <= 0 || given >= count) return snprintf(name, size, "%s", plugin), true; /* opening it says why */
    if (given < 0 && count >= ls_local_world_size(run)) index = local;
    else if (given < 0) index = ls_config_switch(LS_SETTING_SHARE_GPU) ? local % count : 0;
    snprintf(name, size, "%s:%d", plain, index);
    return devices_differ(run, plain, index, count);
}

/* ---- together ---- */

static ls_status gather(void *user, const void *mine, void *all, size_t bytes, ls_message *why)
{
    const ls_run *run = user;
    if (!run->session) return ls_explain(why, LS_ERR_STATE, "the run has ended");
    const char *site = run->device ? "a step of all devices" : "ls_init: devices of processes";
    return ls_comm_all_gather(run->comm, mine, all, bytes, site, why);
}

static void open_together(ls_run *run, const char *name)
{
    ls_peers peers = {.rank = ls_rank(run),
                      .size = ls_world_size(run),
                      .is_local = ls_local_world_size(run) == ls_world_size(run),
                      .host = run->session->meeting_host,
                      .user = run,
                      .all_gather = gather};
    run->peers = &peers;
    run->device = ls_device_named(run, name);
    run->peers = NULL;
}

void ls_run_open_device(ls_run *run, const char *given)
{
    decider who;
    char own[512];
    const char *name = decide(run, given, &who);
    if (!name) return;
    snprintf(own, sizeof own, "%s", name);
    if (ls_world_size(run) > 1 && strcmp(name, "cpu") != 0 && !take_own(run, name, own, sizeof own)) return;
    if (ls_world_size(run) > 1) open_together(run, own);
    else run->device = ls_device_named(run, own);
    if (run->device) return;
    ls_errors why = run->errors;
    fail(run, who, why.code, name, why.message);
}
