/* questions_arrow.c - questions in Arrow tables, as Hugging Face's `datasets` store SQuAD: columns id, title, context
 * and question of text; answers, a struct of the lists text and answer_start, or a list of such structs. */
#include <string.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "data/text/questions.h"
#include "formats/arrow.h"

/* One file, while its questions are copied. */
typedef struct copy {
    ls_question_list *list;   /* its count is the number read so far */
    int64_t limit;            /* most questions to read */
    int64_t row;              /* of the file */
    const char *last_context; /* of the previous row: adjacent rows often share it */
    size_t last_size;
    ls_message *why;
} copy;

/* The columns of a batch. Title and answers may be missing. */
typedef struct columns {
    const ls_arrow_array *id, *title, *context, *question;
    const ls_arrow_array *answers;        /* a struct of lists or a list of structs */
    const ls_arrow_array *texts, *starts; /* of the answers: lists, or the contents of one */
} columns;

/* ---- Columns ---- */

static bool is_of(const ls_arrow_array *array, ls_arrow_kind kind)
{
    return array && array->field->kind == kind;
}

static bool find_text(copy *c, const ls_arrow_array *table, const char *name, const ls_arrow_array **to)
{
    *to = ls_arrow_child(table, name);
    if (is_of(*to, LS_ARROW_TEXT)) return true;
    if (*to) ls_message_set(c->why, "column \"%s\" has type %s; expected utf8", name, (*to)->field->type);
    else ls_message_set(c->why, "column \"%s\" is missing, which SQuAD questions have", name);
    return false;
}

static bool find_columns(copy *c, const ls_arrow_array *table, columns *to)
{
    *to = (columns){.title = ls_arrow_child(table, "title"), .answers = ls_arrow_child(table, "answers")};
    if (!is_of(to->title, LS_ARROW_TEXT)) to->title = NULL;
    if (!find_text(c, table, "id", &to->id) || !find_text(c, table, "context", &to->context) ||
        !find_text(c, table, "question", &to->question))
        return false;
    if (!to->answers) return true;
    bool inside = is_of(to->answers, LS_ARROW_LIST); /* a list of structs */
    const ls_arrow_array *answer = inside ? &to->answers->children[0] : to->answers;
    if (is_of(answer, LS_ARROW_STRUCT)) {
        to->texts = ls_arrow_child(answer, "text");
        to->starts = ls_arrow_child(answer, "answer_start");
    }
    bool sound = to->texts && to->starts;
    if (sound && !inside) {
        sound = is_of(to->texts, LS_ARROW_LIST) && is_of(to->starts, LS_ARROW_LIST);
        sound =
            sound && is_of(&to->texts->children[0], LS_ARROW_TEXT) && is_of(&to->starts->children[0], LS_ARROW_INTEGER);
    } else if (sound) sound = is_of(to->texts, LS_ARROW_TEXT) && is_of(to->starts, LS_ARROW_INTEGER);
    if (!sound) ls_message_set(c->why, "column \"answers\" does not contain lists of \"text\" and \"answer_start\"");
    return sound;
}

/* ---- Values ---- */

static bool wrong(copy *c, const char *what)
{
    ls_message_set(c->why, "row %lld: %s", (long long)c->row, what);
    return false;
}

/* A zero-terminated text: must be UTF-8 without zeros. */
static const char *take_text(copy *c, const ls_arrow_array *column, int64_t index)
{
    size_t size, length;
    const char *bytes = ls_arrow_text(column, index, &size);
    if (ls_arrow_is_null(column, index)) return wrong(c, "a text is missing"), NULL;
    for (size_t i = 0; i < size; i += length)
        if (!bytes[i] || !(length = ls_utf8_length(bytes + i, size - i))) return wrong(c, "a text is not UTF-8"), NULL;
    const char *text = ls_arena_text(&c->list->memory, bytes, size);
    return text ? text : (wrong(c, "no memory for its texts"), NULL);
}

static const char *take_context(copy *c, const ls_arrow_array *column, int64_t index)
{
    size_t size;
    const char *bytes = ls_arrow_text(column, index, &size);
    if (c->last_context && size == c->last_size && memcmp(bytes, c->last_context, size) == 0) return c->last_context;
    c->last_size = size;
    return c->last_context = take_text(c, column, index);
}

/* The values that make up a row's list of answers. */
typedef struct range {
    int64_t text, start, count;
} range;

static bool find_answers(copy *c, const columns *from, int64_t index, range *to)
{
    *to = (range){0};
    if (!from->answers || ls_arrow_is_null(from->answers, index)) return true;
    if (is_of(from->answers, LS_ARROW_LIST)) {
        to->text = to->start = ls_arrow_list(from->answers, index, &to->count);
        return true;
    }
    int64_t starts = 0;
    if (!ls_arrow_is_null(from->texts, index)) to->text = ls_arrow_list(from->texts, index, &to->count);
    if (!ls_arrow_is_null(from->starts, index)) to->start = ls_arrow_list(from->starts, index, &starts);
    return starts == to->count || wrong(c, "\"answers\" has lists of different lengths");
}

static bool take_answers(copy *c, const columns *from, int64_t index, ls_question *q)
{
    range answers;
    if (!find_answers(c, from, index, &answers)) return false;
    bool inside = is_of(from->answers, LS_ARROW_LIST);
    const ls_arrow_array *texts = inside || !from->answers ? from->texts : &from->texts->children[0];
    const ls_arrow_array *starts = inside || !from->answers ? from->starts : &from->starts->children[0];
    ls_answer *list = ls_arena_take(&c->list->memory, (size_t)answers.count * sizeof *list + 1);
    if (!list) return wrong(c, "no memory for its answers");
    for (int64_t i = 0; i < answers.count; i++) {
        int64_t character = ls_arrow_integer(starts, answers.start + i);
        list[i].text = take_text(c, texts, answers.text + i);
        if (!list[i].text) return false;
        list[i].start = character < 0 ? -1 : ls_question_byte(q->context, character);
        if (list[i].start < 0) return wrong(c, "an \"answer_start\" is outside the context");
    }
    q->answers = list;
    q->answer_count = answers.count;
    if (from->answers && !answers.count) c->list->questions.may_be_unanswerable = true;
    return true;
}

static bool copy_row(copy *c, const columns *from, int64_t index, ls_question *q)
{
    *q = (ls_question){.id = take_text(c, from->id, index), .title = ""};
    if (q->id) q->text = take_text(c, from->question, index);
    if (q->text) q->context = take_context(c, from->context, index);
    if (q->context && from->title && !ls_arrow_is_null(from->title, index)) q->title = take_text(c, from->title, index);
    return q->context && q->title && take_answers(c, from, index, q);
}

/* ---- Files ---- */

static bool copy_batch(copy *c, const ls_arrow_batch *batch)
{
    columns from;
    ls_questions *have = &c->list->questions;
    if (!find_columns(c, &batch->table, &from)) return false;
    int64_t wanted = batch->rows < c->limit - have->count ? batch->rows : c->limit - have->count;
    ls_question *grown = ls_sys_realloc(c->list->rows, (size_t)(have->count + wanted) * sizeof *grown);
    if (!grown) return wrong(c, "no memory for more questions");
    have->list = c->list->rows = grown;
    for (int64_t i = 0; i < wanted; i++, c->row++, have->count++)
        if (!copy_row(c, &from, i, &grown[have->count])) return false;
    return true;
}

static ls_status copy_part(const ls_arrow *part, bool *more, ls_message *why, void *user)
{
    copy c = *(const copy *)user;
    c.why = why;
    for (const ls_arrow_batch *batch = part->first; batch; batch = batch->next)
        if (!copy_batch(&c, batch)) return LS_ERR_VALUE;
    *more = c.list->questions.count < c.limit;
    return LS_OK;
}

bool ls_questions_fill_arrow(ls_question_list *list, int64_t limit, ls_message *why)
{
    copy c = {.list = list, .limit = limit};
    return !ls_arrow_read_parts(list->path, copy_part, &c, why);
}
