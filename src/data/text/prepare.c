/* prepare.c - BERT's text preparation, in the order of Hugging Face's BertNormalizer. */
#include "data/text/prepare.h"

#include "base/memory.h"
#include "data/text/unicode.h"

/* Room for `more` further characters. */
static bool reserve(ls_prepared_text *text, int64_t more)
{
    if (text->count + more <= text->room) return true;
    int64_t room = 2 * text->room + more + 64;
    void *larger = ls_sys_realloc(text->chars, (size_t)room * sizeof *text->chars);
    if (!larger) return false;
    text->chars = larger;
    text->room = room;
    return true;
}

static void append(ls_prepared_text *text, uint32_t code, const ls_prepared_char *at)
{
    text->chars[text->count++] = (ls_prepared_char){code, at->from, at->to};
}

/* ---- cleaning; Chinese characters between blanks ---- */

static int64_t decode(ls_prepared_text *out, ls_text_rules rules, const char *text, size_t length, int64_t place,
                      bool characters)
{
    for (size_t at = 0; at < length;) {
        uint32_t code;
        size_t bytes = ls_char_read(text + at, length - at, &code);
        int64_t next = place + (characters ? 1 : (int64_t)bytes);
        ls_prepared_char c = {code, (int32_t)place, (int32_t)next};
        at += bytes;
        place = next;
        unsigned flags = ls_char_flags(code);
        if (!reserve(out, 3)) return -1;
        if (rules.clean_text && flags & LS_CHAR_DROP) continue;
        if (rules.clean_text && flags & LS_CHAR_BLANK) code = ' ';
        bool alone = rules.split_chinese && flags & LS_CHAR_CJK;
        if (alone) append(out, ' ', &c);
        append(out, code, &c);
        if (alone) append(out, ' ', &c);
    }
    return place;
}

/* ---- decomposition, marks in canonical order ---- */

/* Until its offsets are known, a part of a decomposed character stores in `from` whether it replaced a character of the
 * input (0) or was added (1), and in `to` its class. */

static void sort_few(ls_prepared_char *marks, int64_t count)
{
    for (int64_t i = 1; i < count; i++) {
        ls_prepared_char mark = marks[i];
        int64_t at = i;
        for (; at > 0 && marks[at - 1].to > mark.to; at--) marks[at] = marks[at - 1];
        marks[at] = mark;
    }
}

/* Counting sort: linear even for a text that consists of marks. */
static bool sort_many(ls_prepared_char *marks, int64_t count)
{
    ls_prepared_char *copy = ls_sys_alloc((size_t)count * sizeof *copy);
    if (!copy) return false;
    int64_t begins[257] = {0};
    for (int64_t i = 0; i < count; i++) begins[marks[i].to + 1]++;
    for (int k = 0; k < 256; k++) begins[k + 1] += begins[k];
    for (int64_t i = 0; i < count; i++) copy[begins[marks[i].to]++] = marks[i];
    for (int64_t i = 0; i < count; i++) marks[i] = copy[i];
    ls_sys_free(copy);
    return true;
}

static bool sort_marks(ls_prepared_char *marks, int64_t count)
{
    if (count > 32) return sort_many(marks, count);
    return sort_few(marks, count), true;
}

static bool decompose(const ls_prepared_text *in, ls_prepared_text *out)
{
    int64_t run = 0; /* start of the unsorted marks */
    for (int64_t i = 0; i < in->count; i++) {
        uint32_t parts[LS_CHAR_MAX_PARTS];
        int count = ls_char_decompose(in->chars[i].code, parts);
        if (!reserve(out, LS_CHAR_MAX_PARTS)) return false;
        for (int k = 0; k < count; k++) {
            int class = (int)ls_char_class(parts[k]);
            if (class == 0 && !sort_marks(out->chars + run, out->count - run)) return false;
            out->chars[out->count++] = (ls_prepared_char){parts[k], k > 0, class};
            if (class == 0) run = out->count;
        }
    }
    return run == out->count || sort_marks(out->chars + run, out->count - run); /* a text may be empty */
}

/* Set the offsets of the parts. Sorting marks does not move their offsets: the n-th part that replaced a character has
 * the offset of the n-th character, and an added one that of the part before it. The reference counts this way. */
static void place_parts(const ls_prepared_text *in, ls_prepared_text *out)
{
    int64_t taken = 0;
    for (int64_t i = 0; i < out->count; i++) {
        ls_prepared_char *part = &out->chars[i];
        if (!part->from) taken++;
        part->from = in->chars[taken - 1].from;
        part->to = in->chars[taken - 1].to;
    }
}

static void strip_accents(ls_prepared_text *text)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < text->count; i++)
        if (!(ls_char_flags(text->chars[i].code) & LS_CHAR_MARK)) text->chars[kept++] = text->chars[i];
    text->count = kept;
}

/* ---- lower case ---- */

static bool lower(const ls_prepared_text *in, ls_prepared_text *out)
{
    for (int64_t i = 0; i < in->count; i++) {
        uint32_t parts[LS_CHAR_MAX_PARTS];
        int count = ls_char_lower(in->chars[i].code, parts);
        if (!reserve(out, LS_CHAR_MAX_PARTS)) return false;
        for (int k = 0; k < count; k++) append(out, parts[k], &in->chars[i]);
    }
    return true;
}

/* ---- all steps ---- */

/* The result so far becomes the input of the next step. */
static void turn(ls_preparation *n)
{
    ls_prepared_text text = n->text;
    n->text = n->before;
    n->before = text;
    n->text.count = 0;
}

int64_t ls_text_prepare(ls_preparation *n, ls_text_rules rules, const char *text, size_t length, int64_t place,
                        bool characters)
{
    n->text.count = 0;
    int64_t end = decode(&n->text, rules, text, length, place, characters);
    if (end < 0) return -1;
    if (rules.strip_accents) {
        turn(n);
        if (!decompose(&n->before, &n->text)) return -1;
        place_parts(&n->before, &n->text);
        strip_accents(&n->text);
    }
    if (rules.lower_case) {
        turn(n);
        if (!lower(&n->before, &n->text)) return -1;
    }
    return end;
}

void ls_preparation_free(ls_preparation *n)
{
    ls_sys_free(n->text.chars);
    ls_sys_free(n->before.chars);
    *n = (ls_preparation){0};
}
