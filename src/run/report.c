/* report.c - what a run has to say at its end: things that did not stop it, but that its owner should know. */
#include "run/report.h"

#include "optim/schedule.h"
#include "run/session.h"

void ls_run_report(ls_run *run)
{
    if (ls_failed(run) || !ls_is_main(run)) return;
    for (const ls_object *o = run->objects; o; o = o->older)
        if (o->kind == LS_OBJECT_SCHEDULE) ls_schedule_over((const ls_schedule *)o);
}
