/* packing.h - sequences of different lengths without their padding: the words of all, one after the other.
 *
 * What works on each word by itself (products, norms, activations) is then done for words alone. Attention is not: it
 * gets rows that were spread out again, and skips the padding between them (.lengths of ls_attention). */
#ifndef LOCKSTEP_NN_PACKING_H
#define LOCKSTEP_NN_PACKING_H

#include <lockstep/ops.h>

typedef struct ls_packing {
    ls_tensor *rows;      /* [T]: where each word stands among the B*S positions */
    ls_tensor *slots;     /* [B,S]: where each position's word is among the T; behind a sequence, some other */
    ls_tensor *positions; /* [T]: of words in their sequence */
} ls_packing;

/* Of sequences of up to `length` words. The lengths [B] are read by the host, so a device is waited for. All NULL where
 * there is no padding; an error where a length is not in 0 .. length. */
ls_packing ls_packing_of(ls_tensor *lengths, int64_t length);

/* [B,S,...] -> [T,...]: words alone. */
ls_tensor *ls_pack(ls_tensor *x, const ls_packing *packing);
/* [T,...] -> [B,S,...], where what stands behind a sequence has no meaning, */
ls_tensor *ls_unpack(ls_tensor *x, const ls_packing *packing);
/* or is 0. */
ls_tensor *ls_unpack_clean(ls_tensor *x, const ls_packing *packing, ls_tensor *lengths);

#endif
