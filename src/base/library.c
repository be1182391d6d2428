/* library.c - find and load plug-ins. */
#include "base/library.h"

#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/hash.h"
#include "base/log.h"

/* The folder of a file; "" if the path has none. */
static void folder_of(const char *file, char *folder, size_t size)
{
    const char *slash = strrchr(file, '/');
    snprintf(folder, size, "%.*s", slash ? (int)(slash - file) : 0, file);
}

/* Is it built for this CPU? The linker says of others that they do not exist. */
static bool is_for_this_cpu(unsigned machine)
{
    Dl_info here;
    if (dladdr((const void *)(uintptr_t)&ls_library_open, &here) == 0) return true;
    const ElfW(Ehdr) *own = here.dli_fbase;
    return memcmp(own->e_ident, ELFMAG, SELFMAG) != 0 || own->e_machine == machine;
}

/* The linker maps what the ELF header says, and touching a page beyond the end of a truncated file is a SIGBUS: so
 * truncated files are detected here. True for files that the linker rejects by itself. */
static bool is_loadable(const char *file, ls_message *why)
{
    FILE *f = strchr(file, '/') ? fopen(file, "rb") : NULL; /* else the linker searches for it */
    if (!f) return true;
    ElfW(Ehdr) head;
    ElfW(Phdr) part;
    bool is_elf = fread(&head, sizeof head, 1, f) == 1 && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0;
    bool foreign = is_elf && !is_for_this_cpu(head.e_machine);
    bool readable = is_elf && !foreign && head.e_phentsize == sizeof part && fseek(f, 0, SEEK_END) == 0;
    uint64_t size = readable ? (uint64_t)ftell(f) : 0, needed = 0;
    for (int i = 0; readable && i < head.e_phnum; i++) {
        readable = fseek(f, (long)(head.e_phoff + (size_t)i * sizeof part), SEEK_SET) == 0 &&
                   fread(&part, sizeof part, 1, f) == 1;
        if (readable && part.p_type == PT_LOAD && part.p_offset + part.p_filesz > needed)
            needed = part.p_offset + part.p_filesz;
    }
    fclose(f);
    if (foreign) ls_message_set(why, "it is built for another CPU");
    if (needed > size)
        snprintf(why->text, sizeof why->text, "the file is truncated: %llu bytes of at least %llu; copy it again",
                 (unsigned long long)size, (unsigned long long)needed);
    return !foreign && needed <= size;
}

/* What the linker says is wrong, without the path that it begins with: callers name the file. */
static void explain(const char *file, ls_message *why)
{
    const char *text = dlerror();
    size_t length = strlen(file);
    bool begins = strchr(file, '/') && strncmp(text, file, length) == 0 && strncmp(text + length, ": ", 2) == 0;
    ls_message_set(why, "%.130s", begins ? text + length + 2 : text);
}

/* Libraries of plug-ins (such as UCX) install signal handlers when they are loaded; signals belong to the program. */
static void *load(const char *file, ls_message *why)
{
    struct sigaction before[NSIG] = {0};
    if (!is_loadable(file, why)) return NULL;
    for (int s = 1; s < NSIG; s++) sigaction(s, NULL, &before[s]);
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    for (int s = 1; s < NSIG; s++) {
        struct sigaction now;
        if (sigaction(s, NULL, &now) == 0 && now.sa_sigaction != before[s].sa_sigaction) sigaction(s, &before[s], NULL);
    }
    if (!library) explain(file, why);
    return library;
}

/* ---- the places of plug-ins ---- */

typedef bool place_fn(const char *file, void *user); /* true: that is the one */

/* Show the plug-in of a folder, if it has one. */
static bool show(const char *folder, int length, const char *name, place_fn *visit, void *user)
{
    char file[1200];
    snprintf(file, sizeof file, "%.*s/liblockstep-%.128s.so", length, folder, name);
    return length > 0 && access(file, F_OK) == 0 && visit(file, user);
}

/* Beside the library or program `file`, and in the folders an installation has plug-ins in, seen from lib/ and bin/. */
static bool show_beside(const char *file, const char *name, place_fn *visit, void *user)
{
    static const char *const places[] = {"", "/lockstep", "/" LOCKSTEP_LIBDIR "/lockstep",
                                         "/../" LOCKSTEP_LIBDIR "/lockstep"};
    char folder[768], place[1024];
    folder_of(file, folder, sizeof folder);
    for (size_t i = 0; *folder && i < sizeof places / sizeof *places; i++) {
        int length = snprintf(place, sizeof place, "%s%.200s", folder, places[i]);
        if (show(place, length, name, visit, user)) return true;
    }
    return false;
}

/* Visit the files of this name, in the order of the folders. True if one was accepted. */
static bool show_places(const char *name, place_fn *visit, void *user)
{
    for (const char *folder = ls_config_text(LS_SETTING_PLUGIN_PATH); *folder;) {
        int length = (int)strcspn(folder, ":");
        if (show(folder, length, name, visit, user)) return true;
        folder += length + (folder[length] == ':');
    }
    Dl_info here;
    if (dladdr((const void *)(uintptr_t)&ls_library_open, &here) != 0 && show_beside(here.dli_fname, name, visit, user))
        return true;
    char program[900];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    return show_beside(program, name, visit, user);
}

static bool accept_any(const char *file, void *user)
{
    (void)file, (void)user;
    return true;
}

bool ls_library_installed(const char *name)
{
    return show_places(name, accept_any, NULL);
}

/* ---- opening ---- */

typedef struct attempt {
    void *library;
    /* The first file that cannot be loaded, and why: it says more than the last folder's "not found". */
    char file[1200];
    ls_message first;
} attempt;

/* Is this the first time the file is complained about? A plug-in is opened to count devices, and again to use them. */
static bool is_news(const char *file)
{
    enum { MOST = 8 };
    static _Atomic uint64_t told[MOST]; /* hashes of paths */
    uint64_t hash = ls_hash_of(file, strlen(file)), there = 0;
    for (int i = 0; i < MOST && there != hash; i++) {
        there = 0;
        if (atomic_compare_exchange_strong(&told[i], &there, hash)) return true;
    }
    return there != hash;
}

/* Another file of the name may do, but is not taken in silence. Every process says it: files of others may be whole. */
static bool try_load(const char *file, void *user)
{
    attempt *a = user;
    ls_message why = {{0}};
    a->library = load(file, &why);
    if (a->library && *a->file && is_news(a->file))
        ls_log_line(LS_LOG_WARN, "%s cannot be loaded (%s): %s is used instead", a->file, a->first.text, file);
    if (!a->library && !*a->file) {
        snprintf(a->file, sizeof a->file, "%s", file);
        a->first = why;
    }
    return a->library != NULL;
}

/* Why it cannot be opened, with the file unless the name or the reason has it. Of a long path the end is shown. */
static void report(const char *what, const char *name, const attempt *a, ls_message *why)
{
    bool named = strchr(name, '/') ? strlen(name) <= 64 : !strchr(a->file, '/');
    const char *reason = a->first.text, *file = named ? "" : a->file;
    int used = snprintf(NULL, 0, "%.32s \"%.64s\": ...: %.130s", what, name, reason);
    size_t room = sizeof why->text - 1 - (size_t)used, length = strlen(file);
    bool cut = length > room;
    ls_message_set(why, "%.32s \"%.64s\": %s%s%s%.130s", what, name, cut ? "..." : "", file + (cut ? length - room : 0),
                   *file ? ": " : "", reason);
}

void *ls_library_open(const char *what, const char *name, ls_message *why)
{
    attempt a = {0};
    if (strchr(name, '/')) {
        try_load(name, &a);
    } else if (!show_places(name, try_load, &a) && !*a.file) {
        char file[160];
        snprintf(file, sizeof file, "liblockstep-%.128s.so", name);
        if (!try_load(file, &a) && strncmp(a.first.text, file, strlen(file)) == 0)
            ls_message_set(&a.first, "not in this build%s; LOCKSTEP_PLUGIN_PATH names folders to look for %.50s in",
                           strcmp(what, "device") == 0 ? ", which has cpu" : "", file);
    }
    if (!a.library && why) report(what, name, &a, why);
    return a.library;
}

ls_library_fn ls_library_function(void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    ls_library_fn function = NULL;
    memcpy(&function, &symbol, sizeof function); /* ISO C has no cast from object to function pointer */
    return function;
}
