/* pretrained.c - load weights saved by Transformers into models that may have another head. */
#include <stdio.h>
#include <string.h>

#include <lockstep/formats.h>

#include "base/log.h"
#include "base/memory.h"
#include "formats/unwrap.h"
#include "models/bert.h"

enum { NAME_SIZE = 512, LIST_SIZE = 600 };

/* Replace the end of a name, if it is `from`. */
static void replace_end(char name[NAME_SIZE], const char *from, const char *to)
{
    size_t length = strlen(name), tail = strlen(from);
    if (length < tail || strcmp(name + length - tail, from) != 0) return;
    snprintf(name + length - tail, NAME_SIZE - (length - tail), "%s", to);
}

/* The tensor of the model for a name of the file: the first releases called the weight of a norm gamma; an encoder
 * saved alone has no prefix, and one saved with a head has it. NULL: the model has no such tensor. */
static ls_tensor *find_mine(const ls_state *mine, const char *base, const char *in_file)
{
    char plain[NAME_SIZE], prefixed[NAME_SIZE];
    size_t prefix = strlen(base);
    snprintf(plain, sizeof plain, "%s", in_file);
    replace_end(plain, "LayerNorm.gamma", "LayerNorm.weight");
    replace_end(plain, "LayerNorm.beta", "LayerNorm.bias");
    ls_tensor *found = ls_state_find(mine, plain);
    if (found) return found;
    snprintf(prefixed, sizeof prefixed, "%s.%.400s", base, plain);
    found = ls_state_find(mine, prefixed);
    if (found || strncmp(plain, base, prefix) != 0 || plain[prefix] != '.') return found;
    return ls_state_find(mine, plain + prefix + 1);
}

/* Is a tensor of the file part of what every task needs? Poolers and heads may belong to other tasks. position_ids and
 * token_type_ids, saved by old releases, are not weights. */
static bool is_of_encoder(const char *base, const char *in_file)
{
    size_t prefix = strlen(base);
    bool prefixed = strncmp(in_file, base, prefix) == 0 && in_file[prefix] == '.';
    if (prefixed) in_file += prefix + 1;
    if (ls_name_matches("pooler.*|embeddings.position_ids|embeddings.token_type_ids", in_file)) return false;
    return prefixed || ls_name_matches("embeddings.*|encoder.*|transformer.*", in_file);
}

static void list_name(char list[LIST_SIZE], const char *name)
{
    size_t used = strlen(list);
    if (used + strlen(name) + 8 < LIST_SIZE) snprintf(list + used, LIST_SIZE - used, "%s%s", used ? ", " : "", name);
    else if (used < LIST_SIZE - 5) snprintf(list + used, LIST_SIZE - used, " ...");
}

/* A file and the model it is loaded into. */
typedef struct pretrained {
    const ls_module *model;
    const char *who, *folder, *base; /* who: the function that the program called, for errors */
    const ls_state *mine;            /* the model's tensors; some have two names */
    ls_state *read;
    ls_tensor **is; /* the model's tensor for each one in the file; NULL: none */
} pretrained;

/* Returns how many of the file's tensors are in the model. */
static int64_t match(const pretrained *p)
{
    int64_t count = 0;
    for (int64_t i = 0; i < p->read->count; i++)
        count += (p->is[i] = find_mine(p->mine, p->base, p->read->entries[i].name)) != NULL;
    return count;
}

static bool hold_the_same(ls_tensor *a, ls_tensor *b)
{
    if (!ls_shape_equal(ls_shape_of(a), ls_shape_of(b))) return false;
    ls_mark mark = ls_scope_begin(a->run);
    double differs = ls_item(ls_max(ls_cast(ls_ne(a, b), LS_F32)));
    ls_scope_end(a->run, mark, NULL);
    return differs == 0;
}

/* Names of one tensor here may be several tensors in the file, if they are equal. */
static bool check_shared(const pretrained *p)
{
    ls_run *run = p->model->object.run;
    const ls_state_entry *entries = p->read->entries;
    for (int64_t i = 0; i < p->read->count; i++) {
        for (int64_t j = 0; p->is[i] && j < i; j++) {
            if (p->is[j] != p->is[i] || hold_the_same(entries[j].tensor, entries[i].tensor)) continue;
            ls_fail(&run->errors, LS_ERR_VALUE,
                    "%s: %s: %s and %s differ, but are one tensor in %s; remove the wrong one", p->who, p->folder,
                    entries[j].name, entries[i].name, p->model->kind);
            return false;
        }
    }
    return !ls_failed(run);
}

/* Heads of other tasks are skipped, parts of the encoder are not. */
static bool check_unused(const pretrained *p)
{
    char unused[LIST_SIZE] = "";
    const char *first = NULL;
    int64_t lost = 0;
    for (int64_t i = 0; i < p->read->count; i++) {
        const char *name = p->read->entries[i].name;
        if (p->is[i]) continue;
        list_name(unused, name);
        if (is_of_encoder(p->base, name) && lost++ == 0) first = name;
    }
    char more[40] = "";
    if (lost > 1) snprintf(more, sizeof more, " and %lld more", (long long)(lost - 1));
    if (lost)
        ls_fail(&p->model->object.run->errors, LS_ERR_VALUE,
                "%s: %s has %s%s, but this %s has no such tensor; num_hidden_layers, type_vocab_size and similar "
                "options must match the weights",
                p->who, p->folder, first, more, p->model->kind);
    else if (unused[0]) ls_log_of_job(LS_LOG_INFO, "%s: not used by this model: %s", p->folder, unused);
    return !lost;
}

/* The tensors of the file that the model has, under all of the model's names. */
static ls_state *renamed(const pretrained *p)
{
    ls_state *found = ls_state_new(p->model->object.run);
    for (int64_t i = 0; found && i < p->mine->count; i++) {
        const ls_state_entry *mine = &p->mine->entries[i];
        int64_t from = 0;
        while (from < p->read->count && p->is[from] != mine->tensor) from++;
        if (from < p->read->count && !ls_state_append(found, mine->name, p->read->entries[from].tensor)) break;
    }
    return found;
}

static void warn_of_fresh(const char *folder, const ls_load_report *report)
{
    char fresh[LIST_SIZE] = "";
    for (int64_t i = 0; i < report->missing_count; i++) list_name(fresh, report->missing[i]);
    for (int64_t i = 0; i < report->mismatched_count; i++) list_name(fresh, report->mismatched[i]);
    if (fresh[0])
        ls_log_of_job(LS_LOG_WARN, "%s has no weights for %s: they are initialised; train them", folder, fresh);
}

static void load(ls_module *model, const pretrained *p, const char *fresh)
{
    ls_run *run = model->object.run;
    if (!match(p)) {
        ls_state_unwrap(p->read, p->mine);
        match(p);
    }
    if (!check_shared(p) || !check_unused(p)) return;
    ls_state *found = renamed(p);
    if (!ls_failed(run)) {
        snprintf(run->errors.path, sizeof run->errors.path, "%s", p->folder);
        ls_load_report report = ls_load_state_dict(model, found, .optional = fresh);
        run->errors.path[0] = '\0';
        if (!ls_failed(run)) warn_of_fresh(p->folder, &report);
    }
    ls_state_free(found);
}

void ls_pretrained_load(ls_module *model, const char *who, const char *folder, const char *base, const char *fresh)
{
    ls_run *run = model->object.run;
    pretrained p = {.model = model, .who = who, .folder = folder, .base = base, .mine = ls_state_dict(model)};
    p.read = ls_state_read(run, folder);
    if (!p.mine || !p.read) return;
    p.is = ls_sys_alloc((size_t)(p.read->count + 1) * sizeof(ls_tensor *));
    if (p.is) load(model, &p, fresh);
    else ls_fail(&run->errors, LS_ERR_MEMORY, "%s: no memory for %lld names", who, (long long)p.read->count);
    ls_sys_free(p.is);
    ls_state_free(p.read);
}
