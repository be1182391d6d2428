/* profile.c - a table of what operators take on the GPU, in steps after the first ones.
 *
 * Events are recorded around every operator and read when there are many: the host waits only then. An operator that
 * launches several kernels, or waits for memory, counts with all of it. */
#include "profile.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 4096, LINES = 1024, NAME = 120 };
enum { WARM_UP = 8 }; /* steps in which kernels are loaded and algorithms tried; left out if more follow */

typedef struct line {
    char name[NAME];
    int64_t calls;
    double ms;
} line;

struct cuda_profile {
    pthread_mutex_t lock; /* two threads may submit */
    int count, lines;
    int64_t steps, left_out;
    struct {
        cudaEvent_t begin, end;
        int line;
    } call[AT_ONCE];
    line line[LINES]; /* the last one: all that found no place */
};

cuda_profile *cuda_profile_new(void)
{
    cuda_profile *p = calloc(1, sizeof *p);
    if (p) pthread_mutex_init(&p->lock, NULL);
    return p;
}

/* ---- Lines ------------------------------------------------------------------------------------------------------- */

static void add_shape(char *text, size_t size, const ls_operand *x)
{
    size_t used = strlen(text);
    for (int i = 0; x && i < x->ndim && used < size; i++, used = strlen(text))
        snprintf(text + used, size - used, "%s%lld", i ? "x" : " ", (long long)x->dim[i]);
}

/* "linear 12x384x1024 3072x1024": the operator, its first operand and its second. */
static void name_of(const cuda_device *d, const ls_call *call, char *text, size_t size)
{
    snprintf(text, size, "%s", d->host->op_name(call->op));
    const ls_operand *first = call->n_in > 0 ? call->in[0] : call->out[0];
    add_shape(text, size, first);
    if (call->n_in > 1) add_shape(text, size, call->in[1]);
}

static int find_line(cuda_profile *p, const char *name)
{
    for (int i = 0; i < p->lines; i++)
        if (strcmp(p->line[i].name, name) == 0) return i;
    if (p->lines < LINES - 1) {
        snprintf(p->line[p->lines].name, NAME, "%s", name);
        return p->lines++;
    }
    return LINES - 1;
}

/* ---- Times ------------------------------------------------------------------------------------------------------- */

/* Add up what was recorded. Waits for the last of it. */
static void collect(cuda_profile *p)
{
    for (int i = 0; i < p->count; i++) {
        float ms = 0;
        cudaEventSynchronize(p->call[i].end);
        if (cudaEventElapsedTime(&ms, p->call[i].begin, p->call[i].end) == cudaSuccess)
            p->line[p->call[i].line].ms += (double)ms;
        p->line[p->call[i].line].calls++;
    }
    p->count = 0;
}

/* The steps so far are warm-up. */
static void leave_out(cuda_profile *p)
{
    collect(p);
    for (int i = 0; i < LINES; i++) p->line[i].calls = 0, p->line[i].ms = 0;
    p->left_out = p->steps;
}

ls_status cuda_profile_run(cuda_device *d, cudaStream_t stream, const ls_call *call, ls_message *why)
{
    cuda_profile *p = d->profile;
    char name[NAME];
    name_of(d, call, name, sizeof name);
    pthread_mutex_lock(&p->lock);
    if (p->steps >= WARM_UP && !p->left_out) leave_out(p);
    if (p->count == AT_ONCE) collect(p);
    int place = p->count++;
    p->call[place].line = find_line(p, name);
    if (!p->call[place].begin) cudaEventCreate(&p->call[place].begin);
    if (!p->call[place].end) cudaEventCreate(&p->call[place].end);
    cudaEventRecord(p->call[place].begin, stream);
    ls_status status = cuda_run(d, stream, call, why);
    cudaEventRecord(p->call[place].end, stream);
    pthread_mutex_unlock(&p->lock);
    return status;
}

void cuda_profile_step(cuda_device *d)
{
    if (d->profile) d->profile->steps++;
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
    double x = ((const line *)a)->ms, y = ((const line *)b)->ms;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* To the standard error, whatever is logged: the table was asked for. */
static void print(cuda_profile *p)
{
    int64_t counted = p->steps - p->left_out;
    double all = 0, steps = counted ? (double)counted : 1;
    for (int i = 0; i < LINES; i++) all += p->line[i].ms;
    snprintf(p->line[LINES - 1].name, NAME, "others");
    qsort(p->line, LINES, sizeof *p->line, by_time);
    fprintf(stderr, "cuda: %.3f ms of operators in each of %lld steps, behind %lld of warm-up\n", all / steps,
            (long long)counted, (long long)p->left_out);
    for (int i = 0; i < LINES && p->line[i].calls; i++) {
        const line *l = &p->line[i];
        fprintf(stderr, "cuda: %8.3f ms %5.1f %%  %7.1f calls of %9.2f us  %s\n", l->ms / steps, 100 * l->ms / all,
                (double)l->calls / steps, 1e3 * l->ms / (double)l->calls, l->name);
    }
}

void cuda_profile_free(cuda_device *d)
{
    cuda_profile *p = d->profile;
    if (!p) return;
    collect(p);
    if (p->lines) print(p);
    for (int i = 0; i < AT_ONCE; i++) {
        if (p->call[i].begin) cudaEventDestroy(p->call[i].begin);
        if (p->call[i].end) cudaEventDestroy(p->call[i].end);
    }
    pthread_mutex_destroy(&p->lock);
    free(p);
    d->profile = NULL;
}
