/* exchange_worker.c SIZE [absent] - gives SIZE bytes of its own to all others, twice, and checks what it gets.
 * With "absent" rank 1 stays away, and the others must notice. */
#include "launch/bootstrap/exchange.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
    size_t size = argc > 1 ? (size_t)atol(argv[1]) : 8;
    bool absent = argc > 2 && strcmp(argv[2], "absent") == 0;
    ls_identity who;
    ls_message why = {""};
    ls_exchange *exchange = NULL;
    ls_status status = ls_identity_read((const char *const *)environ, &who, &why);
    if (!status) status = ls_exchange_open(&exchange, &who, 60, &why);
    if (!status && absent && who.rank == 1) sleep(3);
    bool right = !status && who.world > 0;
    unsigned char *mine = calloc(1, size), *all = calloc((size_t)(right ? who.world : 1), size);
    for (int round = 0; round < 2 && !status && !(absent && who.rank == 1); round++) {
        for (size_t i = 0; i < size; i++) mine[i] = (unsigned char)(31 * who.rank + 7 * (int)i + round);
        status = ls_exchange_all_gather(exchange, mine, size, all, absent ? 0.3 : round ? INFINITY : 60, &why);
        for (size_t i = 0; i < (size_t)who.world * size && !status; i++)
            right = right && all[i] == (unsigned char)(31 * (int)(i / size) + 7 * (int)(i % size) + round);
    }
    printf("%s %d/%d %s\n", who.source, who.rank, who.world, status ? why.text : right ? "right" : "wrong");
    fflush(stdout);
    if (absent) _exit(0);
    ls_exchange_close(exchange);
    free(mine);
    free(all);
    return status || !right;
}
