/* tie.c - one weight for two layers. */
#include <string.h>

#include "nn/module.h"

static ls_weighted_layer *weighted(ls_module *module)
{
    return module && module->has_weight ? (ls_weighted_layer *)module : NULL;
}

static ls_module_member *weight_of(ls_module *module)
{
    for (int i = 0; i < module->member_count; i++)
        if (strcmp(module->members[i].name, "weight") == 0) return &module->members[i];
    return NULL;
}

/* It, or a module that it is a part of. */
static bool is_prepared(const ls_module *module)
{
    for (; module; module = module->parent)
        if (module->object.prepared) return true;
    return false;
}

/* An optimiser would go on with the weight that the layer no longer has. */
static bool is_trained(const ls_tensor *weight)
{
    for (ls_object *o = weight->run->objects; o; o = o->older) {
        const ls_state *trained = o->kind == LS_OBJECT_OPTIM && !o->forgotten ? ls_object_parameters(o) : NULL;
        for (int64_t i = 0; i < ls_state_count(trained); i++)
            if (trained->entries[i].tensor == weight) return true;
    }
    return false;
}

/* Why these cannot be tied; NULL: they can. */
static const char *objection(const ls_weighted_layer *a, const ls_weighted_layer *b)
{
    if (!a || !b) return "only Linear, Embedding, Conv1d, Conv2d and ConvTranspose2d have a weight that can be tied";
    if (is_prepared(&a->module) || is_prepared(&b->module)) return "tie before ls_prepare()";
    if (!ls_shape_equal(ls_shape_of(a->weight), ls_shape_of(b->weight))) return "their weights differ in shape";
    if (ls_dtype_of(a->weight) != ls_dtype_of(b->weight)) return "their weights differ in type";
    if (is_trained(a->weight)) return "tie before the optimiser is made";
    return NULL;
}

void ls_tie(ls_module *module, ls_module *other)
{
    ls_run *run = module ? module->object.run : other ? other->object.run : NULL;
    if (!module || !other || ls_failed(run) || ls_object_has_ended(other, "ls_tie")) return;
    ls_weighted_layer *layer = weighted(module), *source = weighted(other);
    if (layer && source && layer->weight == source->weight) return;
    const char *why = objection(layer, source);
    if (why) {
        char a[LS_TEXT] = "", b[LS_TEXT] = "";
        if (layer) ls_operand_text(&layer->weight->view, a);
        if (source) ls_operand_text(&source->weight->view, b);
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_tie: %s %s and %s %s: %s", module->kind, a, other->kind, b, why);
        return;
    }
    ls_module_member *member = weight_of(module);
    if (member->tensor->name == member->name) member->tensor->name = NULL;
    if (member->owned) ls_drop(member->tensor);
    ls_release(member->tensor);
    member->tensor = ls_retain(source->weight);
    member->owned = false;
    layer->weight = source->weight;
}
