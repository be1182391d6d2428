/* pieces.c - collectives of many bytes, piece by piece: while one is in flight the next is summed.
 *
 * A piece has a part for each owner. Reductions: the holder of a part sums it over the ranks of its host and sends the
 * sum to the owner; the owner sums over hosts and sends the result to the holders; ranks of a host copy it from their
 * holders. All-gather is only the second half of this, reduce-scatter only the first. A broadcast has the same second
 * half, after the root has sent each owner its part: however many hosts there are, no rank sends more than twice its
 * data. */
#include <string.h>

#include "comm/hosts/internal.h"

/* State of one call. Sizes are in bytes. */
typedef struct work {
    ls_hosts *h;
    const ls_comm_call *call;
    bool reduces, broadcasts; /* kind of first half, if there is one */
    bool returns;             /* there is a second half */
    int root;                 /* rank and host of the root of a broadcast or reduce; -1: none */
    int root_host;
    size_t element, widening; /* bytes of an element; factor by which a host's sum is wider */
    ls_dtype wire;
    size_t room; /* bytes of a piece: per owner, if each has an array of its own; else in all */
    int64_t pieces;
    uint64_t first; /* turn of the first piece */
    bool staged;    /* ranks of this host read each other's data from stages, else in place */
    char **rows;    /* [width] the arrays in place */
} work;

/* The part of one owner in one piece. */
typedef struct part {
    size_t array; /* offset in the full array */
    size_t room;  /* offset in a stage */
    size_t bytes;
} part;

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool has_parts(const ls_comm_call *call)
{
    return call->kind == LS_COMM_REDUCE_SCATTER || call->kind == LS_COMM_ALL_GATHER;
}

/* Arrays are cut by rank (has_parts), or within a piece into slices of whole cache lines. */
static part part_of(const work *w, int64_t piece, int owner)
{
    const ls_comm_call *call = w->call;
    size_t before = (size_t)piece * w->room, whole = (size_t)call->count * w->element;
    part p = {.array = before};
    if (has_parts(call)) {
        whole = (size_t)ls_comm_part(call, owner) * w->element;
        p.array += (size_t)ls_comm_offset(call, owner) * w->element;
        p.room = (size_t)owner * w->room;
    }
    size_t here = whole > before ? smaller(whole - before, w->room) : 0;
    p.bytes = here;
    if (has_parts(call)) return p;
    size_t size = (size_t)w->h->comm.size, each = ((here + size - 1) / size + 63) / 64 * 64;
    p.room = smaller(each * (size_t)owner, here);
    p.bytes = smaller(here - p.room, each);
    p.array += p.room;
    return p;
}

/* ---- addresses ---- */

/* Input of a rank of this host. */
static const char *input_at(const work *w, int64_t piece, int local, part p)
{
    if (w->staged) return ls_hosts_stage(w->h, local, w->first + (uint64_t)piece) + p.room;
    return w->rows[local] + p.array;
}

/* Where a rank of this host stores the result of a part. */
static char *result_at(const work *w, int64_t piece, int local, part p)
{
    if (w->staged) return ls_hosts_stage(w->h, local, w->first + (uint64_t)piece) + p.room;
    return ls_hosts_width(w->h) > 1 ? w->rows[local] + p.array : (char *)w->call->out + p.array;
}

static char *scratch(const work *w, int64_t piece)
{
    return w->h->scratch + (size_t)((w->first + (uint64_t)piece) % LS_HOSTS_SLOTS) * w->h->scratch_bytes;
}

static int slot(const work *w, int64_t piece)
{
    return (int)((w->first + (uint64_t)piece) % LS_HOSTS_SLOTS);
}

/* Do owners send their results to this host? */
static bool host_wants(const work *w, int host)
{
    if (w->call->kind == LS_COMM_REDUCE) return host == w->root_host;
    return w->returns && !(w->broadcasts && host == w->root_host);
}

static size_t in_lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* ---- the first half ---- */

/* Every rank with input copies it where the other ranks of the host can read it. */
static ls_status put(const work *w, int64_t piece, ls_message *why)
{
    ls_hosts *h = w->h;
    const char *in = w->broadcasts ? w->call->out : w->call->in;
    bool has_input = !w->broadcasts || h->comm.rank == w->root;
    char *stage = ls_hosts_stage(h, h->local->comm.rank, w->first + (uint64_t)piece);
    for (int owner = 0; owner < h->comm.size && has_input; owner++) {
        part p = part_of(w, piece, owner);
        if (p.bytes) memcpy(stage + p.room, in + p.array, p.bytes);
    }
    return ls_shm_step(h->local, why);
}

/* Sum a part over this host, into *room; with nothing to sum, return it in place. */
static const char *sum_host(const work *w, int64_t piece, part p, char **room)
{
    const ls_hosts *h = w->h;
    int width = ls_hosts_width(h);
    const void *rows[LS_SEGMENT_MOST];
    for (int l = 0; l < width; l++) rows[l] = input_at(w, piece, l, p);
    if (width == 1 && w->wire == w->call->dtype) return rows[0];
    char *to = *room;
    *room += in_lines(p.bytes * w->widening);
    ls_combine_kernels()->fold_rows(w->call->dtype, w->wire, ls_comm_fold(w->call->op), 1, (void *[]){to}, 1, rows,
                                    width, (int64_t)(p.bytes / w->element));
    return to;
}

/* Layout of a piece's scratch: the sums of all hosts for the own part, its result, then sums for other owners. */
static char *host_sum(const work *w, int64_t piece, size_t bytes, int host)
{
    return scratch(w, piece) + (size_t)host * in_lines(bytes * w->widening);
}

static ls_status start_reduce(const work *w, int64_t piece, ls_message *why)
{
    ls_hosts *h = w->h;
    int me = h->comm.rank;
    part mine = part_of(w, piece, me);
    char *room = host_sum(w, piece, mine.bytes, h->hosts + 1);
    ls_status status = LS_OK;
    for (int host = 0; host < h->hosts && !status; host++)
        if (host != h->host && mine.bytes)
            status = ls_hosts_receive(h, &h->in[slot(w, piece)], ls_hosts_holder(h, host, me),
                                      host_sum(w, piece, mine.bytes, host), mine.bytes * w->widening, why);
    if (w->staged && !status) status = put(w, piece, why);
    for (int i = 1; i < h->comm.size && !status; i++) {
        int owner = (me + i) % h->comm.size;
        part p = part_of(w, piece, owner);
        if (h->place[owner].host == h->host || ls_hosts_holder(h, h->host, owner) != me || !p.bytes) continue;
        const char *sum = sum_host(w, piece, p, &room);
        status = ls_hosts_send(h, &h->out[slot(w, piece)], owner, sum, p.bytes * w->widening, why);
    }
    return status;
}

/* The root of a broadcast sends owners on other hosts their parts; those on its own host read them in place. */
static ls_status start_broadcast(const work *w, int64_t piece, ls_message *why)
{
    ls_hosts *h = w->h;
    int me = h->comm.rank, at = slot(w, piece);
    if (h->host != w->root_host) {
        part mine = part_of(w, piece, me);
        char *to = result_at(w, piece, h->local->comm.rank, mine);
        return mine.bytes ? ls_hosts_receive(h, &h->in[at], w->root, to, mine.bytes, why) : LS_OK;
    }
    ls_status status = w->staged ? put(w, piece, why) : LS_OK;
    for (int i = 1; i < h->comm.size && me == w->root && !status; i++) {
        int owner = (me + i) % h->comm.size;
        part p = part_of(w, piece, owner);
        if (h->place[owner].host == h->host || !p.bytes) continue;
        status = ls_hosts_send(h, &h->out[at], owner, input_at(w, piece, h->local->comm.rank, p), p.bytes, why);
    }
    return status;
}

/* ---- the second half ---- */

/* Where the result of the own part is written. */
static char *own_result(const work *w, int64_t piece, part p)
{
    if (w->call->kind == LS_COMM_REDUCE_SCATTER) return (char *)w->call->out + (size_t)piece * w->room;
    if (host_wants(w, w->h->host)) return result_at(w, piece, w->h->local->comm.rank, p);
    return host_sum(w, piece, p.bytes, w->h->hosts);
}

static void sum_hosts(const work *w, int64_t piece, part mine, char *result)
{
    ls_hosts *h = w->h;
    const void *rows[LS_HOSTS_MOST];
    double scale = w->call->op == LS_REDUCE_MEAN ? 1.0 / h->comm.size : 1.0;
    char *room = host_sum(w, piece, mine.bytes, h->host);
    for (int host = 0; host < h->hosts; host++)
        rows[host] = host == h->host ? sum_host(w, piece, mine, &room) : host_sum(w, piece, mine.bytes, host);
    ls_combine_kernels()->fold_rows(w->wire, w->call->dtype, ls_comm_fold(w->call->op), scale, (void *[]){result}, 1,
                                    rows, h->hosts, (int64_t)(mine.bytes / w->element));
}

/* Send the own part to its holders on other hosts, and start receiving the parts held here. */
static ls_status distribute(const work *w, int64_t piece, const char *mine, size_t bytes, ls_message *why)
{
    ls_hosts *h = w->h;
    int me = h->comm.rank, at = slot(w, piece);
    ls_status status = LS_OK;
    for (int owner = 0; owner < h->comm.size && host_wants(w, h->host) && !status; owner++) {
        part p = part_of(w, piece, owner);
        if (h->place[owner].host == h->host || ls_hosts_holder(h, h->host, owner) != me || !p.bytes) continue;
        status = ls_hosts_receive(h, &h->in[at], owner, result_at(w, piece, h->local->comm.rank, p), p.bytes, why);
    }
    for (int i = 1; i < h->hosts && bytes && !status; i++) {
        int host = (h->host + i) % h->hosts;
        if (host_wants(w, host)) status = ls_hosts_send(h, &h->out[at], ls_hosts_holder(h, host, me), mine, bytes, why);
    }
    return status;
}

/* The own part of a broadcast. */
static const char *broadcast_part(const work *w, int64_t piece, part p)
{
    const ls_hosts *h = w->h;
    bool here = h->host == w->root_host;
    return here ? input_at(w, piece, h->place[w->root].local, p) : result_at(w, piece, h->local->comm.rank, p);
}

static ls_status second_half(const work *w, int64_t piece, ls_message *why)
{
    ls_status status = ls_hosts_await(w->h, &w->h->in[slot(w, piece)], why);
    part mine = part_of(w, piece, w->h->comm.rank);
    if (status) return status;
    if (w->broadcasts) return distribute(w, piece, broadcast_part(w, piece, mine), mine.bytes, why);
    char *result = own_result(w, piece, mine);
    if (mine.bytes) sum_hosts(w, piece, mine, result);
    return w->returns ? distribute(w, piece, result, mine.bytes, why) : LS_OK;
}

/* An all-gather starts with the second half. */
static ls_status start_all_gather(const work *w, int64_t piece, ls_message *why)
{
    ls_hosts *h = w->h;
    part mine = part_of(w, piece, h->comm.rank);
    const char *in = (const char *)w->call->in + (size_t)piece * w->room;
    char *here = result_at(w, piece, h->local->comm.rank, mine);
    if (mine.bytes && here != in) memcpy(here, in, mine.bytes);
    return distribute(w, piece, in, mine.bytes, why);
}

/* ---- copying results ---- */

/* Copy the results from their holders on this host; on the host of a broadcast's root, from the root. */
static void copy_results(const work *w, int64_t piece)
{
    ls_hosts *h = w->h;
    bool root = h->comm.rank == w->root, at_root = w->broadcasts && h->host == w->root_host;
    if ((w->call->kind == LS_COMM_REDUCE && !root) || (w->broadcasts && root)) return;
    for (int i = 0; i < h->comm.size; i++) {
        int owner = (h->comm.rank + i) % h->comm.size;
        part p = part_of(w, piece, owner);
        int holder = at_root ? w->root : ls_hosts_holder(h, h->host, owner);
        const char *from = result_at(w, piece, h->place[holder].local, p);
        char *to = (char *)w->call->out + p.array;
        if (p.bytes && from != to) memcpy(to, from, p.bytes);
    }
}

static ls_status finish(const work *w, int64_t piece, ls_message *why)
{
    ls_hosts *h = w->h;
    int at = slot(w, piece);
    ls_status status = ls_hosts_await(h, &h->in[at], why);
    if (!status) status = ls_hosts_await(h, &h->out[at], why);
    if (status || !w->returns || ls_hosts_width(h) == 1) return status;
    if (host_wants(w, h->host)) status = ls_shm_step(h->local, why);
    if (!status) copy_results(w, piece);
    return status;
}

/* ---- the whole call ---- */

/* Does this rank exchange messages with `rank`, on another host? */
static bool is_partner(const work *w, int rank)
{
    const ls_hosts *h = w->h;
    int me = h->comm.rank;
    bool holds = ls_hosts_holder(h, h->place[rank].host, me) == rank || ls_hosts_holder(h, h->host, rank) == me;
    bool broadcasts = w->broadcasts && (rank == w->root || me == w->root);
    return h->place[rank].host != h->host && (holds || broadcasts);
}

/* Exchange eager messages that say which call this is. */
static ls_status send_headers(const work *w, ls_message *why)
{
    ls_hosts *h = w->h;
    ls_status status = LS_OK;
    for (int r = 0; r < h->comm.size && !status; r++)
        if (is_partner(w, r)) status = ls_eager_expect(h, r, why);
    for (int r = 0; r < h->comm.size && !status; r++)
        if (is_partner(w, r)) status = ls_eager_send(h, r, NULL, 0, why);
    return status;
}

/* Before any received data is used: do all partners make the same call, with parts of the expected sizes? */
static ls_status check_headers(const work *w, ls_message *why)
{
    ls_hosts *h = w->h;
    ls_status status = ls_eagers_await(h, why);
    for (int r = 0; r < h->comm.size && has_parts(w->call) && !status; r++) {
        if (!is_partner(w, r)) continue;
        int64_t theirs = h->eager_from[r]->what.count, wanted = ls_comm_part(w->call, r);
        if (theirs == wanted) continue;
        status = ls_shm_wrong_size(h->local, h->job_ranks[r], (size_t)theirs * w->element, (size_t)wanted * w->element);
        *why = h->local->broken;
    }
    return status;
}

static ls_status all_pieces(const work *w, ls_message *why)
{
    ls_hosts *h = w->h;
    ls_status status = send_headers(w, why);
    for (int64_t k = 0; k < w->pieces + 2 && !status; k++) {
        if (k < w->pieces && w->reduces) status = start_reduce(w, k, why);
        else if (k < w->pieces) status = w->broadcasts ? start_broadcast(w, k, why) : start_all_gather(w, k, why);
        if (!status && k == 1) status = check_headers(w, why);
        if (!status && (w->reduces || w->broadcasts) && k >= 1 && k - 1 < w->pieces)
            status = second_half(w, k - 1, why);
        if (!status && k >= 2) status = finish(w, k - 2, why);
    }
    if (!status) status = ls_hosts_await(h, &h->sent, why);
    /* No rank may return while another still reads its array in place. */
    bool read = ls_hosts_width(h) > 1 && !w->staged;
    return status || !read ? status : ls_shm_step(h->local, why);
}

ls_status ls_hosts_pieces(ls_hosts *h, const ls_comm_call *call, ls_message *why)
{
    char *rows[LS_SEGMENT_MOST];
    int width = ls_hosts_width(h), size = h->comm.size;
    work w = {.h = h, .call = call, .element = ls_dtype_size(call->dtype), .rows = rows, .first = h->turn};
    w.reduces = ls_comm_reduces(call->kind);
    w.broadcasts = call->kind == LS_COMM_BROADCAST;
    w.returns = call->kind != LS_COMM_REDUCE_SCATTER;
    w.root = w.broadcasts || call->kind == LS_COMM_REDUCE ? call->peer : -1;
    w.root_host = w.root < 0 ? -1 : h->place[w.root].host;
    w.wire = ls_hosts_wire(h, call);
    w.widening = ls_dtype_size(w.wire) / w.element;
    w.room = has_parts(call) ? h->piece / (size_t)size / 64 * 64 : h->piece;
    int64_t longest = call->count;
    for (int r = 0; has_parts(call) && r < size; r++)
        if (ls_comm_part(call, r) > longest) longest = ls_comm_part(call, r);
    w.pieces = (int64_t)(((size_t)longest * w.element + w.room - 1) / w.room);
    bool shared = width > 1 && ls_shm_all_shared(h->local);
    w.staged = width > 1 && !shared;
    if (width == 1) rows[0] = w.broadcasts ? call->out : (char *)(uintptr_t)call->in;
    for (int l = 0; shared && l < width; l++) rows[l] = ls_shm_shared(h->local, l);
    h->turn += (uint64_t)w.pieces;
    return all_pieces(&w, why);
}
