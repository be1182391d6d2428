/* tpus.c - programs on hosts with TPUs, which a plug-in and a folder of PCI devices pretend. */
#include <lockstep.h>

#include "printed.h"

#include <sys/stat.h>

#define LAUNCH LOCKSTEP_COMMAND " launch "
#define PCI "tpus_pci"
/* What a process is told about chips. */
#define SHOW                                                                                                           \
    "sh -c 'echo $LOCAL_RANK: $TPU_VISIBLE_CHIPS $TPU_CHIPS_PER_PROCESS_BOUNDS $TPU_PROCESS_BOUNDS $TPU_PROCESS_PORT " \
    "$CLOUD_TPU_TASK_ID $TPU_PROCESS_ADDRESSES $LOCKSTEP_DEVICE'"

/* ---- a pretended host ---- */

static void write_number(const char *folder, const char *name, const char *number)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    CHECK(file);
    if (file) fprintf(file, "%s\n", number), fclose(file);
}

static void add_device(int index, const char *vendor, const char *device)
{
    char folder[100];
    snprintf(folder, sizeof folder, PCI "/0000:00:%02d.0", index);
    mkdir(folder, 0777);
    write_number(folder, "vendor", vendor);
    write_number(folder, "device", device);
}

/* Chips of a TPU v5e, a network card of the same vendor, and one that has a TPU's number. */
static void make_host(int chips)
{
    CHECK(system("rm -rf " PCI) == 0);
    mkdir(PCI, 0777);
    add_device(0, "0x1ae0", "0x0042");
    add_device(1, "0x8086", "0x0063");
    for (int i = 0; i < chips; i++) add_device(2 + i, "0x1ae0", "0x0063");
}

/* The exit code of a shell command on a host with so many chips, and its output. */
static int on_host(int chips, const char *settings, const char *command)
{
    char line[4096];
    make_host(chips);
    snprintf(line, sizeof line,
             "unset LOCKSTEP_USE_CPU; export LOCKSTEP_PLUGIN_PATH=%s LOCKSTEP_GPU_FILES=/nowhere "
             "LOCKSTEP_TPU_FILES=/dev/null LOCKSTEP_TPU_FOLDER=" PCI
             " LOCKSTEP_HOME=/nowhere HF_HOME=/nowhere; %s %s; { %s; } 2>&1",
             TPU_FOLDER, *settings ? "export" : ":", settings, command);
    return shell(line);
}

/* ---- which device ---- */

static void a_tpu_is_used_without_a_word(void)
{
    CHECK(on_host(4, "", WORKER " device") == 0);
    HAS("rank 0 of 1: xla:0 xla:0, sum 1\n");
    CHECK(on_host(0, "", WORKER " device") == 0);
    CHECK_TEXT(output, "rank 0 of 1: cpu cpu, sum 1\n");
    CHECK(on_host(4, "LOCKSTEP_TPU_FILES=/nowhere", WORKER " device") == 0);
    CHECK_TEXT(output, "rank 0 of 1: cpu cpu, sum 1\n");
    CHECK(on_host(4, "LOCKSTEP_USE_CPU=1", WORKER " device") == 0);
    HAS("rank 0 of 1: cpu cpu, sum 1\n");
}

static void a_tpu_that_fails_says_how_to_go_on(void)
{
    CHECK(on_host(1, "PRETENDED_FAILURE='another process has it'", WORKER " device") == 1);
    HAS("ls_init: there is a TPU, but it cannot be used: another process has it. To train on the CPU, give --use_cpu");
}

/* ---- several processes ---- */

static void every_process_has_its_own_chip(void)
{
    CHECK(on_host(4, "", LAUNCH "--tpu " WORKER " device") == 0);
    HAS("rank 0 of 4: xla:0 xla:0, sum 4\n");
    HAS("rank 3 of 4: xla:0 xla:0, sum 4\n");
    CHECK(on_host(8, "", LAUNCH "--num_processes 8 " WORKER " device") == 0);
    HAS("rank 7 of 8: xla:0 xla:0, sum 8\n");
    CHECK(on_host(4, "", LAUNCH "--tpu --nproc-per-node auto " WORKER " device") == 0);
    HAS("rank 3 of 4: xla:0 xla:0, sum 4\n");
    CHECK(on_host(4, "", LAUNCH "--nproc-per-node auto " WORKER " device") == 0);
    HAS("rank 3 of 4: xla:0 xla:0, sum 4\n");
    CHECK(on_host(4, "", LAUNCH "-n 2 --cpu " WORKER " device") == 0);
    HAS("rank 1 of 2: cpu cpu, sum 2\n");
}

static void every_process_is_told_its_place(void)
{
    CHECK(on_host(4, "", LAUNCH "--tpu " SHOW) == 0);
    HAS("0: 0 1,1,1 2,2,1 8476 0 localhost:8476,localhost:8477,localhost:8478,localhost:8479 xla\n");
    HAS("3: 3 1,1,1 2,2,1 8479 3 localhost:8476,localhost:8477,localhost:8478,localhost:8479 xla\n");
    CHECK(on_host(8, "", LAUNCH "--tpu " SHOW) == 0);
    HAS("7: 7 1,1,1 2,4,1 8483 7 localhost:8476,");
    CHECK(on_host(4, "", LAUNCH "--tpu -n 2 " SHOW) == 0);
    HAS("1: 1 1,1,1 1,2,1 8477 1 localhost:8476,localhost:8477 xla\n");
    CHECK(on_host(4, "", LAUNCH "--tpu -n 1 " SHOW) == 0); /* it has all chips */
    HAS("0: xla\n");
    CHECK(on_host(4, "", LAUNCH "-n 2 --cpu " SHOW) == 0);
    HAS("1:\n");
}

static void hosts_of_a_cluster_need_names(void)
{
    CHECK(on_host(4, "", LAUNCH "--nnodes 2 --master-addr 127.0.0.1 --nproc-per-node 4 --tpu true") == 2);
    HAS("one process per TPU chip on 2 hosts needs TPU_WORKER_HOSTNAMES=name,name,... of all hosts and "
        "TPU_TOPOLOGY=4x4");
    CHECK(on_host(4, "TPU_WORKER_HOSTNAMES=a,b TPU_TOPOLOGY=4x4",
                  LAUNCH "--nnodes 2 --master-addr 127.0.0.1 --nproc-per-node 4 --tpu true") == 2);
    HAS("the arrangement of all 8 chips");
    CHECK(on_host(4, "TPU_TOPOLOGY=128x16 TPU_WORKER_HOSTNAMES=$(seq -s, -f 'worker-%040.0f' 512)",
                  LAUNCH "--nnodes 512 --master-addr 127.0.0.1 --nproc-per-node 4 --tpu true") == 2);
    HAS("the addresses of 2048 processes by TPU_WORKER_HOSTNAMES have more than 65536 bytes");
    CHECK(on_host(4,
                  "TPU_WORKER_HOSTNAMES=a,b TPU_TOPOLOGY=2x4 JOB='" LAUNCH
                  "--nnodes 2 --master-addr 127.0.0.1 --master-port 28641 --nproc-per-node 4 --tpu'",
                  "$JOB --node-rank 0 " SHOW " & $JOB --node-rank 1 " SHOW " ; code=$?; wait; exit $code") == 0);
    HAS("0: 0 1,1,1 2,4,1 8476 0 a:8476,a:8477,a:8478,a:8479,b:8476,b:8477,b:8478,b:8479 xla\n");
    HAS("3: 3 1,1,1 2,4,1 8479 7 a:8476,");
}

static void hosts_of_a_cluster_have_fixed_places(void)
{
    static const char cluster[] = "TPU_WORKER_ID=1 TPU_WORKER_HOSTNAMES=a,b TPU_TOPOLOGY=2x4";
    CHECK(on_host(4, cluster,
                  LAUNCH "--nnodes 2 --node-rank 0 --master-addr 127.0.0.1 --nproc-per-node 4 --tpu true") == 2);
    HAS("--node-rank 0, but TPU_WORKER_ID=1 is the place of this host in TPU_WORKER_HOSTNAMES: they must be the same");
    CHECK(on_host(4, cluster, LAUNCH "--nnodes 1:2 --rdzv-endpoint 127.0.0.1 --nproc-per-node 4 --tpu true") == 2);
    HAS("needs all of them, in their order: give --nnodes N and --node-rank");
    CHECK(on_host(4, cluster, LAUNCH "--tpu -n 2 " SHOW) == 0); /* a host alone */
    HAS("1: 1 1,1,1 1,2,1 8477 1 localhost:8476,localhost:8477 xla\n");
}

static void more_processes_than_chips_are_refused(void)
{
    CHECK(on_host(4, "", LAUNCH "--tpu -n 8 " WORKER " device") == 2);
    HAS("8 processes for 4 TPU chips, but a chip belongs to one process: start one for each chip (--num_processes 4), "
        "or "
        "train on the CPU (--cpu)");
    CHECK(on_host(4, "", LAUNCH "-n 3 " WORKER " device") == 2);
    HAS("3 processes on TPU chips of a host: only 1, 2, 4 or 8 can be connected");
    CHECK(on_host(0, "", LAUNCH "--tpu " WORKER " device") == 2);
    HAS("--tpu: there is no TPU here, or no plug-in for it (lockstep env says which)");
    CHECK(on_host(4, "", LAUNCH "--tpu --cpu " WORKER " device") == 2);
    HAS("You can only use one of `--cpu`, `--multi_gpu` and `--tpu` at a time.");
}

/* ---- launching a function, as a notebook's cell does ---- */

static const char *self;

/* Started again as a program that launches a function. Fails unless the process knows its chip. */
static int check_chip(void *unused)
{
    (void)unused;
    ls_run *run = ls_init(NULL, NULL);
    const char *chip = getenv("TPU_VISIBLE_CHIPS");
    bool needs_one = ls_world_size(run) > 1 && strncmp(ls_device_of(ls_zeros(run, LS_F32, 1)), "xla", 3) == 0;
    bool right = needs_one ? chip && atoi(chip) == ls_local_rank(run) : !chip;
    return ls_finish(run) || !right;
}

static void a_launch_says_on_what(void)
{
    char command[1024];
    snprintf(command, sizeof command, "%s launch 8", self);
    CHECK(on_host(8, "", command) == 0);
    CHECK_TEXT(output, "Launching training on 8 TPU cores.\n");
    CHECK(on_host(4, "", command) == 2);
    HAS("8 processes for 4 TPU chips");
    LACKS("Launching");
    CHECK(on_host(8, "ACCELERATE_USE_CPU=true", command) == 0);
    CHECK_TEXT(output, "Launching training on 8 CPUs.\n");
    snprintf(command, sizeof command, "%s launch 1", self);
    CHECK(on_host(8, "", command) == 0);
    CHECK_TEXT(output, "Launching training on TPU.\n");
}

/* ---- files and commands ---- */

static void files_are_about_tpus_too(void)
{
    CHECK(on_host(8, "",
                  "printf 'TPU\\n\\n\\n\\nbf16\\nyes\\n' | " LOCKSTEP_COMMAND
                  " config --config_file tpus.yaml >/dev/null; cat tpus.yaml") == 0);
    HAS("distributed_type: TPU\n");
    HAS("num_processes: 8\n");
    HAS("downcast_bf16: true\n");
    HAS("use_cpu: false\n");
    CHECK(on_host(8, "",
                  LAUNCH "--config_file tpus.yaml sh -c 'echo $RANK $LOCKSTEP_DEVICE $ACCELERATE_DOWNCAST_BF16'") == 0);
    HAS("7 xla true\n");
    CHECK(on_host(8, "",
                  "printf 'compute_environment: LOCAL_MACHINE\\ndistributed_type: XLA\\ndowncast_bf16: \"no\"\\n"
                  "main_training_function: main\\nnum_processes: 2\\ntpu_env: []\\ntpu_use_cluster: false\\n"
                  "tpu_use_sudo: false\\n' > tpus.yaml; " LAUNCH "--config_file tpus.yaml " SHOW) == 0);
    HAS("1: 1 1,1,1 1,2,1 8477 1 localhost:8476,localhost:8477 xla\n");
    LACKS("no effect");
    CHECK(on_host(8, "",
                  "printf 'distributed_type: TPU\\ntpu_use_cluster: true\\ntpu_name: pod\\n' > tpus.yaml; " LAUNCH
                  "--config_file tpus.yaml true") == 2);
    HAS("tpu_use_cluster cannot be used: start lockstep launch on every worker of the cluster");
    remove("tpus.yaml");
    CHECK(on_host(4, "", LOCKSTEP_COMMAND " config default --config_file tpus.yaml >/dev/null; cat tpus.yaml") == 0);
    HAS("distributed_type: TPU\n");
    HAS("num_processes: 4\n");
    remove("tpus.yaml");
}

/* The exit code of a launch with a file of these lines and of two processes. */
static int launch_with(const char *lines, const char *options)
{
    char command[1000];
    snprintf(command, sizeof command, "printf 'num_processes: 2\\n%s\\n' > tpus.yaml; %s --config_file tpus.yaml %s",
             lines, LAUNCH, options);
    return on_host(4, "", command);
}

static void an_option_overrules_the_device_of_a_file(void)
{
    static const char *const files[] = {"distributed_type: MULTI_GPU", "distributed_type: MULTI_CPU\\nuse_cpu: true",
                                        "distributed_type: MULTI_GPU\\ngpu_ids: 0,1"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        CHECK(launch_with(files[i], "--tpu " SHOW) == 0);
        HAS("1: 1 1,1,1 1,2,1 8477 1 localhost:8476,localhost:8477 xla\n");
    }
    CHECK(launch_with("distributed_type: TPU", "--multi_gpu " SHOW) == 0);
    HAS("1: cuda\n");
    CHECK(launch_with("distributed_type: TPU", "--gpu_ids 0,1 " SHOW) == 0);
    HAS("1: cuda\n");
    CHECK(launch_with("distributed_type: MULTI_CPU\\nuse_cpu: true", "--gpu_ids 0,1 " SHOW) == 0);
    HAS("1: cuda\n");
    CHECK(launch_with("distributed_type: MULTI_CPU\\ngpu_ids: all\\nuse_cpu: true", SHOW) == 0);
    HAS("1:\n");
    CHECK(launch_with("distributed_type: TPU", "--cpu " SHOW) == 0);
    HAS("1:\n");
    remove("tpus.yaml");
}

static void the_command_shows_and_tests_them(void)
{
    CHECK(on_host(4, "", LOCKSTEP_COMMAND " env") == 0);
    HAS("chips                              4\n");
    HAS("kind                               TPU v5e\n");
    HAS("xla                                Pretended chip 0\n");
    CHECK(on_host(4, "", LOCKSTEP_COMMAND " test") == 0);
    HAS("4 processes on 1 host: ");
    HAS(" (4), device xla\n");
}

int main(int argc, char **argv)
{
    self = argv[0];
    if (argc > 2 && strcmp(argv[1], "launch") == 0) return ls_launch(check_chip, NULL, .num_processes = atoi(argv[2]));
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(a_tpu_is_used_without_a_word);
    CHECK_RUN(a_tpu_that_fails_says_how_to_go_on);
    CHECK_RUN(every_process_has_its_own_chip);
    CHECK_RUN(every_process_is_told_its_place);
    CHECK_RUN(hosts_of_a_cluster_need_names);
    CHECK_RUN(hosts_of_a_cluster_have_fixed_places);
    CHECK_RUN(more_processes_than_chips_are_refused);
    CHECK_RUN(a_launch_says_on_what);
    CHECK_RUN(files_are_about_tpus_too);
    CHECK_RUN(an_option_overrules_the_device_of_a_file);
    CHECK_RUN(the_command_shows_and_tests_them);
    if (system("rm -rf " PCI) != 0) return 1;
    return check_done();
}
