/* urgent.c - urgent notices between all ranks of a job: abort, cancel, farewell. */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "comm/hosts/internal.h"

/* How long sending may take, in ms: less for an abort, without which others would still notice that this rank is gone,
 * but not why; long for notices after which the job continues, because cancelling a message in flight may break a
 * transport. */
enum { ABORT_WAIT = 1000, OTHER_WAIT = 3000 };

ls_status ls_job_begin_listening(ls_hosts_job *job, ls_message *why)
{
    ls_status status = job->transport->receive(job->link, LS_LINK_ANY, LS_LINK_URGENT, &job->notice, sizeof job->notice,
                                               &job->urgent, why);
    job->listening = status == LS_OK;
    return status;
}

static void handle_notice(ls_hosts_job *job)
{
    const ls_urgent *notice = &job->notice;
    ls_segment_header *header = job->segment->header;
    bool sensible = notice->rank >= -1 && notice->rank < job->size;
    if (notice->kind == LS_URGENT_ABORT && sensible) {
        atomic_store(&header->announced, 1);
        job->notice.words[sizeof notice->words - 1] = '\0';
        ls_segment_abort(job->segment, notice->rank, notice->words);
    }
    if (notice->kind == LS_URGENT_CANCEL && sensible) ls_segment_cancel(job->segment, notice->rank, notice->resets);
    if (notice->kind == LS_URGENT_FAREWELL && sensible && notice->rank >= 0) job->left[notice->rank] = true;
}

void ls_job_register(ls_hosts *h)
{
    pthread_mutex_lock(&h->job->lock);
    h->next = h->job->first;
    h->job->first = h;
    pthread_mutex_unlock(&h->job->lock);
}

void ls_job_unregister(ls_hosts *h)
{
    pthread_mutex_lock(&h->job->lock);
    for (ls_hosts **at = &h->job->first; *at; at = &(*at)->next) {
        if (*at != h) continue;
        *at = h->next;
        break;
    }
    pthread_mutex_unlock(&h->job->lock);
}

/* A finished call may have left bytes that no socket had room for. Other ranks wait for them, and this rank may be
 * waiting for those ranks in another call. */
static void progress_links(ls_hosts_job *job)
{
    for (ls_hosts *h = job->first; h && job->transport->progress; h = h->next) {
        if (pthread_mutex_trylock(&h->lock) != 0) continue; /* another thread progresses it */
        job->transport->progress(h->link);
        pthread_mutex_unlock(&h->lock);
    }
}

/* If the lock is taken, its holder polls instead. */
bool ls_job_listen(void *listener)
{
    ls_hosts_job *job = listener;
    ls_message ignored;
    if (pthread_mutex_trylock(&job->lock) != 0) return false;
    while (job->listening) {
        bool done = !job->urgent; /* completed immediately */
        size_t bytes = sizeof job->notice;
        ls_status status = done ? LS_OK : job->transport->test(job->link, job->urgent, &done, &bytes, &ignored);
        if (!status && !done) break;
        if (!status && bytes == sizeof job->notice)
            handle_notice(job); /* a shorter one would leave old bytes in the
                                                                         * buffer */
        job->urgent = NULL;
        ls_job_begin_listening(job, &ignored);
        if (status) break;
    }
    progress_links(job);
    pthread_mutex_unlock(&job->lock);
    return false;
}

void ls_job_notify(ls_hosts_job *job, ls_urgency kind, int rank, const char *words)
{
    const ls_transport *transport = job->transport;
    ls_urgent notice = {.kind = (int32_t)kind, .rank = rank, .resets = atomic_load(&job->segment->header->resets)};
    ls_message ignored;
    ls_link_request **requests = job->notices;
    snprintf(notice.words, sizeof notice.words, "%s", words);
    pthread_mutex_lock(&job->lock);
    int waiting = 0;
    for (int r = 0; r < job->size; r++)
        if (job->host[r] != job->host[job->rank] && !job->left[r] &&
            transport->send(job->link, r, LS_LINK_URGENT, &notice, sizeof notice, &requests[waiting], &ignored) ==
                LS_OK &&
            requests[waiting])
            waiting++;
    int64_t until = ls_comm_clock() + (kind == LS_URGENT_ABORT ? ABORT_WAIT : OTHER_WAIT) * (int64_t)1000000;
    while (waiting && ls_comm_clock() < until) {
        int still = 0;
        for (int i = 0; i < waiting; i++) {
            bool done = false;
            ls_status status = transport->test(job->link, requests[i], &done, NULL, &ignored);
            if (!status && !done) requests[still++] = requests[i];
        }
        waiting = still;
        if (waiting) sched_yield(); /* the receiver may need this core */
    }
    for (int i = 0; i < waiting; i++) transport->cancel(job->link, requests[i]);
    pthread_mutex_unlock(&job->lock);
}

void ls_job_forward_abort(ls_hosts_job *job)
{
    ls_segment_header *header = job->segment->header;
    uint32_t nobody = 0;
    if (!ls_segment_aborted(job->segment) || !atomic_compare_exchange_strong(&header->announced, &nobody, 1)) return;
    ls_message ignored;
    ls_segment_reason(job->segment, &ignored); /* waits until the reason is complete */
    ls_job_notify(job, LS_URGENT_ABORT, header->culprit, header->words);
}
