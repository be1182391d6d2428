/* runs.c - the runs that cells have begun. An error stays in its run until ls_finish() tells it; in a notebook that may
 * be many cells later, so the cell that caused it fails with it.
 *
 * Three functions are in the place of the library's: calls of cells find these first. */
#include <lockstep/notebook.h>

#include <dlfcn.h>
#include <string.h>

#include "session.h"

enum { MOST_RUNS = 64 };

/* Of the process, as the library's own list is. */
static struct {
    ls_run *run;
    bool told; /* its error */
} runs[MOST_RUNS];
static int run_count;

static int place_of(const ls_run *run)
{
    int i = 0;
    while (i < run_count && runs[i].run != run) i++;
    return i;
}

static void note_error(int place)
{
    bool failed = ls_error(runs[place].run);
    if (failed && !runs[place].told)
        failure_note("RunError", "%s\nThe run does nothing from now on: correct the cell, and begin a new run",
                     ls_error_message(runs[place].run));
    runs[place].told = failed;
}

ls_run *ls_init_sized(int *argc, char ***argv, const ls_init_opts *opts, size_t opts_size)
{
    ls_run *(*init)(int *, char ***, const ls_init_opts *, size_t);
    void *symbol = dlsym(RTLD_NEXT, "ls_init_sized");
    memcpy(&init, &symbol, sizeof init);
    ls_run *run = init(argc, argv, opts, opts_size);
    int place = place_of(run);
    if (run && place == run_count && run_count < MOST_RUNS) runs[run_count++].run = run;
    if (place < run_count) runs[place].told = false;
    return run;
}

/* An interrupt that comes before the first question is the answer to the second. */
bool ls_should_stop(ls_run *run)
{
    bool (*should_stop)(ls_run *);
    void *symbol = dlsym(RTLD_NEXT, "ls_should_stop");
    memcpy(&should_stop, &symbol, sizeof should_stop);
    bool stops = should_stop(run);
    interrupt_pass_on();
    return stops;
}

int ls_finish(ls_run *run)
{
    int place = place_of(run);
    if (place < run_count) {
        note_error(place);
        runs[place] = runs[--run_count];
    }
    curves_finish(run);
    int (*finish)(ls_run *);
    void *symbol = dlsym(RTLD_NEXT, "ls_finish");
    memcpy(&finish, &symbol, sizeof finish);
    return finish(run);
}

void runs_note_errors(void)
{
    for (int i = 0; i < run_count; i++) note_error(i);
}
