/* library.c - where plug-ins are. */
#include "base/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"

/* The folder of a file; "" where there is none. */
static void folder_of(const char *file, char *folder, size_t size)
{
    const char *slash = strrchr(file, '/');
    snprintf(folder, size, "%.*s", slash ? (int)(slash - file) : 0, file);
}

/* NULL and no complaint where there is no such file: others follow. */
static void *try_folder(const char *folder, int length, const char *name, ls_message *why)
{
    char path[1024];
    snprintf(path, sizeof path, "%.*s/liblockstep-%.128s.so", length, folder, name);
    if (length == 0 || access(path, F_OK) != 0) return NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) snprintf(why->text, sizeof why->text, "%.130s", dlerror());
    return library;
}

static void *try_beside(const char *file, const char *name, ls_message *why)
{
    char folder[900];
    folder_of(file, folder, sizeof folder - sizeof "/lockstep");
    void *library = try_folder(folder, (int)strlen(folder), name, why);
    if (library || !*folder) return library;
    strcat(folder, "/lockstep");
    return try_folder(folder, (int)strlen(folder), name, why);
}

void *ls_library_open(const char *what, const char *name, ls_message *why)
{
    ls_message first = {{0}}; /* what was wrong with one that is there says more than that the last place has none */
    void *library = NULL;
    if (strchr(name, '/')) {
        library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (!library) snprintf(first.text, sizeof first.text, "%.130s", dlerror());
    } else {
        for (const char *folder = ls_config_text(LS_SETTING_PLUGIN_PATH); !library && *folder;) {
            int length = (int)strcspn(folder, ":");
            library = try_folder(folder, length, name, &first);
            folder += length + (folder[length] == ':');
        }
        Dl_info here;
        if (!library && dladdr((const void *)(uintptr_t)&ls_library_open, &here) != 0)
            library = try_beside(here.dli_fname, name, &first);
        char program[900];
        ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
        program[length > 0 ? length : 0] = '\0';
        if (!library) library = try_beside(program, name, &first);
        if (!library && !first.text[0]) {
            char file[160];
            snprintf(file, sizeof file, "liblockstep-%.128s.so", name);
            library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
            if (!library) snprintf(first.text, sizeof first.text, "%.130s", dlerror());
        }
    }
    if (!library) snprintf(why->text, sizeof why->text, "%.32s \"%.64s\": %.130s", what, name, first.text);
    return library;
}

ls_library_fn ls_library_function(void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    ls_library_fn function = NULL;
    memcpy(&function, &symbol, sizeof function); /* ISO C has no cast from object to function pointer */
    return function;
}
