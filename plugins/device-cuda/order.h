/* order.h - stable sorting of numbered keys on the device, shared by sort, topk, randperm and sums by index. */
#ifndef LOCKSTEP_CUDA_ORDER_H
#define LOCKSTEP_CUDA_ORDER_H

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Keys and the numbers that travel with them, in scratch memory: two arrays of each, of which `at` says where the
 * result is. */
typedef struct cuda_order {
    int64_t lines, length;
    uint64_t *key[2];   /* [lines, length] */
    uint32_t *index[2]; /* [lines, length] */
    int32_t *begin;     /* [lines + 1]: where each line begins */
    int at;
    ls_workspace space;
} cuda_order;

/* Memory for `lines` lines of `length` keys; length is below 2^31. Given back by cuda_order_end(). */
ls_status cuda_order_begin(cuda_device *d, int64_t lines, int64_t length, cuda_order *order, ls_message *why);
/* Sort each line by the lowest `bits` bits of its keys, ascending; equal keys keep their order. */
ls_status cuda_order_run(cuda_device *d, cudaStream_t stream, cuda_order *order, int bits, ls_message *why);
void cuda_order_end(cuda_device *d, cuda_order *order);

#ifdef __cplusplus
}
#endif
#endif
