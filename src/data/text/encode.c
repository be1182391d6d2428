/* encode.c - encode texts as windows of tokens, on all threads: each takes texts in turn and keeps their tokens; when
 * all are done, the number of windows and the position of each in the result are known. */
#include <limits.h>
#include <stdatomic.h>
#include <string.h>

#include "base/memory.h"
#include "base/message.h"
#include "base/opts.h"
#include "base/parallel.h"
#include "data/text/windows.h"

enum {
    TEXTS_IN_TURN = 8,
    MOST_WINDOWS = 1 << 26, /* per call: two long texts give the product of their parts, which no memory can hold */
    MOST_PADDING = 1 << 24, /* most tokens of a padded window */
};

/* The result for one text or pair. */
typedef struct item {
    const ls_encoder *encoder; /* owner of the pieces */
    int64_t first[2];          /* piece of each list */
    int64_t counts[2];
    ls_status status;
    ls_cut cut;
    int64_t window, token; /* its first in the result */
} item;

typedef struct job {
    const ls_tokenizer *tokenizer;
    const ls_tokenizer_encode_opts *opts;
    const char *const *texts, *const *seconds; /* seconds: NULL: none */
    int64_t count;
    item *items;
    ls_encoder *encoders; /* of the workers */
    _Atomic int64_t next; /* first text not taken yet */
    int64_t windows, tokens, longest;
    int64_t pad_to; /* length of all windows; 0: no padding */
} job;

typedef struct encoding {
    ls_object object;
    ls_encoding view;
    void *memory;
} encoding;

/* ---- tokens ---- */

static size_t text_size(const char *text, const size_t *sizes, int64_t i)
{
    return sizes ? sizes[i] : text ? strlen(text) : 0;
}

static bool has_second(const job *j, int64_t i)
{
    return j->seconds && j->seconds[i];
}

static ls_status encode_item(job *j, ls_encoder *e, int64_t i, ls_message *why)
{
    item *it = &j->items[i];
    it->encoder = e;
    const char *texts[2] = {j->texts[i], has_second(j, i) ? j->seconds[i] : NULL};
    const size_t *sizes[2] = {j->opts->sizes, j->opts->second_sizes};
    for (int s = 0; s < 2; s++) {
        it->first[s] = e->count;
        if (!texts[s]) continue;
        size_t size = text_size(texts[s], sizes[s], i);
        if (size > INT_MAX - 4)
            return ls_explain(why, LS_ERR_VALUE, "%zu bytes; a text must be smaller than 2 GiB", size);
        if (!ls_encoder_add(e, texts[s], size))
            return ls_explain(why, LS_ERR_MEMORY, "no memory for the tokens of %zu bytes", size);
        it->counts[s] = e->count - it->first[s];
    }
    return ls_cut_plan(&it->cut, j->opts, it->counts, texts[1] != NULL, why);
}

static void encode_some(void *arg, ls_worker worker)
{
    job *j = arg;
    ls_encoder *e = &j->encoders[worker.index];
    ls_message why;
    for (int64_t from; (from = atomic_fetch_add(&j->next, TEXTS_IN_TURN)) < j->count;)
        for (int64_t i = from; i < from + TEXTS_IN_TURN && i < j->count; i++)
            j->items[i].status = encode_item(j, e, i, &why);
}

/* ---- windows ---- */

static ls_status lay_out(job *j, int64_t *failed, ls_message *why)
{
    const ls_tokenizer_encode_opts *o = j->opts;
    for (int64_t i = 0; i < j->count; i++) {
        item *it = &j->items[i];
        if (it->status) {
            *failed = i;
            ls_encoder again = {.tokenizer = j->tokenizer}; /* repeated to get the reason */
            ls_status status = encode_item(j, &again, i, why);
            ls_encoder_free(&again);
            return status ? status : ls_explain(why, LS_ERR_MEMORY, "out of memory");
        }
        it->window = j->windows;
        j->windows += it->cut.windows; /* below 2^62 each, since a text has less than 2^31 bytes */
        if (j->windows > MOST_WINDOWS) {
            *failed = i;
            return ls_explain(
                why, LS_ERR_VALUE,
                "it makes %lld windows, %lld with those before it; one call makes at most %d. Use a larger "
                ".max_length, truncate only one text of the pair (.truncation), or use shorter texts",
                (long long)it->cut.windows, (long long)j->windows, MOST_WINDOWS);
        }
        int64_t length = ls_cut_length(&it->cut, 0); /* no other window of the text is longer */
        if (length > j->longest) j->longest = length;
    }
    if (o->padding == LS_PAD_LONGEST) j->pad_to = j->longest;
    if (o->padding == LS_PAD_MAX) j->pad_to = o->max_length;
    j->pad_to = (j->pad_to + o->pad_multiple - 1) / o->pad_multiple * o->pad_multiple;
    for (int64_t i = 0; i < j->count; i++) {
        item *it = &j->items[i];
        it->token = j->tokens;
        for (int64_t k = 0; k < it->cut.windows; k++) {
            int64_t length = ls_cut_length(&it->cut, k);
            j->tokens += length < j->pad_to ? j->pad_to : length;
        }
    }
    return LS_OK;
}

/* One block for all arrays of the result, those of the widest numbers first. */
static bool make_room(encoding *e, const job *j)
{
    size_t windows = (size_t)j->windows, tokens = (size_t)j->tokens, bytes;
    if (__builtin_mul_overflow(tokens, 4 * sizeof(int32_t) + 4, &bytes) ||
        __builtin_add_overflow(bytes, (2 * windows + 1) * sizeof(int64_t), &bytes))
        return false;
    char *memory = ls_sys_alloc(bytes);
    if (!memory) return false;
    int64_t *wide = (int64_t *)(void *)memory;
    int32_t *numbers = (int32_t *)(void *)(wide + 2 * windows + 1);
    int8_t *small = (int8_t *)(numbers + 4 * tokens);
    e->memory = memory;
    e->view = (ls_encoding){
        .count = j->windows,
        .text = wide,
        .begin = wide + windows,
        .id = numbers,
        .from = numbers + tokens,
        .to = numbers + 2 * tokens,
        .word = numbers + 3 * tokens,
        .sequence = small,
        .type = small + tokens,
        .special = small + 2 * tokens,
        .mask = small + 3 * tokens,
    };
    return true;
}

typedef struct writing {
    const job *job;
    const ls_encoding *view;
} writing;

static void write_windows(void *arg, int64_t from, int64_t to)
{
    const writing *w = arg;
    const job *j = w->job;
    int64_t *text = (int64_t *)(uintptr_t)w->view->text, *begin = (int64_t *)(uintptr_t)w->view->begin;
    for (int64_t i = from; i < to; i++) {
        const item *it = &j->items[i];
        ls_piece_list lists[2];
        for (int s = 0; s < 2; s++) { /* an encoder without tokens has no memory */
            const ls_piece *pieces = it->counts[s] ? it->encoder->pieces + it->first[s] : NULL;
            lists[s] = (ls_piece_list){pieces, it->counts[s]};
        }
        int64_t at = it->token;
        for (int64_t k = 0; k < it->cut.windows; k++) {
            const ls_encoding *v = w->view;
            int64_t length = ls_cut_length(&it->cut, k);
            if (length < j->pad_to) length = j->pad_to;
#define PLACE(array) (void *)(uintptr_t)(v->array + at)
            ls_token_window window = {PLACE(id),       PLACE(from), PLACE(to),      PLACE(word),
                                      PLACE(sequence), PLACE(type), PLACE(special), PLACE(mask)};
#undef PLACE
            ls_cut_write(&it->cut, j->tokenizer, lists, k, &window, length, j->opts->pad_left);
            text[it->window + k] = i;
            begin[it->window + k] = at;
            at += length;
        }
    }
}

/* ---- the call ---- */

static void clear_encoding(void *object)
{
    ls_sys_free(((encoding *)object)->memory);
}

static ls_status check_options(const ls_tokenizer *t, const ls_tokenizer_encode_opts *o, ls_message *why)
{
    if ((int)o->truncation < LS_TRUNCATE_LONGEST || (int)o->truncation > LS_TRUNCATE_SECOND)
        return ls_explain(why, LS_ERR_VALUE,
                          ".truncation = %d; must be LS_TRUNCATE_LONGEST, LS_TRUNCATE_FIRST or LS_TRUNCATE_SECOND",
                          (int)o->truncation);
    if ((int)o->padding < LS_PAD_NONE || (int)o->padding > LS_PAD_MAX)
        return ls_explain(why, LS_ERR_VALUE, ".padding = %d; must be LS_PAD_NONE, LS_PAD_LONGEST or LS_PAD_MAX",
                          (int)o->padding);
    if (o->max_length != LS_AUTO && o->max_length < 1)
        return ls_explain(why, LS_ERR_VALUE, ".max_length = %lld; it must be at least 1", (long long)o->max_length);
    if (o->stride < 0)
        return ls_explain(why, LS_ERR_VALUE, ".stride = %lld; it must not be negative", (long long)o->stride);
    if (o->pad_multiple < 1)
        return ls_explain(why, LS_ERR_VALUE, ".pad_multiple = %lld; it must be at least 1", (long long)o->pad_multiple);
    if (o->padding == LS_PAD_MAX && o->max_length == LS_AUTO)
        return ls_explain(why, LS_ERR_VALUE, ".padding = LS_PAD_MAX needs a .max_length");
    bool fills = o->padding == LS_PAD_MAX && o->max_length > MOST_PADDING;
    if (fills || o->pad_multiple > MOST_PADDING)
        return ls_explain(why, LS_ERR_VALUE, "%s = %lld; padded windows have at most %d tokens",
                          fills ? ".max_length" : ".pad_multiple", (long long)(fills ? o->max_length : o->pad_multiple),
                          MOST_PADDING);
    if (o->special_tokens && (t->cls < 0 || t->sep < 0))
        return ls_explain(why, LS_ERR_VALUE, "the tokenizer has no %s to add; set .special_tokens = false",
                          t->cls < 0 ? "[CLS]" : "[SEP]");
    if (o->padding != LS_PAD_NONE && t->pad < 0)
        return ls_explain(why, LS_ERR_VALUE, "the vocabulary has no [PAD] token for padding");
    return LS_OK;
}

static ls_status encode(job *j, encoding *e, int workers, ls_message *why)
{
    int64_t failed = -1;
    size_t bytes;
    if (__builtin_mul_overflow((size_t)(j->count ? j->count : 1), sizeof *j->items, &bytes))
        return ls_explain(why, LS_ERR_MEMORY, "no memory for %lld texts", (long long)j->count);
    j->items = ls_sys_alloc(bytes);
    j->encoders = ls_sys_alloc((size_t)workers * sizeof *j->encoders);
    if (!j->items || !j->encoders) return ls_explain(why, LS_ERR_MEMORY, "out of memory");
    for (int i = 0; i < workers; i++)
        j->encoders[i] = (ls_encoder){.tokenizer = j->tokenizer, .characters = j->opts->characters};
    ls_parallel(encode_some, j, workers);
    ls_message reason = {{0}};
    ls_status status = lay_out(j, &failed, &reason);
    if (status && j->count == 1) return ls_explain(why, status, "%s", reason.text);
    if (status) return ls_explain(why, status, "text %lld: %s", (long long)failed, reason.text);
    if (!make_room(e, j)) return ls_explain(why, LS_ERR_MEMORY, "no memory for %lld tokens", (long long)j->tokens);
    ((int64_t *)(uintptr_t)e->view.begin)[j->windows] = j->tokens;
    ls_parallel_for(j->count, j->count / workers + 1, write_windows, &(writing){j, &e->view});
    return LS_OK;
}

static int workers_for(const job *j)
{
    int width = ls_parallel_width();
    int64_t turns = (j->count + TEXTS_IN_TURN - 1) / TEXTS_IN_TURN;
    return turns < 1 ? 1 : turns < width ? (int)turns : width;
}

ls_encoding *ls_tokenizer_encode_n_sized(ls_tokenizer *t, const char *const *texts, const char *const *seconds,
                                         int64_t count, const ls_tokenizer_encode_opts *opts, size_t opts_size)
{
    ls_tokenizer_encode_opts o = LS_OPTS_READ(ls_tokenizer_encode_opts, opts, opts_size);
    if (!t || ls_failed(t->object.run)) return NULL;
    ls_run *run = t->object.run;
    ls_message why = {{0}};
    if (count < 0 || (count && !texts)) {
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_tokenizer_encode_n: %lld texts", (long long)count);
        return NULL;
    }
    encoding *e = ls_object_new(run, LS_OBJECT_ENCODING, sizeof *e, clear_encoding);
    if (!e) return NULL;
    job j = {.tokenizer = t, .opts = &o, .texts = texts, .seconds = seconds, .count = count};
    int workers = workers_for(&j);
    ls_status status = check_options(t, &o, &why);
    if (!status) status = encode(&j, e, workers, &why);
    for (int i = 0; j.encoders && i < workers; i++) ls_encoder_free(&j.encoders[i]);
    ls_sys_free(j.encoders);
    ls_sys_free(j.items);
    if (!status) return &e->view;
    ls_fail(&run->errors, status, "ls_tokenizer_encode: %s", why.text);
    ls_object_free(e);
    return NULL;
}

ls_encoding *ls_tokenizer_encode_sized(ls_tokenizer *t, const char *text, const char *second,
                                       const ls_tokenizer_encode_opts *opts, size_t opts_size)
{
    return ls_tokenizer_encode_n_sized(t, &text, second ? &second : NULL, 1, opts, opts_size);
}

void ls_encoding_free(ls_encoding *view)
{
    if (view) ls_object_free((char *)view - offsetof(encoding, view));
}

void ls_encoding_hash(ls_hash *hash, const ls_encoding *e)
{
    size_t tokens = (size_t)e->begin[e->count];
    ls_hash_add(hash, e->begin, (size_t)(e->count + 1) * sizeof *e->begin);
    ls_hash_add(hash, e->id, tokens * sizeof *e->id);
    ls_hash_add(hash, e->type, tokens * sizeof *e->type);
}
