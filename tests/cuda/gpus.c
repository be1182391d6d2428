/* gpus.c - gpus PLUGIN COMMAND...: run a command where the plug-in finds a GPU; where it finds none, say so and exit
 * with 77, as tests do that cannot be done here. */
#include <lockstep/plugin.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc < 3) return fprintf(stderr, "usage: gpus PLUGIN COMMAND...\n"), 2;
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL), *symbol = library ? dlsym(library, "ls_plugin_v2") : NULL;
    if (!symbol) return fprintf(stderr, "%s\n", dlerror()), 1;
    ls_plugin_entry *entry;
    memcpy(&entry, &symbol, sizeof symbol);
    if (entry(NULL)->count() == 0) {
        const char *slash = strrchr(argv[2], '/');
        printf("SKIP %s: no GPU is usable here\n0 passed, 0 failed, 1 skipped\n", slash ? slash + 1 : argv[2]);
        return 77;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 1;
}
