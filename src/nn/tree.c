/* tree.c - find children, parameters and buffers of modules by name. */
#include "nn/module.h"

#include <stdio.h>
#include <string.h>

#include "base/nearest.h"

const char *ls_module_kind(const ls_module *module)
{
    return module ? module->kind : "";
}

const char *ls_module_name(const ls_module *module)
{
    return module && module->name ? module->name : "";
}

ls_run *ls_module_run(const ls_module *module)
{
    return module ? module->object.run : NULL;
}

int64_t ls_child_count(const ls_module *module)
{
    return module ? module->child_count : 0;
}

ls_module *ls_child_at(const ls_module *module, int64_t i)
{
    return i >= 0 && i < ls_child_count(module) ? module->children[i].module : NULL;
}

/* ---- by path ---- */

static bool part_is(const char *name, const char *part, size_t length)
{
    return strncmp(name, part, length) == 0 && name[length] == '\0';
}

/* The module that the first `length` characters of a path lead to; NULL if there is none. */
static const ls_module *descend(const ls_module *module, const char *path, size_t length)
{
    for (const char *end = path + length; module && path < end;) {
        const char *dot = memchr(path, '.', (size_t)(end - path));
        size_t part = (size_t)((dot ? dot : end) - path);
        const ls_module *next = NULL;
        for (int i = 0; !next && i < module->child_count; i++)
            if (part_is(module->children[i].name, path, part)) next = module->children[i].module;
        module = next;
        path += part + (dot ? 1 : 0);
    }
    return module;
}

/* Record that a path does not exist, with a suggestion: at the first wrong part, a child or, at the end of a tensor's
 * path, a parameter or buffer. */
static void complain(const ls_module *module, const char *who, const char *what, const char *path, bool tensors)
{
    const char *part = path;
    const ls_module *at = module;
    for (const char *dot; (dot = strchr(part, '.')); part = dot + 1) {
        const ls_module *next = descend(at, part, (size_t)(dot - part));
        if (!next) break;
        at = next;
    }
    size_t length = strcspn(part, ".");
    ls_nearest nearest = ls_nearest_to(part, length);
    for (int i = 0; i < at->child_count; i++) ls_nearest_try(&nearest, at->children[i].name);
    for (int i = 0; tensors && !part[length] && i < at->member_count; i++)
        ls_nearest_try(&nearest, at->members[i].name);
    char meant[400] = "", names[300];
    if (nearest.name)
        snprintf(meant, sizeof meant, "; did you mean \"%.*s%s\"?", (int)(part - path), path, nearest.name);
    else if (nearest.seen)
        snprintf(meant, sizeof meant, "; %.*s has %s", part > path ? (int)(part - path - 1) : 2,
                 part > path ? path : "it", ls_nearest_names(&nearest, names, sizeof names));
    ls_fail(&module->object.run->errors, LS_ERR_VALUE, "%s: %s has no %s \"%s\"%s", who, module->kind, what, path,
            meant);
}

ls_module *ls_child(const ls_module *module, const char *path)
{
    if (!module) return NULL;
    const ls_module *child = path ? descend(module, path, strlen(path)) : NULL;
    if (!child) complain(module, "ls_child", "child", path ? path : "", false);
    return (ls_module *)child;
}

ls_tensor *ls_module_tensor(const ls_module *module, const char *path)
{
    if (!module) return LS_POISON(ls_run_of(NULL), LS_ERR_VALUE, "ls_module_tensor: the module is NULL");
    const char *dot = path ? strrchr(path, '.') : NULL;
    const char *last = dot ? dot + 1 : path;
    const ls_module *owner = path ? descend(module, path, dot ? (size_t)(dot - path) : 0) : NULL;
    for (int i = 0; owner && i < owner->member_count; i++)
        if (strcmp(owner->members[i].name, last) == 0) return owner->members[i].tensor;
    complain(module, "ls_module_tensor", "parameter or buffer", path ? path : "", true);
    return &module->object.run->poison;
}

/* ---- all of them ---- */

enum { PATH_SIZE = 512 };

typedef struct walk {
    char path[PATH_SIZE];
    ls_visit_fn *visit;
    void *user;
} walk;

/* Append a name to the first `at` characters of the path; returns the new length, 0 if it does not fit. */
static size_t extend(walk *w, size_t at, const char *name)
{
    size_t length = strlen(name), dot = at ? 1 : 0;
    if (at + dot + length >= PATH_SIZE) return 0;
    if (dot) w->path[at] = '.';
    memcpy(w->path + at + dot, name, length + 1);
    return at + dot + length;
}

static bool too_long(const ls_module *module)
{
    return ls_fail(&module->object.run->errors, LS_ERR_VALUE, "a module path has more than %d characters", PATH_SIZE),
           false;
}

static bool visit_below(walk *w, const ls_module *module, size_t at)
{
    for (int buffers = 0; buffers < 2; buffers++) {
        for (int i = 0; i < module->member_count; i++) {
            const ls_module_member *member = &module->members[i];
            if (member->is_buffer != (buffers == 1)) continue;
            if (!extend(w, at, member->name)) return too_long(module);
            if (!w->visit(w->user, w->path, member)) return false;
        }
    }
    for (int i = 0; i < module->child_count; i++) {
        size_t length = extend(w, at, module->children[i].name);
        if (!length) return too_long(module);
        if (!visit_below(w, module->children[i].module, length)) return false;
    }
    return true;
}

bool ls_module_visit(const ls_module *module, ls_visit_fn *visit, void *user)
{
    walk w = {.visit = visit, .user = user};
    return visit_below(&w, module, 0);
}

typedef struct listing {
    ls_state *list;
    int64_t count;
    bool parameters_only;
} listing;

static bool list_member(void *user, const char *path, const ls_module_member *member)
{
    listing *l = user;
    if (l->parameters_only) {
        if (member->is_buffer) return true;
        for (int64_t i = 0; i < l->count; i++)
            if (l->list->entries[i].tensor == member->tensor) return true;
    }
    return ls_state_refresh(l->list, l->count++, path, member->tensor);
}

static ls_state *list_members(ls_module *module, ls_state **list, bool parameters_only)
{
    if (!*list) *list = ls_state_new(module->object.run);
    if (!*list) return NULL;
    listing l = {.list = *list, .parameters_only = parameters_only};
    if (!ls_module_visit(module, list_member, &l)) return NULL;
    ls_state_truncate(*list, l.count);
    return *list;
}

ls_state *ls_parameters(ls_module *module)
{
    if (!module || ls_object_has_ended(module, "ls_parameters")) return NULL;
    return list_members(module, &module->parameters, true);
}

ls_state *ls_state_dict(ls_module *module)
{
    if (!module || ls_object_has_ended(module, "ls_state_dict")) return NULL;
    return list_members(module, &module->state, false);
}

static int64_t count_parameters(ls_module *module, bool trainable_only)
{
    const ls_state *list = ls_parameters(module);
    int64_t sum = 0;
    for (int64_t i = 0; i < ls_state_count(list); i++)
        if (!trainable_only || ls_requires_grad(list->entries[i].tensor)) sum += ls_numel(list->entries[i].tensor);
    return sum;
}

int64_t ls_parameter_count(ls_module *module)
{
    return count_parameters(module, false);
}

int64_t ls_trainable_count(ls_module *module)
{
    return count_parameters(module, true);
}

/* ---- another type ---- */

static bool cast_member(void *user, const char *path, const ls_module_member *member)
{
    (void)path;
    ls_dtype dtype = *(const ls_dtype *)user;
    ls_tensor *t = member->tensor;
    if (member->is_buffer || t->view.dtype == dtype || !ls_dtype_is_float(t->view.dtype)) return true;
    ls_tensor *converted = ls_tensor_new_like(t, dtype);
    if (converted->life != LS_LIFE_LIVE || !ls_raw_copy(converted, t)) return false;
    bool trained = ls_requires_grad(t);
    ls_set_requires_grad(t, false);
    ls_adopt(t, converted);
    if (trained) ls_set_requires_grad(t, true);
    ls_drop(converted);
    return true;
}

void ls_module_cast(ls_module *module, ls_dtype dtype)
{
    if (!module || ls_failed(module->object.run)) return;
    if (!ls_dtype_is_float(dtype))
        ls_fail(&module->object.run->errors, LS_ERR_DTYPE,
                "ls_module_cast: parameters cannot be %s, only floating types", ls_dtype_name(dtype));
    else ls_module_visit(module, cast_member, &dtype);
}
