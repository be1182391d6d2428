/* writer.c - write files and manifest, flush, publish; then prune older checkpoints. */
#include "checkpoint/writer.h"

#include "base/memory.h"
#include "base/thread.h"
#include "checkpoint/folder.h"

static void write_now(ls_writer *w)
{
    w->failed = !ls_snapshot_write(&w->snapshot, w->part, &w->why) || !ls_folder_publish(w->folder, &w->why);
    if (w->failed) {
        ls_folder_discard(w->folder);
        return;
    }
    if (w->parent && w->limit != LS_AUTO) ls_folder_prune(w->parent, w->limit);
    ls_sys_free(w->saved);
    w->saved = w->folder;
    w->folder = NULL;
}

static void *thread_body(void *writer)
{
    write_now(writer);
    return NULL;
}

void ls_writer_start(ls_writer *w, bool in_thread)
{
    w->failed = false;
    if (in_thread) {
        w->running = ls_thread_start(&w->thread, thread_body, w);
    }
    if (!w->running) write_now(w);
}

bool ls_writer_wait(ls_writer *w, ls_message *why)
{
    if (w->running) pthread_join(w->thread, NULL);
    bool failed = w->failed;
    if (failed) *why = w->why;
    ls_snapshot_clear(&w->snapshot);
    ls_sys_free(w->folder);
    ls_sys_free(w->part);
    ls_sys_free(w->parent);
    w->folder = w->part = w->parent = NULL;
    w->running = w->failed = false;
    return !failed;
}

void ls_writer_free(ls_writer *w)
{
    ls_message why;
    ls_writer_wait(w, &why);
    ls_copies_free(&w->copies);
    ls_sys_free(w->saved);
}
