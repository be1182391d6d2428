/* pretrained.c - weights that Transformers saved, into models that may have another head than was saved. */
#include <stdio.h>
#include <string.h>

#include <lockstep/formats.h>

#include "base/log.h"
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

/* The name that a tensor of the file has in the model: those of the first releases called the weight of a norm gamma;
 * an encoder saved alone has no prefix, and one saved with a head has it. False: the model has no such tensor. */
static bool find_name(const ls_state *mine, const char *base, const char *in_file, char name[NAME_SIZE])
{
    char plain[NAME_SIZE];
    size_t prefix = strlen(base);
    snprintf(plain, sizeof plain, "%s", in_file);
    replace_end(plain, "LayerNorm.gamma", "LayerNorm.weight");
    replace_end(plain, "LayerNorm.beta", "LayerNorm.bias");
    snprintf(name, NAME_SIZE, "%s", plain);
    if (ls_state_find(mine, name)) return true;
    snprintf(name, NAME_SIZE, "%s.%.400s", base, plain);
    if (ls_state_find(mine, name)) return true;
    if (strncmp(plain, base, prefix) != 0 || plain[prefix] != '.') return false;
    snprintf(name, NAME_SIZE, "%s", plain + prefix + 1);
    return ls_state_find(mine, name) != NULL;
}

static void list_name(char list[LIST_SIZE], const char *name)
{
    size_t used = strlen(list);
    if (used + strlen(name) + 8 < LIST_SIZE) snprintf(list + used, LIST_SIZE - used, "%s%s", used ? ", " : "", name);
    else if (used < LIST_SIZE - 5) snprintf(list + used, LIST_SIZE - used, " ...");
}

/* What of the file is in the model, under the model's names. */
static ls_state *renamed(ls_run *run, const ls_state *read, const ls_state *mine, const char *base, const char *folder)
{
    char name[NAME_SIZE], unused[LIST_SIZE] = "";
    ls_state *found = ls_state_new(run);
    for (int64_t i = 0; found && i < read->count; i++) {
        const ls_state_entry *entry = &read->entries[i];
        bool there = find_name(mine, base, entry->name, name);
        if (!there) list_name(unused, entry->name);
        else if (!ls_state_find(found, name) && !ls_state_append(found, name, entry->tensor)) return NULL;
    }
    if (unused[0]) ls_log_of_job(LS_LOG_INFO, "%s: not used by this model: %s", folder, unused);
    return found;
}

/* A tensor that the model has under two names needs one of them. */
static bool add_shared(ls_state *found, const ls_state *mine)
{
    for (int64_t i = 0; i < mine->count; i++) {
        for (int64_t j = 0; j < mine->count && !ls_state_find(found, mine->entries[i].name); j++) {
            ls_tensor *other = ls_state_find(found, mine->entries[j].name);
            if (!other || mine->entries[i].tensor != mine->entries[j].tensor) continue;
            if (!ls_state_append(found, mine->entries[i].name, other)) return false;
        }
    }
    return true;
}

static void warn_of_fresh(const char *folder, const ls_load_report *report)
{
    char fresh[LIST_SIZE] = "";
    for (int64_t i = 0; i < report->missing_count; i++) list_name(fresh, report->missing[i]);
    for (int64_t i = 0; i < report->mismatched_count; i++) list_name(fresh, report->mismatched[i]);
    if (fresh[0]) ls_log_of_job(LS_LOG_WARN, "%s: without weights for %s: they start fresh; train them", folder, fresh);
}

void ls_pretrained_load(ls_module *model, const char *folder, const char *base, const char *fresh)
{
    ls_run *run = model->object.run;
    const ls_state *mine = ls_state_dict(model);
    ls_state *read = ls_state_read(run, folder);
    if (!mine || !read) return;
    ls_state *found = renamed(run, read, mine, base, folder);
    if (found && !found->count) {
        ls_state_unwrap(read, mine);
        ls_state_free(found);
        found = renamed(run, read, mine, base, folder);
    }
    if (found && add_shared(found, mine)) {
        snprintf(run->errors.path, sizeof run->errors.path, "%s", folder);
        ls_load_report report = ls_load_state_dict(model, found, .optional = fresh);
        run->errors.path[0] = '\0';
        if (!ls_failed(run)) warn_of_fresh(folder, &report);
    }
    ls_state_free(found);
    ls_state_free(read);
}
