/* state.c - lists of named tensors. */
#include "tensor/state.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/nearest.h"

/* ---- a list ---- */

static void drop_from(ls_state *state, int64_t count)
{
    for (int64_t i = count; i < state->count; i++) {
        ls_state_entry *entry = &state->entries[i];
        ls_sys_free(entry->name);
        ls_release(entry->tensor);
    }
    if (count < state->count) state->count = count;
}

static void clear(void *object)
{
    ls_state *state = object;
    drop_from(state, 0);
    ls_sys_free(state->entries);
}

ls_state *ls_state_new(ls_run *run)
{
    return ls_object_new(run, LS_OBJECT_STATE, sizeof(ls_state), clear);
}

void ls_state_free(ls_state *state)
{
    ls_object_free(state);
}

static bool make_room(ls_state *state)
{
    if (state->count < state->capacity) return true;
    int64_t capacity = state->capacity ? state->capacity * 2 : 16;
    ls_state_entry *entries = ls_sys_realloc(state->entries, (size_t)capacity * sizeof *entries);
    if (!entries) {
        ls_fail(&state->object.run->errors, LS_ERR_MEMORY, "no memory for a list of %lld tensors", (long long)capacity);
        return false;
    }
    state->entries = entries;
    state->capacity = capacity;
    return true;
}

bool ls_state_append(ls_state *state, const char *name, ls_tensor *tensor)
{
    if (!make_room(state)) return false;
    char *copy = ls_text_copy(state->object.run, name);
    if (!copy) return false;
    state->entries[state->count++] = (ls_state_entry){copy, ls_retain(tensor)};
    return true;
}

bool ls_state_refresh(ls_state *state, int64_t i, const char *name, ls_tensor *tensor)
{
    if (i < state->count && strcmp(state->entries[i].name, name) == 0) {
        ls_release(state->entries[i].tensor);
        state->entries[i].tensor = ls_retain(tensor);
        return true;
    }
    drop_from(state, i);
    return ls_state_append(state, name, tensor);
}

void ls_state_truncate(ls_state *state, int64_t count)
{
    drop_from(state, count);
}

void ls_state_add(ls_state *state, const char *name, ls_tensor *tensor)
{
    if (!state) return;
    ls_run *run = state->object.run;
    if (ls_failed(run) || !ls_check_live(run, tensor, "ls_state_add")) return;
    if (!name) ls_fail(&run->errors, LS_ERR_VALUE, "ls_state_add: the name is NULL");
    else if (ls_state_find(state, name)) ls_fail(&run->errors, LS_ERR_VALUE, "ls_state_add: duplicate name %s", name);
    else ls_state_append(state, name, tensor);
}

int64_t ls_state_count(const ls_state *state)
{
    return state ? state->count : 0;
}

const char *ls_state_name(const ls_state *state, int64_t i)
{
    return i >= 0 && i < ls_state_count(state) ? state->entries[i].name : NULL;
}

ls_tensor *ls_state_tensor(const ls_state *state, int64_t i)
{
    return i >= 0 && i < ls_state_count(state) ? state->entries[i].tensor : NULL;
}

ls_tensor *ls_state_find(const ls_state *state, const char *name)
{
    for (int64_t i = 0; i < ls_state_count(state); i++)
        if (strcmp(state->entries[i].name, name) == 0) return state->entries[i].tensor;
    return NULL;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

bool ls_state_check_names(const ls_state *state)
{
    ls_errors *errors = &state->object.run->errors;
    const char **names = ls_sys_alloc((size_t)(state->count + 1) * sizeof *names);
    if (!names) return ls_fail(errors, LS_ERR_MEMORY, "no memory for a list of names"), false;
    for (int64_t i = 0; i < state->count; i++) names[i] = state->entries[i].name;
    qsort(names, (size_t)state->count, sizeof *names, compare_names);
    bool ok = true;
    for (int64_t i = 1; ok && i < state->count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            ok = ls_fail(errors, LS_ERR_VALUE, "two tensors are named %s", names[i]) == LS_OK;
    ls_sys_free(names);
    return ok;
}

/* ---- lists from lists ---- */

/* Does a text match the pattern in [pattern, end)? */
static bool matches_one(const char *pattern, const char *end, const char *text)
{
    const char *star = NULL, *retry = NULL; /* the last `*` seen, and where the text it stands for may end */
    while (*text) {
        if (pattern < end && *pattern == '*') {
            star = pattern++;
            retry = text;
        } else if (pattern < end && *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (pattern < end && *pattern == '*') pattern++;
    return pattern == end;
}

uint64_t ls_name_matches(const char *patterns, const char *text)
{
    uint64_t matched = 0, bit = 1;
    for (const char *pattern = patterns, *end; pattern; pattern = *end ? end + 1 : NULL) {
        end = pattern + strcspn(pattern, "|");
        if (matches_one(pattern, end, text)) matched |= bit;
        if (bit << 1) bit <<= 1;
    }
    return matched;
}

char *ls_patterns_unmatched(const char *patterns, uint64_t matched, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (const char *pattern = patterns, *end; pattern; pattern = *end ? end + 1 : NULL) {
        end = pattern + strcspn(pattern, "|");
        if (!(matched & 1) && used < size)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%.*s", used ? "|" : "", (int)(end - pattern), pattern);
        matched = matched >> 1 | (matched & UINT64_C(1) << 63);
    }
    return text;
}

static ls_state *filtered(const ls_state *state, const char *patterns, bool wanted)
{
    if (!state) return NULL;
    ls_run *run = state->object.run;
    if (ls_failed(run)) return NULL;
    if (!patterns) return ls_fail(&run->errors, LS_ERR_VALUE, "the pattern of names is NULL"), NULL;
    ls_state *result = ls_state_new(run);
    for (int64_t i = 0; result && i < state->count; i++) {
        const ls_state_entry *entry = &state->entries[i];
        bool matches = ls_name_matches(patterns, entry->name) != 0;
        if (matches == wanted && !ls_state_append(result, entry->name, entry->tensor)) {
            ls_state_free(result);
            result = NULL;
        }
    }
    return result;
}

int ls_name_distance(const char *patterns, const char *name)
{
    int least = INT_MAX;
    for (const char *pattern = patterns; pattern; pattern = strchr(pattern, '|')) {
        if (*pattern == '|') pattern++;
        char letters[64];
        size_t length = 0;
        for (const char *c = pattern; *c && *c != '|' && length + 1 < sizeof letters; c++)
            if (*c != '*') letters[length++] = *c;
        letters[length] = '\0';
        /* The distance to the whole name, or to its end or beginning, for "*.bias" and "fc.*". */
        size_t whole = strlen(name), part = length < whole ? length : whole;
        int d[] = {ls_word_distance(letters, length, name, whole),
                   ls_word_distance(letters, length, name + whole - part, part),
                   ls_word_distance(letters, length, name, part)};
        for (int i = 0; i < 3; i++)
            if (d[i] < least) least = d[i];
    }
    return least;
}

/* The names of a list that are nearest to patterns that match none of them. */
static const char *names_near(const ls_state *state, const char *patterns, char *text, size_t size)
{
    ls_nearest nearest = ls_nearest_to(patterns, strlen(patterns));
    for (int64_t i = 0; i < state->count; i++)
        ls_nearest_add(&nearest, state->entries[i].name, ls_name_distance(patterns, state->entries[i].name));
    return ls_nearest_names(&nearest, text, size);
}

void ls_warn_unmatched(const ls_state *state, const char *patterns, const char *lead)
{
    uint64_t matched = 0;
    for (int64_t i = 0; i < state->count; i++) matched |= ls_name_matches(patterns, state->entries[i].name);
    char unmatched[200], names[400];
    if (state->count && *ls_patterns_unmatched(patterns, matched, unmatched, sizeof unmatched))
        ls_log_of_job(LS_LOG_WARN, "%s \"%s\"; there are %s", lead, unmatched,
                      names_near(state, unmatched, names, sizeof names));
}

ls_state *ls_state_matching(const ls_state *state, const char *patterns)
{
    ls_state *result = filtered(state, patterns, true);
    if (!result) return NULL;
    if (result->count) {
        ls_warn_unmatched(state, patterns, "ls_state_matching: no name matches");
        return result;
    }
    char names[400];
    ls_fail(&state->object.run->errors, LS_ERR_VALUE,
            state->count ? "ls_state_matching: no name matches \"%s\"; there are %s"
                         : "ls_state_matching: no name matches \"%s\": the list is empty",
            patterns, names_near(state, patterns, names, sizeof names));
    ls_state_free(result);
    return NULL;
}

ls_state *ls_state_without(const ls_state *state, const char *patterns)
{
    ls_state *result = filtered(state, patterns, false);
    if (result) ls_warn_unmatched(state, patterns, "ls_state_without: no name matches");
    return result;
}

ls_state *ls_state_copy(const ls_state *state)
{
    if (!state) return NULL;
    ls_run *run = state->object.run;
    if (ls_failed(run)) return NULL;
    ls_state *result = ls_state_new(run);
    if (!result) return NULL;
    ls_mark mark = ls_scope_begin(run);
    for (int64_t i = 0; i < state->count && !ls_failed(run); i++) {
        const ls_state_entry *entry = &state->entries[i];
        ls_tensor *copy = ls_tensor_new_like(entry->tensor, entry->tensor->view.dtype);
        if (copy->life == LS_LIFE_LIVE && ls_raw_copy(copy, entry->tensor)) ls_state_append(result, entry->name, copy);
    }
    ls_scope_end(run, mark, NULL);
    if (!ls_failed(run)) return result;
    ls_state_free(result);
    return NULL;
}
