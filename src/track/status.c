/* status.c - signs of life of a run. */
#include "track/status.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/descriptors.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/thread.h"
#include "checkpoint/folder.h"
#include "comm/shm/segment.h"
#include "step/step.h"
#include "tensor/context.h"
#include "track/append.h"
#include "track/sink.h"

enum { OFTEN = 60, SELDOM = 10, MOST_CHECKPOINTS = 50 };

struct ls_status_writer {
    char folder[LS_TRACK_PATH], checkpoints[LS_TRACK_PATH], host[128];
    const _Atomic int64_t *samples; /* of the run, trained so far */
    ls_segment *segment;            /* of the processes of this host; NULL: this process is alone */
    int rank, world;
    double began;

    _Atomic int64_t step; /* recorded last */
    _Atomic size_t device_in_use, device_peak;

    /* Of the thread alone. */
    ls_append system;
    ls_json_writer text;
    ls_byte_buffer line;
    int64_t ticks, samples_then, steps_then, line_tick;
    double then, rate, step_rate;
    struct timespec listed; /* change of the folder of checkpoints when it was listed */
    int64_t *numbers, number_count;
    int64_t made[MOST_CHECKPOINTS]; /* when the last ones were, in seconds since 1970; 0: they are gone */

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool over; /* protected by the lock */
};

/* ---- what is known ---- */

/* Bytes of memory that a process of this host occupies; 0 if it is gone. */
static int64_t resident(int pid)
{
    char path[64];
    long long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    if (fscanf(file, "%*s %lld", &pages) != 1) pages = 0;
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

/* `living`: the state of a process that is there. */
static void put_rank(ls_status_writer *s, int number, const char *living, int64_t *memory)
{
    const char *const states[] = {"absent", living, "finished"};
    const ls_member *member = &s->segment->header->member[number];
    char last[256];
    uint32_t state = atomic_load(&member->state);
    bool dead = state == LS_MEMBER_HERE && ls_segment_dead(s->segment, number);
    ls_ring_describe_last(member, last, sizeof last);
    int64_t bytes = resident(member->pid);
    *memory += bytes;
    ls_json_put_object(&s->text, NULL);
    ls_json_put_integer(&s->text, "rank", member->rank);
    ls_json_put_integer(&s->text, "process", member->pid);
    ls_json_put_text(&s->text, "state", dead ? "died" : states[state <= LS_MEMBER_LEFT ? state : 0]);
    ls_json_put_integer(&s->text, "memory", bytes);
    ls_json_put_text(&s->text, "last", last);
    ls_json_put_number(&s->text, "waits", ls_ring_waits(member));
    ls_json_put_end(&s->text);
}

/* With the run they are finished or failed. Returns the memory that all of them occupy. */
static int64_t put_ranks(ls_status_writer *s, const char *state)
{
    int64_t memory = 0;
    ls_json_put_array(&s->text, "ranks");
    for (uint32_t i = 0; s->segment && i < s->segment->header->size; i++) put_rank(s, (int)i, state, &memory);
    if (!s->segment) {
        memory = resident(getpid());
        ls_json_put_object(&s->text, NULL);
        ls_json_put_integer(&s->text, "rank", s->rank);
        ls_json_put_integer(&s->text, "process", getpid());
        ls_json_put_text(&s->text, "state", state);
        ls_json_put_integer(&s->text, "memory", memory);
        ls_json_put_end(&s->text);
    }
    ls_json_put_end(&s->text);
    return memory;
}

/* Of the numbers of checkpoints. */
static int64_t first_shown(const ls_status_writer *s)
{
    return s->number_count > MOST_CHECKPOINTS ? s->number_count - MOST_CHECKPOINTS : 0;
}

static const char *checkpoint_name(const ls_status_writer *s, int64_t i, char name[64])
{
    snprintf(name, 64, LS_CHECKPOINT_STEM "%lld", (long long)s->numbers[i]);
    return name;
}

/* A checkpoint gets its name when it is complete: what is known of it changes with the list. */
static void put_checkpoints(ls_status_writer *s)
{
    char name[64], path[LS_TRACK_PATH];
    struct stat status;
    bool there = stat(s->checkpoints, &status) == 0;
    if (there && memcmp(&status.st_mtim, &s->listed, sizeof s->listed) != 0) {
        ls_sys_free(s->numbers);
        s->number_count = ls_folder_numbers(s->checkpoints, &s->numbers);
        s->listed = status.st_mtim;
        for (int64_t i = first_shown(s); i < s->number_count; i++) {
            bool made = ls_track_path(path, s->checkpoints, checkpoint_name(s, i, name), NULL) && !stat(path, &status);
            s->made[i - first_shown(s)] = made ? status.st_mtim.tv_sec : 0;
        }
    }
    ls_json_put_array(&s->text, "checkpoints");
    for (int64_t i = first_shown(s); there && i < s->number_count; i++) {
        int64_t made = s->made[i - first_shown(s)];
        if (!made) continue;
        ls_json_put_object(&s->text, NULL);
        ls_json_put_text(&s->text, "name", checkpoint_name(s, i, name));
        ls_json_put_integer(&s->text, "time", made);
        ls_json_put_end(&s->text);
    }
    ls_json_put_end(&s->text);
}

/* Samples and steps per second since the last tick, averaged over the last ones. */
static void take_rates(ls_status_writer *s, double now)
{
    int64_t samples = atomic_load_explicit(s->samples, memory_order_relaxed), step = atomic_load(&s->step);
    double seconds = now - s->then;
    if (s->ticks > 0 && seconds > 0) {
        double rate = (double)(samples - s->samples_then) / seconds, steps = (double)(step - s->steps_then) / seconds;
        double keep = s->ticks == 1 ? 0 : 0.7;
        s->rate = keep * s->rate + (1 - keep) * rate;
        s->step_rate = keep * s->step_rate + (1 - keep) * (steps > 0 ? steps : 0);
    }
    s->then = now;
    s->samples_then = samples;
    s->steps_then = step;
}

/* ---- writing ---- */

/* Replace the file by one rename, so that readers see the old text or the new. Failures are ignored: trackers report
 * a full disk. */
static void replace_file(const char *folder, const char *name, const char *text, size_t size)
{
    char path[LS_TRACK_PATH], part[LS_TRACK_PATH + 8];
    if (!ls_track_path(path, folder, name, NULL)) return;
    snprintf(part, sizeof part, "%s.part", path);
    int file = ls_descriptor_open(part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0666);
    if (file < 0) return;
    bool whole = write(file, text, size) == (ssize_t)size;
    if (close(file) != 0 || !whole || rename(part, path) != 0) unlink(part);
}

static void write_status(ls_status_writer *s, const char *state, const char *error, int64_t *memory)
{
    ls_json_writer *w = &s->text;
    ls_json_restart(w);
    ls_json_put_object(w, NULL);
    ls_json_put_text(w, "state", state);
    ls_json_put_text(w, "error", error);
    ls_json_put_number(w, "began", s->began);
    ls_json_put_number(w, "time", s->then);
    ls_json_put_text(w, "host", s->host);
    ls_json_put_integer(w, "world", s->world);
    ls_json_put_integer(w, "step", atomic_load(&s->step));
    ls_json_put_number(w, "steps_per_second", s->step_rate);
    ls_json_put_number(w, "samples_per_second", s->rate);
    ls_json_put_integer(w, "device_memory", (int64_t)atomic_load(&s->device_in_use));
    ls_json_put_integer(w, "device_memory_peak", (int64_t)atomic_load(&s->device_peak));
    *memory = put_ranks(s, state);
    put_checkpoints(s);
    ls_json_put_end(w);
    size_t length;
    const char *text = ls_json_view(w, &length);
    if (text) replace_file(s->folder, LS_TRACK_STATUS, text, length);
}

static void write_line(ls_status_writer *s, int64_t memory)
{
    ls_json_writer *w = &s->text;
    ls_json_restart(w);
    ls_json_put_object(w, NULL);
    ls_json_put_integer(w, "step", atomic_load(&s->step));
    ls_json_put_number(w, "time", s->then);
    ls_json_put_number(w, "samples/s", s->rate);
    ls_json_put_number(w, "memory MB", (double)(memory >> 10) / 1024);
    ls_json_put_number(w, "device memory MB", (double)(atomic_load(&s->device_in_use) >> 10) / 1024);
    ls_json_put_end(w);
    size_t length;
    const char *text = ls_json_view(w, &length);
    ls_byte_buffer_empty(&s->line);
    if (text) ls_byte_buffer_put(&s->line, text, length);
    ls_byte_buffer_put(&s->line, "\n", 1);
    if (text && !s->line.failed) ls_append_write(&s->system, s->line.bytes, s->line.length, NULL);
}

static void tick(ls_status_writer *s, const char *state, const char *error)
{
    int64_t memory;
    take_rates(s, ls_clock_date());
    write_status(s, state, error, &memory);
    bool due = s->ticks < OFTEN || s->ticks - s->line_tick >= SELDOM;
    if (due && s->ticks > 0) {
        s->line_tick = s->ticks;
        write_line(s, memory);
    }
    s->ticks++;
}

static void *keep_writing(void *arg)
{
    ls_status_writer *s = arg;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    pthread_mutex_lock(&s->lock);
    for (;;) {
        until.tv_sec++;
        while (!s->over && pthread_cond_timedwait(&s->wake, &s->lock, &until) == 0) {}
        if (s->over) break;
        pthread_mutex_unlock(&s->lock);
        tick(s, "running", NULL);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- from the main thread ---- */

void ls_status_note(ls_status_writer *s, ls_run *run, int64_t step)
{
    if (!s) return;
    ls_memory_stats memory = ls_memory(run);
    atomic_store_explicit(&s->step, step, memory_order_relaxed);
    atomic_store_explicit(&s->device_in_use, memory.in_use, memory_order_relaxed);
    atomic_store_explicit(&s->device_peak, memory.peak, memory_order_relaxed);
}

static void release(ls_status_writer *s)
{
    ls_append_close(&s->system);
    ls_sys_free(ls_json_take(&s->text, NULL));
    ls_byte_buffer_free(&s->line);
    ls_sys_free(s->numbers);
    ls_segment_release(s->segment);
    ls_sys_free(s);
}

ls_status_writer *ls_status_open(ls_run *run, const char *folder)
{
    ls_message why;
    char path[LS_TRACK_PATH];
    ls_status_writer *s = ls_sys_alloc(sizeof *s);
    if (!s) return NULL;
    snprintf(s->folder, sizeof s->folder, "%s", folder);
    gethostname(s->host, sizeof s->host - 1);
    s->samples = &run->step->samples;
    s->rank = ls_rank(run);
    s->world = ls_world_size(run);
    s->began = ls_clock_date();
    bool ok = ls_track_path(s->checkpoints, ls_project_dir(run), "checkpoints", &why) &&
              ls_track_path(path, folder, LS_TRACK_SYSTEM, &why) && ls_append_open(&s->system, path, &why);
    if (!ok) return ls_sys_free(s), NULL;
    s->segment = ls_comm_segment(run->comm);
    if (s->segment) ls_segment_hold(s->segment);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&s->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&s->lock, NULL);
    /* The thread takes no more memory: a training step takes none, and that is tested by counting. */
    ls_json_reserve(&s->text, 8192 + (s->segment ? s->segment->header->size * (size_t)512 : 0));
    ls_byte_buffer_room(&s->line, 1024);
    tick(s, "running", NULL);
    if (ls_thread_start(&s->thread, keep_writing, s)) return s;
    release(s);
    return NULL;
}

void ls_status_close(ls_status_writer *s, const char *error)
{
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    s->over = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    tick(s, error ? "failed" : "finished", error);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    release(s);
}
