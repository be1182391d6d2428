/* cache.c - finds the program of a recording, or has it compiled.
 *
 * Programs stay in memory as long as the process, as the client does: another run of the same process finds them. */
#include "cache.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "group.h"
#include "hash.h"

enum { BUCKETS = 4096 };

static struct {
    pthread_mutex_t lock;
    xla_program *bucket[BUCKETS];
} cache = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- programs ---- */

static bool is_for(const xla_program *p, pjrt_team team)
{
    return p->team.first == team.first && p->team.count == team.count;
}

static void program_free(const pjrt *p, xla_program *program)
{
    pjrt_unload(p, program->loaded);
    free(program->in);
    free(program->out);
    free(program->outline);
    free(program);
}

/* A program that cannot be kept for the next start is told once: it is always for the same reason. */
static void keep(const xla_device *d, const shlo *text, const pjrt_loaded *loaded)
{
    static _Atomic bool told;
    ls_message why;
    if (xla_file_save(d, text, loaded, &why) == LS_OK || told) return;
    told = true;
    char line[sizeof why.text + 60];
    snprintf(line, sizeof line, "xla: compiled programs cannot be kept: %s", why.text);
    d->host->log(line);
}

/* Recordings may differ in what does not matter: before the first step there is memory of gradients that has never been
 * written, and the step does not read it. */
static pjrt_loaded *find_text(const uint64_t text[2], pjrt_team team)
{
    pjrt_loaded *loaded = NULL;
    pthread_mutex_lock(&cache.lock);
    for (size_t i = 0; i < BUCKETS && !loaded; i++)
        for (const xla_program *p = cache.bucket[i]; p && !loaded; p = p->next)
            if (memcmp(p->text, text, sizeof p->text) == 0 && is_for(p, team)) loaded = p->loaded;
    pthread_mutex_unlock(&cache.lock);
    return loaded;
}

/* From memory or from a file, if it was compiled before. */
static ls_status load_or_compile(xla_device *d, xla_program *program, const shlo *text, ls_message *why)
{
    if (xla_is_rehearsal(d)) return xla_compile_ahead(d, text), LS_OK;
    xla_hash(text->text, text->used, program->text);
    program->loaded = find_text(program->text, d->team);
    if (program->loaded) return LS_OK;
    program->loaded = xla_file_load(d, text);
    if (program->loaded) {
        d->counts.loaded++;
        return LS_OK;
    }
    XLA_TRY(pjrt_compile(d->pjrt, d->team, program->is_joint ? &d->joint : NULL, text->text, text->used,
                         &program->loaded, why));
    d->counts.compiled++;
    keep(d, text, program->loaded);
    return LS_OK;
}

static ls_status make(xla_device *d, xla_program *program, ls_message *why)
{
    shlo text = {.used = 0};
    ls_status status = xla_program_write(d, program, &text, why);
    if (!status && program->n_out) status = load_or_compile(d, program, &text, why);
    free(text.text);
    return status;
}

static xla_program *find(const uint64_t hash[2], pjrt_team team)
{
    pthread_mutex_lock(&cache.lock);
    xla_program *p = cache.bucket[hash[0] % BUCKETS];
    while (p && !(memcmp(p->hash, hash, sizeof p->hash) == 0 && is_for(p, team))) p = p->next;
    pthread_mutex_unlock(&cache.lock);
    return p;
}

static void add(xla_program *program)
{
    xla_program **bucket = &cache.bucket[program->hash[0] % BUCKETS];
    pthread_mutex_lock(&cache.lock);
    program->next = *bucket;
    *bucket = program;
    pthread_mutex_unlock(&cache.lock);
}

ls_status xla_program_get(xla_device *d, const xla_program **program, ls_message *why)
{
    uint64_t hash[2];
    xla_recording_end(d);
    if (d->recording.failed) return xla_refuse(why, LS_ERR_MEMORY, "no host memory to record a step");
    xla_hash(d->recording.key, d->recording.key_bytes, hash);
    if (d->recording.is_joint) XLA_TRY(xla_compare_programs(d, hash, why));
    *program = find(hash, d->team);
    if (*program) return LS_OK;
    xla_program *made = calloc(1, sizeof *made);
    if (!made) return xla_refuse(why, LS_ERR_MEMORY, "no host memory for a program");
    memcpy(made->hash, hash, sizeof made->hash);
    made->team = d->team;
    uint64_t compiled = d->counts.compiled; /* loading it from a file costs little, and is not worth a word */
    ls_status status = make(d, made, why);
    if (status) {
        program_free(d->pjrt, made);
        return status;
    }
    made->outline = xla_outline_new(d);
    if (made->outline && d->counts.compiled > compiled) xla_explain(d, made->outline);
    add(made);
    *program = made;
    return LS_OK;
}
