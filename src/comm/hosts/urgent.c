/* urgent.c - news that end everything, between all ranks of a job. */
#include <stdio.h>
#include <string.h>

#include "comm/hosts/inside.h"

/* ms for news to leave: of a failure, which others notice anyway; of what does not end the job, which a message that is
 * called back may do to a transport. */
enum { PATIENCE = 50, LEISURE = 3000 };

ls_status ls_job_begin_listening(ls_hosts_job *job, ls_message *why)
{
    ls_status status = job->transport->receive(job->link, LS_LINK_ANY, LS_LINK_URGENT, &job->heard, sizeof job->heard,
                                               &job->urgent, why);
    job->listening = status == LS_OK;
    return status;
}

static void heed(ls_hosts_job *job)
{
    const ls_urgent *news = &job->heard;
    ls_segment_header *header = job->segment->header;
    bool sensible = news->rank >= -1 && news->rank < job->size;
    if (news->kind == LS_URGENT_ABORT && sensible) {
        atomic_store(&header->told, 1);
        job->heard.words[sizeof news->words - 1] = '\0';
        ls_segment_abort(job->segment, news->rank, news->words);
    }
    if (news->kind == LS_URGENT_CANCEL && sensible) ls_segment_cancel(job->segment, news->rank, news->resets);
    if (news->kind == LS_URGENT_FAREWELL && sensible && news->rank >= 0) job->left[news->rank] = true;
}

void ls_job_enlist(ls_hosts *h)
{
    pthread_mutex_lock(&h->job->lock);
    h->next = h->job->first;
    h->job->first = h;
    pthread_mutex_unlock(&h->job->lock);
}

void ls_job_discharge(ls_hosts *h)
{
    pthread_mutex_lock(&h->job->lock);
    for (ls_hosts **at = &h->job->first; *at; at = &(*at)->next) {
        if (*at != h) continue;
        *at = h->next;
        break;
    }
    pthread_mutex_unlock(&h->job->lock);
}

/* A call that is over here may have left bytes that no socket had room for. Others wait for them, and this rank perhaps
 * for those others, in another call. */
static void let_go_on(ls_hosts_job *job)
{
    for (ls_hosts *h = job->first; h && job->transport->progress; h = h->next) {
        if (pthread_mutex_trylock(&h->lock) != 0) continue; /* somebody is at it */
        job->transport->progress(h->link);
        pthread_mutex_unlock(&h->lock);
    }
}

/* Somebody else who holds the lock listens, too. */
bool ls_job_listen(void *listener)
{
    ls_hosts_job *job = listener;
    ls_message ignored;
    if (pthread_mutex_trylock(&job->lock) != 0) return false;
    while (job->listening) {
        bool done = !job->urgent; /* it came at once */
        size_t bytes = sizeof job->heard;
        ls_status status = done ? LS_OK : job->transport->test(job->link, job->urgent, &done, &bytes, &ignored);
        if (!status && !done) break;
        if (!status && bytes == sizeof job->heard) heed(job); /* of a shorter one the rest would be older news */
        job->urgent = NULL;
        ls_job_begin_listening(job, &ignored);
        if (status) break;
    }
    let_go_on(job);
    pthread_mutex_unlock(&job->lock);
    return false;
}

void ls_job_tell(ls_hosts_job *job, ls_urgency kind, int rank, const char *words)
{
    const ls_transport *transport = job->transport;
    ls_urgent news = {.kind = (int32_t)kind, .rank = rank, .resets = atomic_load(&job->segment->header->resets)};
    ls_message ignored;
    ls_link_request **requests = job->telling;
    snprintf(news.words, sizeof news.words, "%s", words);
    pthread_mutex_lock(&job->lock);
    int waiting = 0;
    for (int r = 0; r < job->size; r++)
        if (job->host[r] != job->host[job->rank] && !job->left[r] &&
            transport->send(job->link, r, LS_LINK_URGENT, &news, sizeof news, &requests[waiting], &ignored) == LS_OK &&
            requests[waiting])
            waiting++;
    int64_t until = ls_comm_clock() + (kind == LS_URGENT_ABORT ? PATIENCE : LEISURE) * (int64_t)1000000;
    while (waiting && ls_comm_clock() < until) {
        int still = 0;
        for (int i = 0; i < waiting; i++) {
            bool done = false;
            ls_status status = transport->test(job->link, requests[i], &done, NULL, &ignored);
            if (!status && !done) requests[still++] = requests[i];
        }
        waiting = still;
    }
    for (int i = 0; i < waiting; i++) transport->cancel(job->link, requests[i]);
    pthread_mutex_unlock(&job->lock);
}

void ls_job_spread(ls_hosts_job *job)
{
    ls_segment_header *header = job->segment->header;
    uint32_t nobody = 0;
    if (!ls_segment_aborted(job->segment) || !atomic_compare_exchange_strong(&header->told, &nobody, 1)) return;
    ls_message ignored;
    ls_segment_reason(job->segment, &ignored); /* waits until the words are written */
    ls_job_tell(job, LS_URGENT_ABORT, header->culprit, header->words);
}
