/* nccl.c - find NCCL. */
#include "nccl.h"

#include <dlfcn.h>
#include <pthread.h>

static nccl_functions functions;
static ls_message failure; /* empty: the functions are there */

/* ISO C has no cast from object to function pointer. */
static bool find(void *library, const char *symbol, void *function, size_t size)
{
    void *found = dlsym(library, symbol);
    memcpy(function, &found, size);
    if (!found)
        cuda_refuse(&failure, LS_ERR_UNSUPPORTED, "libnccl.so.2 has no %s: NCCL 2.14 or newer is needed", symbol);
    return found != NULL;
}

static void load(void)
{
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        cuda_refuse(&failure, LS_ERR_UNSUPPORTED, "%.200s", dlerror());
        return;
    }
#define LS_NCCL(member, symbol, result, parameters)                                                                    \
    if (!find(library, symbol, &functions.member, sizeof functions.member)) return;
    LS_NCCL_LIST(LS_NCCL)
#undef LS_NCCL
}

const nccl_functions *nccl_load(ls_message *why)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    if (!failure.text[0]) return &functions;
    *why = failure;
    return NULL;
}
