/* placement.c - CPUs by NUMA node, from /sys. */
#include "launch/placement.h"

#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct place {
    int cpu, node, core;
} place;

/* Is `cpu` in a list such as "0-3,8,10-11"? *lowest is set to the lowest number. */
static bool list_has(const char *list, int cpu, int *lowest)
{
    *lowest = atoi(list);
    for (const char *c = list; *c;) {
        char *end;
        long from = strtol(c, &end, 10), to = from;
        if (end == c) return false;
        if (*end == '-') to = strtol(end + 1, &end, 10);
        if (cpu >= from && cpu <= to) return true;
        c = *end == ',' ? end + 1 : end + strlen(end);
    }
    return false;
}

static bool read_line(char *line, size_t size, const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file) return false;
    bool got = fgets(line, (int)size, file) != NULL;
    fclose(file);
    if (got) line[strcspn(line, "\n")] = '\0';
    return got;
}

/* Node and core of every CPU; if /sys does not say, one node, and each CPU its own core. */
static void look_up(const char *root, place *places, int count)
{
    char path[512], line[4096];
    int lowest;
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", root,
                 places[i].cpu);
        places[i].core =
            read_line(line, sizeof line, path) && list_has(line, places[i].cpu, &lowest) ? lowest : places[i].cpu;
    }
    snprintf(path, sizeof path, "%s/sys/devices/system/node/online", root);
    char online[4096];
    if (!read_line(online, sizeof online, path)) return;
    for (int node = 0; node < 1024; node++) {
        if (!list_has(online, node, &lowest)) continue;
        snprintf(path, sizeof path, "%s/sys/devices/system/node/node%d/cpulist", root, node);
        if (!read_line(line, sizeof line, path)) continue;
        for (int i = 0; i < count; i++)
            if (list_has(line, places[i].cpu, &lowest)) places[i].node = node;
    }
}

static int by_place(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    if (x->core != y->core) return x->core < y->core ? -1 : 1;
    return x->cpu < y->cpu ? -1 : x->cpu > y->cpu;
}

/* The end of a run of CPUs of one node. */
static int node_end(const place *places, int count, int from)
{
    int end = from;
    while (end < count && places[end].node == places[from].node) end++;
    return end;
}

/* Fewer workers than nodes: each gets whole nodes, as evenly as possible. */
static void share_nodes(const place *places, int count, int nodes, int processes, int *first)
{
    int node = 0, process = 0;
    for (int at = 0; at < count; at = node_end(places, count, at), node++)
        if (process < processes && node == process * nodes / processes) first[process++] = at;
}

/* At least one worker per node: each node gets workers in proportion to its CPUs, and divides its CPUs among them. */
static void share_cpus(const place *places, int count, int processes, int *first)
{
    int process = 0;
    for (int at = 0, end; at < count; at = end) {
        end = node_end(places, count, at);
        /* Workers up to here, rounded: never more per node than its CPUs, since there are at most as many in all. */
        int here = (int)(((long long)end * processes + count / 2) / count) - process;
        for (int i = 0; i < here; i++) first[process++] = at + (int)((long long)i * (end - at) / here);
    }
}

bool ls_placement(const char *root, int *cpus, int count, int processes, int *first)
{
    if (processes < 1 || count < processes) return false;
    place *places = ls_sys_alloc((size_t)count * sizeof *places);
    if (!places) return false;
    for (int i = 0; i < count; i++) places[i].cpu = cpus[i];
    look_up(root, places, count);
    qsort(places, (size_t)count, sizeof *places, by_place);
    int nodes = 0;
    for (int at = 0; at < count; at = node_end(places, count, at)) nodes++;
    if (processes < nodes) share_nodes(places, count, nodes, processes, first);
    else share_cpus(places, count, processes, first);
    first[0] = 0;
    first[processes] = count;
    for (int i = 0; i < count; i++) cpus[i] = places[i].cpu;
    ls_sys_free(places);
    return true;
}
