/* pmix.c - the few functions of libpmix that an exchange takes, found when the program runs. */
#include "launch/pmix.h"

#include "base/memory.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- What the PMIx standard lays down, versions 3 to 5 --------------------------------------------------------- */

enum { TYPE_BOOL = 1, TYPE_INT = 6, TYPE_UINT32 = 14, TYPE_BYTES = 27 };
enum { SCOPE_GLOBAL = 3, DONE_ALREADY = -157 };
#define FOR_EVER 1e8 /* seconds */
#define ANY_RANK (UINT32_MAX - 1)

typedef struct process {
    char space[256];
    uint32_t rank;
} process;

typedef struct value {
    uint16_t type;
    union {
        bool flag;
        int integer;
        uint32_t uint32;
        struct {
            char *start;
            size_t size;
        } bytes;
        void *room[3]; /* the largest member has three words */
    } data;
} value;

typedef struct info {
    char key[512];
    uint32_t flags;
    value value;
} info;

typedef void (*on_done)(int status, void *user);

struct ls_pmix {
    void *library;
    int (*init)(process *me, info *with, size_t count);
    int (*finalize)(const info *with, size_t count);
    int (*put)(uint8_t scope, const char *key, value *what);
    int (*commit)(void);
    int (*fence)(const process *who, size_t whos, const info *with, size_t count, on_done done, void *user);
    int (*get)(const process *whose, const char *key, const info *with, size_t count, value **what);
    const char *(*error_string)(int status);
    process me;
    uint32_t world;
    int rounds;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool fenced;
    bool lost; /* a fence is still under way in the library, which will write here */
    int fence_status;
};

static ls_status failed(const ls_pmix *pmix, const char *what, int code, ls_message *why)
{
    snprintf(why->text, sizeof why->text, "PMIx: %s: %.150s", what, pmix->error_string(code));
    return LS_ERR_PEER;
}

/* ---- Opening --------------------------------------------------------------------------------------------------- */

static bool load(ls_pmix *pmix, ls_message *why)
{
    const struct {
        const char *name;
        void *to;
    } functions[] = {
        {"PMIx_Init", &pmix->init},
        {"PMIx_Finalize", &pmix->finalize},
        {"PMIx_Put", &pmix->put},
        {"PMIx_Commit", &pmix->commit},
        {"PMIx_Get", &pmix->get},
        {"PMIx_Fence_nb", &pmix->fence},
        {"PMIx_Error_string", &pmix->error_string},
    };
    /* Its own plug-ins look for its symbols. */
    pmix->library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL);
    if (!pmix->library) snprintf(why->text, sizeof why->text, "PMIx: %.200s; install libpmix2", dlerror());
    for (size_t i = 0; pmix->library && i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(pmix->library, functions[i].name);
        memcpy(functions[i].to, &found, sizeof found);
        if (found) continue;
        snprintf(why->text, sizeof why->text, "PMIx: libpmix.so.2 has no %s", functions[i].name);
        return false;
    }
    return pmix->library != NULL;
}

ls_status ls_pmix_open(ls_pmix **to, int *rank, int *world, ls_message *why)
{
    *to = NULL;
    ls_pmix *pmix = ls_sys_alloc(sizeof *pmix);
    if (!pmix) {
        snprintf(why->text, sizeof why->text, "PMIx: out of memory");
        return LS_ERR_MEMORY;
    }
    ls_status status = load(pmix, why) ? LS_OK : LS_ERR_UNSUPPORTED;
    int code = status ? 0 : pmix->init(&pmix->me, NULL, 0);
    if (code) status = failed(pmix, "PMIx_Init", code, why);
    if (status) { /* the library stays: it does not survive being closed */
        ls_sys_free(pmix);
        return status;
    }
    pthread_mutex_init(&pmix->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&pmix->changed, &attributes);
    pthread_condattr_destroy(&attributes);

    process all = pmix->me;
    all.rank = ANY_RANK;
    value *size = NULL;
    code = pmix->get(&all, "pmix.job.size", NULL, 0, &size);
    if (code || size->type != TYPE_UINT32) {
        status = failed(pmix, "number of processes", code, why);
        ls_pmix_close(pmix);
        return status;
    }
    pmix->world = size->data.uint32;
    free(size); /* the library's */
    *rank = (int)pmix->me.rank;
    *world = (int)pmix->world;
    *to = pmix;
    return LS_OK;
}

void ls_pmix_close(ls_pmix *pmix)
{
    if (!pmix || pmix->lost) return;
    pmix->finalize(NULL, 0);
    pthread_cond_destroy(&pmix->changed);
    pthread_mutex_destroy(&pmix->lock);
    ls_sys_free(pmix);
}

/* ---- Exchange -------------------------------------------------------------------------------------------------- */

static void fence_done(int status, void *user)
{
    ls_pmix *pmix = user;
    pthread_mutex_lock(&pmix->lock);
    pmix->fenced = true;
    pmix->fence_status = status;
    pthread_cond_signal(&pmix->changed);
    pthread_mutex_unlock(&pmix->lock);
}

/* Wait for all, and bring what they have put. The library's own time limit is not kept by every server. */
static ls_status fence(ls_pmix *pmix, double seconds, ls_message *why)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    double whole = (double)end.tv_sec + (double)end.tv_nsec * 1e-9 + seconds;
    end.tv_sec = (time_t)whole;
    end.tv_nsec = (long)((whole - (double)end.tv_sec) * 1e9);

    info collect = {.key = "pmix.collect", .value = {.type = TYPE_BOOL, .data.flag = true}};
    pmix->fenced = false;
    int code = pmix->fence(NULL, 0, &collect, 1, fence_done, pmix);
    if (code == DONE_ALREADY) return LS_OK;
    if (code) return failed(pmix, "PMIx_Fence", code, why);
    pthread_mutex_lock(&pmix->lock);
    while (!pmix->fenced && pthread_cond_timedwait(&pmix->changed, &pmix->lock, &end) == 0) continue;
    pmix->lost = !pmix->fenced;
    code = pmix->fence_status;
    pthread_mutex_unlock(&pmix->lock);
    if (pmix->lost) {
        snprintf(why->text, sizeof why->text, "PMIx: rank %u of %u: not every rank has come this far in %g s",
                 pmix->me.rank, pmix->world, seconds);
        return LS_ERR_PEER;
    }
    return code ? failed(pmix, "PMIx_Fence", code, why) : LS_OK;
}

ls_status ls_pmix_all_gather(ls_pmix *pmix, const void *mine, size_t size, void *all, double seconds, ls_message *why)
{
    if (pmix->lost) {
        snprintf(why->text, sizeof why->text, "PMIx: an earlier exchange has failed");
        return LS_ERR_STATE;
    }
    char key[32];
    if (seconds > FOR_EVER) seconds = FOR_EVER; /* what follows wants a number that fits */
    snprintf(key, sizeof key, "lockstep.%d", pmix->rounds++);
    value given = {.type = TYPE_BYTES};
    given.data.bytes.start = (char *)(uintptr_t)mine; /* only read */
    given.data.bytes.size = size;
    int code = pmix->put(SCOPE_GLOBAL, key, &given);
    if (!code) code = pmix->commit();
    if (code) return failed(pmix, "PMIx_Put", code, why);
    ls_status status = fence(pmix, seconds, why);

    info limit = {.key = "pmix.timeout", .value = {.type = TYPE_INT, .data.integer = (int)seconds + 1}};
    for (uint32_t rank = 0; rank < pmix->world && !status; rank++) {
        process whose = pmix->me;
        whose.rank = rank;
        value *got = NULL;
        code = pmix->get(&whose, key, &limit, 1, &got);
        if (code) return failed(pmix, "PMIx_Get", code, why);
        bool fits = got->type == TYPE_BYTES && got->data.bytes.size == size;
        if (fits) memcpy((char *)all + rank * size, got->data.bytes.start, size);
        if (got->type == TYPE_BYTES) free(got->data.bytes.start); /* the library's */
        free(got);
        if (!fits) {
            snprintf(why->text, sizeof why->text, "PMIx: rank %u gave another number of bytes than rank %u", rank,
                     pmix->me.rank);
            status = LS_ERR_PEER;
        }
    }
    return status;
}
