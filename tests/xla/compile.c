/* compile.c - lockstep compile and env, with a library that pretends to know TPUs. */
#include "printed.h"

#include <stdlib.h>

#define COMPILE LOCKSTEP_COMMAND " compile "
#define MLP PUPIL " mlp 8 20 "

/* The exit code of a shell command, and its output. */
static int run(const char *settings, const char *command)
{
    char line[4096];
    snprintf(line, sizeof line,
             "export LOCKSTEP_PLUGIN_PATH=%s LOCKSTEP_PJRT_LIBRARY=%s LOCKSTEP_NUM_THREADS=1 %s; { %s; } 2>&1",
             PLUGIN_FOLDER, STANDIN, settings, command);
    return shell(line);
}

/* The row of the second step: all parameters and the state of the optimiser are arguments, and results take their
 * memory. The network has 20 x 64 + 64 + 64 x 10 + 10 = 1994 numbers, with two more for each in AdamW. */
static void a_step_says_what_it_needs(void)
{
    CHECK(run("", COMPILE "--topology v5e:2x2 " MLP "3") == 0);
    HAS("v5e:2x2: 4 x Pretended TPU, 1.0 MiB each, 1 of them used\n");
    const char *row = strstr(output, "\n     2 ");
    CHECK_MSG(row, "there is no step 2 in:\n%s", output);
    long long calls = 0;
    double arguments = 0, results = 0, aliased = 0, temporaries = 0, peak = 0, operations = 0;
    CHECK(row && sscanf(row, "%*d %lld %lf KiB %lf KiB %lf KiB %lf KiB %lf KiB %*f %*s %*f KiB %lf", &calls, &arguments,
                        &results, &aliased, &temporaries, &peak, &operations) == 7);
    CHECK(calls > 10);
    CHECK_NEAR(aliased, 3 * 1994 * 4 / 1024.0, 0.3);
    CHECK(arguments > aliased && temporaries == arguments && operations == 5);
    HAS("Step 2 needs ");
    HAS(": fits into 1.0 MiB\n");
}

/* Values are those of the CPU: the program sees no difference. */
static void the_program_goes_on_with_values(void)
{
    CHECK(run("", "LOCKSTEP_DEVICE=cpu " MLP "3 > compile_cpu.txt; " COMPILE "--topology v5e:1x1 --steps 9 " MLP
                  "3 | grep loss > compile_xla.txt; cmp compile_cpu.txt compile_xla.txt; code=$?; "
                  "rm compile_cpu.txt compile_xla.txt; exit $code") == 0);
}

static void it_ends_after_the_steps_asked_for(void)
{
    CHECK(run("", COMPILE "--topology v5e:1x1 --steps 1 " MLP "1000000 | grep -c ^loss") != 0); /* none was printed */
    CHECK(run("", COMPILE "--topology v5e:1x1 " MLP "50") == 0);
    HAS("Step 2 needs ");
    LACKS("\n     3 ");
}

/* The samples that the second step does not use, f32 as bf16: 3 x 8 x 20 numbers, and as many labels as rows. */
static void other_tensors_are_as_narrow_as_they_are_stored(void)
{
    for (int narrow = 0; narrow < 2; narrow++) {
        CHECK(run(narrow ? "XLA_USE_BF16=1" : "", COMPILE "--topology v5e:1x1 " MLP "3") == 0);
        const char *row = strstr(output, "\n     2 ");
        double others = 0;
        CHECK(row && sscanf(row, "%*d %*d %*f %*s %*f %*s %*f %*s %*f %*s %*f %*s %lf KiB", &others) == 1);
        CHECK_NEAR(others, (3 * 8 * 20 * (narrow ? 2 : 4) + 3 * 8 * 8) / 1024.0, 0.06);
    }
}

static void what_does_not_fit_is_the_compilers_word(void)
{
    CHECK(run("PRETENDED_MEMORY=20000", COMPILE "--topology v5e:2x2 " MLP "3") == 1);
    HAS("XLA cannot compile the program: out of device memory: CompileTimeHbmOom: it exceeds available HBM\n");
    HAS("\nThe program cannot be compiled for v5e:2x2. If it needs too much memory: a smaller batch, or bf16, needs "
        "less\n");
    LACKS("fits into");
}

/* Chips that divide batches: each has a part of the arguments. */
static void several_chips_may_be_asked_for(void)
{
    CHECK(run("LOCKSTEP_XLA_CHIPS=all", COMPILE "--topology v5e:2x2 " MLP "3") == 0);
    HAS("v5e:2x2: 4 x Pretended TPU, 1.0 MiB each, 4 of them used\n");
    CHECK(run("LOCKSTEP_XLA_CHIPS=8", COMPILE "--topology v5e:2x2 " MLP "3") == 1);
    HAS("LOCKSTEP_XLA_CHIPS=8: this process has 4 tpu chips");
}

/* All compile the same: one of them reports. */
static void a_job_of_several_processes_reports_once(void)
{
    CHECK(run("", COMPILE "--topology v5e:2x2 " LOCKSTEP_COMMAND " launch -n 2 " MLP "6") == 0);
    const char *chips = strstr(output, "v5e:2x2: 4 x");
    CHECK_MSG(chips && !strstr(chips + 1, "v5e:2x2: 4 x"), "not once in:\n%s", output);
    HAS("Step 2 needs ");
}

/* All of them have a file open whose lock nobody else gets while one lives. Their training would take minutes. */
static void no_process_is_left_behind(void)
{
    CHECK(run("PRETENDED_MEMORY=1000000000",
              "exec 9> compile.lock; flock 9; " COMPILE "--topology v5e:2x2 " LOCKSTEP_COMMAND " launch -n 2 " PUPIL
              " mlp 1 1 3000000 > compile.txt; exec 9>&-; flock -w 60 compile.lock cat compile.txt; code=$?; "
              "rm -f compile.lock compile.txt; exit $code") == 0);
    HAS("Step 2 needs ");
}

static void the_library_is_shown(void)
{
    CHECK(run("LOCKSTEP_DEVICE=cpu", LOCKSTEP_COMMAND " env") == 0);
    HAS("chip 0 of " STANDIN "\n");
    CHECK(run("TPU_VISIBLE_CHIPS=3", LOCKSTEP_COMMAND " env") == 0);
    HAS("chip 3 of " STANDIN "\n");
    CHECK(run("LOCKSTEP_PJRT_LIBRARY=/nowhere", LOCKSTEP_COMMAND " env") == 0);
    HAS("LOCKSTEP_PJRT_LIBRARY=/nowhere cannot be read");
}

static void chips_must_be_named(void)
{
    CHECK(run("", COMPILE MLP "3") == 2);
    HAS("lockstep compile: name the chips: --topology v5e:2x2\n");
    CHECK(run("", COMPILE "--topology '' " MLP "3") == 2);
    HAS("lockstep compile: --topology needs a value\n");
    CHECK(run("", COMPILE "--topology v99:2x2 " MLP "3") == 1);
    HAS("Unknown TPU topology");
    CHECK(run("", COMPILE "--topology v5e:2x2") == 2);
    HAS("lockstep compile: give a program; see lockstep help compile\n");
    CHECK(run("", COMPILE "--topology v5e:2x2 --steps 0 true") == 2);
    HAS("--steps must be at least 1");
}

static void a_library_may_have_no_such_chips(void)
{
    CHECK(run("PRETENDED_TOPOLOGIES=none", COMPILE "--topology v5e:2x2 " MLP "3") == 1);
    HAS("this PJRT library cannot compile for chips that are not there, but libtpu can (pip install libtpu)");
}

static void the_program_must_use_the_device(void)
{
    CHECK(run("", COMPILE "--topology v5e:2x2 " MLP "3 --device cpu") == 1);
    HAS("pupil has not used device xla: does it name another?\n");
    CHECK(run("", COMPILE "--topology v5e:2x2 -- sh -c 'exit 7'") == 7);
    CHECK(run("", COMPILE "--topology v5e:2x2 no_such_program") == 127);
    HAS("lockstep compile: no_such_program: No such file or directory\n");
}

int main(void)
{
    CHECK_RUN(a_step_says_what_it_needs);
    CHECK_RUN(the_program_goes_on_with_values);
    CHECK_RUN(it_ends_after_the_steps_asked_for);
    CHECK_RUN(other_tensors_are_as_narrow_as_they_are_stored);
    CHECK_RUN(what_does_not_fit_is_the_compilers_word);
    CHECK_RUN(several_chips_may_be_asked_for);
    CHECK_RUN(a_job_of_several_processes_reports_once);
    CHECK_RUN(no_process_is_left_behind);
    CHECK_RUN(the_library_is_shown);
    CHECK_RUN(chips_must_be_named);
    CHECK_RUN(a_library_may_have_no_such_chips);
    CHECK_RUN(the_program_must_use_the_device);
    return check_done();
}
