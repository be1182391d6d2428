/* context.c - the one UCX context of a process, and the settings it is made with. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucs/config/global_opts.h>

#include "ucx.h"

/* What differs from UCX's own defaults. The variable UCX_<name> of the user wins over each. */
static const struct {
    const char *name, *value;
} settings[] = {
    /* Ranks of one host talk through memory of the library's own. UCX's shared memory would only cost time at start and
     * room in /dev/shm, of which containers have 64 MiB, and it cannot tell that a peer is dead. */
    {"TLS", "^sm"},
    /* A host that does not answer must not hold up the thread that connects to it. */
    {"TCP_CONN_NB", "y"},
    /* A host that is gone without a word is noticed after 2 + 3 x 1 seconds of silence, not after 16: by the side that
     * connected, and if nothing was under way. A stopped process is not: its kernel answers. UCX's own messages of
     * life stay rare (KEEPALIVE_INTERVAL, 20 s), because while one is under way the kernel does not ask. */
    {"TCP_KEEPIDLE", "2s"},
    {"TCP_KEEPINTVL", "1s"},
    {"TCP_KEEPCNT", "3"},
    /* Parts of half a MiB come and go in one call of the kernel each, not in eight: an all-reduce between two hosts
     * takes three quarters of the time. */
    {"TCP_RX_SEG_SIZE", "512k"},
    {"TCP_TX_SEG_SIZE", "256k"},
    /* One event at a time: of several that come together, as when a peer with two connections ends, the first may close
     * what the second is for, and UCX 1.13 aborts the process then. */
    {"TCP_MAX_POLL", "1"},
};

static struct {
    pthread_mutex_t lock;
    ucp_context_h context;
    int users;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *users(const char *name)
{
    char variable[64];
    snprintf(variable, sizeof variable, "UCX_%s", name);
    return getenv(variable);
}

/* Settings of a kind of network are refused, with a warning, where the user does without it. */
static bool in_use(const char *name)
{
    const char *networks = users("TLS");
    return strncmp(name, "TCP_", 4) != 0 || !networks || *networks == '^' || strstr(networks, "tcp") ||
           strstr(networks, "all");
}

static ucs_status_t set_all(ucp_config_t *config)
{
    unsigned major, minor, release;
    ucp_get_version(&major, &minor, &release);
    bool short_names = major == 1 && minor < 17; /* CONN_NB, where later ones say TCP_CONN_NB */
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const char *name = settings[i].name;
        if (users(name) || !in_use(name)) continue;
        if (short_names && strncmp(name, "TCP_", 4) == 0) name += 4;
        ucs_status_t status = ucp_config_modify(config, name, settings[i].value);
        if (status != UCS_OK) return status;
    }
    return UCS_OK;
}

static ucs_status_t make(ucp_context_h *context)
{
    ucp_config_t *config = NULL;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK) return status;
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP,
        .mt_workers_shared = 1,
        .name = "lockstep",
    };
    status = set_all(config);
    if (status == UCS_OK) status = ucp_init(&params, config, context);
    ucp_config_release(config);
    /* From here on failures are told in words by whoever calls; UCX would print each where it happens, in its own. */
    if (status == UCS_OK && !users("LOG_LEVEL")) (void)ucs_global_opts_set_value("LOG_LEVEL", "fatal");
    return status;
}

ucp_context_h ucx_context_get(ls_message *why)
{
    pthread_mutex_lock(&shared.lock);
    if (!shared.context) ucx_wait_for_networks();
    ucs_status_t status = shared.context ? UCS_OK : make(&shared.context);
    if (status == UCS_OK) shared.users++;
    else shared.context = NULL;
    ucp_context_h context = shared.context;
    pthread_mutex_unlock(&shared.lock);
    if (!context)
        snprintf(why->text, sizeof why->text, "UCX: no context: %s; `ucx_info -d` shows which networks it finds here",
                 ucs_status_string(status));
    return context;
}

void ucx_context_put(void)
{
    pthread_mutex_lock(&shared.lock);
    if (--shared.users == 0) {
        ucp_cleanup(shared.context);
        shared.context = NULL;
    }
    pthread_mutex_unlock(&shared.lock);
}
