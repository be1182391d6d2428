/* text_dataset.c - a dataset of texts in a table with a class each: tokens for a classifier. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/message.h"
#include "base/opts.h"
#include "data/datasets/dataset.h"
#include "data/text/table.h"
#include "data/text/tokenizer.h"
#include "formats/hub.h"

enum { FIELD_IDS, FIELD_TYPES, FIELD_LENGTH, FIELD_LABEL };

typedef struct examples {
    ls_encoding *encoding; /* one window per text */
    int64_t *labels;       /* NULL: none */
} examples;

/* ---- samples ---- */

static int64_t length_of(int64_t index, void *user)
{
    const ls_encoding *e = ((const examples *)user)->encoding;
    return e->begin[index + 1] - e->begin[index];
}

static int64_t class_of(int64_t index, void *user)
{
    const examples *all = user;
    return all->labels ? all->labels[index] : -1;
}

static bool get(int64_t index, ls_sample *sample, void *user)
{
    const examples *all = user;
    int64_t begin = all->encoding->begin[index], length = length_of(index, user);
    int64_t *ids = ls_sample_resize(sample, FIELD_IDS, LS_SHAPE(length));
    int64_t *types = ls_sample_resize(sample, FIELD_TYPES, LS_SHAPE(length));
    if (!ids || !types) return ls_sample_fail(sample, LS_ERR_MEMORY, "no memory for %lld tokens", (long long)length);
    for (int64_t i = 0; i < length; i++) {
        ids[i] = all->encoding->id[begin + i];
        types[i] = all->encoding->type[begin + i];
    }
    *(int64_t *)ls_sample_field(sample, FIELD_LENGTH) = length;
    if (all->labels) *(int64_t *)ls_sample_field(sample, FIELD_LABEL) = all->labels[index];
    return true;
}

static uint64_t hash_samples(const void *user)
{
    const examples *all = user;
    ls_hash hash;
    ls_hash_begin(&hash);
    ls_encoding_hash(&hash, all->encoding);
    if (all->labels) ls_hash_add(&hash, all->labels, (size_t)all->encoding->count * sizeof *all->labels);
    return ls_hash_end(&hash);
}

static void release(void *user)
{
    examples *all = user;
    ls_encoding_free(all->encoding);
    ls_sys_free(all->labels);
    ls_sys_free(all);
}

/* ---- classes ---- */

static bool is_number(const char *text)
{
    char *end;
    strtol(text, &end, 10);
    return *text && !*end;
}

/* Numbers by value and before words, words by bytes. */
static int by_class(const void *left, const void *right)
{
    const char *a = *(const char *const *)left, *b = *(const char *const *)right;
    if (is_number(a) != is_number(b)) return is_number(a) ? -1 : 1;
    long x = is_number(a) ? strtol(a, NULL, 10) : 0, y = is_number(b) ? strtol(b, NULL, 10) : 0;
    return x != y ? (x > y) - (x < y) : strcmp(a, b);
}

/* The distinct classes of a column; their number, and a list to be freed. */
static int64_t find_classes(const ls_table *t, int64_t column, const char ***classes)
{
    const char **names = ls_sys_alloc((size_t)t->rows * sizeof *names);
    *classes = names;
    if (!names) return -1;
    for (int64_t i = 0; i < t->rows; i++) names[i] = ls_table_at(t, i, column)->text;
    qsort(names, (size_t)t->rows, sizeof *names, by_class);
    int64_t count = 1;
    for (int64_t i = 1; i < t->rows; i++)
        if (strcmp(names[i], names[count - 1]) != 0) names[count++] = names[i];
    return count;
}

/* The index of a label among the classes; -1: not found. Classes found in the file are sorted. */
static int64_t class_among(const char **names, int64_t count, const char *label, bool sorted)
{
    if (sorted) {
        const char **found = bsearch(&label, names, (size_t)count, sizeof *names, by_class);
        return found ? found - names : -1;
    }
    for (int64_t i = 0; i < count; i++)
        if (strcmp(names[i], label) == 0) return i;
    return -1;
}

static ls_status set_labels(ls_dataset *set, const ls_table *t, int64_t column, const ls_dataset *like, ls_message *why)
{
    examples *all = set->user;
    const char **names = NULL;
    int64_t count = like ? ls_class_count(like) : find_classes(t, column, &names);
    all->labels = ls_sys_alloc((size_t)t->rows * sizeof *all->labels);
    if (count < 0 || !all->labels) return ls_sys_free(names), ls_explain(why, LS_ERR_MEMORY, "no memory for labels");
    if (like && (names = ls_sys_alloc((size_t)(count + 1) * sizeof *names)))
        for (int64_t i = 0; i < count; i++) names[i] = ls_class_name(like, i);
    ls_status status = names ? LS_OK : ls_explain(why, LS_ERR_MEMORY, "no memory for labels");
    for (int64_t row = 0; !status && row < t->rows; row++) {
        const char *label = ls_table_at(t, row, column)->text;
        all->labels[row] = class_among(names, count, label, !like);
        if (all->labels[row] < 0)
            status = ls_explain(why, LS_ERR_VALUE,
                                "row %lld has the class \"%.60s\", which the dataset of .classes does not have",
                                (long long)row + 1, label);
    }
    if (!status && !ls_dataset_set_classes(set, count, names)) status = LS_ERR_MEMORY;
    ls_sys_free(names);
    return status;
}

/* ---- tokens ---- */

static ls_encoding *encode(ls_tokenizer *t, const ls_table *table, int64_t text, int64_t second,
                           const ls_text_dataset_opts *o)
{
    size_t rows = (size_t)table->rows;
    const char **texts = ls_sys_alloc(2 * rows * sizeof *texts);
    size_t *sizes = ls_sys_alloc(2 * rows * sizeof *sizes);
    ls_encoding *e = NULL;
    for (int64_t i = 0; texts && sizes && i < table->rows; i++) {
        texts[i] = ls_table_at(table, i, text)->text;
        sizes[i] = ls_table_at(table, i, text)->size;
        if (second < 0) continue;
        texts[(int64_t)rows + i] = ls_table_at(table, i, second)->text;
        sizes[(int64_t)rows + i] = ls_table_at(table, i, second)->size;
    }
    if (texts && sizes)
        e = ls_tokenizer_encode_n(t, texts, second < 0 ? NULL : texts + rows, table->rows, .max_length = o->max_length,
                                  .sizes = sizes, .second_sizes = sizes + rows);
    else ls_fail(&t->object.run->errors, LS_ERR_MEMORY, "ls_text_dataset_new: no memory for %zu texts", rows);
    ls_sys_free(texts);
    ls_sys_free(sizes);
    return e;
}

/* ---- the dataset ---- */

static bool find_column(ls_run *run, const ls_table *t, const char *path, const char *name, int64_t *column)
{
    *column = name ? ls_table_column(t, name) : -1;
    if (!name || *column >= 0) return true;
    char there[512] = "";
    for (int64_t i = 0; t->header && i < t->columns; i++) {
        size_t used = strlen(there);
        snprintf(there + used, sizeof there - used, "%s%s", i ? ", " : "", t->fields[i].text);
    }
    ls_fail(&run->errors, LS_ERR_VALUE, "ls_text_dataset_new: %s has no column \"%s\"; it has %lld%s%s", path, name,
            (long long)t->columns, t->header ? ": " : ", numbered from 0", there);
    return false;
}

static char separator_of(const char *path, const ls_text_dataset_opts *o)
{
    size_t length = strlen(path);
    if (o->separator) return o->separator;
    return length > 4 && strcmp(path + length - 4, ".csv") == 0 ? ',' : '\t';
}

static ls_dataset *make(ls_tokenizer *t, const ls_table *table, const char *path, const ls_text_dataset_opts *o)
{
    ls_run *run = t->object.run;
    int64_t text, second, label;
    if (!find_column(run, table, path, o->text, &text) || !find_column(run, table, path, o->second, &second) ||
        !find_column(run, table, path, o->label, &label))
        return NULL;
    examples *all = ls_sys_alloc(sizeof *all);
    if (!all) return ls_fail(&run->errors, LS_ERR_MEMORY, "ls_text_dataset_new: out of memory"), NULL;
    all->encoding = encode(t, table, text, second, o);
    const ls_field fields[LS_MAX_FIELDS] = {
        [FIELD_IDS] = {.name = "input_ids", .dtype = LS_I64, .shape = {LS_ANY}, .pad = t->pad < 0 ? 0 : t->pad},
        [FIELD_TYPES] = {.name = "token_type_ids", .dtype = LS_I64, .shape = {LS_ANY}},
        [FIELD_LENGTH] = {.name = "length", .dtype = LS_I64},
        [FIELD_LABEL] = {.name = label < 0 ? NULL : "label", .dtype = LS_I64},
    };
    ls_dataset *set = all->encoding ? ls_dataset_begin(run, "text dataset", fields) : NULL;
    if (!set) return release(all), NULL;
    set->user = all;
    set->release = release;
    set->get = get;
    set->class_of = class_of;
    set->length_of = length_of;
    set->hash_samples = hash_samples;
    set->count = table->rows;
    set->in_memory = true;
    ls_message why = {{0}};
    ls_status status = label < 0 ? LS_OK : set_labels(set, table, label, o->classes, &why);
    if (!status && ls_dataset_set_source(set, path)) return set;
    if (status) ls_fail(&run->errors, status, "ls_text_dataset_new: %s: %s", path, why.text);
    ls_object_free(set);
    return NULL;
}

ls_dataset *ls_text_dataset_new_sized(ls_tokenizer *t, const char *path, const ls_text_dataset_opts *opts,
                                      size_t opts_size)
{
    ls_text_dataset_opts o = LS_OPTS_READ(ls_text_dataset_opts, opts, opts_size);
    if (!t || ls_failed(t->object.run)) return NULL;
    ls_run *run = t->object.run;
    if (!path || !o.text) {
        ls_fail(&run->errors, LS_ERR_VALUE, "ls_text_dataset_new: %s",
                path ? ".text is missing, the column with the texts" : "the path is NULL");
        return NULL;
    }
    ls_table table = {0};
    ls_message why = {{0}};
    char found[LS_HUB_PATH];
    ls_hub_split which = {.name = path, .config = o.config, .split = o.split};
    ls_status status = o.split ? ls_hub_find_split(&which, found, &why) : LS_OK;
    if (o.split) path = found;
    if (!status) status = ls_table_read(&table, path, separator_of(path, &o), o.header, &why);
    if (!status && o.split) status = ls_hub_check_rows(path, o.split, table.rows, &why);
    if (status) ls_fail(&run->errors, status, "ls_text_dataset_new: %s", why.text);
    ls_dataset *set = status ? NULL : make(t, &table, path, &o);
    ls_table_free(&table);
    return set;
}
