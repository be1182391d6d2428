/* tests.h - small datasets, and functions to inspect a loader's batches. */
#ifndef LOCKSTEP_TESTS_DATA_TESTS_H
#define LOCKSTEP_TESTS_DATA_TESTS_H

#include <lockstep.h>

#include "check.h"

#include <unistd.h>

/* Capture what is written to stderr between two calls; valid until the next capture. */
static int capture_stderr = -1;
static FILE *capture_file;

__attribute__((unused)) static void capture_begin(void)
{
    fflush(stderr);
    capture_file = tmpfile();
    capture_stderr = dup(STDERR_FILENO);
    dup2(fileno(capture_file), STDERR_FILENO);
}

__attribute__((unused)) static const char *capture_end(void)
{
    static char text[8192];
    fflush(stderr);
    dup2(capture_stderr, STDERR_FILENO);
    close(capture_stderr);
    rewind(capture_file);
    text[fread(text, 1, sizeof text - 1, capture_file)] = '\0';
    fclose(capture_file);
    return text;
}

/* Sample i: x = [3i, 3i+1, 3i+2] f32, label = i i64. */
__attribute__((unused)) static ls_dataset *numbers(ls_run *run, int64_t count)
{
    ls_mark mark = ls_scope_begin(run);
    ls_tensor *x = ls_set_name(ls_arange(run, LS_F32, count * 3, 0, 1), "x");
    x = ls_set_name(ls_reshape(x, count, 3), "x");
    ls_dataset *set = ls_tensor_dataset_new(run, x, ls_set_name(ls_arange(run, LS_I64, count, 0, 1), "label"));
    ls_scope_end(run, mark, NULL);
    return set;
}

/* The first element of row j. */
__attribute__((unused)) static double row_of(ls_tensor *t, int64_t j)
{
    float value[64] = {0};
    int64_t width = ls_dim(t, 1);
    if (ls_dim(t, 0) * width > 64) return -1;
    ls_read(t, value, (size_t)ls_numel(t) * sizeof *value);
    return (double)value[j * width];
}

__attribute__((unused)) static double label_of(ls_tensor *t, int64_t j)
{
    int64_t value[512] = {0};
    ls_read(t, value, (size_t)ls_numel(t) * sizeof *value);
    return (double)value[j];
}

/* The samples of the rest of a pass, in order; returns how many. */
__attribute__((unused)) static int64_t read_pass(ls_loader *loader, int64_t *index)
{
    int64_t count = 0;
    for (ls_batch b; ls_next(loader, &b);)
        for (int64_t j = 0; j < b.size; j++) index[count++] = b.index[j];
    return count;
}

__attribute__((unused)) static bool is_permutation(const int64_t *list, int64_t n)
{
    bool seen[1024] = {false};
    for (int64_t i = 0; i < n; i++) {
        if (list[i] < 0 || list[i] >= n || seen[list[i]]) return false;
        seen[list[i]] = true;
    }
    return true;
}

#endif
