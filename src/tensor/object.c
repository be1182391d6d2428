/* object.c - the list of objects a run owns. */
#include "tensor/object.h"

#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "tensor/context.h"

void *ls_object_new(ls_run *run, ls_object_kind kind, size_t bytes, void (*clear)(void *object))
{
    ls_object *object = ls_sys_alloc(bytes);
    if (!object) return ls_fail(&run->errors, LS_ERR_MEMORY, "no memory for an object of %zu bytes", bytes), NULL;
    object->kind = kind;
    object->run = run;
    object->bytes = bytes;
    object->clear = clear;
    object->older = run->objects;
    if (run->objects) run->objects->newer = object;
    run->objects = object;
    return object;
}

static void clear_object(ls_object *object)
{
    if (object->newer) object->newer->older = object->older;
    else object->run->objects = object->older;
    if (object->older) object->older->newer = object->newer;
    if (object->clear) object->clear(object);
}

void ls_object_free(void *of)
{
    ls_object *object = of;
    if (!object || object->kind == LS_OBJECT_ENDED) return;
    clear_object(object);
    ls_sys_free(object);
}

/* ---- after the run ---- */

/* Calls check first whether the run of their object has failed, so nothing is written to this one. */
static ls_run ended_run = {.errors = {.code = LS_ERR_STATE, .message = "the run has ended"},
                           .poison = {.run = &ended_run, .life = LS_LIFE_POISON, .view.dtype = LS_F32}};

enum { REMEMBERED = 4096 };
static struct {
    pthread_mutex_t lock;
    ls_object *object[REMEMBERED];
    unsigned next;
} ended = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void end(ls_object *object)
{
    clear_object(object);
    memset(object, 0, object->bytes);
    object->kind = LS_OBJECT_ENDED;
    object->run = &ended_run;
    pthread_mutex_lock(&ended.lock);
    ls_object **place = &ended.object[ended.next++ % REMEMBERED], *oldest = *place;
    *place = object;
    pthread_mutex_unlock(&ended.lock);
    ls_sys_free(oldest);
}

/* A hook may be freed with its owner before the program removes it: its handle must not dangle. */
void ls_hook_remove(ls_hook *hook)
{
    ls_object *object = (ls_object *)hook;
    if (object && object->kind != LS_OBJECT_ENDED) end(object);
}

void ls_objects_free(ls_run *run)
{
    while (run->objects) end(run->objects);
}

bool ls_object_has_ended(const void *of, const char *who)
{
    const ls_object *object = of;
    if (!object || object->kind != LS_OBJECT_ENDED) return false;
    ls_fail(&ls_run_of(NULL)->errors, LS_ERR_STATE,
            "%s: the run of this object has ended; no object outlives ls_finish()", who);
    return true;
}

ls_state *ls_object_parameters(void *of)
{
    ls_object *object = of;
    if (!object || ls_object_has_ended(object, "ls_parameters")) return NULL;
    return object->parameters ? object->parameters(object) : NULL;
}

char *ls_text_copy(ls_run *run, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = ls_sys_alloc(bytes);
    if (!copy) return ls_fail(&run->errors, LS_ERR_MEMORY, "no memory for the name %s", text), NULL;
    return memcpy(copy, text, bytes);
}
