/* order.h - sorting of numbered keys, shared by sort, topk and index_add. */
#ifndef LOCKSTEP_DEVICE_CPU_ORDER_H
#define LOCKSTEP_DEVICE_CPU_ORDER_H

#include <stdint.h>

typedef struct ls_keyed {
    uint64_t key;
    int64_t index;
} ls_keyed;

/* Sort n items by ascending key; equal keys keep their order. `spare` has room for n items too. Returns the one of the
 * two arrays that holds the result; the other one's contents are undefined. */
ls_keyed *ls_order(ls_keyed *items, ls_keyed *spare, int64_t n);

#endif
