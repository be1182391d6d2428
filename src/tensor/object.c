/* object.c - the list of things a run owns. */
#include "tensor/object.h"

#include <string.h>

#include "base/memory.h"
#include "tensor/context.h"

void *ls_object_new(ls_run *run, ls_object_kind kind, size_t bytes, void (*clear)(void *object))
{
    ls_object *object = ls_sys_alloc(bytes);
    if (!object) return ls_fail(&run->errors, LS_ERR_MEMORY, "no memory for an object of %zu bytes", bytes), NULL;
    object->kind = kind;
    object->run = run;
    object->clear = clear;
    object->older = run->objects;
    if (run->objects) run->objects->newer = object;
    run->objects = object;
    return object;
}

void ls_object_free(void *of)
{
    ls_object *object = of;
    if (!object) return;
    if (object->newer) object->newer->older = object->older;
    else object->run->objects = object->older;
    if (object->older) object->older->newer = object->newer;
    if (object->clear) object->clear(object);
    ls_sys_free(object);
}

void ls_objects_free(ls_run *run)
{
    while (run->objects) ls_object_free(run->objects);
}

char *ls_text_copy(ls_run *run, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = ls_sys_alloc(bytes);
    if (!copy) return ls_fail(&run->errors, LS_ERR_MEMORY, "no memory for the name %s", text), NULL;
    return memcpy(copy, text, bytes);
}
