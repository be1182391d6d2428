/* plateau.c - checkpoints of schedules that follow a value. */
#include <lockstep.h>

#include "check.h"
#include "folder.h"

/* Also when no value was a number yet: the calls that were waited for count. */
static void plateaus_are_restored(void)
{
    ls_run *run = ls_init(NULL, NULL);
    ls_module *net = ls_linear_new(run, 2, 2);
    ls_optim *sgd = ls_sgd_new(run, net, .lr = 1);
    ls_schedule *plateau = ls_plateau_schedule_new(sgd, .factor = 0.5, .patience = 2);
    ls_prepare(run, net, sgd, plateau);
    for (int i = 0; i < 2; i++) CHECK(!ls_schedule_step_with(plateau, NAN));
    CHECK(ls_save_state(run, "checkpoint_plateau"));
    CHECK(!ls_schedule_step_with(plateau, 3)); /* the best so far */
    CHECK(ls_load_state(run, "checkpoint_plateau"));
    CHECK(ls_schedule_step_with(plateau, NAN) && ls_optim_lr(sgd) == 0.5);
    CHECK(!ls_schedule_step_with(plateau, 4)); /* the best again */
    for (int i = 0; i < 2; i++) CHECK(!ls_schedule_step_with(plateau, 4));
    CHECK(ls_schedule_step_with(plateau, 4) && ls_optim_lr(sgd) == 0.25);
    CHECK(ls_finish(run) == 0);
    folder_remove("checkpoint_plateau");
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(plateaus_are_restored);
    return check_done();
}
