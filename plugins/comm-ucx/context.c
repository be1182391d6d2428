/* context.c - the UCX context of the process, and its settings. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucs/config/global_opts.h>

#include "ucx.h"

/* Differences from UCX's defaults. A variable UCX_<name> set by the user takes precedence. */
static const struct {
    const char *name, *value;
} settings[] = {
    /* Ranks of one host use the library's own shared memory. UCX's would only cost start-up time and space in /dev/shm,
     * of which containers have 64 MiB, and it cannot detect a dead peer. */
    {"TLS", "^sm"},
    /* A host that does not answer must not block the thread that connects to it. */
    {"TCP_CONN_NB", "y"},
    /* A host that vanishes silently is detected after 2 + 3 x 1 seconds instead of 16: by the side that connected, if
     * nothing was in flight. A stopped process is not detected: its kernel answers. UCX's own keepalive messages stay
     * rare (KEEPALIVE_INTERVAL, 20 s), because while one is in flight the kernel does not probe. */
    {"TCP_KEEPIDLE", "2s"},
    {"TCP_KEEPINTVL", "1s"},
    {"TCP_KEEPCNT", "3"},
    /* Half a MiB is sent or received in one system call, not eight: an all-reduce between two hosts takes three
     * quarters of the time. */
    {"TCP_RX_SEG_SIZE", "512k"},
    {"TCP_TX_SEG_SIZE", "256k"},
    /* One event at a time: if several arrive together, as when a peer with two connections exits, the first may close
     * what the second refers to, and UCX 1.13 then aborts the process. */
    {"TCP_MAX_POLL", "1"},
};

static struct {
    pthread_mutex_t lock;
    ucp_context_h context;
    int user_setting;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *user_setting(const char *name)
{
    char variable[64];
    snprintf(variable, sizeof variable, "UCX_%s", name);
    return getenv(variable);
}

/* Is this kind of network enabled? UCX refuses settings of others, with a warning. */
static bool in_use(const char *name)
{
    const char *networks = user_setting("TLS");
    return strncmp(name, "TCP_", 4) != 0 || !networks || *networks == '^' || strstr(networks, "tcp") ||
           strstr(networks, "all");
}

static ucs_status_t set_all(ucp_config_t *config)
{
    unsigned major, minor, release;
    ucp_get_version(&major, &minor, &release);
    bool short_names = major == 1 && minor < 17; /* CONN_NB instead of TCP_CONN_NB */
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const char *name = settings[i].name;
        if (user_setting(name) || !in_use(name)) continue;
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
    /* From here on callers report failures; UCX would also print each where it happens. */
    if (status == UCS_OK && !user_setting("LOG_LEVEL")) (void)ucs_global_opts_set_value("LOG_LEVEL", "fatal");
    return status;
}

ucp_context_h ucx_context_get(ls_message *why)
{
    pthread_mutex_lock(&shared.lock);
    if (!shared.context) ucx_wait_for_networks();
    ucs_status_t status = shared.context ? UCS_OK : make(&shared.context);
    if (status == UCS_OK) shared.user_setting++;
    else shared.context = NULL;
    ucp_context_h context = shared.context;
    pthread_mutex_unlock(&shared.lock);
    if (!context)
        snprintf(why->text, sizeof why->text,
                 "UCX: cannot create a context: %s; `ucx_info -d` lists the networks it finds here",
                 ucs_status_string(status));
    return context;
}

void ucx_context_put(void)
{
    pthread_mutex_lock(&shared.lock);
    if (--shared.user_setting == 0) {
        ucp_cleanup(shared.context);
        shared.context = NULL;
    }
    pthread_mutex_unlock(&shared.lock);
}
