/* unwrap.c - find the model in what a PyTorch program saved. */
#include "formats/unwrap.h"

#include <string.h>

#include "tensor/state.h"

typedef struct wrapper {
    const char *prefix;
    bool among_others; /* the key of a dict that holds more than the model */
} wrapper;

static const wrapper wrappers[] = {
    {"module.", false}, {"_orig_mod.", false},       {"state_dict.", true},
    {"model.", true},   {"model_state_dict.", true}, {"net.", true},
};

static bool has_prefix(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static int64_t count_with(const ls_state *state, const char *prefix)
{
    int64_t count = 0;
    for (int64_t i = 0; i < state->count; i++) count += has_prefix(state->entries[i].name, prefix);
    return count;
}

static bool have_names_in_common(const ls_state *a, const ls_state *b)
{
    for (int64_t i = 0; i < a->count; i++)
        if (ls_state_find(b, a->entries[i].name)) return true;
    return false;
}

/* Keep only names with the prefix, and strip it. */
static void strip_prefix(ls_state *state, const char *prefix)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < state->count; i++) {
        if (!has_prefix(state->entries[i].name, prefix)) continue;
        ls_state_entry entry = state->entries[i];
        state->entries[i] = state->entries[kept];
        state->entries[kept++] = entry;
        memmove(entry.name, entry.name + strlen(prefix), strlen(entry.name) - strlen(prefix) + 1);
    }
    ls_state_truncate(state, kept);
}

static const wrapper *find_wrapper(const ls_state *read, const ls_state *wanted)
{
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++) {
        const wrapper *w = &wrappers[i];
        int64_t with = count_with(read, w->prefix);
        if (with == 0 || (!w->among_others && with < read->count)) continue;
        if (count_with(wanted, w->prefix) < wanted->count) return w; /* otherwise it is a child of the model itself */
    }
    return NULL;
}

void ls_state_unwrap(ls_state *read, const ls_state *wanted)
{
    while (!have_names_in_common(read, wanted)) {
        const wrapper *w = find_wrapper(read, wanted);
        if (!w) return;
        strip_prefix(read, w->prefix);
    }
}
