/* pin.h - pin threads to this process's own CPUs, as long as no other program uses them.
 *
 * Alone on a host, a process is fastest if its threads do not move. Beside another program pinning is the worst choice:
 * the system cannot move a pinned thread away from the CPU that it shares, and all others wait for it. So threads are
 * pinned (LOCKSTEP_PIN=auto) until other programs are measured to use the CPUs, and pinned again later, at growing
 * intervals, in case those programs have ended.
 *
 * Process-wide. Functions may be called from any thread. */
#ifndef LOCKSTEP_BASE_PIN_H
#define LOCKSTEP_BASE_PIN_H

#include <stdbool.h>
#include <stdint.h>

/* For tests; 0 and NULL are the defaults. */
typedef struct ls_pin_rules {
    const char *root;  /* in front of /proc/stat */
    int64_t window_ms; /* over which the use of the CPUs is measured (1000) */
    int64_t pause_ms;  /* before threads are pinned again, doubled each time (30000) */
} ls_pin_rules;

/* Pin the threads of this process to these CPUs, a subset of those that the calling thread may run on. If several runs
 * of a process call it, the first decides, and the last ls_pin_end() unpins. */
void ls_pin_begin(const int *cpus, int count, const ls_pin_rules *rules);
void ls_pin_end(void);

/* Call once a batch: checks whether other programs use the CPUs. Usually costs only a clock reading. */
void ls_pin_watch(void);

/* Are threads pinned? Do other programs use the CPUs? A number that changes whenever one of these does. */
bool ls_pin_held(void);
bool ls_pin_shared(void);
uint32_t ls_pin_changes(void);

#endif
