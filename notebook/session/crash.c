/* crash.c - a cell that crashes tells the kernel where, before its process ends.
 *
 * The kernel can find the line of an address in a cell's library, but only this process knows which addresses were
 * being executed. What is done here must be possible in a process that is broken: nothing is allocated or printed. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unwind.h>

#include "session.h"

/* Of the process, as signals are. */
static char folder[WIRE_PATH]; /* of the cells' libraries, with its '/' */

/* Writes the place to `user`, a session_message, if this frame is in a cell. */
static _Unwind_Reason_Code look_at(struct _Unwind_Context *frame, void *user)
{
    session_message *place = user;
    int is_exact = 0; /* of a function that has called another, the address is behind the call */
    uintptr_t address = _Unwind_GetIPInfo(frame, &is_exact);
    if (!is_exact) address--;
    Dl_info library;
    const void *pointer;
    memcpy(&pointer, &address, sizeof pointer);
    if (!dladdr(pointer, &library) || strncmp(library.dli_fname, folder, strlen(folder)) != 0) return _URC_NO_REASON;
    snprintf(place->name, sizeof place->name, "%s", library.dli_fname + strlen(folder));
    place->number = (int64_t)(address - (uintptr_t)library.dli_fbase);
    return _URC_NORMAL_STOP;
}

/* The signal is raised again when this returns, and ends the process. */
static void on_crash(int number)
{
    signal(number, SIG_DFL);
    session_message place = {.event = SESSION_CRASHED};
    _Unwind_Backtrace(look_at, &place);
    if (place.name[0]) session_tell(&place);
    raise(number);
}

void crash_open(void)
{
    /* A function that calls itself without end leaves no room on the stack to handle the signal. */
    static char room[1 << 16];
    const stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
    sigaltstack(&stack, NULL);
    const struct sigaction told = {.sa_handler = on_crash, .sa_flags = SA_ONSTACK | SA_NODEFER};
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigaction(signals[i], &told, NULL);
}

void crash_begin(const char *library)
{
    const char *end = strrchr(library, '/');
    snprintf(folder, sizeof folder, "%.*s", end ? (int)(end + 1 - library) : 0, library);
}
