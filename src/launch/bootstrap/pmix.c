/* pmix.c - the PMIx client: the few functions of libpmix that an exchange needs, loaded at run time. */
#include "launch/bootstrap/pmix.h"

#include "base/memory.h"
#include "launch/bootstrap/pmix_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LONGEST_WAIT 1e8 /* seconds */
enum { MOST_RANKS = 1 << 24 };

typedef ls_pmix_process process;
typedef ls_pmix_value value;
typedef ls_pmix_info info;

struct ls_pmix {
    ls_pmix_library with;
    process me;
    uint32_t world;
    int rounds;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool fenced;
    bool lost; /* a fence is still pending in the library, which will write here */
    int fence_status;
};

static ls_status failed(const ls_pmix *pmix, const char *what, int code, ls_message *why)
{
    return ls_explain(why, LS_ERR_PEER, "PMIx: %s: %.150s", what, pmix->with.error_string(code));
}

/* ---- Opening --------------------------------------------------------------------------------------------------- */

static bool load(ls_pmix_library *library, ls_message *why)
{
    const struct {
        const char *name;
        void *to;
    } functions[] = {
        {"PMIx_Init", &library->init},
        {"PMIx_Finalize", &library->finalize},
        {"PMIx_Put", &library->put},
        {"PMIx_Commit", &library->commit},
        {"PMIx_Get", &library->get},
        {"PMIx_Fence_nb", &library->fence},
        {"PMIx_Error_string", &library->error_string},
    };
    /* Global, because its own plug-ins look for its symbols. Never closed: the library does not survive that. */
    void *handle = dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL);
    if (!handle) ls_message_set(why, "PMIx: %.200s; install libpmix2", dlerror());
    for (size_t i = 0; handle && i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(handle, functions[i].name);
        memcpy(functions[i].to, &found, sizeof found);
        if (found) continue;
        ls_message_set(why, "PMIx: libpmix.so.2 has no %s", functions[i].name);
        return false;
    }
    return handle != NULL;
}

static void free_value(value *got)
{
    if (got && got->type == LS_PMIX_BYTES) free(got->data.bytes.start); /* allocated by the library, like the value */
    free(got);
}

static ls_status find_world(ls_pmix *pmix, ls_message *why)
{
    process all = pmix->me;
    all.rank = LS_PMIX_ANY_RANK;
    value *size = NULL;
    int code = pmix->with.get(&all, "pmix.job.size", NULL, 0, &size);
    bool told = !code && size && size->type == LS_PMIX_UINT32;
    if (told) pmix->world = size->data.uint32;
    free_value(size);
    if (code) return failed(pmix, "number of processes", code, why);
    if (told && pmix->world <= MOST_RANKS && pmix->me.rank < pmix->world) return LS_OK;
    return ls_explain(why, LS_ERR_PEER, "PMIx: the server reports rank %u of %u processes", pmix->me.rank, pmix->world);
}

ls_status ls_pmix_open_with(ls_pmix **to, const ls_pmix_library *library, int *rank, int *world, ls_message *why)
{
    *to = NULL;
    ls_pmix *pmix = ls_sys_alloc(sizeof *pmix);
    if (!pmix) return ls_explain(why, LS_ERR_MEMORY, "PMIx: out of memory");
    pmix->with = *library;
    int code = pmix->with.init(&pmix->me, NULL, 0);
    if (code) {
        ls_status status = failed(pmix, "PMIx_Init", code, why);
        ls_sys_free(pmix);
        return status;
    }
    pthread_mutex_init(&pmix->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&pmix->changed, &attributes);
    pthread_condattr_destroy(&attributes);

    ls_status status = find_world(pmix, why);
    if (status) {
        ls_pmix_close(pmix);
        return status;
    }
    *rank = (int)pmix->me.rank;
    *world = (int)pmix->world;
    *to = pmix;
    return LS_OK;
}

ls_status ls_pmix_open(ls_pmix **to, int *rank, int *world, ls_message *why)
{
    ls_pmix_library library;
    *to = NULL;
    return load(&library, why) ? ls_pmix_open_with(to, &library, rank, world, why) : LS_ERR_UNSUPPORTED;
}

void ls_pmix_close(ls_pmix *pmix)
{
    if (!pmix || pmix->lost) return;
    pmix->with.finalize(NULL, 0);
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

/* Wait for all and fetch what they have put. Not every server respects the library's own time limit. */
static ls_status fence(ls_pmix *pmix, double seconds, ls_message *why)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    double whole = (double)end.tv_sec + (double)end.tv_nsec * 1e-9 + seconds;
    end.tv_sec = (time_t)whole;
    end.tv_nsec = (long)((whole - (double)end.tv_sec) * 1e9);

    info collect = {.key = "pmix.collect", .value = {.type = LS_PMIX_BOOL, .data.flag = true}};
    pmix->fenced = false;
    int code = pmix->with.fence(NULL, 0, &collect, 1, fence_done, pmix);
    if (code == LS_PMIX_DONE_ALREADY) return LS_OK;
    if (code) return failed(pmix, "PMIx_Fence", code, why);
    pthread_mutex_lock(&pmix->lock);
    while (!pmix->fenced && pthread_cond_timedwait(&pmix->changed, &pmix->lock, &end) == 0) continue;
    pmix->lost = !pmix->fenced;
    code = pmix->fence_status;
    pthread_mutex_unlock(&pmix->lock);
    if (pmix->lost)
        return ls_explain(why, LS_ERR_PEER, "PMIx: rank %u of %u: not every rank got this far within %g s",
                          pmix->me.rank, pmix->world, seconds);
    return code ? failed(pmix, "PMIx_Fence", code, why) : LS_OK;
}

ls_status ls_pmix_all_gather(ls_pmix *pmix, const void *mine, size_t size, void *all, double seconds, ls_message *why)
{
    if (pmix->lost) return ls_explain(why, LS_ERR_STATE, "PMIx: an earlier exchange failed");
    char key[32];
    if (seconds > LONGEST_WAIT) seconds = LONGEST_WAIT; /* avoids overflow below */
    snprintf(key, sizeof key, "lockstep.%d", pmix->rounds++);
    value given = {.type = LS_PMIX_BYTES};
    given.data.bytes.start = (char *)(uintptr_t)mine; /* only read */
    given.data.bytes.size = size;
    int code = pmix->with.put(LS_PMIX_GLOBAL, key, &given);
    if (!code) code = pmix->with.commit();
    if (code) return failed(pmix, "PMIx_Put", code, why);
    ls_status status = fence(pmix, seconds, why);

    info limit = {.key = "pmix.timeout", .value = {.type = LS_PMIX_INT, .data.integer = (int)seconds + 1}};
    for (uint32_t rank = 0; rank < pmix->world && !status; rank++) {
        process whose = pmix->me;
        whose.rank = rank;
        value *got = NULL;
        code = pmix->with.get(&whose, key, &limit, 1, &got);
        if (code) return failed(pmix, "PMIx_Get", code, why);
        bool fits = got && got->type == LS_PMIX_BYTES && got->data.bytes.size == size;
        if (fits) memcpy((char *)all + rank * size, got->data.bytes.start, size);
        free_value(got);
        if (!fits)
            status = ls_explain(why, LS_ERR_PEER, "PMIx: rank %u sent a different number of bytes than rank %u", rank,
                                pmix->me.rank);
    }
    return status;
}
