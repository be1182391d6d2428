/* scratch.c - scratch memory of the threads that run kernels.
 *
 * It belongs to the thread, not to the worker's number: a call that runs serially because the team is busy is worker 0
 * as well, and must not write into the memory of the team's worker 0. */
#include "base/guard.h"
#include "base/memory.h"
#include "base/parallel.h"

#include <pthread.h>
#include <stdbool.h>

#define SLOTS LS_SCRATCH_SLOTS
#define STEP ((size_t)64 << 10)      /* sizes are rounded up to this, */
#define LARGE_STEP ((size_t)2 << 20) /* or, from half of it on, to whole huge pages */

typedef struct slot {
    void *memory;
    size_t bytes;
} slot;

static _Thread_local slot slots[SLOTS];
static pthread_key_t key;
static bool key_made;

static void release_slots(void *of_thread)
{
    slot *all = of_thread;
    for (int i = 0; i < SLOTS; i++) {
        ls_sys_unmap(all[i].memory, all[i].bytes);
        all[i] = (slot){0};
    }
}

static void make_key(void)
{
    key_made = pthread_key_create(&key, release_slots) == 0;
}

static bool grow(slot *mine, size_t bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    if (key_made) pthread_setspecific(key, slots); /* released when the thread ends */

    size_t step = bytes > LARGE_STEP / 2 ? LARGE_STEP : STEP;
    if (bytes > SIZE_MAX - step) return false;
    size_t size = bytes ? (bytes + step - 1) / step * step : step;
    void *memory = ls_sys_map(size);
    if (!memory) return false;
    ls_sys_unmap(mine->memory, mine->bytes);
    *mine = (slot){memory, size};
    return true;
}

void *ls_scratch(ls_worker worker, int index, size_t bytes)
{
    (void)worker;
    slot *mine = &slots[index];
    if ((bytes > mine->bytes || !mine->memory) && !grow(mine, bytes)) return NULL;
    ls_guard_close(mine->memory, mine->bytes);
    ls_guard_open_new(mine->memory, bytes);
    return mine->memory;
}
