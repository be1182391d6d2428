/* drawn.c - random numbers on TPUs, where every element computes the whole block that it is of, are those of the CPU.
 * XLA's CPU library computes them here, and says that it is a TPU. */
#include <lockstep.h>

#include "check.h"

enum { MOST = 1021 };

static const int64_t sizes[] = {1, 2, 3, 4, 5, 8, MOST};
enum { SIZES = sizeof sizes / sizeof *sizes };

typedef struct draws {
    float uniform[MOST], normal[MOST], dropped[MOST];
} draws;

static void draw(const char *device, draws of[SIZES])
{
    ls_run *run = ls_init(NULL, NULL, .device = device, .seed = 11);
    ls_module *dropout = ls_dropout_new(run, 0.4);
    for (int i = 0; i < SIZES; i++) {
        size_t bytes = (size_t)sizes[i] * sizeof(float);
        ls_read(ls_uniform_shape(run, LS_F32, -1, 3, LS_SHAPE(sizes[i])), of[i].uniform, bytes);
        ls_read(ls_randn(run, LS_F32, sizes[i]), of[i].normal, bytes);
        ls_read(ls_forward(dropout, ls_ones(run, LS_F32, sizes[i])), of[i].dropped, bytes);
    }
    CHECK_MSG(!ls_error(run), "%s", ls_error_message(run));
    CHECK(ls_finish(run) == 0);
}

static void compare(const char *what, int64_t n, const float *cpu, const float *xla)
{
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&cpu[i], &xla[i], sizeof *cpu) != 0) {
            check_fail(__FILE__, __LINE__, "%s, %lld elements: element %lld is %.9g, on the CPU %.9g", what,
                       (long long)n, (long long)i, (double)xla[i], (double)cpu[i]);
            return;
        }
}

static void numbers_of_tpus_are_those_of_the_cpu(void)
{
    static draws cpu[SIZES], xla[SIZES];
    draw("cpu", cpu);
    draw(XLA_DEVICE, xla);
    for (int i = 0; i < SIZES; i++) {
        compare("uniform", sizes[i], cpu[i].uniform, xla[i].uniform);
        compare("normal", sizes[i], cpu[i].normal, xla[i].normal);
        compare("dropout", sizes[i], cpu[i].dropped, xla[i].dropped);
    }
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    setenv("LOCKSTEP_PJRT_LIBRARY", JOINED_LIBRARY, 1);
    setenv("PRETENDED_BY_LIBRARY", XLA_LIBRARY, 1);
    setenv("PRETENDED_CHIP", "0", 1);
    setenv("PRETENDED_PLATFORM", "tpu", 1);
    CHECK_RUN(numbers_of_tpus_are_those_of_the_cpu);
    return check_done();
}
