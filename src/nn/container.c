/* container.c - modules made of numbered modules. */
#include <stdio.h>

#include "nn/module.h"

static ls_tensor *sequential_forward(ls_module *self, ls_tensor *x, void *user)
{
    (void)user;
    for (int i = 0; i < self->child_count; i++) x = ls_forward(self->children[i].module, x);
    return x;
}

ls_module *ls_module_append(ls_module *list, ls_module *child)
{
    char name[16];
    snprintf(name, sizeof name, "%d", ls_child_count(list));
    return ls_module_add(list, name, child);
}

static ls_module *container_new(ls_run *run, const char *kind, ls_forward_fn *forward, int n, ls_module *const *modules)
{
    ls_module *container = ls_layer_new(run, kind, sizeof *container, forward);
    for (int i = 0; i < n; i++) ls_module_append(container, modules[i]);
    return ls_layer_done(container);
}

ls_module *ls_sequential_of(ls_run *run, int n, ls_module *const *modules)
{
    return container_new(run, "Sequential", sequential_forward, n, modules);
}

ls_module *ls_module_list_of(ls_run *run, int n, ls_module *const *modules)
{
    return container_new(run, "ModuleList", NULL, n, modules);
}
