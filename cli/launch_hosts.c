/* launch_hosts.c - the options of torchrun and accelerate for the number of hosts and where they connect. */
#include "launch_hosts.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* "4", or "2:4". */
static bool read_range(const char *text, int *least, int *most)
{
    char *end;
    long from = strtol(text, &end, 10), upto = from;
    if (end == text) return false;
    if (*end == ':') {
        char *second = end + 1;
        upto = strtol(second, &end, 10);
        if (end == second) return false;
    }
    *least = (int)from;
    *most = (int)upto;
    return !*end && from >= 1 && upto >= from && upto <= 1 << 16;
}

/* Settings of torchrun that are not numbers: who leads, and the type of its store, which is ignored. */
static bool read_word(const char *text, size_t name, const char *value, size_t length, ls_launch_opts *opts)
{
    static const char *const words[] = {"0", "1", "f", "t", "n", "y", "no", "yes", "false", "true"};
    bool leads = name == 7 && strncmp(text, "is_host", name) == 0, known = false;
    for (size_t i = 0; leads && i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i]) != length || strncasecmp(words[i], value, length) != 0) continue;
        opts->leads = i % 2 ? 1 : 0;
        known = true;
    }
    if (name == 10 && strncmp(text, "store_type", name) == 0) known = length == 3 && strncasecmp(value, "tcp", 3) == 0;
    return known || (name == 9 && strncmp(text, "use_libuv", name) == 0);
}

/* Settings of torchrun's rendezvous that apply here, and our own. */
static bool read_conf(const char *text, ls_launch_opts *opts, char *why, size_t size)
{
    double interval = 0, attempts = 0, unused;
    const struct {
        const char *name;
        double *to;
    } known[] = {
        {"join_timeout", &opts->join_timeout},
        {"timeout", &opts->join_timeout},
        {"last_call_timeout", &opts->last_call},
        {"heartbeat", &opts->heartbeat},
        {"dead_after", &opts->dead_after},
        {"keep_alive_interval", &interval},
        {"keep_alive_max_attempt", &attempts},
        {"close_timeout", &unused},
        {"read_timeout", &unused},
        {"heartbeat_timeout", &unused},
    };
    for (const char *c = text + strspn(text, " "); *c;) {
        size_t length = strcspn(c, ", "), name = strcspn(c, "="), which = 0, count = sizeof known / sizeof *known;
        while (which < count && (strlen(known[which].name) != name || strncmp(known[which].name, c, name) != 0))
            which++;
        char *end = NULL;
        double value = name < length ? strtod(c + name + 1, &end) : -1;
        bool word = name < length && read_word(c, name, c + name + 1, length - name - 1, opts);
        if (!word && (which == count || name >= length || end != c + length || !(value >= 0))) {
            snprintf(why, size, "--rdzv-conf %.*s: unknown setting, or not a number", (int)length, c);
            return false;
        }
        if (!word) *known[which].to = value;
        c += length;
        c += strspn(c, ", ");
    }
    if (interval > 0) opts->heartbeat = interval;
    if (attempts > 0) opts->dead_after = attempts * (interval > 0 ? interval : 5);
    return true;
}

bool launch_hosts(const launch_options *options, ls_launch_opts *opts, char *why, size_t size)
{
    option count = given_of(options, OPTION_NNODES, OPTION_NUM_MACHINES);
    option rank = given_of(options, OPTION_NODE_RANK, OPTION_MACHINE_RANK);
    option address = given_of(options, OPTION_MASTER_ADDR, OPTION_MAIN_PROCESS_IP);
    option port = given_of(options, OPTION_MASTER_PORT, OPTION_MAIN_PROCESS_PORT);
    const char *backend = options->value[OPTION_RDZV_BACKEND], *conf = options->value[OPTION_RDZV_CONF];
    opts->hostfile = options->value[OPTION_HOSTFILE];
    opts->min_hosts = opts->max_hosts = 1;
    if (options->value[OPTION_STANDALONE] && opts->hostfile) {
        snprintf(why, size, "--standalone is for this host only: omit --hostfile");
        return false;
    }
    if (options->value[OPTION_STANDALONE]) return true;
    if (opts->hostfile && (options->value[count] || options->value[rank])) {
        snprintf(why, size, "--hostfile gives the number of hosts and the rank of this one: omit %s",
                 option_name(options->value[count] ? count : rank));
        return false;
    }
    if (options->value[count] && !read_range(options->value[count], &opts->min_hosts, &opts->max_hosts)) {
        snprintf(why, size, "%s %s: must be a number of hosts, or MIN:MAX", option_name(count), options->value[count]);
        return false;
    }
    if (conf && !read_conf(conf, opts, why, size)) return false;
    opts->elastic = (backend && strcasecmp(backend, "c10d") == 0) || opts->min_hosts != opts->max_hosts;
    opts->host_rank = opts->elastic ? 0 : option_count(options, rank, 0);
    if (opts->host_rank >= opts->max_hosts) {
        snprintf(why, size, "%s %d: there are %d hosts, counted from 0", option_name(rank), opts->host_rank,
                 opts->max_hosts);
        return false;
    }
    const char *endpoint = options->value[OPTION_RDZV_ENDPOINT];
    opts->endpoint = endpoint && *endpoint ? endpoint : NULL;
    opts->master_port = option_count(options, port, 0);
    opts->master_addr =
        options->value[opts->elastic && options->value[OPTION_LOCAL_ADDR] ? OPTION_LOCAL_ADDR : address];
    return true;
}
