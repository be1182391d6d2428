/* config.c - configuration files of `lockstep config` and of accelerate. */
#include "check.h"

#include <lockstep/launch.h>

#include <unistd.h>

static char file[64];

static const char *read_text(const char *text, ls_launch_config *config)
{
    static char why[1024];
    FILE *to = fopen(file, "w");
    fputs(text, to);
    fclose(to);
    why[0] = '\0';
    ls_status status = ls_launch_config_read(file, config, why, sizeof why);
    CHECK((status == LS_OK) == !*why);
    return status ? strstr(why, ": ") + 2 : "";
}

/* As accelerate 1.x writes it. */
static const char *const accelerate = "compute_environment: LOCAL_MACHINE\n"
                                      "debug: false\n"
                                      "distributed_type: MULTI_CPU\n"
                                      "downcast_bf16: 'no'\n"
                                      "dynamo_config:\n"
                                      "  dynamo_backend: INDUCTOR\n"
                                      "  dynamo_mode: default\n"
                                      "  dynamo_use_dynamic: true\n"
                                      "  dynamo_use_fullgraph: false\n"
                                      "enable_cpu_affinity: false\n"
                                      "ipex_config:\n"
                                      "  ipex: true\n"
                                      "machine_rank: 1\n"
                                      "main_process_ip: 192.168.20.1\n"
                                      "main_process_port: 8080\n"
                                      "main_training_function: main\n"
                                      "mixed_precision: 'no'\n"
                                      "mpirun_config:\n"
                                      "  mpirun_ccl: '1'\n"
                                      "  mpirun_hostfile: /etc/mpi/hostfile\n"
                                      "num_machines: 2\n"
                                      "num_processes: 4\n"
                                      "rdzv_backend: static\n"
                                      "same_network: true\n"
                                      "tpu_env: []\n"
                                      "tpu_use_cluster: false\n"
                                      "tpu_use_sudo: false\n"
                                      "use_cpu: true\n";

static void reads_accelerates(void)
{
    ls_launch_config c;
    CHECK_TEXT(read_text(accelerate, &c), "");
    CHECK(c.num_processes == 4 && c.num_machines == 2 && c.machine_rank == 1 && c.main_process_port == 8080 &&
          c.use_cpu);
    CHECK_TEXT(c.main_process_ip, "192.168.20.1");
    CHECK_TEXT(c.mpirun_hostfile, "/etc/mpi/hostfile");
    CHECK_TEXT(c.dynamo_backend, "INDUCTOR");
    CHECK_TEXT(c.dynamo_mode, "default");
    CHECK(c.dynamo_use_dynamic && !c.dynamo_use_fullgraph);
    CHECK_TEXT(c.mixed_precision, "no");
    CHECK(c.mpirun_ccl == 1 && !c.enable_cpu_affinity);
    CHECK_TEXT(c.ineffective, "ipex_config"); /* it asks for something; the others say what everybody says */
}

static void reads_old_and_loose_forms(void)
{
    ls_launch_config c;
    CHECK_TEXT(read_text("distributed_type: 'NO'\nfp16: true\nnum_processes: 8\nuse_cpu: yes\n", &c), "");
    CHECK(c.num_processes == 1 && c.use_cpu);
    CHECK_TEXT(c.mixed_precision, "fp16");
    CHECK_TEXT(read_text("distributed_type: NO\nmixed_precision: no\ngpu_ids: 0\n", &c), "");
    CHECK_TEXT(c.mixed_precision, "no");
    CHECK_TEXT(c.gpu_ids, "0");
    CHECK_TEXT(read_text("{\"distributed_type\": \"MULTI_CPU\", \"num_processes\": 2, \"main_process_ip\": null}", &c),
               "");
    CHECK(c.num_processes == 2);
    CHECK_TEXT(read_text("\xef\xbb\xbf"
                         "distributed_type: MULTI_CPU\r\nnum_processes: 3\r\n",
                         &c),
               "");
    CHECK(c.num_processes == 3);
}

/* Keys that an accelerate of any age writes beside those that count. */
static void passes_over_what_does_not_apply(void)
{
    ls_launch_config c;
    CHECK_TEXT(read_text("compute_environment: LOCAL_MACHINE\ndeepspeed_config: {}\ndistributed_type: 'NO'\n"
                         "fsdp_config: {}\nmain_process_ip: null\nmain_process_port: null\nuse_cpu: false\n"
                         "megatron_lm_config: {}\nmain_training_function: main\ngpu_ids: all\ntpu_name: a\n"
                         "tpu_zone: b\ncommands: null\ncommand_file: tests/c.sh\ndowncast_bf16: 'yes'\n"
                         "tpu_env: [A=1]\ndynamo_backend: INDUCTOR\n",
                         &c),
               "");
    CHECK(c.num_processes == 1 && !c.use_cpu);
    CHECK_TEXT(c.gpu_ids, "all");
    CHECK_TEXT(c.dynamo_backend, "INDUCTOR"); /* as old versions wrote it */
    CHECK(c.downcast_bf16);
    CHECK_TEXT(read_text("distributed_type: XLA\ntpu_name: a\nnum_processes: 8\ndowncast_bf16: 'no'\n", &c), "");
    CHECK(c.num_processes == 8 && !c.downcast_bf16);
}

/* Also those that ask for nothing, in both forms of files, and when they are read and written again. */
static void keys_without_effect_are_kept(void)
{
    ls_launch_config c, again;
    char why[256];
    const char *const names[] = {file, "/tmp/launch_config_test.json"};
    const char *kept = "{\"commands\":[\"a: b\",7,null],\"ipex_config\":{\"ipex\":false},"
                       "\"tpu_name\":\"no\",\"tpu_env\":[],\"fsdp_config\":{}}";
    CHECK_TEXT(read_text("distributed_type: NO\ndowncast_bf16: true\ncommands:\n- 'a: b'\n- 7\n- null\nipex_config:\n"
                         "  ipex: false\ntpu_name: 'no'\ntpu_env: []\nfsdp_config: {}\nfp16: false\n",
                         &c),
               "");
    CHECK_TEXT(c.kept, kept);
    CHECK_TEXT(c.ineffective, "commands, ipex_config");
    for (int i = 0; i < 2; i++) {
        CHECK(ls_launch_config_write(names[i], &c, why, sizeof why) == LS_OK);
        CHECK_MSG(ls_launch_config_read(names[i], &again, why, sizeof why) == LS_OK, "%s", why);
        CHECK_TEXT(again.kept, kept);
        CHECK(again.downcast_bf16);
    }
    unlink(names[1]);
    static char large[7000];
    snprintf(large, sizeof large, "distributed_type: NO\ntpu_name: x%03000d\ntpu_zone: x%03000d\n", 1, 1);
    CHECK_TEXT(read_text(large, &c), "it has too many keys without effect");
}

static void refuses(void)
{
    static const struct {
        const char *text, *complaint;
    } cases[] = {
        {"num_processes: 2\n", "a `distributed_type` must be specified"},
        {"distributed_type: FSDP\n", "distributed_type FSDP: only NO, MULTI_CPU, MULTI_GPU, TPU and XLA are supported"},
        {"distributed_type: XLA\ntpu_use_cluster: true\n",
         "tpu_use_cluster cannot be used: start lockstep launch on every worker of the cluster: gcloud compute tpus "
         "tpu-vm "
         "ssh NAME --worker=all --command='lockstep launch --tpu ...'"},
        {"distributed_type: NO\nzeta: 1\ndynamo_config:\n  beta: 1\nalpha: 2\n",
         "unknown keys: zeta, beta, alpha; correct or remove them"},
        {"distributed_type: NO\nnum_proceses: 2\nzeta: 1\ndynamo_conifg: {}\ndeepspeed_confg: {}\n",
         "unknown keys: num_proceses (did you mean num_processes?), zeta, dynamo_conifg (did you mean dynamo_config?), "
         "deepspeed_confg (did you mean deepspeed_config?); correct or remove them"},
        {"distributed_type: NO\ndeepspeed_config:\n  zero_stage: 2\n",
         "deepspeed_config cannot be used: DeepSpeed is not supported"},
        {"distributed_type: NO\nnum_processes: many\n", "num_processes must be a whole number, not negative"},
        {"distributed_type: NO\ngradient_accumulation_steps: 0\n", "gradient_accumulation_steps must be at least 1"},
        {"distributed_type: NO\ndebug: 7\n", "debug must be true or false"},
        {"distributed_type: NO\nmixed_precision: f16\n", "mixed_precision f16: must be no, fp16, bf16 or fp8"},
        {"distributed_type: NO\nmixed_precision: [a]\n", "mixed_precision must be a text"},
        {"compute_environment: CLOUD\ndistributed_type: NO\n",
         "compute_environment CLOUD: only LOCAL_MACHINE is supported"},
        {"distributed_type: MULTI_CPU\nnum_machines: 2\nmachine_rank: 2\n", "machine_rank 2: there are 2 machines"},
        {"- a\n", "no keys in the file"},
        {"distributed_type: NO\n\tx: 1\n", "line 2: indented with a tab: use blanks"},
    };
    ls_launch_config c;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_TEXT(read_text(cases[i].text, &c), cases[i].complaint);
}

static void writes_what_it_reads(void)
{
    ls_launch_config before, after;
    char why[256];
    const char *const names[] = {file, "/tmp/launch_config_test.json"};
    for (int i = 0; i < 2; i++) {
        ls_launch_config_default(&before);
        strcpy(before.distributed_type, "MULTI_CPU");
        strcpy(before.gpu_ids, "0,1");
        strcpy(before.main_process_ip, "fe80::1");
        strcpy(before.mpirun_hostfile, "/tmp/somebody's hosts");
        strcpy(before.dynamo_backend, "no");
        before.dynamo_use_fullgraph = true;
        before.num_processes = 6;
        before.max_restarts = 3;
        before.debug = true;
        CHECK(ls_launch_config_write(names[i], &before, why, sizeof why) == LS_OK);
        CHECK(ls_launch_config_read(names[i], &after, why, sizeof why) == LS_OK);
#define SAME_TEXT(key, fallback) CHECK_TEXT(after.key, before.key);
#define SAME(key, fallback) CHECK(after.key == before.key);
        LS_LAUNCH_CONFIG_LIST(SAME_TEXT, SAME, SAME)
        unlink(names[i]);
    }
    CHECK(ls_launch_config_write("/proc/no/such", &before, why, sizeof why) == LS_ERR_IO);
    CHECK(ls_launch_config_read("/tmp", &after, why, sizeof why) == LS_ERR_IO);
    CHECK_TEXT(why, "/tmp: Is a directory");
}

/* ---- Without questions ---- */

static void a_basic_file_is_written_once(void)
{
    ls_launch_config config;
    char why[1024] = "";
    unlink(file);
    CHECK(ls_launch_config_write_basic(file, "fp8", why, sizeof why) == LS_ERR_VALUE);
    CHECK_TEXT(why, "`mixed_precision` should be one of 'no', 'fp16' or 'bf16'. Received fp8");
    CHECK(ls_launch_config_write_basic(file, "BF16", why, sizeof why) == LS_OK);
    CHECK(ls_launch_config_read(file, &config, why, sizeof why) == LS_OK);
    CHECK_TEXT(config.mixed_precision, "bf16");
    CHECK(config.use_cpu && config.num_processes == 1 && config.num_machines == 1);
    CHECK(ls_launch_config_write_basic(file, NULL, why, sizeof why) == LS_ERR_STATE);
    CHECK_MSG(strstr(why, "Configuration already exists at ") && strstr(why, "will not override"), "%s", why);
    CHECK(ls_launch_config_read(file, &config, why, sizeof why) == LS_OK);
    CHECK_TEXT(config.mixed_precision, "bf16");
}

/* As accelerate writes it for SageMaker. */
static void files_for_sagemaker_are_named(void)
{
    ls_launch_config config;
    const char *why = read_text("base_job_name: accelerate-sagemaker-1\n"
                                "compute_environment: AMAZON_SAGEMAKER\n"
                                "distributed_type: DATA_PARALLEL\n"
                                "ec2_instance_type: ml.p3.16xlarge\n"
                                "iam_role_name: xxxxx\n"
                                "mixed_precision: fp16\n"
                                "num_machines: 1\n"
                                "py_version: py38\n"
                                "region: us-east-1\n",
                                &config);
    CHECK_MSG(strncmp(why, "SageMaker is not supported: ", 28) == 0 && strstr(why, "`lockstep config`"), "%s", why);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    strcpy(file, "/tmp/launch_config_XXXXXX");
    close(mkstemp(file));
    CHECK_RUN(reads_accelerates);
    CHECK_RUN(reads_old_and_loose_forms);
    CHECK_RUN(passes_over_what_does_not_apply);
    CHECK_RUN(keys_without_effect_are_kept);
    CHECK_RUN(refuses);
    CHECK_RUN(writes_what_it_reads);
    CHECK_RUN(a_basic_file_is_written_once);
    CHECK_RUN(files_for_sagemaker_are_named);
    unlink(file);
    return check_done();
}
