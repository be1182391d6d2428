/* replay.h - stretches of the tape that keep no tensors: what backward needs of one is computed again when the walk
 * reaches it (gradient checkpointing).
 *
 * The tape of a replay is complete: nodes, edges, leaves and hooks are those of any other forward pass. Only ls_save()
 * keeps nothing. A replay holds the inputs of the stretch, the random state and the type of autocast instead. When the
 * walk needs the first of its saved tensors, the stretch runs again, with recording on, and what its operators save
 * goes to the nodes of the first time, one after the other; the second tape is thrown away. So it does not matter who
 * shares a parameter with the stretch, how many outputs it has, or which of them are used.
 *
 * Replays nest: to one that was recorded inside another, the inputs are one more thing to save, and the outer gives
 * them when it runs again. */
#ifndef LOCKSTEP_AUTOGRAD_REPLAY_H
#define LOCKSTEP_AUTOGRAD_REPLAY_H

#include "autograd/tape.h"

enum { LS_REPLAY_INPUTS = 16 };

/* Compute the stretch of `user` again. `print` is what was given to ls_replay_begin(): where the stretch would not
 * compute the same any more, record an error. */
typedef void ls_replay_fn(void *user, uint64_t print, int n, ls_tensor *const *inputs);

/* Between these, operators of the run belong to a replay. Begin returns NULL where nothing is recorded, and (with an
 * error) when memory is out. */
ls_replay *ls_replay_begin(ls_run *run, ls_replay_fn *again, void *user, uint64_t print, int n,
                           ls_tensor *const *inputs);
void ls_replay_end(ls_replay *replay);

/* `user` goes: a walk that reaches one of its replays fails. */
void ls_replay_forget(ls_run *run, const void *user);
/* At the end of the run. */
void ls_replay_free_all(ls_run *run);

/* ---- For the tape ---- */

/* A node of these inputs was made while the run is in a replay; it saves a tensor; it dies. */
void ls_replay_record(ls_node *node, ls_tensor *const *in);
void ls_replay_save(ls_node *node, ls_tensor *t);
void ls_replay_leave(ls_node *node);
/* Let the nodes of a replay have what they saved. False (and an error) when that failed. */
bool ls_replay_fill(ls_replay *replay);

#endif
