/* pin.h - threads that stay on CPUs of this process's own, as long as nobody else uses them.
 *
 * On a host of its own a process is fastest when its threads do not move. Beside another program that is the worst of
 * all ways: the system cannot move a pinned thread away from the CPU that it shares, and all others wait for it. So
 * CPUs are held (LOCKSTEP_PIN=auto) until others are seen to use them, which is measured while the program runs, and
 * held again later, at growing intervals, should the others have gone.
 *
 * Process-wide. Functions may be called from any thread. */
#ifndef LOCKSTEP_BASE_PIN_H
#define LOCKSTEP_BASE_PIN_H

#include <stdbool.h>
#include <stdint.h>

/* For tests; 0 and NULL: as everywhere else. */
typedef struct ls_pin_rules {
    const char *root;  /* in front of /proc/stat */
    int64_t window_ms; /* over which the use of the CPUs is measured (1000) */
    int64_t pause_ms;  /* after which CPUs are held again, the first time; then twice as long, and so on (30000) */
} ls_pin_rules;

/* Hold these CPUs, some of those that the calling thread may run on: its threads run there and nowhere else. Where
 * several runs of a process call it, the first decides, and the last ls_pin_end() lets go. */
void ls_pin_begin(const int *cpus, int count, const ls_pin_rules *rules);
void ls_pin_end(void);

/* Once a batch: see whether others use the CPUs. Costs a look at the clock. */
void ls_pin_watch(void);

/* May threads be pinned; do others use the CPUs; a number that changes whenever one of these does. */
bool ls_pin_held(void);
bool ls_pin_shared(void);
uint32_t ls_pin_changes(void);

#endif
