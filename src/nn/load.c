/* load.c - load a list of named tensors into a module. All names and shapes are checked before the first copy. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "nn/module.h"

/* Missing in files of PyTorch before 0.4.1; PyTorch accepts that. */
static const char never_missed[] = "num_batches_tracked|*.num_batches_tracked";

/* "a, b, c and 4 more": those names that match neither of the patterns (NULL: none). Returns their number. */
static int64_t name_some(char *text, size_t size, const char *const *names, int64_t count, const char *except,
                         const char *or_except)
{
    enum { SHOWN = 3 };
    size_t used = 0;
    int64_t found = 0;
    text[0] = '\0';
    for (int64_t i = 0; i < count; i++) {
        if (except && ls_name_matches(except, names[i])) continue;
        if (or_except && ls_name_matches(or_except, names[i])) continue;
        if (found++ < SHOWN && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", found > 1 ? ", " : "", names[i]);
    }
    if (found > SHOWN && used < size) snprintf(text + used, size - used, " and %lld more", (long long)(found - SHOWN));
    return found;
}

/* Sort the names into missing, mismatched (both of the module) and unexpected, consecutively in the report. */
static ls_load_report compare(ls_module *module, const ls_state *mine, const ls_state *given)
{
    ls_load_report report = {0};
    const char **next = module->report;
    report.missing = next;
    for (int64_t i = 0; i < mine->count; i++)
        if (!ls_state_find(given, mine->entries[i].name)) *next++ = mine->entries[i].name;
    report.missing_count = next - report.missing;

    report.mismatched = next;
    for (int64_t i = 0; i < mine->count; i++) {
        const ls_tensor *from = ls_state_find(given, mine->entries[i].name);
        if (from && !ls_shape_equal(ls_shape_of(from), ls_shape_of(mine->entries[i].tensor)))
            *next++ = mine->entries[i].name;
    }
    report.mismatched_count = next - report.mismatched;

    report.unexpected = next;
    for (int64_t i = 0; i < ls_state_count(given); i++)
        if (!ls_state_find(mine, given->entries[i].name)) *next++ = given->entries[i].name;
    report.unexpected_count = next - report.unexpected;
    return report;
}

/* A load with permission to omit names that omits all of them is a mistake. */
static bool fits_at_all(const ls_module *module, const ls_load_report *report, const ls_state *mine,
                        const ls_state *given)
{
    if (!mine->count || report->missing_count < mine->count) return true;
    char names[300], more[300];
    name_some(names, sizeof names, report->missing, report->missing_count, NULL, NULL);
    name_some(more, sizeof more, report->unexpected, report->unexpected_count, NULL, NULL);
    ls_fail(&module->object.run->errors, LS_ERR_VALUE,
            "ls_load_state_dict: nothing to load: %s has %s, the list %s; see .strip and .prefix of ls_load_model",
            module->kind, names, ls_state_count(given) ? more : "is empty");
    return false;
}

static bool acceptable(const ls_module *module, const ls_load_report *report, const ls_load_state_dict_opts *opts,
                       const ls_state *mine, const ls_state *given)
{
    ls_errors *errors = &module->object.run->errors;
    char names[300], more[300];
    int64_t differing =
        name_some(names, sizeof names, report->mismatched, report->mismatched_count, opts->optional, NULL);
    if (differing && !opts->skip_mismatched) {
        char *others = strchr(names, ','); /* after the first, whose shapes are shown */
        if (others) *others = '\0';
        char a[LS_TEXT], b[LS_TEXT];
        ls_fail(errors, LS_ERR_SHAPE,
                "ls_load_state_dict: %s of %s is %s, the list has %s%s%s; .skip_mismatched = true skips all such "
                "tensors, .optional = \"%.100s\" those of these names",
                names, module->kind, ls_shape_text(ls_shape_of(ls_state_find(mine, names)), a),
                ls_shape_text(ls_shape_of(ls_state_find(given, names)), b), others ? "; others differ too:" : "",
                others ? others + 1 : "", names);
        return false;
    }
    int64_t missing =
        name_some(names, sizeof names, report->missing, report->missing_count, opts->optional, never_missed);
    int64_t unexpected = name_some(more, sizeof more, report->unexpected, report->unexpected_count, NULL, NULL);
    if (opts->partial || (!missing && !unexpected)) return fits_at_all(module, report, mine, given);
    ls_fail(errors, LS_ERR_VALUE, "ls_load_state_dict: %s%s%s%s%s; .partial = true allows that",
            missing ? "missing " : "", names, missing && unexpected ? ", " : "", unexpected ? "unexpected " : "", more);
    return false;
}

static void copy_one(ls_tensor *to, ls_tensor *from)
{
    ls_run *run = to->run;
    ls_mark mark = ls_scope_begin(run);
    if (from->storage->device != to->storage->device) from = ls_to_device(from, to->storage->device->name);
    ls_assign(to, from);
    ls_scope_end(run, mark, NULL);
}

ls_load_report ls_load_state_dict_sized(ls_module *module, const ls_state *state,
                                        const ls_load_state_dict_opts *given_opts, size_t opts_size)
{
    ls_load_report report = {0};
    if (!module) return report;
    ls_run *run = module->object.run;
    ls_load_state_dict_opts opts = LS_OPTS_READ(ls_load_state_dict_opts, given_opts, opts_size);
    const ls_state *mine = ls_failed(run) ? NULL : ls_state_dict(module);
    if (!mine) return report;
    ls_sys_free(module->report);
    module->report = ls_sys_alloc((size_t)(mine->count + ls_state_count(state) + 1) * sizeof *module->report);
    if (!module->report) return ls_fail(&run->errors, LS_ERR_MEMORY, "ls_load_state_dict: no memory"), report;
    report = compare(module, mine, state);
    if (opts.optional) {
        char lead[160];
        snprintf(lead, sizeof lead, "ls_load_state_dict: no name of %.60s matches .optional =", module->kind);
        ls_warn_unmatched(mine, opts.optional, lead);
    }
    if (!acceptable(module, &report, &opts, mine, state)) return report;

    for (int64_t i = 0; i < mine->count && !ls_failed(run); i++) {
        ls_tensor *to = mine->entries[i].tensor, *from = ls_state_find(state, mine->entries[i].name);
        if (!from || !ls_shape_equal(ls_shape_of(from), ls_shape_of(to))) continue;
        copy_one(to, from);
        report.loaded++;
    }
    return report;
}
