/* gradients.c - restore gradients of an unfinished accumulation.
 *
 * Each rank saved its own. With the same number of processes each loads its own, so that rounding is identical. Any
 * other number loads the mean of all: the mean over processes, which the step uses, is the same. */
#include <lockstep/formats.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "autograd/tape.h"
#include "base/file.h"
#include "checkpoint/training.h"

/* "1.fc.weight": the parameter fc.weight of module 1; NULL if there is none. */
static ls_tensor *parameter_named(const ls_training *t, const char *name)
{
    char *rest;
    long i = strtol(name, &rest, 10);
    return *rest == '.' && i >= 0 && i < t->module_count ? ls_state_find(ls_parameters(t->modules[i]), rest + 1) : NULL;
}

static void clear_all(const ls_training *t)
{
    for (int i = 0; i < t->module_count; i++) {
        ls_state *parameters = ls_parameters(t->modules[i]);
        for (int64_t p = 0; p < ls_state_count(parameters); p++) ls_clear_grad(ls_state_tensor(parameters, p));
    }
}

static char *path_of(const char *folder, int rank, char path[PATH_MAX])
{
    char name[LS_FILE_NAME];
    snprintf(path, PATH_MAX, "%s/%s", folder, ls_file_numbered(name, LS_GRADIENTS, rank, ".safetensors"));
    return path;
}

/* Add the gradients of one rank, divided by `parts`. */
static bool add_part(const ls_training *t, const char *path, int parts)
{
    ls_run *run = t->run;
    ls_state *gradients = ls_state_read(run, path);
    ls_mark mark = ls_scope_begin(run);
    for (int64_t i = 0; i < ls_state_count(gradients) && !ls_failed(run); i++) {
        ls_tensor *parameter = parameter_named(t, ls_state_name(gradients, i));
        ls_tensor *gradient = ls_state_tensor(gradients, i);
        bool fits =
            parameter && ls_requires_grad(parameter) && ls_shape_equal(ls_shape_of(parameter), ls_shape_of(gradient));
        if (!fits)
            ls_fail(&run->errors, LS_ERR_STATE,
                    "ls_load_state: gradients.safetensors: it has a gradient of a parameter that is not trained here");
        else ls_walk_back(run, parameter, parts > 1 ? ls_mul_scalar(gradient, 1.0 / parts) : gradient);
    }
    ls_scope_end(run, mark, NULL);
    ls_state_free(gradients);
    return !ls_failed(run);
}

bool ls_gradients_restore(const ls_training *t, const char *folder, const ls_manifest *manifest)
{
    char path[PATH_MAX];
    clear_all(t);
    if (ls_path_kind_of(path_of(folder, 0, path)) != LS_PATH_FILE) return !ls_failed(t->run);
    if (manifest->world == t->world) return add_part(t, path_of(folder, t->rank, path), 1);
    bool ok = true;
    for (int r = 0; ok && r < manifest->world; r++) ok = add_part(t, path_of(folder, r, path), manifest->world);
    return ok;
}
