/* packing.h - sequences of different lengths without their padding: the words of all sequences, concatenated.
 *
 * Operators that work on each word separately (products, norms, activations) then process words only. Attention gets
 * unpacked rows and skips the padding between them (.lengths of ls_attention). */
#ifndef LOCKSTEP_NN_PACKING_H
#define LOCKSTEP_NN_PACKING_H

#include <lockstep/ops.h>

typedef struct ls_packing {
    ls_tensor *rows;      /* [T]: position of each word among the B*S */
    ls_tensor *slots;     /* [B,S]: index of each position's word among the T; for padding, any */
    ls_tensor *positions; /* [T]: position of each word in its sequence */
} ls_packing;

/* Packs sequences of up to `length` words. The host reads the lengths [B], so it waits for the device. All NULL if
 * there is no padding, or for a device that records steps: it would need a program for every number of words. An error
 * if a length is not in 0 .. length. */
ls_packing ls_packing_of(ls_tensor *lengths, int64_t length);

/* The lengths [B] of a mask [B,S] that is nonzero at words. Returns the mask itself if lengths cannot replace it (words
 * follow padding, or a sequence has none), or if the host would have to wait for a device. */
ls_tensor *ls_lengths_of_mask(ls_tensor *mask);

/* [B,S,...] -> [T,...]: words only. The gradient of x [B,S,E] has undefined values in padding: what made x must not
 * use them, as attention with .lengths does not. */
ls_tensor *ls_pack(ls_tensor *x, const ls_packing *packing);
/* [T,...] -> [B,S,...], with undefined values in padding, */
ls_tensor *ls_unpack(ls_tensor *x, const ls_packing *packing);
/* or with zeros. */
ls_tensor *ls_unpack_clean(ls_tensor *x, const ls_packing *packing, ls_tensor *lengths);

#endif
