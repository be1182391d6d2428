/* feed.c - the threads that fill batches, and how work is handed to them. */
#include "data/feed.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"

/* Samples that one thread takes at a time. */
typedef struct chunk {
    ls_batch_slot *slot;
    int64_t begin, end;
} chunk;

static ls_batch_slot *slot_of(const ls_feed *feed, int64_t batch)
{
    return &feed->slots[batch % feed->slot_count];
}

/* ---- filling ---- */

/* What is wrong with the first bad sample, and which file that is. The end of a long path tells more than its start. */
static void name_blemish(const ls_feed *feed, ls_batch_slot *slot, int64_t j, const ls_sample *sample)
{
    const char *path = ls_dataset_is_stream(feed->set) ? "" : ls_sample_path(feed->set, slot->place[j]);
    size_t length = strlen(path), most = 120;
    snprintf(slot->blemish.text, sizeof slot->blemish.text, "%s%s%s%.120s", length > most ? "..." : "",
             path + (length > most ? length - most : 0), length ? ": " : "", sample->why.text);
}

void ls_feed_note_bad(ls_feed *feed, ls_batch_slot *slot, int64_t j, const ls_sample *sample)
{
    pthread_mutex_lock(&feed->lock);
    slot->bad++;
    if (slot->bad_at < 0 || j < slot->bad_at) {
        slot->bad_at = j;
        name_blemish(feed, slot, j, sample);
    }
    pthread_mutex_unlock(&feed->lock);
}

void ls_feed_note_failure(ls_feed *feed, ls_batch_slot *slot, int64_t j, const ls_sample *sample)
{
    pthread_mutex_lock(&feed->lock);
    if (slot->failed_at < 0 || j < slot->failed_at) {
        slot->failed_at = j;
        slot->status = sample->status;
        slot->failure = sample->why;
    }
    pthread_mutex_unlock(&feed->lock);
}

/* Sample j of a slot, or the next good one after it where bad ones are to be skipped. */
static void fill_sample(ls_feed *feed, ls_batch_slot *slot, int64_t j, ls_sample *sample)
{
    const ls_dataset *set = feed->set;
    int64_t index = slot->place[j];
    ls_slot_point(slot, &feed->reading, j, sample);
    sample->place = index;
    for (int64_t tries = 1; !ls_sample_get(sample, set, index); tries++) {
        if (set->on_bad != LS_BAD_SKIP || sample->status != LS_ERR_IO || tries == set->count) {
            ls_feed_note_failure(feed, slot, j, sample);
            break;
        }
        if (tries == 1) ls_feed_note_bad(feed, slot, j, sample);
        index = (index + 1) % set->count;
    }
    slot->index[j] = index;
}

/* ---- handing out; the lock is held ---- */

/* Enough parts for all to end at the same time, not so many that the lock is felt. */
static int64_t chunk_size(const ls_feed *feed, int64_t size)
{
    int64_t part = size / (4 * (feed->worker_count + 1));
    if (feed->worker_count == 0 || ls_dataset_is_stream(feed->set)) return size;
    return part < 1 ? 1 : part > 32 ? 32 : part;
}

static bool take(ls_feed *feed, chunk *c)
{
    while (feed->issue < feed->end && slot_of(feed, feed->issue)->issued == slot_of(feed, feed->issue)->size)
        feed->issue++;
    if (feed->issue == feed->end || feed->reading_now) return false;
    ls_batch_slot *slot = slot_of(feed, feed->issue);
    int64_t count = chunk_size(feed, slot->size), left = slot->size - slot->issued;
    *c = (chunk){slot, slot->issued, slot->issued + (count < left ? count : left)};
    slot->issued = c->end;
    feed->reading_now = ls_dataset_is_stream(feed->set);
    return true;
}

static void work_on(ls_feed *feed, chunk c, ls_sample *sample)
{
    pthread_mutex_unlock(&feed->lock);
    bool stream = ls_dataset_is_stream(feed->set);
    int64_t count = stream ? ls_stream_fill(feed, c.slot, sample) : c.slot->count;
    for (int64_t j = c.begin; !stream && j < c.end; j++) fill_sample(feed, c.slot, j, sample);
    pthread_mutex_lock(&feed->lock);
    if (stream) {
        c.slot->count = count;
        feed->reading_now = false;
        pthread_cond_signal(&feed->work);
    }
    c.slot->done += c.end - c.begin;
    if (c.slot->done == c.slot->issued) pthread_cond_broadcast(&feed->full);
}

/* ---- threads ---- */

static void *worker(void *arg)
{
    ls_feed *feed = arg;
    ls_sample sample = {0};
    pthread_mutex_lock(&feed->lock);
    while (!feed->stopping) {
        chunk c;
        if (take(feed, &c)) work_on(feed, c, &sample);
        else pthread_cond_wait(&feed->work, &feed->lock);
    }
    pthread_mutex_unlock(&feed->lock);
    ls_sample_clear(&sample);
    return NULL;
}

/* Signals are for the program's own threads. Fewer threads than wanted are enough: the run's thread works too. */
static void start_threads(ls_feed *feed)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (feed->running < feed->worker_count && pthread_create(&feed->threads[feed->running], NULL, worker, feed) == 0)
        feed->running++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (feed->running < feed->worker_count)
        LS_LOG_ONCE(LS_LOG_WARN, "loader: the system allowed %d of %d worker threads", feed->running,
                    feed->worker_count);
    feed->started = true;
}

static void init_locks(ls_feed *feed)
{
    pthread_mutex_init(&feed->lock, NULL);
    pthread_cond_init(&feed->work, NULL);
    pthread_cond_init(&feed->full, NULL);
    feed->process = getpid();
}

/* In a child of fork() the workers are gone, and with them whatever they were doing: locks start anew, and batches that
 * were not full are filled again. What a worker was just resizing is left alone. */
static void revive_after_fork(ls_feed *feed)
{
    if (feed->process == getpid()) return;
    init_locks(feed);
    feed->running = 0;
    if (!feed->started) return;
    feed->issue = feed->begin;
    feed->reading_now = false;
    feed->stream.begun = feed->stream.begun && feed->end == 0;
    for (int64_t k = feed->begin; k < feed->end; k++) {
        ls_batch_slot *slot = slot_of(feed, k);
        if (slot->done == slot->size) {
            feed->stream.shard.start = slot->after; /* a stream is read anew, up to what is there */
            continue;
        }
        slot->issued = slot->done = slot->bad = 0;
        slot->failed_at = slot->bad_at = -1;
        for (int i = 0; i < feed->reading.field_count; i++)
            if (slot->cells[i]) memset(slot->cells[i], 0, (size_t)slot->room * sizeof *slot->cells[i]);
    }
    start_threads(feed);
}

bool ls_feed_init(ls_run *run, ls_feed *feed, int worker_count, int slot_count)
{
    feed->slots = ls_sys_alloc((size_t)slot_count * sizeof *feed->slots);
    feed->threads = ls_sys_alloc((size_t)(worker_count + 1) * sizeof *feed->threads);
    if (!feed->slots || !feed->threads) {
        ls_sys_free(feed->slots);
        ls_sys_free(feed->threads);
        feed->slots = NULL;
        return ls_fail(&run->errors, LS_ERR_MEMORY, "loader: no memory for %d batches ahead", slot_count), false;
    }
    feed->slot_count = slot_count;
    feed->worker_count = worker_count;
    init_locks(feed);
    return true;
}

void ls_feed_clear(ls_run *run, ls_feed *feed)
{
    if (!feed->slots) return;
    if (feed->process == getpid()) {
        pthread_mutex_lock(&feed->lock);
        feed->stopping = true;
        pthread_cond_broadcast(&feed->work);
        pthread_mutex_unlock(&feed->lock);
        for (int i = 0; i < feed->running; i++) pthread_join(feed->threads[i], NULL);
        pthread_cond_destroy(&feed->work);
        pthread_cond_destroy(&feed->full);
        pthread_mutex_destroy(&feed->lock);
    }
    for (int i = 0; i < feed->slot_count; i++) ls_slot_clear(run, &feed->slots[i]);
    ls_slot_clear(run, &feed->stream.first);
    ls_slot_clear(run, &feed->stream.spare);
    ls_sample_clear(&feed->sample);
    ls_sys_free(feed->slots);
    ls_sys_free(feed->threads);
    feed->slots = NULL;
}

/* ---- the run's side ---- */

ls_batch_slot *ls_feed_free_slot(ls_feed *feed)
{
    return feed->end - feed->begin < feed->slot_count ? slot_of(feed, feed->end) : NULL;
}

void ls_feed_push(ls_feed *feed)
{
    revive_after_fork(feed);
    if (!feed->started) start_threads(feed);
    pthread_mutex_lock(&feed->lock);
    feed->end++;
    pthread_cond_broadcast(&feed->work);
    pthread_mutex_unlock(&feed->lock);
}

ls_batch_slot *ls_feed_wait(ls_feed *feed, int ahead)
{
    revive_after_fork(feed);
    pthread_mutex_lock(&feed->lock);
    int64_t batch = feed->begin + ahead;
    ls_batch_slot *slot = slot_of(feed, batch);
    while (slot->done < slot->size) {
        chunk c;
        if (feed->issue <= batch && take(feed, &c)) work_on(feed, c, &feed->sample);
        else pthread_cond_wait(&feed->full, &feed->lock);
    }
    pthread_mutex_unlock(&feed->lock);
    return slot;
}

ls_batch_slot *ls_feed_look(ls_feed *feed, int ahead)
{
    revive_after_fork(feed);
    pthread_mutex_lock(&feed->lock);
    ls_batch_slot *slot = feed->begin + ahead < feed->end ? slot_of(feed, feed->begin + ahead) : NULL;
    if (slot && slot->done < slot->size) slot = NULL;
    pthread_mutex_unlock(&feed->lock);
    return slot;
}

void ls_feed_pop(ls_feed *feed)
{
    revive_after_fork(feed);
    pthread_mutex_lock(&feed->lock);
    feed->begin++;
    if (feed->issue < feed->begin) feed->issue = feed->begin; /* its slot is written anew: nobody may look there */
    pthread_mutex_unlock(&feed->lock);
}

void ls_feed_drain(ls_feed *feed)
{
    if (!feed->slots) return;
    revive_after_fork(feed);
    pthread_mutex_lock(&feed->lock);
    feed->issue = feed->end; /* what nobody has taken is not begun any more */
    for (int64_t k = feed->begin; k < feed->end; k++)
        while (slot_of(feed, k)->done < slot_of(feed, k)->issued) pthread_cond_wait(&feed->full, &feed->lock);
    feed->begin = feed->end = feed->issue = 0;
    pthread_mutex_unlock(&feed->lock);
    for (int i = 0; i < feed->slot_count; i++) ls_slot_forget(&feed->slots[i]);
}
