/* list.h - checks of lists passed by a program, as an array and the number of its elements. */
#ifndef LOCKSTEP_BASE_LIST_H
#define LOCKSTEP_BASE_LIST_H

#include "base/status.h"

/* Is this a valid list? An empty one may be NULL. */
static inline bool ls_is_list(const void *list, int64_t count)
{
    return count == 0 || (count > 0 && list);
}

/* The same, recording an error if it is not; `who` is the function called, `things` the elements. */
static inline bool ls_list_is_sound(ls_errors *errors, const char *who, const char *things, const void *list,
                                    int64_t count)
{
    if (ls_is_list(list, count)) return true;
    if (count < 0)
        ls_fail(errors, LS_ERR_VALUE, "%s: the number of %s is negative: %lld", who, things, (long long)count);
    else ls_fail(errors, LS_ERR_VALUE, "%s: the array of %lld %s is NULL", who, (long long)count, things);
    return false;
}

#endif
