/* autocast.c - the stack of number types that operators compute in; ops.def has the policy of each operator. */
#include "base/memory.h"
#include "tensor/context.h"

bool ls_autocast_begin(ls_run *run, ls_dtype dtype)
{
    if (dtype != LS_F32 && dtype != LS_BF16 && dtype != LS_F16) {
        ls_fail(&run->errors, LS_ERR_DTYPE, "ls_autocast_begin: %s is not supported; use bf16, f16 or f32 (off)",
                ls_dtype_name(dtype));
        dtype = LS_F32;
    }
    if (run->autocast_count == run->autocast_capacity) {
        int32_t capacity = run->autocast_capacity ? run->autocast_capacity * 2 : 8;
        ls_dtype *stack = ls_sys_realloc(run->autocast, (size_t)capacity * sizeof *stack);
        if (!stack) {
            ls_fail(&run->errors, LS_ERR_MEMORY, "ls_autocast_begin: no memory");
            return true;
        }
        run->autocast = stack;
        run->autocast_capacity = capacity;
    }
    run->autocast[run->autocast_count++] = dtype;
    return true;
}

bool ls_autocast_end(ls_run *run)
{
    if (run->autocast_count > 0) run->autocast_count--;
    else if (!ls_failed(run)) ls_fail(&run->errors, LS_ERR_STATE, "ls_autocast_end without ls_autocast_begin");
    return false;
}
