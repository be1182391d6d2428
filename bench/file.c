/* file.c - safetensors files: save with and without waiting for the disk, load into a model's tensors.
 *
 * 100 MB in 164 tensors, the size of a ResNet-50. The file stays in the page cache, so this measures the library and
 * not the disk, except for the save that waits for it. A load ends when every number is in the program's memory. The
 * peer is the safetensors package (in Rust, with PyTorch tensors). */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LARGE = 64, SMALL = 100, ROWS = 512, COLUMNS = 768, WIDTH = 256 };
#define FILE_BYTES (4.0 * ((double)LARGE * ROWS * COLUMNS + (double)SMALL * WIDTH))

typedef enum task { SAVE, SAVE_SYNC, LOAD, TASKS } task;

typedef struct file_state {
    ls_run *run;
    ls_state *tensors;
    char path[256];
    task what;
} file_state;

static void file_call(void *arg)
{
    file_state *s = arg;
    if (s->what != LOAD) {
        ls_state_write(s->tensors, s->path, .sync = s->what != SAVE);
        return;
    }
    ls_state *read = ls_state_read(s->run, s->path);
    for (int64_t i = 0; i < ls_state_count(read); i++)
        ls_assign(ls_state_find(s->tensors, ls_state_name(read, i)), ls_state_tensor(read, i));
    ls_state_free(read);
}

static void *file_setup(ls_run *run, const bench_item *item)
{
    static file_state s;
    const char *folder = getenv("TMPDIR");
    s = (file_state){.run = run, .tensors = ls_state_new(run), .what = (task)item->variant};
    snprintf(s.path, sizeof s.path, "%s/lockstep_bench_%d.safetensors", folder ? folder : "/tmp", (int)getpid());
    char name[64];
    for (int i = 0; i < LARGE + SMALL; i++) {
        snprintf(name, sizeof name, "layer%d.%s", i, i < LARGE ? "weight" : "bias");
        ls_state_add(s.tensors, name, i < LARGE ? ls_randn(run, LS_F32, ROWS, COLUMNS) : ls_randn(run, LS_F32, WIDTH));
    }
    return ls_state_write(s.tensors, s.path, .sync = false) ? &s : NULL;
}

static void file_release(void *arg)
{
    unlink(((file_state *)arg)->path);
}

void bench_add_files(int threads)
{
    static const char *const names[] = {"save", "save, on disk", "load"};
    for (int what = 0; what < TASKS; what++) {
        bench_item *item = bench_add(BENCH_GBS, BENCH_PEAK_NONE, threads, FILE_BYTES, "file/f32/%s", names[what]);
        item->variant = what;
        item->setup = file_setup;
        item->call = file_call;
        item->release = file_release;
    }
}
