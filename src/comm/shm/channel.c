/* channel.c - messages from one rank to one other. */
#include <string.h>

#include "comm/shm/shm.h"

static ls_channel *channel(const ls_shm *shm, int from, int to)
{
    return &shm->channels[from * shm->comm.size + to];
}

static char *box(const ls_shm *shm, int from, int to, uint32_t number)
{
    return shm->boxes + (((size_t)from * (size_t)shm->comm.size + (size_t)to) * 2 + (number & 1)) * LS_SHM_BOX;
}

/* Boxes are numbered from 1. A box may be filled once the one two before it has been emptied. */
static ls_status send_boxes(ls_shm *shm, const ls_comm_call *call, size_t bytes, ls_message *why)
{
    int me = shm->comm.rank, peer = call->peer;
    ls_channel *way = channel(shm, me, peer);
    size_t at = 0;
    do {
        uint32_t number = ++shm->sent[peer];
        size_t piece = bytes - at < LS_SHM_BOX ? bytes - at : LS_SHM_BOX;
        ls_status status = ls_line_await(shm, &way->emptied, number - 2, peer, why);
        if (status) return status;
        way->what[number & 1] = shm->entry;
        if (piece) memcpy(box(shm, me, peer, number), (const char *)call->in + at, piece);
        ls_line_raise(&way->filled, number);
        at += piece;
    } while (at < bytes);
    return LS_OK;
}

static ls_status receive_boxes(ls_shm *shm, const ls_comm_call *call, size_t bytes, ls_message *why)
{
    int me = shm->comm.rank, peer = call->peer;
    ls_channel *way = channel(shm, peer, me);
    size_t at = 0;
    do {
        uint32_t number = ++shm->received[peer];
        size_t piece = bytes - at < LS_SHM_BOX ? bytes - at : LS_SHM_BOX;
        ls_status status = ls_line_await(shm, &way->filled, number, peer, why);
        if (status) return status;
        const ls_ring_entry *what = &way->what[number & 1];
        if (what->dtype != (int32_t)call->dtype || what->count != call->count) {
            status = ls_shm_disagree(shm, ls_shm_job_rank(shm, peer), what, ls_shm_job_rank(shm, me), &shm->entry);
            *why = shm->broken;
            return status;
        }
        if (piece) memcpy((char *)call->out + at, box(shm, peer, me, number), piece);
        ls_line_raise(&way->emptied, number);
        at += piece;
    } while (at < bytes);
    return LS_OK;
}

ls_status ls_shm_message(ls_shm *shm, const ls_comm_call *call, ls_message *why)
{
    size_t bytes = (size_t)call->count * ls_dtype_size(call->dtype);
    return call->kind == LS_COMM_SEND ? send_boxes(shm, call, bytes, why) : receive_boxes(shm, call, bytes, why);
}
