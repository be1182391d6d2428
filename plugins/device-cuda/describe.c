/* describe.c - a GPU in words, before CUDA is started: its name, identity, memory and driver, from the library behind
 * nvidia-smi (NVML), which a fork does not break. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "count.h"

typedef struct nvml_memory {
    unsigned long long total, free, used;
} nvml_memory;

typedef struct nvml {
    int (*init)(void), (*shutdown)(void);
    int (*by_index)(unsigned index, void **gpu), (*by_uuid)(const char *uuid, void **gpu);
    int (*name)(void *gpu, char *text, unsigned size), (*uuid)(void *gpu, char *text, unsigned size);
    int (*memory)(void *gpu, nvml_memory *memory);
    int (*driver)(char *text, unsigned size);
} nvml;

/* False if the library lacks one of them. ISO C has no cast from object to function pointer. */
static bool find_functions(void *library, nvml *n)
{
    const struct {
        const char *symbol;
        void *function;
    } rows[] = {
        {"nvmlInit_v2", &n->init},
        {"nvmlShutdown", &n->shutdown},
        {"nvmlDeviceGetHandleByIndex_v2", &n->by_index},
        {"nvmlDeviceGetHandleByUUID", &n->by_uuid},
        {"nvmlDeviceGetName", &n->name},
        {"nvmlDeviceGetUUID", &n->uuid},
        {"nvmlDeviceGetMemoryInfo", &n->memory},
        {"nvmlSystemGetDriverVersion", &n->driver},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *symbol = dlsym(library, rows[i].symbol);
        if (!symbol) return false;
        memcpy(rows[i].function, &symbol, sizeof symbol);
    }
    return true;
}

static void ask(const nvml *n, const char *word, char *text, size_t size)
{
    void *gpu;
    char name[96], uuid[96], driver[80];
    nvml_memory memory;
    bool by_number = strspn(word, "0123456789") == strlen(word);
    if (by_number ? n->by_index((unsigned)atoi(word), &gpu) : n->by_uuid(word, &gpu)) return;
    if (n->name(gpu, name, sizeof name) || n->uuid(gpu, uuid, sizeof uuid) || n->memory(gpu, &memory) ||
        n->driver(driver, sizeof driver))
        return;
    snprintf(text, size, "%s, %s, %.1f GiB, driver %s", name, uuid, (double)memory.total / (1 << 30), driver);
}

/* Without a driver, or with one that cannot be loaded, that is what there is to say: GPUs are counted by their files.
 * Numbers are those of the PCI bus, in NVML as in CUDA, unless GPUs of several kinds are mixed (CUDA_DEVICE_ORDER). */
__attribute__((visibility("default"))) void ls_plugin_describe(int index, char *text, size_t size);

void ls_plugin_describe(int index, char *text, size_t size)
{
    char word[128];
    nvml n;
    if (!cuda_visible_word(getenv("CUDA_VISIBLE_DEVICES"), index, word, sizeof word)) return;
    const char *error = cuda_driver_error();
    if (error) {
        snprintf(text, size, "GPU %s, which cannot be used: %s", word, error);
        return;
    }
    snprintf(text, size, "GPU %s, of which the driver (libnvidia-ml.so.1) tells nothing", word);
    void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library && find_functions(library, &n) && n.init() == 0) {
        ask(&n, word, text, size);
        n.shutdown();
    }
    if (library) dlclose(library);
}
