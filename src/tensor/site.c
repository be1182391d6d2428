/* site.c - paths of modules, each kept once. */
#include "tensor/site.h"

#include <string.h>

#include "base/memory.h"
#include "tensor/context.h"

struct ls_site {
    ls_site *next;
    char path[];
};

const char *ls_site_here(ls_run *run, const char *last)
{
    const char *path = run->errors.path;
    if (last && strcmp(last, path) == 0) return last;
    for (const ls_site *s = run->sites; s; s = s->next)
        if (strcmp(s->path, path) == 0) return s->path;
    ls_site *site = ls_sys_alloc(sizeof *site + strlen(path) + 1);
    if (!site) return NULL;
    strcpy(site->path, path);
    site->next = run->sites;
    run->sites = site;
    return site->path;
}

void ls_sites_free(ls_run *run)
{
    for (ls_site *s = run->sites, *next; s; s = next) {
        next = s->next;
        ls_sys_free(s);
    }
    run->sites = NULL;
}
