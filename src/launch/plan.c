/* plan.c - complete the options of a launch, and derive the environment of each worker. */
#include "launch/plan.h"

#include "base/config.h"
#include "base/cpus.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/opts.h"
#include "base/status.h"
#include "device/gpus.h"
#include "device/tpus.h"
#include "launch/control/loop.h"
#include "launch/control/wire.h"
#include "launch/hosts.h"
#include "launch/tpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

int ls_launch_gpus(void)
{
    const char *device = ls_config_text(LS_SETTING_DEVICE);
    ls_message why;
    bool automatic = !*device || strcmp(device, LS_GPU_PLUGIN) == 0;
    int count = automatic && !ls_config_switch(LS_SETTING_USE_CPU) ? ls_gpus_count(&why) : 0;
    return count > 0 ? count : 0;
}

int ls_launch_tpus(void)
{
    const char *device = ls_config_text(LS_SETTING_DEVICE);
    bool named = strcmp(device, LS_TPU_PLUGIN) == 0;
    if (ls_config_switch(LS_SETTING_USE_CPU) || (*device && !named)) return 0;
    return named || !ls_launch_gpus() ? ls_tpus_count(NULL) : 0;
}

int ls_launch_cpus(void)
{
    int allowed = ls_cpus_allowed(NULL, 0), quota = ls_cpus_quota("");
    return quota && quota < allowed ? quota : allowed;
}

static bool is_free(int port)
{
    ls_message why;
    int fd = ls_wire_listen(port, &why);
    if (fd >= 0) close(fd);
    return fd >= 0;
}

/* Ports from the first of these on are ephemeral: the system may assign them at any moment. */
static int first_ephemeral_port(void)
{
    int first = 0;
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "r");
    if (file && fscanf(file, "%d", &first) != 1) first = 0;
    if (file) fclose(file);
    return first;
}

int ls_port_find(int wanted)
{
    enum { LEAST = 20000, TRIES = 100 };
    if (wanted && is_free(wanted)) return wanted;
    int first = first_ephemeral_port(), most = first >= LEAST + TRIES ? first : 65536, found = 0;
    uint32_t random = (uint32_t)ls_now() ^ (uint32_t)getpid() << 16;
    for (int i = 0; i < TRIES && !found; i++) {
        int port = LEAST + (int)((random + (uint32_t)i * 7919u) % (uint32_t)(most - LEAST));
        if (is_free(port)) found = port;
    }
    if (wanted) ls_log_line(LS_LOG_WARN, "port %d is already in use; workers use port %d instead", wanted, found);
    return found;
}

/* ---- Lists by local rank -------------------------------------------------------------------------------------- */

bool ls_streams_parse(const char *text, int processes, uint8_t *streams)
{
    memset(streams, 0, (size_t)processes);
    if (text[0] >= '0' && text[0] <= '3' && !text[1]) {
        memset(streams, text[0] - '0', (size_t)processes);
        return true;
    }
    for (const char *c = text;;) {
        char *end;
        long rank = strtol(c, &end, 10);
        if (end == c || *end != ':' || rank < 0 || end[1] < '0' || end[1] > '3') return false;
        if (rank < processes) streams[rank] = (uint8_t)(end[1] - '0');
        c = end + 2;
        if (!*c) return true;
        if (*c++ != ',') return false;
    }
}

static bool parse_ranks(const char *text, int processes, bool *listed)
{
    for (const char *c = text;;) {
        char *end;
        long rank = strtol(c, &end, 10);
        if (end == c || rank < 0) return false;
        if (rank < processes) listed[rank] = true;
        if (!*end) return true;
        if (*end != ',') return false;
        c = end + 1;
    }
}

/* ---- Checks --------------------------------------------------------------------------------------------------- */

static void refuse(const char *what, const char *value, const char *wanted)
{
    ls_log_line(LS_LOG_ERROR, "launch: %s \"%s\": %s", what, value, wanted);
}

/* Seconds: not NaN, and small enough to be counted in nanoseconds from now. */
#define LONGEST_TIME 1e9
static bool is_time(double seconds)
{
    return seconds >= 0 && seconds <= LONGEST_TIME;
}

static bool check(ls_launch_opts *o)
{
    char number[32];
    snprintf(number, sizeof number, "%d", o->num_processes);
    if (o->num_processes < 1 || o->num_processes > LS_MOST_PROCESSES) {
        refuse("number of processes", number, "must be from 1 to 4096");
        return false;
    }
    if (o->max_restarts < 0 || o->max_quick_restarts < 0 || o->master_port < 0 || o->master_port > 65535) {
        ls_log_line(LS_LOG_ERROR, "launch: restarts and port must not be negative, and a port must be below 65536");
        return false;
    }
    if (!is_time(o->shutdown_timeout)) {
        ls_log_line(LS_LOG_ERROR, "launch: shutdown_timeout %g: must be from 0 to %g seconds", o->shutdown_timeout,
                    LONGEST_TIME);
        return false;
    }
    if (o->num_threads != LS_AUTO && o->num_threads < 1) {
        ls_log_line(LS_LOG_ERROR, "launch: num_threads %d: must be at least 1", o->num_threads);
        return false;
    }
    if (o->min_hosts < 1 || o->max_hosts < o->min_hosts) {
        ls_log_line(LS_LOG_ERROR, "launch: from %d to %d hosts: must be 1 or more, in ascending order", o->min_hosts,
                    o->max_hosts);
        return false;
    }
    if (o->host_rank < 0 || o->host_rank >= o->max_hosts) {
        ls_log_line(LS_LOG_ERROR, "launch: host_rank %d: must be less than the number of hosts, %d", o->host_rank,
                    o->max_hosts);
        return false;
    }
    static const char *const precisions[] = {"no", "fp16", "bf16", "fp8"};
    bool known = !o->mixed_precision;
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions && !known; i++) {
        known = strcasecmp(o->mixed_precision, precisions[i]) == 0;
        if (known) o->mixed_precision = precisions[i]; /* in the spelling that programs read */
    }
    if (!known) refuse("mixed_precision", o->mixed_precision, "must be no, fp16, bf16 or fp8");
    return known;
}

static void settle_threads(ls_launch_opts *o, const char *const *inherited)
{
    static const char *const names[] = {"LOCKSTEP_NUM_THREADS", "OMP_NUM_THREADS"}; /* by precedence */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (o->num_threads == LS_AUTO)
            o->num_threads = ls_environment_integer(inherited, names[i], 1, 1 << 16, LS_AUTO);
    if (o->num_threads != LS_AUTO) return;
    o->num_threads = ls_launch_cpus() / o->num_processes;
    if (!o->num_threads) o->num_threads = 1;
    ls_log_line(LS_LOG_INFO, "launch: %d worker%s with %d thread%s each, the CPUs divided among them (OMP_NUM_THREADS)",
                o->num_processes, LS_S(o->num_processes), o->num_threads, LS_S(o->num_threads));
}

/* "host:port", "[::1]:port" or "host". */
static bool split_endpoint(ls_plan *plan, const char *text, int fallback)
{
    const char *colon = strrchr(text, ':'), *bracket = strrchr(text, ']');
    bool has_port = colon && (bracket ? colon > bracket : strchr(text, ':') == colon);
    size_t length = has_port ? (size_t)(colon - text) : strlen(text);
    if (text[0] == '[' && length > 2) text++, length -= 2;
    char *end = NULL;
    long port = has_port ? strtol(colon + 1, &end, 10) : fallback;
    if (length == 0 || length >= sizeof plan->meeting_host || port < 1 || port > 65535 || (end && *end)) return false;
    memcpy(plan->meeting_host, text, length);
    plan->meeting_host[length] = '\0';
    plan->meeting_port = (int)port;
    return true;
}

/* Find this host's line in the host file. The first line is the leader, and each gives a number of processes. */
static bool read_hostfile(ls_plan *plan)
{
    enum { MOST = 1 << 20 };
    ls_launch_opts *o = &plan->opts;
    ls_host_list hosts = {0};
    ls_message why = {""};
    FILE *file = fopen(o->hostfile, "r");
    char *text = file ? ls_sys_alloc(MOST) : NULL;
    if (!file) ls_message_set(&why, "%s", strerror(errno));
    if (text) text[fread(text, 1, MOST - 1, file)] = '\0';
    if (file) fclose(file);
    ls_status status = text ? ls_host_list_parse(text, &hosts, &why) : LS_ERR_IO;
    ls_sys_free(text);
    int here = 0;
    while (here < hosts.count && !ls_wire_is_here(hosts.host[here].name)) here++;
    bool found = !status && here < hosts.count;
    if (found) {
        o->min_hosts = o->max_hosts = hosts.count;
        o->host_rank = here;
        if (o->num_processes == LS_AUTO) o->num_processes = hosts.host[here].slots;
        snprintf(plan->first_host, sizeof plan->first_host, "%s", hosts.host[0].name);
        if (!o->master_addr) o->master_addr = plan->first_host;
    } else if (!status) {
        ls_message_set(&why, "this host is not in it");
    }
    if (!found) ls_log_line(LS_LOG_ERROR, "launch: host file %s: %s", o->hostfile, why.text);
    ls_host_list_free(&hosts);
    return found;
}

/* Either one number of hosts or a range: with an upper end alone, host ranks would mean nothing. */
static bool settle_number_of_hosts(ls_launch_opts *o)
{
    bool ranged = o->min_hosts != LS_AUTO || o->max_hosts != LS_AUTO;
    if (o->num_hosts != LS_AUTO && ranged && (o->num_hosts != o->min_hosts || o->num_hosts != o->max_hosts)) {
        ls_log_line(LS_LOG_ERROR, "launch: num_hosts %d and min_hosts %d to max_hosts %d: give only one of the two",
                    o->num_hosts, o->min_hosts, o->max_hosts);
        return false;
    }
    if (o->max_hosts != LS_AUTO && o->min_hosts == LS_AUTO && !o->elastic) {
        ls_log_line(LS_LOG_ERROR,
                    "launch: max_hosts %d without min_hosts: for a job of %d hosts give num_hosts, for an elastic one "
                    "both",
                    o->max_hosts, o->max_hosts);
        return false;
    }
    if (o->num_hosts != LS_AUTO) o->min_hosts = o->max_hosts = o->num_hosts;
    if (o->min_hosts == LS_AUTO) o->min_hosts = 1;
    if (o->max_hosts == LS_AUTO) o->max_hosts = o->min_hosts;
    o->num_hosts = o->max_hosts;
    return true;
}

static bool settle_hosts(ls_plan *plan)
{
    enum { STATIC_PORT = 29500, ELASTIC_PORT = 29400 };
    ls_launch_opts *o = &plan->opts;
    if (!(o->heartbeat > 0 && o->dead_after >= o->heartbeat && is_time(o->dead_after))) {
        ls_log_line(LS_LOG_ERROR, "launch: heartbeat %g s, dead_after %g s: must be above 0, dead_after longer",
                    o->heartbeat, o->dead_after);
        return false;
    }
    if (!is_time(o->join_timeout) || !is_time(o->last_call)) {
        ls_log_line(LS_LOG_ERROR, "launch: join_timeout %g, last_call %g: must be from 0 to %g seconds",
                    o->join_timeout, o->last_call, LONGEST_TIME);
        return false;
    }
    if (o->min_hosts != o->max_hosts) o->elastic = true;
    if (!o->endpoint && !o->master_addr) {
        ls_log_line(LS_LOG_ERROR, "When using multiple machines, you need to specify the main process IP.");
        return false;
    }
    if (!o->master_port) o->master_port = STATIC_PORT;
    const char *given = o->endpoint ? o->endpoint : o->master_addr;
    if (!split_endpoint(plan, given, o->elastic ? ELASTIC_PORT : o->master_port + 1)) {
        refuse("endpoint", given, "give host:port");
        return false;
    }
    if (!o->master_addr) o->master_addr = plan->meeting_host;
    return true;
}

bool ls_plan_make(ls_plan *plan, const ls_launch_opts *opts, size_t opts_size, const char *const *inherited)
{
    memset(plan, 0, sizeof *plan);
    plan->inherited = inherited;
    ls_launch_opts *o = &plan->opts;
    *o = LS_OPTS_READ(ls_launch_opts, opts, opts_size);
    if (o->hostfile && !read_hostfile(plan)) return false;
    if (o->num_processes == LS_AUTO) o->num_processes = 1;
    if (!settle_number_of_hosts(o)) return false;
    o->dead_after = ls_opts_real(o->dead_after, o->heartbeat > 1 ? 2 * o->heartbeat : 2);
    if (!check(o) || (o->max_hosts > 1 && !settle_hosts(plan))) return false;
    if (!o->master_addr) o->master_addr = "127.0.0.1";
    if (!o->run_id || !*o->run_id) o->run_id = "none";
    if (!o->role) o->role = "default";
    if (!o->tee) o->tee = "0";
    if (!o->redirects) o->redirects = "0";
    if (!ls_tpu_settle(plan)) return false;
    settle_threads(o, inherited);
    if (o->max_hosts == 1) o->master_port = ls_port_find(o->master_port);
    if (!o->token || !*o->token) o->token = ls_config_text(LS_SETTING_JOB_TOKEN);
    if (!*o->token) o->token = o->run_id;

    int n = o->num_processes;
    plan->redirected = ls_sys_alloc((size_t)n);
    plan->teed = ls_sys_alloc((size_t)n);
    plan->shown = ls_sys_alloc((size_t)n * sizeof *plan->shown);
    bool good = plan->redirected && plan->teed && plan->shown;
    if (good && !ls_streams_parse(o->tee, n, plan->teed)) {
        refuse("tee", o->tee, "give 0, 1, 2 or 3, or a list such as 0:3,1:2");
        good = false;
    }
    if (good && !ls_streams_parse(o->redirects, n, plan->redirected)) {
        refuse("redirects", o->redirects, "give 0, 1, 2 or 3, or a list such as 0:3,1:2");
        good = false;
    }
    if (good && o->show_ranks && *o->show_ranks && !parse_ranks(o->show_ranks, n, plan->shown)) {
        refuse("local ranks", o->show_ranks, "give a list such as 0,2");
        good = false;
    }
    if (good && (!o->show_ranks || !*o->show_ranks)) memset(plan->shown, true, (size_t)n * sizeof *plan->shown);
    if (!good) ls_plan_free(plan);
    return good;
}

void ls_plan_free(ls_plan *plan)
{
    ls_sys_free(plan->redirected);
    ls_sys_free(plan->teed);
    ls_sys_free(plan->shown);
    memset(plan, 0, sizeof *plan);
}

/* ---- Devices -------------------------------------------------------------------------------------------------- */

bool ls_plan_is_for_cpu(const ls_plan *plan)
{
    const char *const *own = plan->opts.environment;
    return ls_environment_switch(own, "ACCELERATE_USE_CPU") || ls_environment_switch(own, "LOCKSTEP_USE_CPU");
}

int ls_plan_tpus(const ls_plan *plan)
{
    const char *device = ls_environment_get(plan->opts.environment, "LOCKSTEP_DEVICE");
    if (ls_plan_is_for_cpu(plan)) return 0;
    if (!device) return ls_launch_tpus();
    return strcmp(device, LS_TPU_PLUGIN) == 0 ? ls_tpus_count(NULL) : 0;
}

/* ---- Environment ---------------------------------------------------------------------------------------------- */

void ls_plan_environment(const ls_plan *plan, const ls_assignment *a, int local_rank, const char *error_file,
                         ls_environment *e)
{
    const ls_launch_opts *o = &plan->opts;
    int rank = a->first_rank + local_rank;
    ls_environment_add_all(e, plan->inherited);
    ls_environment_add_all(e, o->environment);
    if (o->mixed_precision) ls_environment_set(e, "ACCELERATE_MIXED_PRECISION", "%s", o->mixed_precision);
    /* A program's own variables would override what follows; variables that another launcher set for this process are
     * not for its workers. */
    static const char *const own[] = {
        "LOCKSTEP_RANK",        "LOCKSTEP_WORLD_SIZE",  "LOCKSTEP_LOCAL_RANK", "LOCKSTEP_LOCAL_WORLD_SIZE",
        "LOCKSTEP_MASTER_ADDR", "LOCKSTEP_MASTER_PORT", "LOCKSTEP_COMM_FILE",  "LOCKSTEP_NUM_THREADS"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) ls_environment_unset(e, own[i]);
    /* Names and meanings as in torchrun. GROUP is the host; the role is the whole job, as in torchrun's command. */
    ls_environment_set(e, "LOCAL_RANK", "%d", local_rank);
    ls_environment_set(e, "RANK", "%d", rank);
    ls_environment_set(e, "GROUP_RANK", "%d", a->host_rank);
    ls_environment_set(e, "ROLE_RANK", "%d", rank);
    ls_environment_set(e, "ROLE_NAME", "%s", o->role);
    ls_environment_set(e, "LOCAL_WORLD_SIZE", "%d", o->num_processes);
    ls_environment_set(e, "WORLD_SIZE", "%d", a->world);
    ls_environment_set(e, "GROUP_WORLD_SIZE", "%d", a->hosts);
    ls_environment_set(e, "ROLE_WORLD_SIZE", "%d", a->world);
    ls_environment_set(e, "MASTER_ADDR", "%s", a->master_addr);
    ls_environment_set(e, "MASTER_PORT", "%d", a->master_port);
    ls_environment_set(e, "TORCHELASTIC_RESTART_COUNT", "%d", a->attempt);
    ls_environment_set(e, "TORCHELASTIC_MAX_RESTARTS", "%d", o->max_restarts);
    ls_environment_set(e, "TORCHELASTIC_RUN_ID", "%s", o->run_id);
    if (strcmp(o->token, o->run_id) != 0) ls_environment_set(e, "LOCKSTEP_JOB_TOKEN", "%s", o->token);
    /* PyTorch's rank 0 runs its own store at MASTER_PORT. */
    ls_environment_set(e, "TORCHELASTIC_USE_AGENT_STORE", "False");
    ls_environment_set(e, "TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT");
    ls_environment_set(e, "TORCHELASTIC_ERROR_FILE", "%s", error_file);
    if (!ls_environment_get(plan->inherited, "TORCH_NCCL_ASYNC_ERROR_HANDLING"))
        ls_environment_set(e, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
    ls_environment_set(e, "OMP_NUM_THREADS", "%d", o->num_threads);
    if (!o->pin) ls_environment_set(e, "LOCKSTEP_PIN", "no");
    if (plan->on_tpu) ls_tpu_environment(plan, a, local_rank, e);
}
