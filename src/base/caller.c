/* caller.c - find the caller with backtrace(). */
#include "base/caller.h"

#include <stdint.h>
#include <stdio.h>

#if defined __has_include
#if __has_include(<execinfo.h>)
#define HAS_BACKTRACE
#endif
#endif

#ifdef HAS_BACKTRACE

#include <dlfcn.h>
#include <execinfo.h>
#include <stdbool.h>
#include <string.h>
#include <sys/auxv.h>

/* The load address of the object file that contains an address; NULL if unknown. */
static const void *base_of(uintptr_t address, Dl_info *about)
{
    return dladdr((const void *)address, about) ? about->dli_fbase : NULL;
}

/* The lockstep command is not a user's program. */
static bool is_command(const char *file)
{
    const char *slash = strrchr(file, '/');
    return strcmp(slash ? slash + 1 : file, "lockstep") == 0;
}

void ls_caller_text(char *text, size_t size)
{
    enum { DEPTH = 48 };
    void *frames[DEPTH];
    Dl_info about;
    text[0] = '\0';
    const void *library = base_of((uintptr_t)&ls_caller_text, &about);
    const void *program = base_of((uintptr_t)getauxval(AT_ENTRY), &about);
    if (!library || library == program) return; /* linked statically: frames cannot be told apart */
    const void *libc = base_of((uintptr_t)&getauxval, &about);
    int count = backtrace(frames, DEPTH), i = 0;
    /* With a sanitizer the first frames are its own. */
    while (i < count && base_of((uintptr_t)frames[i] - 1, &about) != library) i++;
    for (; i < count; i++) {
        uintptr_t call = (uintptr_t)frames[i] - 1; /* frames hold return addresses */
        const void *base = base_of(call, &about);
        if (!base || base == library) continue;
        if (base == libc) return; /* a thread started by the library */
        if (is_command(about.dli_fname)) return;
        snprintf(text, size, "%s%s%s+0x%llx", about.dli_sname ? about.dli_sname : "", about.dli_sname ? " in " : "",
                 about.dli_fname, (unsigned long long)(call - (uintptr_t)base));
        return;
    }
}

#else

void ls_caller_text(char *text, size_t size)
{
    if (size) text[0] = '\0';
}

#endif
