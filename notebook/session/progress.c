/* progress.c - progress bars of the running cell, each in a place of its own. */
#include <lockstep/notebook.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

/* A launched worker is a copy of the session, and counts its bars from the same number as the others. */
static void show(const ls_progress_state *state, void *user)
{
    (void)user;
    const char *rank = getenv("RANK");
    char place[64];
    snprintf(place, sizeof place, "progress %lld of rank %s", (long long)state->number, rank ? rank : "0");
    ls_notebook_update(place, "text/plain", state->line, strlen(state->line));
}

void progress_open(void)
{
    ls_progress_register_display(show, NULL);
}
