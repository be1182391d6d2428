/* growth.c - how many pieces of code XLA makes of a program, which is what compiling it takes: equal layers share
 * theirs, and so do equal draws. */
#include <lockstep.h>

#include "check.h"
#include "folder.h"

#define PROGRAMS "xla_growth"

static int pieces;

/* A compiled program is a file with an ELF object for each piece of code in it. */
static int count_pieces(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
    static const char magic[] = {0x7f, 'E', 'L', 'F'};
    size_t size = 0;
    char *bytes = kind == FTW_F ? file_text(path, &size) : NULL;
    (void)status, (void)walk;
    for (char *at = bytes; at; pieces += at != NULL) {
        at = memmem(at, size - (size_t)(at - bytes), magic, sizeof magic);
        if (at) at += sizeof magic;
    }
    free(bytes);
    return 0;
}

/* Pieces of code in the programs that a part has compiled. */
static int pieces_of(void (*part)(ls_run *run, int size), int size)
{
    folder_fresh(PROGRAMS);
    ls_run *run = ls_init(NULL, NULL, .seed = 3, .device = XLA_DEVICE);
    part(run, size);
    CHECK_MSG(!ls_error(run), "%s", ls_error_message(run));
    CHECK(ls_finish(run) == 0);
    pieces = 0;
    nftw(PROGRAMS, count_pieces, 4, FTW_PHYS);
    folder_remove(PROGRAMS);
    CHECK(pieces > 0);
    return pieces;
}

/* Layers of a network with residuals. */
static void stack(ls_run *run, int layers)
{
    ls_tensor *x = ls_ones(run, LS_F32, 4, 8, 64), *w = ls_ones(run, LS_F32, 64, 64);
    for (int i = 0; i < layers; i++)
        x = ls_dropout_add_layer_norm(ls_linear(x, w, NULL, LS_ACT_NONE), x, NULL, NULL, 0.1, 1e-5);
    ls_item(ls_sum(x));
}

static void more_layers_are_no_more_code(void)
{
    int four = pieces_of(stack, 4), eight = pieces_of(stack, 8);
    CHECK_MSG(eight == four, "%d pieces of code for 4 layers, %d for 8", four, eight);
}

static void drop(ls_run *run, int draws)
{
    ls_module *dropout = ls_dropout_new(run, 0.4);
    ls_tensor *sum = ls_zeros(run, LS_F32, 1);
    for (int i = 0; i < draws; i++) sum = ls_add(sum, ls_sum(ls_forward(dropout, ls_ones(run, LS_F32, 1000))));
    ls_item(sum);
}

static void more_draws_of_one_size_are_no_more_code(void)
{
    int four = pieces_of(drop, 4), eight = pieces_of(drop, 8);
    CHECK_MSG(eight == four, "%d pieces of code for 4 draws, %d for 8", four, eight);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    setenv("LOCKSTEP_XLA_CACHE", PROGRAMS, 1);
    CHECK_RUN(more_layers_are_no_more_code);
    CHECK_RUN(more_draws_of_one_size_are_no_more_code);
    return check_done();
}
