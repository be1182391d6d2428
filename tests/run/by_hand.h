/* by_hand.h - processes whose rank comes from environment variables, as if set by hand. */
#ifndef LOCKSTEP_TESTS_RUN_BY_HAND_H
#define LOCKSTEP_TESTS_RUN_BY_HAND_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/config.h"
#include "launch/ports.h"

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

/* Make this process one of two. */
static void be_rank(int rank, const char *address, int port)
{
    set_number("LOCKSTEP_RANK", rank);
    set_number("LOCKSTEP_WORLD_SIZE", 2);
    set_number("MASTER_PORT", port);
    setenv("MASTER_ADDR", address, 1);
    setenv("LOCKSTEP_COMM_TIMEOUT", "5", 1);
    ls_config_reload();
}

#endif
