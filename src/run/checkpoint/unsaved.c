/* unsaved.c - report objects that are trained but not in any checkpoint because they were not passed to ls_prepare().
 * */
#include <stdarg.h>
#include <stdio.h>

#include "optim/schedule.h"
#include "run/prepare.h"
#include "step/remind.h"

/* The first few by name, the rest as a number. */
typedef struct unsaved {
    char text[600];
    size_t used;
    int named, more;
} unsaved;

enum { NAMED = 4 };

LS_PRINTF(2, 3) static void note(unsaved *u, const char *format, ...)
{
    char thing[160];
    va_list args;
    va_start(args, format);
    vsnprintf(thing, sizeof thing, format, args);
    va_end(args);
    if (u->named == NAMED) {
        u->more++;
        return;
    }
    const char *between = u->named++ ? ", " : "";
    u->used += (size_t)snprintf(u->text + u->used, sizeof u->text - u->used, "%s%s", between, thing);
}

static bool lists(const ls_state *list, const ls_tensor *t)
{
    for (int64_t i = 0; i < ls_state_count(list); i++)
        if (list->entries[i].tensor == t) return true;
    return false;
}

static bool is_saved(const ls_run *run, const ls_tensor *parameter)
{
    int at = 0;
    for (ls_object *o; (o = ls_prepared_next(run, LS_OBJECT_MODULE, &at));)
        if (lists(ls_parameters((ls_module *)o), parameter)) return true;
    for (const ls_custom *c = run->session->customs; c; c = c->next)
        if (c->opts.tensors && lists(c->opts.tensors, parameter)) return true;
    return false;
}

static void note_optim(unsaved *u, const ls_optim *optim)
{
    const ls_optim_slot *first = NULL;
    int64_t count = 0;
    for (int64_t i = 0; i < optim->slot_count; i++) {
        if (is_saved(optim->object.run, optim->slots[i].parameter)) continue;
        if (!count++) first = &optim->slots[i];
    }
    if (!optim->object.prepared) note(u, "the optimiser %s", optim->rule->name);
    if (count == 1) note(u, "the parameter %.100s", first->name);
    if (count > 1) note(u, "the module of %.100s and %lld more", first->name, (long long)count - 1);
}

void ls_remind_of_unsaved(ls_run *run)
{
    unsaved u = {.used = 0};
    if (run->step->reminded & LS_REMIND_UNSAVED || !ls_is_main(run)) return;
    for (const ls_object *o = run->objects; o; o = o->older) {
        if (o->forgotten && !o->prepared) continue;
        const ls_optim *optim = (const ls_optim *)o;
        const ls_schedule *schedule = (const ls_schedule *)o;
        if (o->kind == LS_OBJECT_OPTIM && optim->steps) note_optim(&u, optim);
        if (o->kind == LS_OBJECT_SCHEDULE && schedule->step && !schedule->inner && !o->prepared)
            note(&u, "the schedule %s", ls_schedule_describe(schedule, (char[LS_SCHEDULE_TEXT]){0}));
    }
    if (!u.named) return;
    if (u.more) snprintf(u.text + u.used, sizeof u.text - u.used, " and %d more", u.more);
    ls_remind_of_prepare(run, LS_REMIND_UNSAVED,
                         "ls_save_state does not save %s, so a resumed training starts it from scratch", u.text);
}
