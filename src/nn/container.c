/* container.c - modules that contain numbered modules. */
#include <stdio.h>

#include "base/list.h"
#include "nn/layers.h"

/* Run the children in order; a convolution and the batch norm after it run together, and so do two linear layers. */
static ls_tensor *run_children(ls_module *self, int count, ls_tensor *x)
{
    ls_carried at = {.tensor = x};
    for (int i = 0; i < count; i++) {
        ls_module *child = self->children[i].module, *next = i + 1 < count ? self->children[i + 1].module : NULL;
        bool norms = ls_as_conv2d(child) && ls_as_batch_norm(next), both = norms || ls_is_feed_forward(child, next);
        ls_tensor *y = norms  ? ls_forward_conv_norm(child, next, at.tensor, NULL)
                       : both ? ls_forward_feed_forward(child, next, at.tensor)
                              : ls_forward(child, at.tensor);
        ls_carry_on(&at, child, both ? next : NULL, y);
        i += both;
    }
    return at.tensor;
}

static ls_tensor *sequential_forward(ls_module *self, ls_tensor *x, void *user)
{
    (void)user;
    return run_children(self, self->child_count, x);
}

/* A norm after a Sequential. */
typedef struct norm_behind {
    ls_module *norm;
    bool done; /* the last child has applied it */
} norm_behind;

static ls_outputs forward_before_norm(ls_module *self, ls_tensor *const *x, int64_t n, void *user)
{
    (void)n;
    norm_behind *behind = user;
    int last = self->child_count - 1;
    ls_module *conv = self->children[last].module;
    ls_tensor *y = run_children(self, last, x[0]);
    behind->done = ls_conv_norm_is_one(conv, behind->norm, y, NULL);
    return LS_OUTPUTS(behind->done ? ls_forward_conv_norm(conv, behind->norm, y, NULL) : ls_forward(conv, y));
}

ls_tensor *ls_forward_sequential_norm(ls_module *sequential, ls_module *norm, ls_tensor *x)
{
    norm_behind behind = {.norm = norm};
    bool plain = !sequential || sequential->child_count == 0 || sequential->object.prepared || sequential->hooks;
    ls_tensor *y =
        plain ? ls_forward(sequential, x) : ls_forward_as(sequential, forward_before_norm, &x, 1, &behind).item[0];
    if (behind.done) return y;
    ls_carried at = {.tensor = x};
    ls_carry_on(&at, sequential, NULL, y);
    ls_carry_on(&at, norm, NULL, ls_forward(norm, y));
    return at.tensor;
}

ls_module *ls_module_append(ls_module *list, ls_module *child)
{
    char name[16];
    snprintf(name, sizeof name, "%d", (int)ls_child_count(list));
    return ls_module_add(list, name, child);
}

static ls_module *container_new(ls_run *run, const char *kind, ls_forward_fn *forward, ls_module *const *modules,
                                int64_t count)
{
    if (!ls_list_is_sound(&run->errors, kind, "modules", modules, count)) return NULL;
    ls_module *container = ls_layer_new(run, kind, sizeof *container, forward);
    for (int64_t i = 0; i < count; i++) ls_module_append(container, modules[i]);
    return ls_layer_done(container);
}

ls_module *ls_sequential_new_n(ls_run *run, ls_module *const *modules, int64_t count)
{
    return container_new(run, "Sequential", sequential_forward, modules, count);
}

ls_module *ls_module_list_new_n(ls_run *run, ls_module *const *modules, int64_t count)
{
    return container_new(run, "ModuleList", NULL, modules, count);
}
