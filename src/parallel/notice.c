/* notice.c - what processes tell each other beside gradients: one small reduction to the maximum of every byte.
 *
 * It goes before the last bucket, when this process knows which gradients it used. With more than one bucket another
 * goes before the first, so that processes that do not train the same parameters learn it before they reduce different
 * ones. */
#include <string.h>

#include "autograd/tape.h"
#include "parallel/inside.h"

/* Places in the bytes. The first three have one byte for each slot; a rank is sent as 1 + rank, 0 means none. */
typedef struct places {
    size_t used, trained_in, frozen_in, odd_rank, weighted, agree, count;
} places;

static places places_of(size_t slots)
{
    return (places){0, slots, 2 * slots, 3 * slots, 3 * slots + 1, 3 * slots + 2, 3 * slots + 2 + LS_AGREE_BYTES};
}

size_t ls_notice_bytes(size_t slots)
{
    return places_of(slots).count;
}

static ls_status same_trained(ls_reducer *p, const uint8_t *bytes, ls_message *why)
{
    places at = places_of((size_t)p->slot_count);
    for (int i = 0; i < p->slot_count; i++) {
        int trained = bytes[at.trained_in + (size_t)i], frozen = bytes[at.frozen_in + (size_t)i];
        if (!trained || !frozen) continue;
        p->unlike = true;
        return ls_explain(why, LS_ERR_STATE,
                          "\"%s\" is trained in process %d, but frozen in process %d; freeze and unfreeze the same "
                          "parameters in all processes",
                          p->slots[i]->name, trained - 1, frozen - 1);
    }
    return LS_OK;
}

static ls_status exchange(ls_comm *comm, ls_comm_request *request, ls_message *why)
{
    const ls_notice *notice = (const ls_notice *)request; /* the request is its first member */
    ls_reducer *p = request->user;
    if (p->unlike) return LS_ERR_STATE;
    ls_status status = ls_comm_all_reduce(comm, notice->bytes, (int64_t)ls_notice_bytes((size_t)p->slot_count), LS_U8,
                                          LS_REDUCE_MAX, "gradients in use", why);
    return status ? status : same_trained(p, notice->bytes, why);
}

void ls_notice_start(ls_reducer *p, bool last)
{
    ls_notice *notice = &p->notices[last];
    places at = places_of((size_t)p->slot_count);
    int rank = ls_reducer_comm(p)->rank;
    uint8_t me = (uint8_t)(rank < UINT8_MAX ? rank + 1 : UINT8_MAX), *bytes = notice->bytes;
    memset(bytes, 0, at.count);
    for (size_t i = 0; i < (size_t)p->slot_count; i++) {
        bool trained = p->slots[i]->trained;
        bytes[at.used + i] = last && trained && ls_leaf_holds(p->slots[i]->tensor);
        bytes[(trained ? at.trained_in : at.frozen_in) + i] = me;
    }
    if (last) {
        bytes[at.odd_rank] = p->odd ? me : 0;
        bytes[at.weighted] = p->active && p->run->step->accumulation.weighted;
        ls_agree_tell(p, bytes + at.agree);
    }
    notice->request = (ls_comm_request){.work = exchange, .user = p};
    ls_comm_start(p->queue, &notice->request);
}

bool ls_notices_wait(ls_reducer *p)
{
    ls_message why = {{0}};
    bool ok = true;
    for (int i = 0; i < 2; i++) {
        ls_comm_request *request = &p->notices[i].request;
        if (request->work) ok &= ls_reducer_check(p, ls_comm_wait(p->queue, request, &why), &why, "ls_backward");
        request->work = NULL;
    }
    return ok;
}

ls_heard ls_notice_heard(const ls_reducer *p)
{
    places at = places_of((size_t)p->slot_count);
    const uint8_t *bytes = p->notices[true].bytes;
    return (ls_heard){.used = bytes + at.used,
                      .odd_rank = bytes[at.odd_rank] - 1,
                      .weighted = bytes[at.weighted],
                      .agree = bytes + at.agree};
}
