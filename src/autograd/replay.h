/* replay.h - segments of the tape that save no tensors: they are recomputed when the walk reaches them (gradient
 * checkpointing).
 *
 * The tape of a replay is complete: nodes, edges, leaves and hooks are those of any other forward pass. Only ls_save()
 * keeps nothing. Instead a replay holds the inputs of the segment, the random state and the autocast type. When the
 * walk needs the first of its saved tensors, the segment is rerun with recording on, and what its operators save goes
 * to the nodes of the first time, one after the other; the second tape is discarded. So it does not matter who shares a
 * parameter with the segment, how many outputs it has, or which of them are used.
 *
 * Replays nest: the inputs of an inner replay are saved tensors of the outer one, provided when that is rerun. */
#ifndef LOCKSTEP_AUTOGRAD_REPLAY_H
#define LOCKSTEP_AUTOGRAD_REPLAY_H

#include "autograd/tape.h"

enum { LS_REPLAY_INPUTS = 16 };

/* Recompute the segment of `user`. `print` is the value passed to ls_replay_begin(): if the segment would not compute
 * the same any more, record an error. */
typedef void ls_replay_fn(void *user, uint64_t print, int n, ls_tensor *const *inputs);

/* Between these, operators of the run belong to a replay. Begin returns NULL if nothing is recorded, or (with an error)
 * if out of memory. */
ls_replay *ls_replay_begin(ls_run *run, ls_replay_fn *again, void *user, uint64_t print, int n,
                           ls_tensor *const *inputs);
void ls_replay_end(ls_replay *replay);

/* `user` is about to be freed: a walk that reaches one of its replays will fail. */
void ls_replay_forget(ls_run *run, const void *user);
/* At the end of the run. */
void ls_replay_free_all(ls_run *run);

/* ---- For the tape ---- */

/* For a node made during a replay: it was created with these inputs; it saves a tensor; it is freed. */
void ls_replay_record(ls_node *node, ls_tensor *const *in);
void ls_replay_save(ls_node *node, ls_tensor *t);
void ls_replay_leave(ls_node *node);
/* Give the nodes of a replay their saved tensors. False (and an error) on failure. */
bool ls_replay_fill(ls_replay *replay);

#endif
