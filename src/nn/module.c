/* module.c - modules: made, put together, run, freed. */
#include "nn/module.h"

#include <lockstep/ops.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "autograd/tape.h"

/* ---- made and freed ---- */

static void clear(void *object)
{
    ls_module *module = object;
    for (int i = 0; i < module->member_count; i++) {
        ls_member *member = &module->members[i];
        if (member->tensor->name == member->name) member->tensor->name = NULL;
        if (member->owned) ls_drop(member->tensor);
        ls_release(member->tensor);
        ls_sys_free(member->name);
    }
    for (int i = 0; i < module->child_count; i++) ls_sys_free(module->children[i].name);
    ls_sys_free(module->members);
    ls_sys_free(module->children);
    ls_sys_free(module->report);
    ls_sys_free(module->kind);
}

static ls_module *layer_new(ls_run *run, const char *kind, size_t size)
{
    if (ls_failed(run)) return NULL;
    ls_module *module = ls_object_new(run, LS_OBJECT_MODULE, size, clear);
    if (!module) return NULL;
    module->training = true;
    module->kind = ls_text_copy(run, kind);
    return ls_layer_done(module);
}

void *ls_layer_new(ls_run *run, const char *kind, size_t size, ls_forward_fn *forward)
{
    ls_module *module = layer_new(run, kind, size);
    if (module) module->forward = forward;
    return module;
}

void *ls_layer_new_n(ls_run *run, const char *kind, size_t size, ls_forward_n_fn *forward)
{
    ls_module *module = layer_new(run, kind, size);
    if (module) module->forward_n = forward;
    return module;
}

/* The children stay: whoever made them may still hold them, and the run frees them. */
static void free_alone(ls_module *module)
{
    for (int i = 0; i < module->child_count; i++) {
        ls_module *child = module->children[i].module;
        if (child->parent != module) continue;
        child->parent = NULL;
        child->name = NULL;
    }
    ls_object_free(module);
}

ls_module *ls_layer_done(void *layer)
{
    ls_module *module = layer;
    if (!module || !ls_failed(module->object.run)) return module;
    free_alone(module);
    return NULL;
}

void ls_layer_says(void *layer, const char *format, ...)
{
    ls_module *module = layer;
    if (!module) return;
    va_list args;
    va_start(args, format);
    vsnprintf(module->says, sizeof module->says, format, args);
    va_end(args);
}

ls_module *ls_module_new(ls_run *run, const char *kind, ls_forward_fn *forward, void *user)
{
    ls_module *module = ls_layer_new(run, kind ? kind : "module", sizeof *module, forward);
    if (module) module->user = user;
    return module;
}

ls_module *ls_module_new_n(ls_run *run, const char *kind, ls_forward_n_fn *forward, void *user)
{
    ls_module *module = ls_layer_new_n(run, kind ? kind : "module", sizeof *module, forward);
    if (module) module->user = user;
    return module;
}

static void free_tree(ls_module *module)
{
    for (int i = 0; i < module->child_count; i++)
        if (module->children[i].module->parent == module) free_tree(module->children[i].module);
    ls_state_free(module->parameters);
    ls_state_free(module->state);
    ls_object_free(module);
}

void ls_module_free(ls_module *module)
{
    if (!module) return;
    if (module->parent)
        ls_fail(&module->object.run->errors, LS_ERR_STATE, "ls_module_free: %s is part of %s; free the whole",
                module->name, module->parent->kind);
    else free_tree(module);
}

/* ---- put together ---- */

static bool name_is_free(const ls_module *module, const char *name, const char *who)
{
    ls_run *run = module->object.run;
    const char *why = !name || !*name ? "is empty" : strchr(name, '.') ? "contains a dot" : NULL;
    for (int i = 0; !why && i < module->member_count; i++)
        if (strcmp(module->members[i].name, name) == 0) why = "is taken";
    for (int i = 0; !why && i < module->child_count; i++)
        if (strcmp(module->children[i].name, name) == 0) why = "is taken";
    if (why)
        ls_fail(&run->errors, LS_ERR_VALUE, "%s: the name \"%s\" in %s %s", who, name ? name : "", module->kind, why);
    return !why;
}

/* Room for one more in an array; NULL (and an error) when memory is out. */
static void *with_room(ls_run *run, void *array, int count, int *capacity, size_t size)
{
    if (count < *capacity) return array;
    int wanted = *capacity ? *capacity * 2 : 4;
    void *grown = ls_sys_realloc(array, (size_t)wanted * size);
    if (!grown) return ls_fail(&run->errors, LS_ERR_MEMORY, "no memory for a module"), NULL;
    *capacity = wanted;
    return grown;
}

static bool contains(const ls_module *module, const ls_module *other)
{
    if (module == other) return true;
    for (int i = 0; i < module->child_count; i++)
        if (contains(module->children[i].module, other)) return true;
    return false;
}

ls_module *ls_module_add(ls_module *parent, const char *name, ls_module *child)
{
    if (!parent) return child;
    ls_run *run = parent->object.run;
    if (ls_failed(run)) return child;
    if (!child) {
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_module_add: the module for \"%s\" in %s is NULL", name ? name : "",
                parent->kind);
        return NULL;
    }
    if (ls_object_has_ended(child, "ls_module_add") || !name_is_free(parent, name, "ls_module_add")) return child;
    if (contains(child, parent)) {
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_module_add: %s cannot be a part of itself", parent->kind);
        return child;
    }
    ls_branch *grown =
        with_room(run, parent->children, parent->child_count, &parent->child_capacity, sizeof *parent->children);
    if (!grown) return child;
    parent->children = grown;
    char *copy = ls_text_copy(run, name);
    if (!copy) return child;
    parent->children[parent->child_count++] = (ls_branch){copy, child};
    if (!child->parent) {
        child->parent = parent;
        child->name = copy;
    }
    return child;
}

static ls_tensor *add_member(ls_module *module, const char *name, ls_tensor *tensor, bool is_buffer, const char *who)
{
    if (!module) return tensor;
    ls_run *run = module->object.run;
    if (ls_failed(run) || !ls_check_live(run, tensor, who) || !name_is_free(module, name, who)) return &run->poison;
    ls_member *grown =
        with_room(run, module->members, module->member_count, &module->member_capacity, sizeof *module->members);
    if (!grown) return &run->poison;
    module->members = grown;
    char *copy = ls_text_copy(run, name);
    if (!copy) return &run->poison;
    bool shared = !is_buffer && tensor->is_leaf;
    module->members[module->member_count++] = (ls_member){copy, ls_retain(tensor), is_buffer, !shared};
    if (!tensor->name) tensor->name = copy;
    return ls_keep(tensor);
}

ls_tensor *ls_parameter(ls_module *module, const char *name, ls_tensor *tensor)
{
    return ls_requires_grad(add_member(module, name, tensor, false, "ls_parameter"), true);
}

ls_tensor *ls_buffer(ls_module *module, const char *name, ls_tensor *tensor)
{
    return add_member(module, name, tensor, true, "ls_buffer");
}

ls_tensor *ls_parameter_uniform(ls_module *module, const char *name, double bound, ls_shape shape)
{
    return ls_parameter(module, name, ls_uniform_shape(module->object.run, LS_F32, -bound, bound, shape));
}

ls_tensor *ls_parameter_full(ls_module *module, const char *name, double value, ls_shape shape)
{
    return ls_parameter(module, name, ls_full_shape(module->object.run, LS_F32, value, shape));
}

/* ---- run ---- */

/* Append the module to the path that errors carry: "net/layer3.2/conv1". Returns where to cut it off again. */
static size_t enter_path(char path[], size_t size, const ls_module *module)
{
    size_t at = strlen(path), end = at;
    const char *name = module->name ? module->name : module->kind;
    size_t length = strlen(name);
    if (at && end + 1 < size) path[end++] = module->name && name[0] >= '0' && name[0] <= '9' ? '.' : '/';
    if (length > size - 1 - end) length = size - 1 - end;
    memcpy(path + end, name, length);
    path[end + length] = '\0';
    return at;
}

bool ls_layer_takes(const ls_module *module, int n, int least, int most)
{
    if (n >= least && n <= most) return true;
    ls_run *run = module->object.run;
    if (least == most)
        ls_fail(&run->errors, LS_ERR_VALUE, "%s takes %d input%s, not %d", module->kind, least, least == 1 ? "" : "s",
                n);
    else ls_fail(&run->errors, LS_ERR_VALUE, "%s takes %d to %d inputs, not %d", module->kind, least, most, n);
    return false;
}

static ls_tensor *call(ls_module *module, int n, ls_tensor *const *inputs)
{
    ls_run *run = module->object.run;
    if (module->forward_n) return module->forward_n(module, n, inputs, module->user);
    if (module->forward)
        return ls_layer_takes(module, n, 1, 1) ? module->forward(module, inputs[0], module->user) : &run->poison;
    return LS_POISON(run, LS_ERR_STATE, "%s has no forward function; run its children", module->kind);
}

/* A prepared module computes in the run's mixed precision; what it returns is f32 again, so that losses and metrics are
 * not computed with eight bits. */
static ls_tensor *call_in_its_precision(ls_module *module, int n, ls_tensor *const *inputs)
{
    ls_run *run = module->object.run;
    if (run->mixed_precision == LS_F32 || !module->object.prepared) return call(module, n, inputs);
    ls_autocast_begin(run, run->mixed_precision);
    ls_tensor *y = call(module, n, inputs);
    ls_autocast_end(run);
    bool half = y && y->life == LS_LIFE_LIVE && (y->view.dtype == LS_BF16 || y->view.dtype == LS_F16);
    return half ? ls_cast(y, LS_F32) : y;
}

/* If it is trained, the user may have wanted mixed precision and forgotten ls_prepare(): ls_backward() will look. */
static void note_full_precision(ls_module *module)
{
    ls_run *run = module->object.run;
    if (run->mixed_precision == LS_F32 || module->object.prepared || run->autocast_count || run->no_grad) return;
    module->in_full_precision = run->full_precision_forwards = true;
}

ls_tensor *ls_forward_n(ls_module *module, int n, ls_tensor *const *inputs)
{
    if (!module) {
        ls_run *current = ls_run_of(n > 0 ? inputs[0] : NULL);
        return LS_POISON(current, LS_ERR_VALUE, "ls_forward: the module is NULL");
    }
    ls_run *run = module->object.run;
    if (ls_failed(run)) return ls_object_has_ended(module, "ls_forward"), &run->poison;
    char *path = run->errors.path;
    size_t cut = enter_path(path, sizeof run->errors.path, module);
    if (cut == 0) note_full_precision(module);
    ls_mark mark = ls_scope_begin(run);
    ls_tensor *y = call_in_its_precision(module, n, inputs);
    if (!y) y = LS_POISON(run, LS_ERR_VALUE, "the forward function returned NULL");
    y = ls_scope_end(run, mark, y);
    module->has_output = y->life == LS_LIFE_LIVE;
    if (module->has_output) module->output = ls_view_shape(&y->view);
    path[cut] = '\0';
    return y;
}

ls_tensor *ls_forward(ls_module *module, ls_tensor *x)
{
    return ls_forward_n(module, 1, &x);
}

bool ls_module_has_gradients(const ls_module *module)
{
    for (int i = 0; i < module->member_count; i++)
        if (module->members[i].tensor->is_leaf && ls_leaf_holds(module->members[i].tensor)) return true;
    for (int i = 0; i < module->child_count; i++)
        if (ls_module_has_gradients(module->children[i].module)) return true;
    return false;
}

/* ---- modes ---- */

static void set_training(ls_module *module, bool training)
{
    if (!module) return;
    module->training = training;
    for (int i = 0; i < module->child_count; i++) set_training(module->children[i].module, training);
}

void ls_train(ls_module *module)
{
    set_training(module, true);
}

void ls_eval(ls_module *module)
{
    set_training(module, false);
}

bool ls_is_training(const ls_module *module)
{
    return module && module->training;
}

static void set_trained(ls_module *module, bool trained)
{
    if (!module) return;
    for (int i = 0; i < module->member_count; i++) {
        ls_member *member = &module->members[i];
        if (!member->is_buffer) ls_requires_grad(member->tensor, trained);
    }
    for (int i = 0; i < module->child_count; i++) set_trained(module->children[i].module, trained);
}

void ls_freeze(ls_module *module)
{
    set_trained(module, false);
}

void ls_unfreeze(ls_module *module)
{
    set_trained(module, true);
}
