/* pieces.c - collectives of many bytes, piece by piece: while one is under way the next is summed.
 *
 * A piece has a part for each owner. Reductions: the holder of a part sums it over the ranks of its host and sends that
 * to the owner; the owner sums over hosts and sends the result to the holders; ranks of a host take from their holders.
 * All-gather is the second half of it, reduce-scatter is the first. A broadcast has the same second half, after the
 * root has sent each owner its part: nobody, however many hosts there are, sends more than twice what it has. */
#include <string.h>

#include "comm/hosts/inside.h"

/* One call, as all its functions need it. Sizes are in bytes. */
typedef struct work {
    ls_hosts *h;
    const ls_comm_call *call;
    bool reduces, casts; /* what the first half does, if there is one */
    bool returns;        /* there is a second half */
    int root;            /* rank and host from which a broadcast comes, to which a reduce goes; -1: neither */
    int root_host;
    size_t element, widening; /* bytes of an element, how much more a sum of a host has */
    ls_dtype wire;
    size_t room; /* of a piece for each owner, where owners have arrays of their own; else of all */
    int64_t pieces;
    uint64_t first; /* turn of the first piece */
    bool staged;    /* ranks of this host read each other's numbers in stages, else where they stand */
    char **rows;    /* [width] where they stand */
} work;

/* The part of an owner in a piece. */
typedef struct part {
    size_t array; /* where it begins in the array that all have alike */
    size_t room;  /* and in a stage */
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

/* Arrays are cut by rank, or within a piece in slices of whole cache lines. */
static part part_of(const work *w, int64_t piece, int owner)
{
    const ls_comm_call *call = w->call;
    size_t before = (size_t)piece * w->room, whole = (size_t)call->count * w->element;
    part p = {.array = before};
    if (has_parts(call)) {
        whole = (size_t)ls_comm_part(call, owner) * w->element;
        p.array += (size_t)ls_comm_before(call, owner) * w->element;
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

/* ---- where things are ---- */

/* Numbers of a rank of this host, as it brought them. */
static const char *brought(const work *w, int64_t piece, int local, part p)
{
    if (w->staged) return ls_hosts_stage(w->h, local, w->first + (uint64_t)piece) + p.room;
    return w->rows[local] + p.array;
}

/* Where a rank of this host keeps the result of a part. */
static char *kept(const work *w, int64_t piece, int local, part p)
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

/* Do owners send their parts to this host? */
static bool wanted_on(const work *w, int host)
{
    if (w->call->kind == LS_COMM_REDUCE) return host == w->root_host;
    return w->returns && !(w->casts && host == w->root_host);
}

static size_t in_lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* ---- the first half ---- */

/* Every rank of a host that brings numbers puts them where the others see them. */
static ls_status put(const work *w, int64_t piece, ls_message *why)
{
    ls_hosts *h = w->h;
    const char *in = w->casts ? w->call->out : w->call->in;
    bool brings = !w->casts || h->comm.rank == w->root;
    char *stage = ls_hosts_stage(h, h->local->comm.rank, w->first + (uint64_t)piece);
    for (int owner = 0; owner < h->comm.size && brings; owner++) {
        part p = part_of(w, piece, owner);
        if (p.bytes) memcpy(stage + p.room, in + p.array, p.bytes);
    }
    return ls_shm_step(h->local, why);
}

/* Sum a part over this host; where there is nothing to sum it stays where it is. */
static const char *sum_host(const work *w, int64_t piece, part p, char **room)
{
    const ls_hosts *h = w->h;
    int width = ls_hosts_width(h);
    const void *rows[LS_SEGMENT_MOST];
    for (int l = 0; l < width; l++) rows[l] = brought(w, piece, l, p);
    if (width == 1 && w->wire == w->call->dtype) return rows[0];
    char *to = *room;
    *room += in_lines(p.bytes * w->widening);
    ls_combine_kernels()->fold_rows(w->call->dtype, w->wire, ls_comm_fold(w->call->op), 1, (void *[]){to}, 1, rows,
                                    width, (int64_t)(p.bytes / w->element));
    return to;
}

/* In the scratch of a piece: the sums of all hosts of the own part, its result, then sums for others. */
static char *sums_of_hosts(const work *w, int64_t piece, size_t bytes, int host)
{
    return scratch(w, piece) + (size_t)host * in_lines(bytes * w->widening);
}

static ls_status bring_sums(const work *w, int64_t piece, ls_message *why)
{
    ls_hosts *h = w->h;
    int me = h->comm.rank;
    part mine = part_of(w, piece, me);
    char *room = sums_of_hosts(w, piece, mine.bytes, h->hosts + 1);
    ls_status status = LS_OK;
    for (int host = 0; host < h->hosts && !status; host++)
        if (host != h->host && mine.bytes)
            status = ls_hosts_receive(h, &h->in[slot(w, piece)], ls_hosts_holder(h, host, me),
                                      sums_of_hosts(w, piece, mine.bytes, host), mine.bytes * w->widening, why);
    if (w->staged && !status) status = put(w, piece, why);
    for (int i = 1; i < h->comm.size && !status; i++) {
        int owner = (me + i) % h->comm.size;
        part p = part_of(w, piece, owner);
        if (h->seat[owner].host == h->host || ls_hosts_holder(h, h->host, owner) != me || !p.bytes) continue;
        const char *sum = sum_host(w, piece, p, &room);
        status = ls_hosts_send(h, &h->out[slot(w, piece)], owner, sum, p.bytes * w->widening, why);
    }
    return status;
}

/* The root of a broadcast sends owners on other hosts their parts; those on its own see them. */
static ls_status bring_slices(const work *w, int64_t piece, ls_message *why)
{
    ls_hosts *h = w->h;
    int me = h->comm.rank, at = slot(w, piece);
    if (h->host != w->root_host) {
        part mine = part_of(w, piece, me);
        char *to = kept(w, piece, h->local->comm.rank, mine);
        return mine.bytes ? ls_hosts_receive(h, &h->in[at], w->root, to, mine.bytes, why) : LS_OK;
    }
    ls_status status = w->staged ? put(w, piece, why) : LS_OK;
    for (int i = 1; i < h->comm.size && me == w->root && !status; i++) {
        int owner = (me + i) % h->comm.size;
        part p = part_of(w, piece, owner);
        if (h->seat[owner].host == h->host || !p.bytes) continue;
        status = ls_hosts_send(h, &h->out[at], owner, brought(w, piece, h->local->comm.rank, p), p.bytes, why);
    }
    return status;
}

/* ---- the second half ---- */

/* Where the result of the own part goes. */
static char *result_of(const work *w, int64_t piece, part p)
{
    if (w->call->kind == LS_COMM_REDUCE_SCATTER) return (char *)w->call->out + (size_t)piece * w->room;
    if (wanted_on(w, w->h->host)) return kept(w, piece, w->h->local->comm.rank, p);
    return sums_of_hosts(w, piece, p.bytes, w->h->hosts);
}

static void sum_hosts(const work *w, int64_t piece, part mine, char *result)
{
    ls_hosts *h = w->h;
    const void *rows[LS_HOSTS_MOST];
    double scale = w->call->op == LS_REDUCE_MEAN ? 1.0 / h->comm.size : 1.0;
    char *room = sums_of_hosts(w, piece, mine.bytes, h->host);
    for (int host = 0; host < h->hosts; host++)
        rows[host] = host == h->host ? sum_host(w, piece, mine, &room) : sums_of_hosts(w, piece, mine.bytes, host);
    ls_combine_kernels()->fold_rows(w->wire, w->call->dtype, ls_comm_fold(w->call->op), scale, (void *[]){result}, 1,
                                    rows, h->hosts, (int64_t)(mine.bytes / w->element));
}

/* Send the own part to whoever keeps it elsewhere, and await those that this rank keeps. */
static ls_status spread(const work *w, int64_t piece, const char *mine, size_t bytes, ls_message *why)
{
    ls_hosts *h = w->h;
    int me = h->comm.rank, at = slot(w, piece);
    ls_status status = LS_OK;
    for (int owner = 0; owner < h->comm.size && wanted_on(w, h->host) && !status; owner++) {
        part p = part_of(w, piece, owner);
        if (h->seat[owner].host == h->host || ls_hosts_holder(h, h->host, owner) != me || !p.bytes) continue;
        status = ls_hosts_receive(h, &h->in[at], owner, kept(w, piece, h->local->comm.rank, p), p.bytes, why);
    }
    for (int i = 1; i < h->hosts && bytes && !status; i++) {
        int host = (h->host + i) % h->hosts;
        if (wanted_on(w, host)) status = ls_hosts_send(h, &h->out[at], ls_hosts_holder(h, host, me), mine, bytes, why);
    }
    return status;
}

/* Where the own part of a broadcast has come. */
static const char *cast_to(const work *w, int64_t piece, part p)
{
    const ls_hosts *h = w->h;
    bool here = h->host == w->root_host;
    return here ? brought(w, piece, h->seat[w->root].local, p) : kept(w, piece, h->local->comm.rank, p);
}

static ls_status turn_round(const work *w, int64_t piece, ls_message *why)
{
    ls_status status = ls_hosts_await(w->h, &w->h->in[slot(w, piece)], why);
    part mine = part_of(w, piece, w->h->comm.rank);
    if (status) return status;
    if (w->casts) return spread(w, piece, cast_to(w, piece, mine), mine.bytes, why);
    char *result = result_of(w, piece, mine);
    if (mine.bytes) sum_hosts(w, piece, mine, result);
    return w->returns ? spread(w, piece, result, mine.bytes, why) : LS_OK;
}

/* An all-gather begins here. */
static ls_status bring_parts(const work *w, int64_t piece, ls_message *why)
{
    ls_hosts *h = w->h;
    part mine = part_of(w, piece, h->comm.rank);
    const char *in = (const char *)w->call->in + (size_t)piece * w->room;
    char *here = kept(w, piece, h->local->comm.rank, mine);
    if (mine.bytes && here != in) memcpy(here, in, mine.bytes);
    return spread(w, piece, in, mine.bytes, why);
}

/* ---- the end ---- */

/* All results have come to their holders on this host; those of a broadcast were at its root. */
static void take(const work *w, int64_t piece)
{
    ls_hosts *h = w->h;
    bool root = h->comm.rank == w->root, at_root = w->casts && h->host == w->root_host;
    if ((w->call->kind == LS_COMM_REDUCE && !root) || (w->casts && root)) return;
    for (int i = 0; i < h->comm.size; i++) {
        int owner = (h->comm.rank + i) % h->comm.size;
        part p = part_of(w, piece, owner);
        int holder = at_root ? w->root : ls_hosts_holder(h, h->host, owner);
        const char *from = kept(w, piece, h->seat[holder].local, p);
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
    if (wanted_on(w, h->host)) status = ls_shm_step(h->local, why);
    if (!status) take(w, piece);
    return status;
}

/* ---- the whole ---- */

/* Ranks of other hosts with which this one has to do. */
static bool is_partner(const work *w, int rank)
{
    const ls_hosts *h = w->h;
    int me = h->comm.rank;
    bool holds = ls_hosts_holder(h, h->seat[rank].host, me) == rank || ls_hosts_holder(h, h->host, rank) == me;
    bool casts = w->casts && (rank == w->root || me == w->root);
    return h->seat[rank].host != h->host && (holds || casts);
}

/* Which call this is, in front of its data. */
static ls_status greet(const work *w, ls_message *why)
{
    ls_hosts *h = w->h;
    ls_status status = LS_OK;
    for (int r = 0; r < h->comm.size && !status; r++)
        if (is_partner(w, r)) status = ls_eager_expect(h, r, why);
    for (int r = 0; r < h->comm.size && !status; r++)
        if (is_partner(w, r)) status = ls_eager_send(h, r, NULL, 0, why);
    return status;
}

/* Before anything else that comes is looked at: is it that call, with parts of the sizes that this rank knows of? */
static ls_status be_greeted(const work *w, ls_message *why)
{
    ls_hosts *h = w->h;
    ls_status status = ls_eagers_await(h, why);
    for (int r = 0; r < h->comm.size && has_parts(w->call) && !status; r++) {
        if (!is_partner(w, r)) continue;
        int64_t theirs = h->came[r]->what.count, wanted = ls_comm_part(w->call, r);
        if (theirs == wanted) continue;
        status = ls_shm_wrong_size(h->local, h->names[r], (size_t)theirs * w->element, (size_t)wanted * w->element);
        *why = h->local->broken;
    }
    return status;
}

static ls_status all_pieces(const work *w, ls_message *why)
{
    ls_hosts *h = w->h;
    ls_status status = greet(w, why);
    for (int64_t k = 0; k < w->pieces + 2 && !status; k++) {
        if (k < w->pieces && w->reduces) status = bring_sums(w, k, why);
        else if (k < w->pieces) status = w->casts ? bring_slices(w, k, why) : bring_parts(w, k, why);
        if (!status && k == 1) status = be_greeted(w, why);
        if (!status && (w->reduces || w->casts) && k >= 1 && k - 1 < w->pieces) status = turn_round(w, k - 1, why);
        if (!status && k >= 2) status = finish(w, k - 2, why);
    }
    if (!status) status = ls_hosts_await(h, &h->sent, why);
    /* Nobody goes on while somebody reads where its numbers stand. */
    bool read = ls_hosts_width(h) > 1 && !w->staged;
    return status || !read ? status : ls_shm_step(h->local, why);
}

ls_status ls_hosts_pieces(ls_hosts *h, const ls_comm_call *call, ls_message *why)
{
    char *rows[LS_SEGMENT_MOST];
    int width = ls_hosts_width(h), size = h->comm.size;
    work w = {.h = h, .call = call, .element = ls_dtype_size(call->dtype), .rows = rows, .first = h->turn};
    w.reduces = ls_comm_reduces(call->kind);
    w.casts = call->kind == LS_COMM_BROADCAST;
    w.returns = call->kind != LS_COMM_REDUCE_SCATTER;
    w.root = w.casts || call->kind == LS_COMM_REDUCE ? call->peer : -1;
    w.root_host = w.root < 0 ? -1 : h->seat[w.root].host;
    w.wire = ls_hosts_wire(h, call);
    w.widening = ls_dtype_size(w.wire) / w.element;
    w.room = has_parts(call) ? h->piece / (size_t)size / 64 * 64 : h->piece;
    int64_t longest = call->count;
    for (int r = 0; has_parts(call) && r < size; r++)
        if (ls_comm_part(call, r) > longest) longest = ls_comm_part(call, r);
    w.pieces = (int64_t)(((size_t)longest * w.element + w.room - 1) / w.room);
    bool shared = width > 1 && ls_shm_all_shared(h->local);
    w.staged = width > 1 && !shared;
    if (width == 1) rows[0] = w.casts ? call->out : (char *)(uintptr_t)call->in;
    for (int l = 0; shared && l < width; l++) rows[l] = ls_shm_shared(h->local, l);
    h->turn += (uint64_t)w.pieces;
    return all_pieces(&w, why);
}
