/* module.c - create, compose and free modules. forward.c runs them. */
#include "nn/module.h"

#include <lockstep/ops.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "autograd/replay.h"

/* ---- creating and freeing ---- */

static void clear(void *object)
{
    ls_module *module = object;
    ls_hooks_free(module);
    ls_replay_forget(module->object.run, module);
    for (int i = 0; i < module->member_count; i++) {
        ls_module_member *member = &module->members[i];
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
    ls_sys_free(module->config);
}

static ls_state *parameters(void *module)
{
    return ls_parameters(module);
}

static ls_module *layer_new(ls_run *run, const char *kind, size_t size)
{
    if (ls_failed(run)) return NULL;
    ls_module *module = ls_object_new(run, LS_OBJECT_MODULE, size, clear);
    if (!module) return NULL;
    module->object.parameters = parameters;
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

void *ls_layer_new_all(ls_run *run, const char *kind, size_t size, ls_forward_all_fn *forward)
{
    ls_module *module = layer_new(run, kind, size);
    if (module) module->forward_all = forward;
    return module;
}

ls_module *ls_layer_done(void *layer)
{
    ls_module *module = layer;
    if (!module || !ls_failed(module->object.run)) return module;
    /* Older children were passed to the constructor: the caller may still use them. */
    for (int i = 0; i < module->child_count; i++) {
        ls_module *child = module->children[i].module;
        if (child->parent != module) continue;
        child->parent = NULL;
        child->name = NULL;
    }
    while (module->object.newer) ls_object_free(module->object.run->objects);
    ls_object_free(module);
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

static ls_module *programs(ls_module *module, void *user)
{
    if (!module) return NULL;
    module->user = user;
    module->is_programs = true;
    return module;
}

ls_module *ls_module_new(ls_run *run, const char *kind, ls_forward_fn *forward, void *user)
{
    return programs(ls_layer_new(run, kind ? kind : "module", sizeof(ls_module), forward), user);
}

ls_module *ls_module_new_n(ls_run *run, const char *kind, ls_forward_n_fn *forward, void *user)
{
    return programs(ls_layer_new_n(run, kind ? kind : "module", sizeof(ls_module), forward), user);
}

ls_module *ls_module_new_all(ls_run *run, const char *kind, ls_forward_all_fn *forward, void *user)
{
    return programs(ls_layer_new_all(run, kind ? kind : "module", sizeof(ls_module), forward), user);
}

static void free_tree(ls_module *module)
{
    for (int i = 0; i < module->child_count; i++)
        if (module->children[i].module->parent == module) free_tree(module->children[i].module);
    ls_state_free(module->parameters);
    ls_state_free(module->state);
    ls_object_free(module);
}

static bool is_running(const ls_module *module)
{
    bool runs = module->running > 0;
    for (int i = 0; i < module->child_count && !runs; i++) runs = is_running(module->children[i].module);
    return runs;
}

void ls_module_free(ls_module *module)
{
    if (!module) return;
    if (is_running(module))
        ls_fail(&module->object.run->errors, LS_ERR_STATE,
                "ls_module_free: %s is running; its forward function and hooks cannot free it", module->kind);
    else if (module->parent)
        ls_fail(&module->object.run->errors, LS_ERR_STATE, "ls_module_free: %s is part of %s; free that instead",
                module->name, module->parent->kind);
    else free_tree(module);
}

/* ---- composing ---- */

static bool name_is_free(const ls_module *module, const char *name, const char *who)
{
    ls_run *run = module->object.run;
    const char *why = !name || !*name ? "is empty" : strchr(name, '.') ? "contains a dot" : NULL;
    for (int i = 0; !why && i < module->member_count; i++)
        if (strcmp(module->members[i].name, name) == 0) why = "is already used";
    for (int i = 0; !why && i < module->child_count; i++)
        if (strcmp(module->children[i].name, name) == 0) why = "is already used";
    if (why)
        ls_fail(&run->errors, LS_ERR_VALUE, "%s: the name \"%s\" in %s %s", who, name ? name : "", module->kind, why);
    return !why;
}

/* Room for one more element in an array; NULL (and an error) if out of memory. */
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
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_module_add: %s cannot be part of itself", parent->kind);
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
    if (ls_failed(run) || !ls_check_writable(run, tensor, who)) return &run->poison; /* steps or checkpoints write it */
    if (!name_is_free(module, name, who)) return &run->poison;
    ls_module_member *grown =
        with_room(run, module->members, module->member_count, &module->member_capacity, sizeof *module->members);
    if (!grown) return &run->poison;
    module->members = grown;
    char *copy = ls_text_copy(run, name);
    if (!copy) return &run->poison;
    bool shared = !is_buffer && tensor->is_leaf;
    module->members[module->member_count++] =
        (ls_module_member){.name = copy, .tensor = ls_retain(tensor), .is_buffer = is_buffer, .owned = !shared};
    if (!tensor->name) tensor->name = copy;
    return ls_keep(tensor);
}

ls_tensor *ls_register_parameter(ls_module *module, const char *name, ls_tensor *tensor)
{
    return ls_set_requires_grad(add_member(module, name, tensor, false, "ls_register_parameter"), true);
}

ls_tensor *ls_register_buffer(ls_module *module, const char *name, ls_tensor *tensor)
{
    return add_member(module, name, tensor, true, "ls_register_buffer");
}

ls_tensor *ls_counter(ls_module *module, const char *name)
{
    ls_run *run = module->object.run;
    ls_device *host = ls_device_named(run, "cpu");
    ls_tensor *zero = host ? ls_tensor_new(run, host, LS_I64, LS_SCALAR) : &run->poison;
    if (zero->life == LS_LIFE_LIVE) ls_raw_fill(zero, 0);
    ls_tensor *counter = ls_register_buffer(module, name, zero);
    if (counter->life == LS_LIFE_LIVE) module->members[module->member_count - 1].on_host = true;
    return counter;
}

void ls_counter_step(ls_tensor *counter)
{
    ++*(int64_t *)counter->view.data;
}

ls_tensor *ls_parameter_blank(ls_module *module, const char *name, ls_shape shape)
{
    return ls_register_parameter(module, name, ls_empty_shape(module->object.run, LS_F32, shape));
}

ls_tensor *ls_parameter_uniform(ls_module *module, const char *name, double bound, ls_shape shape)
{
    ls_tensor *parameter = ls_parameter_blank(module, name, shape);
    ls_init_uniform(parameter, -bound, bound);
    return parameter;
}

ls_tensor *ls_parameter_full(ls_module *module, const char *name, double value, ls_shape shape)
{
    ls_tensor *parameter = ls_parameter_blank(module, name, shape);
    ls_init_constant(parameter, value);
    return parameter;
}

ls_tensor *ls_buffer_full(ls_module *module, const char *name, double value, ls_shape shape)
{
    ls_tensor *buffer = ls_register_buffer(module, name, ls_empty_shape(module->object.run, LS_F32, shape));
    ls_init_constant(buffer, value);
    return buffer;
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
        ls_module_member *member = &module->members[i];
        if (!member->is_buffer) ls_set_requires_grad(member->tensor, trained);
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
