/* epoch.c - the loop over epochs: counts, and restores from checkpoints. */
#include "base/log.h"
#include "data/loader/loader.h"
#include "run/checkpoint/checkpoint.h"
#include "run/prepare.h"
#include "run/report.h"

/* Loops over batches that were left by `break` end with their epoch. */
static void leave_epoch(ls_run *run)
{
    ls_session *session = run->session;
    if (session->in_epoch) ls_scope_end(run, session->scope, NULL);
    session->in_epoch = false;
    while (run->step->loop) ls_loop_end(run, run->step->loop);
}

/* Loaders that were not read to their end start over; in a resumed epoch they continue where they are. */
static void begin_passes(ls_run *run)
{
    int at = 0;
    for (ls_object *o; (o = ls_prepared_next(run, LS_OBJECT_LOADER, &at));) ls_loader_epoch_begin((ls_loader *)o);
}

/* A checkpoint loaded before the epoch loop was compared except for the loop's length. */
static void compare_epochs(ls_begun *begun, int n)
{
    if (n < 1) return;
    if (!begun->epochs && begun->epochs_before && begun->epochs_before != n)
        ls_log_of_job(LS_LOG_WARN,
                      "the checkpoint this run continues from was saved with epochs: %lld; this run continues with %d",
                      (long long)begun->epochs_before, n);
    begun->epochs = n;
}

bool ls_epoch(ls_run *run, int n, int *epoch)
{
    ls_session *session = run->session;
    if (!session) return false;
    if (!epoch) return ls_fail(&run->errors, LS_ERR_VALUE, "ls_epoch: the pointer to the epoch number is NULL"), false;
    bool was_in_epoch = session->in_epoch;
    leave_epoch(run);
    ls_run_look_back(run);
    compare_epochs(&session->begun, n);
    if (ls_failed(run) || !ls_session_open_project(run)) return false; /* before any message about its contents */
    ls_session_resume(run);
    if (ls_failed(run)) return false;
    if (!session->restored) {
        if (was_in_epoch) session->epoch++;
        else if (session->epochs_over) session->epoch = 0; /* another loop of the same program */
        begin_passes(run);
    }
    session->restored = false;
    session->epochs_over = session->epoch >= n;
    if (session->epochs_over) return false;
    session->in_epoch = true;
    session->scope = ls_scope_begin(run);
    *epoch = session->epoch;
    return !ls_failed(run);
}
