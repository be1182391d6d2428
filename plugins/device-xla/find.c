/* find.c - where the PJRT library is: named by the user, installed by pip, or known to the linker. */
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "pjrt.h"

/* Variables that name the library. */
static const char *const variables[] = {"LOCKSTEP_PJRT_LIBRARY", "PJRT_PLUGIN_LIBRARY_PATH", "TPU_LIBRARY_PATH"};
/* Where pip puts packages, with the variable that the place begins with. */
static const struct {
    const char *variable, *rest;
} roots[] = {
    {"VIRTUAL_ENV", "/lib/python3*/site-packages"},
    {"HOME", "/.local/lib/python3*/site-packages"},
    {NULL, "/usr/local/lib/python3*/*-packages"},
    {NULL, "/usr/lib/python3*/*-packages"},
};
/* The chips of a TPU come before the CPU. */
static const char *const wheels[] = {"libtpu/libtpu.so", "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"};
#define TPU_LIBRARY "libtpu.so"

static bool find_wheel(const char *wheel, char *path, size_t size)
{
    bool found = false;
    for (size_t i = 0; i < sizeof roots / sizeof *roots && !found; i++) {
        const char *begin = roots[i].variable ? getenv(roots[i].variable) : "";
        char pattern[500];
        glob_t all;
        if (!begin) continue;
        snprintf(pattern, sizeof pattern, "%.300s%s/%s", begin, roots[i].rest, wheel);
        if (glob(pattern, 0, NULL, &all) != 0) continue;
        found = (size_t)snprintf(path, size, "%s", all.gl_pathv[0]) < size;
        globfree(&all);
    }
    return found;
}

bool pjrt_find(char *path, size_t size, ls_message *why)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *named = getenv(variables[i]);
        if (!named || !*named) continue;
        if (access(named, R_OK) == 0 && (size_t)snprintf(path, size, "%s", named) < size) return true;
        xla_refuse(why, LS_ERR_DEVICE, "device \"xla\": %s=%.120s cannot be read", variables[i], named);
        return false;
    }
    for (size_t i = 0; i < sizeof wheels / sizeof *wheels; i++)
        if (find_wheel(wheels[i], path, size)) return true;
    void *library = dlopen(TPU_LIBRARY, RTLD_LAZY | RTLD_LOCAL);
    if (library) {
        dlclose(library);
        snprintf(path, size, TPU_LIBRARY);
        return true;
    }
    xla_refuse(
        why, LS_ERR_DEVICE,
        "device \"xla\": no PJRT library was found: install one (pip install libtpu, or xla-cpu-pjrt where there "
        "is no TPU) or set LOCKSTEP_PJRT_LIBRARY to its path");
    return false;
}
