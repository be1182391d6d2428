/* hooks.c - functions of the program that are called before and after a module's forward function. */
#include "nn/module.h"

typedef struct ls_module_hook {
    ls_hook hook;
    ls_module *module;
    struct ls_module_hook *next;
    uint64_t serial;                /* grows with every hook of the module */
    ls_forward_pre_hook_fn *before; /* one of the two is set */
    ls_forward_hook_fn *after;
    void *user;
} ls_module_hook;

/* ---- adding and removing ---- */

static void clear(void *object)
{
    ls_module_hook *hook = object, **at = &hook->module->hooks;
    while (*at != hook) at = &(*at)->next;
    *at = hook->next;
}

static ls_hook *hook_new(ls_module *module, ls_module_hook functions, const char *who)
{
    if (!module || ls_object_has_ended(module, who)) return NULL;
    ls_run *run = module->object.run;
    if (ls_failed(run)) return NULL;
    if (!functions.before && !functions.after)
        return ls_fail(&run->errors, LS_ERR_VALUE, "%s: the function is NULL", who), NULL;
    ls_module_hook *hook = ls_object_new(run, LS_OBJECT_FORWARD_HOOK, sizeof *hook, clear), **end = &module->hooks;
    if (!hook) return NULL;
    hook->module = module;
    hook->serial = ++module->hook_serial;
    hook->before = functions.before;
    hook->after = functions.after;
    hook->user = functions.user;
    while (*end) end = &(*end)->next;
    *end = hook;
    return &hook->hook;
}

ls_hook *ls_register_forward_pre_hook(ls_module *module, ls_forward_pre_hook_fn *hook, void *user)
{
    return hook_new(module, (ls_module_hook){.before = hook, .user = user}, "ls_register_forward_pre_hook");
}

ls_hook *ls_register_forward_hook(ls_module *module, ls_forward_hook_fn *hook, void *user)
{
    return hook_new(module, (ls_module_hook){.after = hook, .user = user}, "ls_register_forward_hook");
}

void ls_hooks_free(ls_module *module)
{
    while (module->hooks) ls_hook_remove(&module->hooks->hook);
}

/* ---- calling ---- */

/* The first hook of a kind after serial `at` and up to `latest`. Hooks are found by serial because they may add and
 * remove others. */
static const ls_module_hook *next_hook(const ls_module *module, bool before, uint64_t at, uint64_t latest)
{
    for (const ls_module_hook *h = module->hooks; h && h->serial <= latest; h = h->next)
        if (h->serial > at && (h->before != NULL) == before) return h;
    return NULL;
}

ls_tensor *const *ls_hooks_before(ls_module *module, ls_tensor *const *given, int64_t n,
                                  ls_tensor *inputs[LS_MAX_MODULE_INPUTS])
{
    for (int64_t i = 0; i < n; i++) inputs[i] = given[i];
    const ls_run *run = module->object.run;
    const ls_module_hook *hook;
    uint64_t latest = module->hook_serial;
    for (uint64_t at = 0; !ls_failed(run) && (hook = next_hook(module, true, at, latest));) {
        at = hook->serial;
        hook->before(module, inputs, n, hook->user);
    }
    return inputs;
}

void ls_hooks_after(ls_module *module, ls_tensor *const *inputs, int64_t n, ls_outputs *outputs)
{
    const ls_run *run = module->object.run;
    const ls_module_hook *hook;
    uint64_t latest = module->hook_serial;
    for (uint64_t at = 0; !ls_failed(run) && (hook = next_hook(module, false, at, latest));) {
        at = hook->serial;
        hook->after(module, inputs, n, outputs, hook->user);
    }
}
