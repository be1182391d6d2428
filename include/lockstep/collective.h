/* collective.h - collectives: their kinds, the reductions, and the description of one call.
 *
 * <lockstep/comm.h> makes such calls; a device whose own library runs them gets them through <lockstep/group.h>. */
#ifndef LOCKSTEP_COLLECTIVE_H
#define LOCKSTEP_COLLECTIVE_H

#include <lockstep/call.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- What can be called ---- */

/* LS_COMM_KIND(symbol, "name") */
#define LS_COMM_KIND_LIST(LS_COMM_KIND)                                                                                \
    LS_COMM_KIND(BARRIER, "barrier")               /* nobody continues before all have called */                       \
    LS_COMM_KIND(ALL_REDUCE, "all-reduce")         /* out[count] = op over ranks of in[count]; out may be in */        \
    LS_COMM_KIND(REDUCE, "reduce")                 /* the same, for rank `peer` only; out of others is unused */       \
    LS_COMM_KIND(REDUCE_SCATTER, "reduce-scatter") /* out[count] = op over ranks of part `rank` of in */               \
    LS_COMM_KIND(ALL_GATHER, "all-gather")         /* out = in[count] of rank 0, of rank 1, ... */                     \
    LS_COMM_KIND(BROADCAST, "broadcast")           /* out[count] becomes that of rank `peer` */                        \
    LS_COMM_KIND(ALL_TO_ALL, "all-to-all")         /* part r of in goes to rank r; out has a part from each */         \
    LS_COMM_KIND(GATHER, "gather")                 /* as all-gather, for rank `peer` only */                           \
    LS_COMM_KIND(SCATTER, "scatter")               /* out[count] = part `rank` of in of rank `peer` */                 \
    LS_COMM_KIND(SEND, "send")                     /* in[count] goes to rank `peer`, which calls receive */            \
    LS_COMM_KIND(RECEIVE, "receive")               /* out[count] comes from rank `peer` */

typedef enum ls_comm_kind {
#define LS_COMM_KIND(symbol, name) LS_COMM_##symbol,
    LS_COMM_KIND_LIST(LS_COMM_KIND) LS_COMM_KIND_COUNT
#undef LS_COMM_KIND
} ls_comm_kind;

/* Which members are needed depends on the kind.
 *
 * An array that has a part of each rank (out of gathers; in of scatters, reduce-scatter and all-to-all) has the parts
 * in the order of ranks, each of `count` elements, or of counts[rank] where they differ.
 *
 * In place: in == out for all-reduce. For reduce-scatter out may be part `rank` of in: the rest of `in` is overwritten.
 * For all-gather in may be part `rank` of out. In memory of ls_comm_share() these three copy nothing but the result. */
typedef struct ls_comm_call {
    ls_comm_kind kind LS_DEFAULT(LS_COMM_BARRIER);
    ls_dtype dtype LS_DEFAULT(LS_DTYPE_NONE);
    ls_reduction op LS_DEFAULT(LS_REDUCE_SUM); /* any but LS_REDUCE_NONE */
    int64_t count LS_DEFAULT(0);               /* elements; with counts that of this rank, except in all-to-all */
    const void *in LS_DEFAULT(NULL);
    void *out LS_DEFAULT(NULL);
    const int64_t *counts LS_DEFAULT(NULL);     /* [size] elements of each part; NULL: count */
    const int64_t *out_counts LS_DEFAULT(NULL); /* all-to-all: elements that come from each rank; NULL: count */
    int peer LS_DEFAULT(0);
    uint64_t shape LS_DEFAULT(0);      /* a hash of what count does not show: ranks must agree on it */
    const char *site LS_DEFAULT(NULL); /* where the call is made, for messages; filled in: file and line */
    ls_options_end _ LS_DEFAULT({});
} ls_comm_call;
#define ls_comm_call_defaults .op = LS_REDUCE_SUM

#ifdef __cplusplus
}
#endif
#endif
