/* prefetcher.c - the threads that fill batches, and how work is distributed to them. */
#include "data/loader/prefetcher.h"

#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/spans.h"
#include "base/thread.h"

/* Samples that a thread takes at a time. */
typedef struct chunk {
    ls_batch_slot *slot;
    int64_t begin, end;
} chunk;

static ls_batch_slot *slot_of(const ls_prefetcher *prefetcher, int64_t batch)
{
    return &prefetcher->slots[batch % prefetcher->slot_count];
}

/* ---- filling ---- */

/* Describe the first bad sample and its file. The end of a long path says more than its start. */
static void describe_bad(const ls_prefetcher *prefetcher, ls_batch_slot *slot, int64_t j, const ls_sample *sample)
{
    const char *path = ls_dataset_is_stream(prefetcher->set) ? "" : ls_dataset_path(prefetcher->set, slot->place[j]);
    size_t length = strlen(path), most = 120;
    ls_message_set(&slot->bad_reason, "%s%s%s%.120s", length > most ? "..." : "",
                   path + (length > most ? length - most : 0), length ? ": " : "", sample->why.text);
}

void ls_prefetcher_note_bad(ls_prefetcher *prefetcher, ls_batch_slot *slot, int64_t j, const ls_sample *sample)
{
    pthread_mutex_lock(&prefetcher->lock);
    slot->bad++;
    if (slot->bad_at < 0 || j < slot->bad_at) {
        slot->bad_at = j;
        describe_bad(prefetcher, slot, j, sample);
    }
    pthread_mutex_unlock(&prefetcher->lock);
}

void ls_prefetcher_note_failure(ls_prefetcher *prefetcher, ls_batch_slot *slot, int64_t j, const ls_sample *sample)
{
    pthread_mutex_lock(&prefetcher->lock);
    if (slot->failed_at < 0 || j < slot->failed_at) {
        slot->failed_at = j;
        slot->status = sample->status;
        slot->failure = sample->why;
    }
    pthread_mutex_unlock(&prefetcher->lock);
}

/* Sample j of a slot, or the next good one after it if bad ones are skipped. */
static void fill_sample(ls_prefetcher *prefetcher, ls_batch_slot *slot, int64_t j, ls_sample *sample)
{
    const ls_dataset *set = prefetcher->set;
    int64_t index = slot->place[j];
    ls_batch_slot_point(slot, &prefetcher->reading, j, sample);
    sample->place = index;
    for (int64_t tries = 1; !ls_sample_get(sample, set, index); tries++) {
        if (set->on_bad != LS_ON_BAD_SKIP || sample->status != LS_ERR_IO || tries == set->count) {
            ls_prefetcher_note_failure(prefetcher, slot, j, sample);
            break;
        }
        if (tries == 1) ls_prefetcher_note_bad(prefetcher, slot, j, sample);
        index = (index + 1) % set->count;
    }
    slot->index[j] = index;
}

/* ---- distributing work; the lock is held ---- */

/* Enough parts for all threads to finish at the same time, few enough to avoid lock contention. */
static int64_t chunk_size(const ls_prefetcher *prefetcher, int64_t size)
{
    int64_t part = size / (4 * (prefetcher->worker_count + 1));
    if (prefetcher->worker_count == 0 || ls_dataset_is_stream(prefetcher->set)) return size;
    return part < 1 ? 1 : part > 32 ? 32 : part;
}

static bool take(ls_prefetcher *prefetcher, chunk *c)
{
    while (prefetcher->issue < prefetcher->end &&
           slot_of(prefetcher, prefetcher->issue)->issued == slot_of(prefetcher, prefetcher->issue)->size)
        prefetcher->issue++;
    if (prefetcher->issue == prefetcher->end || prefetcher->reading_now) return false;
    ls_batch_slot *slot = slot_of(prefetcher, prefetcher->issue);
    int64_t count = chunk_size(prefetcher, slot->size), left = slot->size - slot->issued;
    *c = (chunk){slot, slot->issued, slot->issued + (count < left ? count : left)};
    slot->issued = c->end;
    prefetcher->reading_now = ls_dataset_is_stream(prefetcher->set);
    return true;
}

static void work_on(ls_prefetcher *prefetcher, chunk c, ls_sample *sample)
{
    pthread_mutex_unlock(&prefetcher->lock);
    bool stream = ls_dataset_is_stream(prefetcher->set);
    int64_t count = stream ? ls_stream_fill(prefetcher, c.slot, sample) : c.slot->count;
    for (int64_t j = c.begin; !stream && j < c.end; j++) fill_sample(prefetcher, c.slot, j, sample);
    pthread_mutex_lock(&prefetcher->lock);
    if (stream) {
        c.slot->count = count;
        prefetcher->reading_now = false;
        pthread_cond_signal(&prefetcher->work);
    }
    c.slot->done += c.end - c.begin;
    if (c.slot->done == c.slot->issued) pthread_cond_broadcast(&prefetcher->full);
}

/* ---- threads ---- */

static void *worker(void *arg)
{
    ls_prefetcher *prefetcher = arg;
    ls_sample sample = {0};
    pthread_mutex_lock(&prefetcher->lock);
    while (!prefetcher->stopping) {
        chunk c;
        if (take(prefetcher, &c)) work_on(prefetcher, c, &sample);
        else pthread_cond_wait(&prefetcher->work, &prefetcher->lock);
    }
    pthread_mutex_unlock(&prefetcher->lock);
    ls_sample_clear(&sample);
    return NULL;
}

/* Signals are for the program's own threads. Fewer threads than requested are enough: the run's thread works too. */
static void start_threads(ls_prefetcher *prefetcher)
{
    while (prefetcher->running < prefetcher->worker_count &&
           ls_thread_start(&prefetcher->threads[prefetcher->running], worker, prefetcher))
        prefetcher->running++;
    if (prefetcher->running < prefetcher->worker_count)
        LS_LOG_ONCE(LS_LOG_WARN, "loader: only %d of %d worker threads could be created", prefetcher->running,
                    prefetcher->worker_count);
    prefetcher->started = true;
}

static void init_locks(ls_prefetcher *prefetcher)
{
    pthread_mutex_init(&prefetcher->lock, NULL);
    pthread_cond_init(&prefetcher->work, NULL);
    pthread_cond_init(&prefetcher->full, NULL);
    prefetcher->process = getpid();
}

/* In a child of fork() the workers are gone, and with them their work: locks are initialised again, and unfinished
 * batches are filled again. Memory that a worker was just resizing is leaked. */
static void restart_after_fork(ls_prefetcher *prefetcher)
{
    if (prefetcher->process == getpid()) return;
    init_locks(prefetcher);
    prefetcher->running = 0;
    if (!prefetcher->started) return;
    prefetcher->issue = prefetcher->begin;
    prefetcher->reading_now = false;
    prefetcher->stream.begun = prefetcher->stream.begun && prefetcher->end == 0;
    for (int64_t k = prefetcher->begin; k < prefetcher->end; k++) {
        ls_batch_slot *slot = slot_of(prefetcher, k);
        if (slot->done == slot->size) {
            prefetcher->stream.shard.start = slot->after; /* a stream is read again, skipping what is there */
            continue;
        }
        slot->issued = slot->done = slot->bad = 0;
        slot->failed_at = slot->bad_at = -1;
        for (int i = 0; i < prefetcher->reading.field_count; i++)
            if (slot->cells[i]) memset(slot->cells[i], 0, (size_t)slot->room * sizeof *slot->cells[i]);
    }
    start_threads(prefetcher);
}

bool ls_prefetcher_init(ls_run *run, ls_prefetcher *prefetcher, int worker_count, int slot_count)
{
    prefetcher->slots = ls_sys_alloc((size_t)slot_count * sizeof *prefetcher->slots);
    prefetcher->threads = ls_sys_alloc((size_t)(worker_count + 1) * sizeof *prefetcher->threads);
    if (!prefetcher->slots || !prefetcher->threads) {
        ls_sys_free(prefetcher->slots);
        ls_sys_free(prefetcher->threads);
        prefetcher->slots = NULL;
        return ls_fail(&run->errors, LS_ERR_MEMORY, "loader: no memory to prefetch %d batches", slot_count), false;
    }
    prefetcher->slot_count = slot_count;
    prefetcher->worker_count = worker_count;
    init_locks(prefetcher);
    return true;
}

void ls_prefetcher_clear(ls_run *run, ls_prefetcher *prefetcher)
{
    if (!prefetcher->slots) return;
    if (prefetcher->process == getpid()) {
        pthread_mutex_lock(&prefetcher->lock);
        prefetcher->stopping = true;
        pthread_cond_broadcast(&prefetcher->work);
        pthread_mutex_unlock(&prefetcher->lock);
        for (int i = 0; i < prefetcher->running; i++) pthread_join(prefetcher->threads[i], NULL);
        pthread_cond_destroy(&prefetcher->work);
        pthread_cond_destroy(&prefetcher->full);
        pthread_mutex_destroy(&prefetcher->lock);
    }
    for (int i = 0; i < prefetcher->slot_count; i++) ls_batch_slot_clear(run, &prefetcher->slots[i]);
    ls_batch_slot_clear(run, &prefetcher->stream.first);
    ls_batch_slot_clear(run, &prefetcher->stream.spare);
    ls_sample_clear(&prefetcher->sample);
    ls_sys_free(prefetcher->slots);
    ls_sys_free(prefetcher->threads);
    prefetcher->slots = NULL;
}

/* ---- called by the run's thread ---- */

ls_batch_slot *ls_prefetcher_free_slot(ls_prefetcher *prefetcher)
{
    return prefetcher->end - prefetcher->begin < prefetcher->slot_count ? slot_of(prefetcher, prefetcher->end) : NULL;
}

void ls_prefetcher_push(ls_prefetcher *prefetcher)
{
    restart_after_fork(prefetcher);
    if (!prefetcher->started) start_threads(prefetcher);
    pthread_mutex_lock(&prefetcher->lock);
    prefetcher->end++;
    pthread_cond_broadcast(&prefetcher->work);
    pthread_mutex_unlock(&prefetcher->lock);
}

ls_batch_slot *ls_prefetcher_wait(ls_prefetcher *prefetcher, int ahead)
{
    restart_after_fork(prefetcher);
    pthread_mutex_lock(&prefetcher->lock);
    int64_t batch = prefetcher->begin + ahead;
    ls_batch_slot *slot = slot_of(prefetcher, batch);
    int64_t began = slot->done < slot->size ? ls_spans_clock() : 0;
    while (slot->done < slot->size) {
        chunk c;
        if (prefetcher->issue <= batch && take(prefetcher, &c)) work_on(prefetcher, c, &prefetcher->sample);
        else pthread_cond_wait(&prefetcher->full, &prefetcher->lock);
    }
    pthread_mutex_unlock(&prefetcher->lock);
    ls_spans_add(LS_SPAN_DATA_WAIT, "batch", NULL, began);
    return slot;
}

ls_batch_slot *ls_prefetcher_look(ls_prefetcher *prefetcher, int ahead)
{
    restart_after_fork(prefetcher);
    pthread_mutex_lock(&prefetcher->lock);
    ls_batch_slot *slot =
        prefetcher->begin + ahead < prefetcher->end ? slot_of(prefetcher, prefetcher->begin + ahead) : NULL;
    if (slot && slot->done < slot->size) slot = NULL;
    pthread_mutex_unlock(&prefetcher->lock);
    return slot;
}

void ls_prefetcher_pop(ls_prefetcher *prefetcher)
{
    restart_after_fork(prefetcher);
    pthread_mutex_lock(&prefetcher->lock);
    prefetcher->begin++;
    if (prefetcher->issue < prefetcher->begin)
        prefetcher->issue = prefetcher->begin; /* its slot is rewritten: no worker may use it */
    pthread_mutex_unlock(&prefetcher->lock);
}

void ls_prefetcher_drain(ls_prefetcher *prefetcher)
{
    if (!prefetcher->slots) return;
    restart_after_fork(prefetcher);
    pthread_mutex_lock(&prefetcher->lock);
    prefetcher->issue = prefetcher->end; /* samples not taken yet are dropped */
    for (int64_t k = prefetcher->begin; k < prefetcher->end; k++)
        while (slot_of(prefetcher, k)->done < slot_of(prefetcher, k)->issued)
            pthread_cond_wait(&prefetcher->full, &prefetcher->lock);
    prefetcher->begin = prefetcher->end = prefetcher->issue = 0;
    pthread_mutex_unlock(&prefetcher->lock);
    for (int i = 0; i < prefetcher->slot_count; i++) ls_batch_slot_forget(&prefetcher->slots[i]);
}
