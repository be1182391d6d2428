/* gpus.c - programs that name no device, on hosts with and without GPUs, which a plug-in pretends. */
#include <lockstep.h>

#include <sys/stat.h>
#include <unistd.h>

#include "printed.h"

#define LAUNCH LOCKSTEP_COMMAND " launch "
#define LONG "a_folder_with_a_name_of_many_letters_of_which_there_are_66_in_all_"

/* The exit code of a shell command on a host with so many GPUs, and its output. */
static int on_host(const char *gpus, const char *settings, const char *command)
{
    char line[4096];
    snprintf(line, sizeof line,
             "unset LOCKSTEP_USE_CPU CUDA_VISIBLE_DEVICES; export LOCKSTEP_PLUGIN_PATH=%s LOCKSTEP_GPU_FILES=/dev/null "
             "LOCKSTEP_HOME=/nowhere HF_HOME=/nowhere PRETENDED_GPUS=%s; %s %s; { %s; } 2>&1",
             GPU_FOLDER, gpus, *settings ? "export" : ":", settings, command);
    return shell(line);
}

/* How often the words are in the output. */
static int times(const char *words)
{
    int count = 0;
    for (const char *at = output; (at = strstr(at, words)); at += strlen(words)) count++;
    return count;
}

/* ---- one process ---- */

static void the_gpu_is_used_without_a_word(void)
{
    CHECK(on_host("1", "", WORKER " device") == 0);
    HAS("rank 0 of 1: cuda:0 cuda:0, sum 1\n");
}

static void without_a_gpu_it_is_the_cpu_silently(void)
{
    CHECK(on_host("0", "", WORKER " device") == 0);
    CHECK_TEXT(output, "rank 0 of 1: cpu cpu, sum 1\n");
    CHECK(on_host("1", "LOCKSTEP_GPU_FILES=/nowhere", WORKER " device") == 0);
    CHECK_TEXT(output, "rank 0 of 1: cpu cpu, sum 1\n");
    /* The plug-in beside the library may find a GPU of this machine. */
    CHECK(on_host("1", "LOCKSTEP_PLUGIN_PATH=/nowhere CUDA_VISIBLE_DEVICES=", WORKER " device") == 0);
    CHECK_TEXT(output, "rank 0 of 1: cpu cpu, sum 1\n");
}

#define CUT "cut/liblockstep-cuda.so cannot be loaded (the file is truncated: 4096 bytes of at least "

/* One that is damaged is named where there is another of its name: once by each process that passes it over. */
static void a_plug_in_is_not_replaced_silently(void)
{
    mkdir("cut", 0700);
    shell("head -c 4096 " GPU_FOLDER "/liblockstep-cuda.so > cut/liblockstep-cuda.so");
    CHECK(on_host("1", "LOCKSTEP_PLUGIN_PATH=cut:" GPU_FOLDER, WORKER " device") == 0);
    CHECK_MSG(times(CUT) == 1, "%s", output);
    HAS("copy it again): " GPU_FOLDER "/liblockstep-cuda.so is used instead");
    HAS("rank 0 of 1: cuda:0 cuda:0, sum 1\n");
    CHECK(on_host("2", "LOCKSTEP_PLUGIN_PATH=cut:" GPU_FOLDER, LOCKSTEP_COMMAND " env") == 0);
    CHECK_MSG(times(CUT) == 1, "%s", output);
    CHECK(on_host("2", "LOCKSTEP_PLUGIN_PATH=cut:" GPU_FOLDER, LAUNCH WORKER " device") == 0);
    CHECK_MSG(times(CUT) == 3, "%s", output); /* the launcher, which counts GPUs, and both ranks */
    /* On the host of rank 1 alone. */
    CHECK(on_host("2", "",
                  LAUNCH "-n 2 sh -c '[ $RANK = 0 ] || export LOCKSTEP_PLUGIN_PATH=cut:" GPU_FOLDER "; " WORKER
                         " device'") == 0);
    CHECK_MSG(times(CUT) == 1, "%s", output);
    remove("cut/liblockstep-cuda.so");
    rmdir("cut");
}

/* And where it is the only one, with the reason even if the path is long. */
static void a_plug_in_that_cannot_be_loaded_is_named(void)
{
    static const char *const cases[][2] = {
        {"head -c 4096 " GPU_FOLDER "/liblockstep-cuda.so >", "the file is truncated: 4096 bytes of at least "},
        {"echo text >", "file too short"},
        {"seq 1000 >", "invalid ELF header"},
        {"(head -c 18 " GPU_FOLDER "/liblockstep-cuda.so; printf '\\376\\376'; tail -c +21 " GPU_FOLDER
         "/liblockstep-cuda.so) >",
         "it is built for another CPU"},
    };
    static const char *const folders[] = {"lone", "lone/" LONG LONG LONG};
    mkdir(folders[0], 0700);
    mkdir(folders[1], 0700);
    for (size_t f = 0; f < 2; f++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            char command[1200], path[400], words[400];
            snprintf(command, sizeof command, "%s %s/liblockstep-lone.so", cases[i][0], folders[f]);
            CHECK_MSG(shell(command) == 0, "%s", command);
            snprintf(path, sizeof path, "LOCKSTEP_PLUGIN_PATH=%s", folders[f]);
            snprintf(words, sizeof words, "%s/liblockstep-lone.so: %s", f ? LONG : "device \"lone\": lone",
                     cases[i][1]);
            CHECK(on_host("1", path, WORKER " --device lone device") == 1);
            HAS(words);
            if (f == 0) continue;
            snprintf(command, sizeof command, WORKER " --device %s/liblockstep-lone.so device", folders[f]);
            CHECK(on_host("1", "", command) == 1);
            HAS(words);
        }
    }
    shell("rm -r lone");
}

/* A CPU that cannot be opened is no GPU that cannot be used. */
static void a_failure_of_the_cpu_is_not_called_a_gpus(void)
{
    static const char *const settings[] = {"", "LOCKSTEP_USE_CPU=1"};
    int met = 0;
    for (int request = 1; met < 2 && request <= 40; request++) {
        char setting[64];
        snprintf(setting, sizeof setting, "LOCKSTEP_FAIL_ALLOC=%d %s", request, settings[request % 2]);
        on_host("0", setting, WORKER " device");
        LACKS("there is a GPU");
        LACKS("LOCKSTEP_DEVICE=cpu");
        met += strstr(output, "error: device \"cpu\": out of memory while opening it") != NULL;
    }
    CHECK(met == 2);
}

static void the_gpu_can_be_refused(void)
{
    static const char *const settings[] = {"LOCKSTEP_USE_CPU=1",        "ACCELERATE_USE_CPU=True",
                                           "ACCELERATE_USE_CPU=y",      "LOCKSTEP_DEVICE=cpu",
                                           "CUDA_VISIBLE_DEVICES=none", "LOCKSTEP_USE_CPU=1 LOCKSTEP_DEVICE=cuda"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        CHECK(on_host("2", settings[i], WORKER " device") == 0);
        HAS("rank 0 of 1: cpu cpu, sum 1\n");
    }
    CHECK(on_host("2", "", WORKER " --use_cpu device") == 0);
    HAS("rank 0 of 1: cpu cpu, sum 1\n");
    CHECK(on_host("2", "ACCELERATE_USE_CPU=False", WORKER " device") == 0);
    HAS("rank 0 of 1: cuda:0 cuda:0, sum 1\n");
    CHECK(on_host("2", "LOCKSTEP_USE_CPU=1", WORKER " --device cuda:1 device") == 0); /* a flag is stronger */
    HAS("rank 0 of 1: cuda:1 cuda:1, sum 1\n");
}

static void a_gpu_that_fails_says_how_to_go_on(void)
{
    CHECK(on_host("1", "PRETENDED_FAILURE='the driver is too old'", WORKER " device") == 1);
    HAS("ls_init: there is a GPU, but it cannot be used: the driver is too old. To train on the CPU, give --use_cpu");
    CHECK(on_host("1", "PRETENDED_FAILURE='the driver is too old'", WORKER " --device cuda device") == 1);
    HAS("the driver is too old");
    LACKS("there is a GPU");
    CHECK(on_host("1", "PRETENDED_TABLE=missing", WORKER " device") == 1);
    HAS("ls_init: there is a GPU, but it cannot be used: device \"cuda\": ls_plugin_v2 of the plug-in returned NULL. ");
}

/* ---- several processes ---- */

static void every_process_has_its_own(void)
{
    CHECK(on_host("2", "", LAUNCH "-n 2 " WORKER " device") == 0);
    HAS("rank 0 of 2: cuda:0 cuda:0, sum 2\n");
    HAS("rank 1 of 2: cuda:1 cuda:1, sum 2\n");
    CHECK(on_host("3", "LOCKSTEP_LOG=info", LAUNCH "-n 2 --gpu_ids 2,0 " WORKER " device") == 0);
    HAS("rank 0 trains on Pretended GPU 2, ");
    HAS("rank 1 trains on Pretended GPU 0, ");
    HAS("rank 1 of 2: cuda:1 cuda:1, sum 2\n");
}

/* The pretended GPUs compute as the CPU does, and gradients go through the host. */
static void they_train_together(void)
{
    CHECK(on_host("2", "",
                  LAUNCH "-n 2 " WORKER " train gpus_trained && " LAUNCH "-n 2 --cpu " WORKER " train cpus_trained && "
                         "cmp gpus_trained.0 cpus_trained.0 && cmp gpus_trained.1 cpus_trained.1") == 0);
    CHECK(on_host("1", "LOCKSTEP_SHARE_GPU=1",
                  LAUNCH "-n 2 " WORKER " train gpus_trained && "
                         "cmp gpus_trained.0 cpus_trained.0; code=$?; "
                         "rm -f gpus_trained.? cpus_trained.?; exit $code") == 0);
}

static void more_processes_than_gpus_are_refused(void)
{
    CHECK(on_host("2", "", LAUNCH "-n 3 " WORKER " device") == 1);
    HAS("ranks 0 and 1 would share a GPU (Pretended GPU 0, 80.0 GiB, driver 1.2): host ");
    HAS(" has 3 processes for 2 GPUs. Start one for "
        "each GPU (--num_processes 2), train on the CPU (--cpu), or set LOCKSTEP_SHARE_GPU=1 to share it");
    LACKS("sum 3");
    CHECK(times("lockstep: error: ls_init: ") - times("    lockstep: error: ls_init: ") == 1); /* less the tail */
    CHECK(on_host("2", "", LAUNCH "-n 2 " WORKER " --device cuda:1 device") == 1);
    HAS("ranks 0 and 1 would share a GPU (Pretended GPU 1, ");
    CHECK(on_host("2", "", LAUNCH "-n 3 --cpu " WORKER " device") == 0);
    HAS("rank 2 of 3: cpu cpu, sum 3\n");
}

static void they_share_if_told_to(void)
{
    CHECK(on_host("2", "LOCKSTEP_SHARE_GPU=1", LAUNCH "-n 3 " WORKER " device") == 0);
    HAS("rank 0 of 3: cuda:0 cuda:0, sum 3\n");
    HAS("rank 1 of 3: cuda:1 cuda:1, sum 3\n");
    HAS("rank 2 of 3: cuda:0 cuda:0, sum 3\n");
}

/* A launcher may show each process one GPU only: that is the first of each. */
static void a_launcher_may_assign_them(void)
{
    CHECK(on_host("4", "", LAUNCH "-n 2 sh -c 'CUDA_VISIBLE_DEVICES=$((LOCAL_RANK+2)) " WORKER " device'") == 0);
    HAS("rank 0 of 2: cuda:0 cuda:0, sum 2\n");
    HAS("rank 1 of 2: cuda:0 cuda:0, sum 2\n");
}

/* Each container of a machine may call its own GPU number 0. */
static void containers_have_gpus_of_their_own(void)
{
    if (on_host("1", "", "unshare -r --uts hostname some") != 0) CHECK_SKIP("names of hosts cannot be changed here");
    CHECK(on_host("1", "", LAUNCH "-n 2 unshare -r --uts sh -c 'hostname box$LOCAL_RANK; exec " WORKER " device'") ==
          0);
    HAS("rank 0 of 2: cuda:0 cuda:0, sum 2\n");
    HAS("rank 1 of 2: cuda:0 cuda:0, sum 2\n");
}

/* Without NCCL training is slower, which nobody would notice; those who share a GPU expect it. */
static void the_way_through_the_host_is_reported(void)
{
    CHECK(on_host("2", "PRETENDED_GROUP='NCCL is missing'", LAUNCH "-n 2 " WORKER " device") == 0);
    CHECK(times("collectives of devices go through the host's memory, which is slower: rank 0: NCCL is missing\n") ==
          1);
    HAS("rank 1 of 2: cuda:1 cuda:1, sum 2\n");
    CHECK(on_host("2", "PRETENDED_CONNECTION='NCCL refuses'", LAUNCH "-n 2 " WORKER " device") == 0);
    CHECK(times("collectives of devices go through the host's memory, which is slower: rank 1: NCCL refuses\n") == 1);
    HAS("rank 1 of 2: cuda:1 cuda:1, sum 2\n");
    CHECK(on_host("1", "LOCKSTEP_LOG=info LOCKSTEP_SHARE_GPU=1 PRETENDED_GROUP='NCCL is missing'",
                  LAUNCH "-n 2 " WORKER " device") == 0);
    LACKS("NCCL is missing");
    CHECK(times("ranks 0 and 1 share Pretended GPU 0, 80.0 GiB, driver 1.2: collectives of devices go through") == 1);
}

static void a_mixture_of_devices_is_refused(void)
{
    CHECK(on_host("2", "LOCKSTEP_COMM_TIMEOUT=20",
                  LAUNCH "-n 2 sh -c 'LOCKSTEP_USE_CPU=$LOCAL_RANK " WORKER " device'") == 1);
    HAS("ls_init: devices of processes");
    LACKS("sum 2");
}

/* ---- launching ---- */

static const char *self;

/* Started again as a program that launches a function. */
static int start_and_end(void *unused)
{
    (void)unused;
    return ls_finish(ls_init(NULL, NULL));
}

/* With a model, which was made on the CPU. */
static int name_its_device(void *unused)
{
    (void)unused;
    ls_run *run = ls_init(NULL, NULL);
    ls_module *model = ls_launched_model(run);
    if (model)
        fprintf(stderr, "rank %d: weight on %s\n", ls_rank(run), ls_device_of(ls_module_tensor(model, "weight")));
    return ls_finish(run);
}

static int launch_model(const char *device)
{
    ls_run *outer = ls_init(NULL, NULL, .device = strcmp(device, "any") == 0 ? NULL : device);
    ls_module *model = ls_linear_new(outer, 3, 2);
    int code = ls_launch(name_its_device, NULL, .num_processes = 2, .model = model);
    return ls_finish(outer) || code;
}

static int launched(const char *gpus, const char *settings, int processes)
{
    char command[1024];
    snprintf(command, sizeof command, "%s launch %d", self, processes);
    return on_host(gpus, settings, command);
}

static void a_launch_says_on_what(void)
{
    CHECK(launched("1", "", 1) == 0);
    CHECK_TEXT(output, "Launching training on one GPU.\n");
    CHECK(launched("4", "", 2) == 0);
    CHECK_TEXT(output, "Launching training on 2 GPUs.\n");
    CHECK(launched("1", "LOCKSTEP_SHARE_GPU=1", 2) == 0);
    CHECK_TEXT(output, "Launching training on one GPU, shared by 2 processes.\n");
    CHECK(launched("2", "LOCKSTEP_SHARE_GPU=1", 3) == 0);
    CHECK_TEXT(output, "Launching training on 2 GPUs, shared by 3 processes.\n");
    CHECK(launched("0", "", 1) == 0);
    CHECK_TEXT(output, "Launching training on CPU.\n");
    CHECK(launched("2", "ACCELERATE_USE_CPU=true", 3) == 0);
    CHECK_TEXT(output, "Launching training on 3 CPUs.\n");
}

/* The launching process must not have started what its workers need. */
static void a_rehearsal_opens_the_devices(void)
{
    CHECK(launched("2", "ACCELERATE_DEBUG_MODE=yes", 2) == 0);
    CHECK_TEXT(output, "Launching training on 2 GPUs.\n");
    CHECK(launched("2", "ACCELERATE_DEBUG_MODE=yes PRETENDED_FAILURE='it is broken'", 2) == 1);
    HAS("there is a GPU, but it cannot be used: it is broken");
    HAS("even workers that only start a run and end it fail here");
    LACKS("Launching");
}

static void a_model_goes_to_the_gpus(void)
{
    char command[1024];
    snprintf(command, sizeof command, "%s launch_model cpu", self);
    CHECK(on_host("2", "", command) == 0);
    HAS("rank 0: weight on cuda:0\n");
    HAS("rank 1: weight on cuda:1\n");
    snprintf(command, sizeof command, "%s launch_model any", self);
    CHECK(on_host("2", "", command) == 1);
    HAS("create the model on the CPU, with ls_init(..., .device = \"cpu\")");
}

static void asking_for_gpus_that_are_not_there_fails(void)
{
    CHECK(on_host("0", "", LAUNCH "-n 2 --multi_gpu " WORKER " device") == 1);
    HAS("LOCKSTEP_DEVICE=cuda, set by a launcher if GPUs or TPUs are requested: ");
    HAS("0 such devices are usable here");
    CHECK(on_host("2", "", LAUNCH "--gpu_ids 7 " WORKER " device") == 1);
    HAS("0 such devices are usable here, with CUDA_VISIBLE_DEVICES=7 (lockstep env says why). To train on the CPU, "
        "unset it");
    static const char *const beyond[] = {"2", "2147483648", "4294967295", "4294967296", "99999999999999999999"};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        char command[1024];
        snprintf(command, sizeof command, WORKER " --device cuda:%s device", beyond[i]);
        CHECK_MSG(on_host("2", "", command) == 1, "cuda:%s: %s", beyond[i], output);
        HAS("2 such devices are usable here");
    }
    static const char *const odd[] = {"x", "-1", "", "1x"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        char command[1024];
        snprintf(command, sizeof command, WORKER " --device cuda:%s device", odd[i]);
        CHECK_MSG(on_host("2", "", command) == 1, "cuda:%s: %s", odd[i], output);
        HAS("what follows the colon must be a number, as in \"cuda:0\"");
    }
    CHECK(on_host("2", "", LAUNCH "-n 2 " WORKER " --device cuda:4294967296 device") == 1);
    HAS("2 such devices are usable here");
    CHECK(on_host("0", "", LAUNCH "--nproc-per-node gpu " WORKER " device") == 2);
    HAS("--nproc-per-node gpu: no GPU is found");
    CHECK(on_host("1", "", LAUNCH "--multi_gpu " WORKER " device") == 2);
    HAS("You need to use at least 2 processes to use `--multi_gpu`.");
    LACKS("no GPU is found");
    CHECK(on_host("0", "", LAUNCH "--multi_gpu " WORKER " device") == 2);
    HAS("`--multi_gpu`. Here no GPU is found: there is none, ");
}

static void a_variable_that_hides_gpus_is_named(void)
{
    static const char *const settings[] = {"LOCKSTEP_USE_CPU=1", "ACCELERATE_USE_CPU=True", "LOCKSTEP_DEVICE=cpu"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        CHECK(on_host("2", settings[i], LAUNCH "--multi_gpu " WORKER " device") == 2);
        HAS("`--multi_gpu`. Here no GPU is found: ");
        HAS("or LOCKSTEP_USE_CPU or LOCKSTEP_DEVICE keeps programs off it (lockstep env says which).\n");
        CHECK(on_host("2", settings[i], LAUNCH "--nproc-per-node gpu " WORKER " device") == 2);
        HAS("--nproc-per-node gpu: no GPU is found: ");
        CHECK(on_host("2", settings[i], LOCKSTEP_COMMAND " env") == 0);
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(settings[i], "="), settings[i]);
        HAS(name);
    }
}

static void there_is_a_process_for_each_gpu(void)
{
    CHECK(on_host("2", "", LAUNCH WORKER " device") == 0);
    HAS("lockstep launch: 2 processes, one for each GPU; for another number give --num_processes\n");
    HAS("rank 1 of 2: cuda:1 cuda:1, sum 2\n");
    CHECK(on_host("3", "", LAUNCH "--multi_gpu " WORKER " device") == 0);
    HAS("rank 2 of 3: cuda:2 cuda:2, sum 3\n");
    CHECK(on_host("3", "", LAUNCH "--gpu_ids 1,2 " WORKER " device") == 0);
    HAS("rank 1 of 2: cuda:1 cuda:1, sum 2\n");
    CHECK(on_host("2", "", LAUNCH "--nproc-per-node auto " WORKER " device") == 0);
    HAS("rank 1 of 2: cuda:1 cuda:1, sum 2\n");
    CHECK(on_host("2", "", LAUNCH "--cpu " WORKER " device") == 0);
    HAS("rank 0 of 1: cpu cpu, sum 1\n");
}

static void files_are_about_gpus_too(void)
{
    CHECK(on_host("2", "",
                  "printf '2\\n\\n\\n\\n0,1\\n' | " LOCKSTEP_COMMAND
                  " config --config_file gpus.yaml >/dev/null; cat gpus.yaml") == 0);
    HAS("distributed_type: MULTI_GPU\n");
    HAS("gpu_ids: '0,1'\n");
    HAS("num_processes: 2\n");
    HAS("use_cpu: false\n");
    CHECK(on_host("2", "", LAUNCH "--config_file gpus.yaml " WORKER " device") == 0);
    HAS("rank 1 of 2: cuda:1 cuda:1, sum 2\n");
    CHECK(on_host("1", "", "printf '2\\n' | " LOCKSTEP_COMMAND " config --config_file gpus.yaml") == 1);
    HAS("Specified distributed type MULTI_GPU but only using 1 GPU on a single machine.");
    CHECK(on_host("1", "",
                  "printf '0\\nyes\\n' | " LOCKSTEP_COMMAND
                  " config --config_file gpus.yaml >/dev/null; cat gpus.yaml") == 0);
    HAS("use_cpu: true\n");
    CHECK(on_host("1", "", LAUNCH "--config_file gpus.yaml " WORKER " device") == 0);
    HAS("rank 0 of 1: cpu cpu, sum 1\n");
    remove("gpus.yaml");
    CHECK(on_host("2", "", LOCKSTEP_COMMAND " config default --config_file gpus.yaml >/dev/null; cat gpus.yaml") == 0);
    HAS("distributed_type: MULTI_GPU\n");
    HAS("num_processes: 2\n");
    remove("gpus.yaml");
}

static void the_command_shows_and_tests_them(void)
{
    CHECK(on_host("2", "", LOCKSTEP_COMMAND " env") == 0);
    HAS("cuda:1                             Pretended GPU 1, 80.0 GiB, driver 1.2\n");
    CHECK(on_host("2", "PRETENDED_TABLE=missing", LOCKSTEP_COMMAND " env") == 0);
    HAS("ls_plugin_v2 of the plug-in returned NULL");
    CHECK(on_host("2", "PRETENDED_TABLE=missing LOCKSTEP_GPU_FILES=/nowhere", LOCKSTEP_COMMAND " env") == 0);
    HAS("ls_plugin_v2 of the plug-in returned NULL");
    CHECK(on_host("0", "", LOCKSTEP_COMMAND " env") == 0);
    HAS("cuda                               the plug-in is installed and finds no GPU\n");
    CHECK(on_host("2", "CUDA_VISIBLE_DEVICES=2,0", LOCKSTEP_COMMAND " env") == 0);
    HAS("cuda                               the plug-in is installed and finds no GPU, with "
        "CUDA_VISIBLE_DEVICES=2,0\n");
    CHECK(on_host("2", "LOCKSTEP_GPU_FILES=/nowhere", LOCKSTEP_COMMAND " env") == 0);
    HAS("cuda                               the plug-in is installed, but no driver: none of its files exists "
        "(LOCKSTEP_GPU_FILES)\n");
#ifndef PLUGIN_IS_BUILT
    CHECK(on_host("2", "LOCKSTEP_PLUGIN_PATH=/nowhere", LOCKSTEP_COMMAND " env") == 0);
    HAS("cuda                               the plug-in is not installed (make cuda builds it)\n");
#endif
    CHECK(on_host("1", "", LOCKSTEP_COMMAND " test") == 0); /* two processes share it */
    HAS("2 processes on 1 host: ");
    HAS(" (2), device cuda\n");
    HAS("All checks passed: these processes can train together.");
    LACKS("warning");
    CHECK(on_host("3", "", LOCKSTEP_COMMAND " test --gpu_ids 0,2") == 0); /* as many as are listed */
    HAS("2 processes on 1 host: ");
    HAS(" (2), device cuda\n");
    CHECK(on_host("3", "", LOCKSTEP_COMMAND " test --gpu_ids 2") == 0);
    HAS("2 processes on 1 host: ");
}

int main(int argc, char **argv)
{
    self = argv[0];
    if (argc > 2 && strcmp(argv[1], "launch") == 0)
        return ls_launch(start_and_end, NULL, .num_processes = atoi(argv[2]));
    if (argc > 2 && strcmp(argv[1], "launch_model") == 0) return launch_model(argv[2]);
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(the_gpu_is_used_without_a_word);
    CHECK_RUN(without_a_gpu_it_is_the_cpu_silently);
    CHECK_RUN(a_plug_in_is_not_replaced_silently);
    CHECK_RUN(a_plug_in_that_cannot_be_loaded_is_named);
    CHECK_RUN(a_failure_of_the_cpu_is_not_called_a_gpus);
    CHECK_RUN(the_gpu_can_be_refused);
    CHECK_RUN(a_gpu_that_fails_says_how_to_go_on);
    CHECK_RUN(every_process_has_its_own);
    CHECK_RUN(they_train_together);
    CHECK_RUN(more_processes_than_gpus_are_refused);
    CHECK_RUN(they_share_if_told_to);
    CHECK_RUN(a_launcher_may_assign_them);
    CHECK_RUN(containers_have_gpus_of_their_own);
    CHECK_RUN(the_way_through_the_host_is_reported);
    CHECK_RUN(a_mixture_of_devices_is_refused);
    CHECK_RUN(a_launch_says_on_what);
    CHECK_RUN(a_rehearsal_opens_the_devices);
    CHECK_RUN(a_model_goes_to_the_gpus);
    CHECK_RUN(asking_for_gpus_that_are_not_there_fails);
    CHECK_RUN(a_variable_that_hides_gpus_is_named);
    CHECK_RUN(there_is_a_process_for_each_gpu);
    CHECK_RUN(files_are_about_gpus_too);
    CHECK_RUN(the_command_shows_and_tests_them);
    return check_done();
}
