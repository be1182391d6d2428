/* qa.c - question answering on several CPUs and hosts, with the command lines that people have for Intel's MPI and
 * run_qa.py: qa stands where "python3 run_qa.py" stood, and nothing else changes. */
#include "beside.h"
#include "examples/qa_files.h"
#include "mpis.h"

#define QA_FLAGS                                                                                                       \
    "qa \\\n --model_name_or_path google-bert/bert-large-uncased \\\n --dataset_name squad \\\n --do_train \\\n "      \
    "--do_eval \\\n --per_device_train_batch_size 12 \\\n --learning_rate 3e-5 \\\n --num_train_epochs 2 \\\n "        \
    "--max_seq_length 384 \\\n --doc_stride 128 \\\n --output_dir $OUT \\\n --no_cuda \\\n --ddp_backend ccl \\\n "    \
    "--use_ipex"

static const char on_one_host[] = "export CCL_WORKER_COUNT=1\n"
                                  "export MASTER_ADDR=127.0.0.1\n"
                                  "mpirun -n 2 -genv OMP_NUM_THREADS=23 \\\n " QA_FLAGS "\n";

static const char on_two_hosts[] =
    "export CCL_WORKER_COUNT=1\n"
    "export MASTER_ADDR=10.83.0.1 #node0 ip\n"
    "export CCL_ATL_TRANSPORT=ofi\n"
    "mpirun -f hostfile -n 4 -ppn 2 \\\n -genv OMP_NUM_THREADS=23 \\\n " QA_FLAGS " \\\n --bf16\n";

/* ---- What the lines find ---- */

__attribute__((format(printf, 2, 3))) static void write_file(const char *name, const char *format, ...)
{
    FILE *file = fopen(path(name), "w");
    va_list args;
    va_start(args, format);
    vfprintf(file, format, args);
    va_end(args);
    fclose(file);
    chmod(path(name), 0755);
}

/* Commands: those of the line, and ssh, which Hydra calls with options, an address and the words of a command. */
static void make_commands(void)
{
    mkdir(path("bin"), 0755);
    CHECK(symlink(QA, path("bin/qa")) == 0);
    write_file("bin/ssh", "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\n"
                          "case $1 in 10.83.0.1) host=a ;; 10.83.0.2) host=b ;; esac\nshift\n"
                          "exec " HOSTS " rsh $host \"$@\"\n");
    write_file("hostfile", "10.83.0.1\n10.83.0.2\n");
    char paths[4096];
    snprintf(paths, sizeof paths, "%s:%s", path("bin"), getenv("PATH"));
    setenv("PATH", paths, 1);
}

/* ---- The lines ---- */

static int count_of(const char *before)
{
    const char *at = strstr(output, before);
    for (at = at ? at + strlen(before) : NULL; at && *at && (*at < '0' || *at > '9');) at++;
    return at ? atoi(at) : -1;
}

/* On host a, as its user types it. Answers are those that one process gives, every window read once. */
static void run_line(const char *line, const char *out, int processes, const char *precision)
{
    setenv("OUT", path(out), 1);
    write_file("bin/mpirun", "#!/bin/sh\nexec %s \"$@\"\n", mpi_in_use->mpiexec);
    write_file("line", "cd %s\n%s", folder, line);
    CHECK_MSG(run(HOSTS " on a sh %s </dev/null", path("line")) == 0, "%s", output);
    CHECK(says("own collectives") && says("own kernels") && says(" of 11 questions\n"));
    int windows = count_of("questions: 29, windows: ");
    char steps[64];
    snprintf(steps, sizeof steps, ", steps: %d\n", 2 * ((windows + 12 * processes - 1) / (12 * processes)));
    CHECK(windows > 2 * CACHED_TRAIN && says(steps));

    CHECK_MSG(run("cd %s && qa --model_name_or_path %s --dataset_name squad --do_eval --max_seq_length 384 "
                  "--doc_stride 128 --output_dir %s.one --no_cuda %s",
                  folder, out, out, precision) == 0,
              "%s", output);
    for (int i = 0; i < 2; i++)
        CHECK_MSG(run("cd %s && cmp %s/%s %s.one/%s", folder, out, i ? "nbest_predictions.json" : "predictions.json",
                      out, i ? "nbest_predictions.json" : "predictions.json") == 0,
                  "%s", output);
}

static void the_line_for_one_host_runs(void)
{
    run_line(on_one_host, "one_host", 2, "");
}

static void the_line_for_two_hosts_runs(void)
{
    run_line(on_two_hosts, "two_hosts", 4, "--bf16");
}

int main(int argc, char **argv)
{
    static const int hydras[] = {MPICH, INTEL_MPI};
    begin_beside(2, argc, argv);
    if (!*check_skip_all) {
        make_cache(path("hub"), "google-bert--bert-large-uncased"); /* HF_HOME is the folder of the test */
        make_commands();
    }
    for (int i = 0; i < 2; i++) {
        mpi_run("the_line_for_one_host_runs", the_line_for_one_host_runs, hydras[i]);
        mpi_run("the_line_for_two_hosts_runs", the_line_for_two_hosts_runs, hydras[i]);
    }
    return check_done();
}
