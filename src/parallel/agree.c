/* agree.c - do the processes still train the same model? Every reducing pass checks it along with what it exchanges
 * anyway: bytes are equal in all processes if the maximum of the bytes and the maximum of their complements are
 * complements. */
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "kernels/kernels.h"
#include "parallel/inside.h"

/* ---- in every pass ---- */

/* Hash of one element of every trained parameter: a step that another process did not make changes nearly all of them.
 * On devices other than the host this is skipped, because reading would wait for the device. */
static uint64_t sample(const ls_reducer *p)
{
    uint64_t mixed = 0;
    if (p->values_told || p->joining || !ls_device_is_host(p->device)) return 0;
    for (int i = 0; i < p->slot_count; i++) {
        const ls_operand *x = &p->slots[i]->tensor->view;
        uint64_t bits = 0;
        if (!p->slots[i]->trained || ls_view_numel(x) == 0) continue;
        memcpy(&bits, x->data, ls_dtype_size(x->dtype));
        mixed = (mixed ^ bits) * 0x9E3779B97F4A7C15u;
        mixed ^= mixed >> 29;
    }
    return mixed;
}

void ls_agree_tell(const ls_reducer *p, uint8_t bytes[LS_AGREE_BYTES])
{
    uint64_t mine[LS_AGREE_COUNT] = {[LS_AGREE_STEPS] = p->course, [LS_AGREE_VALUES] = sample(p)};
    for (int i = 0; i < LS_AGREE_COUNT; i++) {
        uint64_t both[2] = {mine[i], ~mine[i]};
        memcpy(bytes + (size_t)i * sizeof both, both, sizeof both);
    }
    if (!p->active) memset(bytes, 0, LS_AGREE_BYTES);
}

bool ls_agree_hear(const uint8_t bytes[LS_AGREE_BYTES], ls_agreement which)
{
    uint64_t both[2];
    memcpy(both, bytes + (size_t)which * sizeof both, sizeof both);
    return both[0] == ~both[1];
}

bool ls_reducer_parted(const ls_reducer *p)
{
    return ls_reducer_trains(p) && p->parted;
}

/* ---- parameter by parameter ---- */

static bool hash_slot(const ls_slot *slot, uint64_t *hash)
{
    const ls_tensor *t = slot->tensor;
    size_t bytes = (size_t)ls_view_numel(&t->view) * ls_dtype_size(t->view.dtype);
    if (ls_device_is_host(t->storage->device) && ls_view_contiguous(&t->view)) {
        *hash = ls_hash_of(t->view.data, bytes);
        return true;
    }
    char *copy = ls_sys_alloc(bytes + 1);
    if (!copy) return ls_fail(&t->run->errors, LS_ERR_MEMORY, "no memory to compare parameters"), false;
    bool ok = ls_read(slot->tensor, copy, bytes);
    *hash = ls_hash_of(copy, bytes);
    ls_sys_free(copy);
    return ok;
}

/* mine = hashes of all parameters, in order, since those that are frozen shape the model, too; then the ISA that
 * updated them */
static bool hash_all(const ls_reducer *p, uint64_t *mine)
{
    for (int i = 0; i < p->slot_count; i++)
        if (!hash_slot(p->slots[i], &mine[i])) return false;
    mine[p->slot_count] = (uint64_t)ls_isa_in_use();
    return true;
}

/* Do all processors round the same way? If not, slightly different values are not an error. */
static bool same_rounding(const ls_reducer *p, const uint64_t *all, int world)
{
    size_t stride = (size_t)p->slot_count + 1;
    for (int r = 1; r < world; r++)
        if (all[(size_t)r * stride + stride - 1] != all[stride - 1]) return false;
    return true;
}

static void report_first(const ls_reducer *p, const uint64_t *all, int rank, const char *who)
{
    const uint64_t *other = all + (size_t)rank * ((size_t)p->slot_count + 1);
    int first = -1, count = 0;
    for (int i = 0; i < p->slot_count; i++) {
        if (other[i] == all[i]) continue;
        if (!count++) first = i;
    }
    ls_log_of_job(
        LS_LOG_WARN,
        "%s: processes no longer train the same model: %d of %d parameters differ in processes 0 and %d, first "
        "\"%s\"; change gradients and parameters (clipping, ls_assign, ls_write) identically in all of them",
        who, count, p->slot_count, rank, p->slots[first]->name);
}

bool ls_reducer_compare(ls_reducer *p, const char *who)
{
    if (!ls_reducer_trains(p) || p->values_told) return true;
    ls_comm *comm = ls_reducer_comm(p);
    ls_message why = {{0}};
    size_t stride = (size_t)p->slot_count + 1;
    uint64_t *mine = ls_sys_alloc((size_t)(comm->size + 1) * stride * sizeof *mine);
    if (!mine) ls_fail(&p->run->errors, LS_ERR_MEMORY, "%s: no memory to compare parameters", who);
    if (!mine || !hash_all(p, mine)) return ls_reducer_call_off(p), ls_sys_free(mine), false;
    uint64_t *all = mine + stride;
    ls_status status = ls_comm_all_gather(comm, mine, all, stride * sizeof *mine, who, &why);
    bool ok = ls_reducer_check(p, status, &why, who);
    for (int r = 1; ok && r < comm->size && !p->values_told; r++) {
        if (memcmp(all, all + (size_t)r * stride, stride * sizeof *all) == 0) continue;
        p->values_told = true;
        if (same_rounding(p, all, comm->size)) report_first(p, all, r, who);
    }
    ls_sys_free(mine);
    return ok;
}
