/* carry.c - tensors on their way from one module to the next. */
#include "nn/layers.h"

/* Is all code of the module and of what is in it the library's? NULL: yes. A hook may have removed itself: one that was
 * ever there counts. */
static bool keeps_to_itself(const ls_module *module)
{
    if (!module) return true;
    if (module->is_programs || module->hook_serial) return false;
    for (int i = 0; i < module->child_count; i++)
        if (!keeps_to_itself(module->children[i].module)) return false;
    return true;
}

/* Free a tensor made in the innermost scope; one that was kept, or comes from outside, stays. */
static void let_go(ls_tensor *t)
{
    const ls_run *run = t->run;
    if (ls_is_valid(t) && t->scope == run->scopes[run->scope_count - 1].serial) ls_drop(t);
}

void ls_carry_on(ls_carried *carried, const ls_module *by, const ls_module *with, ls_tensor *y)
{
    ls_tensor *x = carried->tensor;
    bool unseen = keeps_to_itself(by) && keeps_to_itself(with);
    carried->tensor = y;
    if (x == y) {
        carried->is_unseen &= unseen;
        return;
    }
    if (carried->is_unseen && unseen) let_go(x);
    carried->is_unseen = unseen;
}
