/* windows.c - cut tokens into windows, as Hugging Face's tokenizers does. */
#include "data/text/windows.h"

#include "base/message.h"

/* ---- how many tokens of each text are kept ---- */

static void keep_longest_first(const int64_t counts[2], int64_t room, int64_t keep[2])
{
    int shorter = counts[0] > counts[1];
    int64_t least = counts[shorter], most = least > room ? least : room - least;
    if (most < least) most = least;
    if (least + most > room) {
        least = room / 2;
        most = least + room % 2;
    }
    keep[shorter] = least;
    keep[!shorter] = most;
}

/* Tokens of each list in a window, so that both together have `room`. */
static ls_status keep_tokens(const ls_tokenizer_encode_opts *o, const int64_t counts[2], int64_t room, bool pair,
                             int64_t keep[2], ls_message *why)
{
    int64_t total = counts[0] + counts[1];
    keep[0] = counts[0];
    keep[1] = counts[1];
    if (total <= room) return LS_OK;
    if (o->truncation == LS_TRUNCATE_LONGEST) {
        if (pair) keep_longest_first(counts, room, keep);
        else keep[0] = room;
        return LS_OK;
    }
    int which = o->truncation == LS_TRUNCATE_SECOND;
    if (which && !pair) return ls_explain(why, LS_ERR_VALUE, ".truncation cuts the second text, but there is none");
    keep[which] -= total - room;
    if (keep[which] < 1)
        return ls_explain(why, LS_ERR_VALUE,
                          "%lld and %lld tokens: cutting only the %s text (.truncation) cannot reach the %lld that "
                          ".max_length leaves",
                          (long long)counts[0], (long long)counts[1], which ? "second" : "first", (long long)room);
    return LS_OK;
}

static ls_status plan_list(struct ls_cut_list *list, const ls_tokenizer_encode_opts *o, int64_t count, int64_t keep,
                           ls_message *why)
{
    *list = (struct ls_cut_list){.count = count, .keep = keep, .step = keep, .parts = 1};
    if (count <= keep) return LS_OK;
    list->step = keep - o->stride;
    if (keep < 1 || list->step < 1)
        return ls_explain(why, LS_ERR_VALUE,
                          "of %lld tokens of a text a window holds %lld, but .stride = %lld of them would be "
                          "repeated; it must be less",
                          (long long)count, (long long)keep, (long long)o->stride);
    if (o->overflow) list->parts = 1 + (count - keep + list->step - 1) / list->step;
    return LS_OK;
}

ls_status ls_cut_plan(ls_cut *cut, const ls_tokenizer_encode_opts *o, const int64_t counts[2], bool pair,
                      ls_message *why)
{
    *cut = (ls_cut){.pair = pair, .special = !o->special_tokens ? 0 : pair ? 3 : 2};
    int64_t keep[2] = {counts[0], counts[1]};
    if (o->max_length != LS_AUTO) {
        int64_t room = o->max_length - cut->special;
        if (room < 1)
            return ls_explain(why, LS_ERR_VALUE, ".max_length = %lld leaves no room beside %d special tokens",
                              (long long)o->max_length, cut->special);
        ls_status status = keep_tokens(o, counts, room, pair, keep, why);
        if (status) return status;
    }
    cut->windows = 1;
    for (int i = 0; i < 2; i++) {
        ls_status status = plan_list(&cut->list[i], o, counts[i], keep[i], why);
        if (status) return status;
        cut->windows *= cut->list[i].parts;
    }
    return LS_OK;
}

/* ---- the windows ---- */

/* Which parts are combined in window k: the beginnings first, then every further part of the first list with all of the
 * second, then its beginning with the further parts of the second. */
static void parts_of(const ls_cut *cut, int64_t k, int64_t part[2])
{
    int64_t across = cut->list[1].parts, rest = (cut->list[0].parts - 1) * across;
    part[0] = k > 0 && k <= rest ? 1 + (k - 1) / across : 0;
    part[1] = k == 0 ? 0 : k <= rest ? (k - 1) % across : k - rest;
}

static int64_t part_length(const struct ls_cut_list *list, int64_t part)
{
    int64_t left = list->count - part * list->step;
    return left < list->keep ? left : list->keep;
}

int64_t ls_cut_length(const ls_cut *cut, int64_t k)
{
    int64_t part[2];
    parts_of(cut, k, part);
    return part_length(&cut->list[0], part[0]) + part_length(&cut->list[1], part[1]) + cut->special;
}

static void put(const ls_token_window *w, int64_t at, ls_piece piece, int sequence, int type, bool special, bool mask)
{
    w->id[at] = piece.id;
    w->from[at] = piece.from;
    w->to[at] = piece.to;
    w->word[at] = piece.word;
    w->sequence[at] = (int8_t)sequence;
    w->type[at] = (int8_t)type;
    w->special[at] = special;
    w->mask[at] = mask;
}

static ls_piece without_place(int32_t id)
{
    return (ls_piece){.id = id, .word = -1};
}

void ls_cut_write(const ls_cut *cut, const ls_tokenizer *t, const ls_piece_list lists[2], int64_t k,
                  const ls_token_window *w, int64_t length, bool pad_left)
{
    int64_t part[2], at = 0, padding = length - ls_cut_length(cut, k);
    parts_of(cut, k, part);
    for (int64_t i = 0; pad_left && i < padding; i++) put(w, at++, without_place(t->pad), -1, 0, true, false);
    if (cut->special) put(w, at++, without_place(t->cls), -1, 0, true, true);
    for (int s = 0; s < 1 + cut->pair; s++) {
        int64_t first = part[s] * cut->list[s].step, count = part_length(&cut->list[s], part[s]);
        for (int64_t i = 0; i < count; i++) put(w, at++, lists[s].pieces[first + i], s, s, false, true);
        if (cut->special) put(w, at++, without_place(t->sep), -1, s, true, true);
    }
    while (at < length) put(w, at++, without_place(t->pad), -1, 0, true, false);
}
