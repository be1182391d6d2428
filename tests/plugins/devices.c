/* devices.c - plug-ins as the library meets them: refused, opened, failing late. */
#include <lockstep.h>

#include "check.h"

static void says(ls_run *run, const char *words)
{
    CHECK_MSG(strstr(ls_error_message(run), words) != NULL, "\"%s\" does not say \"%s\"", ls_error_message(run), words);
}

static void another_list_of_operators_is_refused_by_name(void)
{
    ls_run *run = ls_init(NULL, NULL, .device = OTHER_DEVICE);
    CHECK(ls_error(run) == LS_ERR_DEVICE);
    says(run, "another list of operators: its number 2 is \"lerp\", the library's is \"arange\"");
    CHECK(ls_finish(run) == 1);
}

/* ---- failures that are noticed after the call ---- */

static ls_tensor *lookup_forward(ls_module *net, ls_tensor *x, void *user)
{
    (void)user;
    return ls_forward(ls_child(net, "words"), x);
}

static void fails_late(const char *device)
{
    ls_run *run = ls_init(NULL, NULL, .device = device);
    ls_module *net = ls_module_new(run, "net", lookup_forward, NULL);
    ls_module_add(net, "words", ls_embedding_new(run, 5, 4));
    int64_t index[] = {1, 7};
    ls_tensor *y = ls_forward(net, ls_from(run, LS_I64, LS_SHAPE(2), index));
    CHECK(ls_error(run) == LS_OK);
    ls_item(ls_sum(y));
    CHECK(ls_error(run) == LS_ERR_VALUE);
    says(run, "net/words: embedding: ");
    CHECK(ls_finish(run) == 1);
}

static void late_failures_name_module_and_operator(void)
{
    fails_late(ASYNC_DEVICE);
    fails_late(RECORDING_DEVICE);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(another_list_of_operators_is_refused_by_name);
    CHECK_RUN(late_failures_name_module_and_operator);
    return check_done();
}
