/* command.c - lockstep launch as people use it: a command, its output, its exit code, and what is left afterwards. */
#include "shell.h"

/* ---- Ends ---- */

static void succeeds(void)
{
    CHECK(run(LAUNCH "-n 3 " WORKER) == 0);
    CHECK_TEXT(output, "");
}

static void passes_exit_codes_on(void)
{
    CHECK(run(LAUNCH "-n 2 " WORKER " 1=exit 3") == 3);
    CHECK(says("first cause: rank 1 (local rank 1, host ") && says("exited with code 3 after"));
    CHECK(run(LAUNCH "-n 2 " WORKER " 0=exit 127") == 127);
    CHECK(run(LAUNCH WORKER " exit 200") == 200);
    CHECK(run(LAUNCH "--exit-code-compat torchrun " WORKER " exit 9") == 1);
}

static void names_signals(void)
{
    CHECK(run(LAUNCH "-n 2 " WORKER " 1=signal %d", SIGSEGV) == 128 + SIGSEGV);
    CHECK(says("rank 1") && says("was killed by SIGSEGV (signal 11)"));
    CHECK(run(LAUNCH "-n 2 " WORKER " 0=signal %d", SIGKILL) == 137);
    CHECK(says("SIGKILL (signal 9; if nobody sent it, the system ran out of memory)"));
}

static void shows_the_last_words(void)
{
    CHECK(run(LAUNCH "-n 2 " WORKER " 1=say 1") == 1);
    CHECK(says("the last lines of its stderr:\n    line one\n    the last words\n"));
    CHECK(run(LAUNCH "-n 2 --quiet " WORKER " 1=say 1") == 1);
    CHECK(!strstr(output, "first cause"));
    CHECK(run(LAUNCH "-n 2 " WORKER " 1=error-file") == 1);
    CHECK(says("its error: RuntimeError: out of cheese"));
}

static void tells_kubernetes(void)
{
    const char *log = path("termination-log");
    close(open(log, O_CREAT | O_WRONLY, 0644));
    CHECK(run("LOCKSTEP_TERMINATION_LOG=%s TORCHELASTIC_ERROR_FILE=%s " LAUNCH WORKER " say 5", log,
              path("above.json")) == 5);
    CHECK(run("cat %s", log) == 0 && says("first cause: rank 0") && says("the last words"));
    CHECK(run("cat %s", path("above.json")) == 0 && says("{\"message\":{\"message\":\"lockstep: first cause: rank 0"));
    CHECK(says("\"errorCode\":5"));
}

static void kills_what_does_not_go(void)
{
    make_folder();
    char arguments[256];
    snprintf(arguments, sizeof arguments, "-n 2 --shutdown-timeout 0.3 " WORKER " stubborn %s", path("marks"));
    pid_t job = start(arguments);
    wait_for(path("marks"), "ready", 2);
    kill(job, SIGTERM);
    CHECK(end_of(job) == 128 + SIGTERM);
    /* Hangs as well: rank 1 fails, rank 0 ignores the signal that ends the others. */
    char script[512];
    snprintf(script, sizeof script,
             "if [ $RANK = 0 ]; then exec " WORKER " stubborn %s; fi; while [ ! -f %s ]; do :; done; exit 4",
             path("up"), path("up"));
    CHECK(run(LAUNCH "-n 2 --shutdown-timeout 0.3 sh -c '%s'", script) == 4);
    CHECK(says("first cause: rank 1"));
}

static void stops_stopped_workers(void)
{
    CHECK(run(LAUNCH "-n 2 sh -c 'if [ $RANK = 0 ]; then kill -STOP $$; fi; sleep 0.2; exit 6'") == 6);
}

/* ---- Signals to the launcher ---- */

static void lets_programs_save(void)
{
    make_folder();
    char arguments[256];
    snprintf(arguments, sizeof arguments, "-n 2 " WORKER " save %s", path("marks"));
    pid_t job = start(arguments);
    wait_for(path("marks"), "ready", 2);
    kill(job, SIGUSR1);
    wait_for(path("marks"), "hint", 2);
    CHECK(count_lines(path("marks"), "hint") == 2);
    kill(job, SIGTERM);
    CHECK(end_of(job) == 143);
    CHECK(count_lines(path("marks"), "saved") == 2);
}

static void dies_at_the_second_request(void)
{
    make_folder();
    char arguments[256];
    snprintf(arguments, sizeof arguments, "-n 2 " WORKER " stubborn %s", path("marks"));
    pid_t job = start(arguments);
    wait_for(path("marks"), "ready", 2);
    kill(job, SIGTERM);
    wait_for(path("marks"), "told", 2);
    kill(job, SIGINT);
    CHECK(end_of(job) == 143);
}

static void workers_die_with_the_launcher(void)
{
    make_folder();
    char arguments[256];
    snprintf(arguments, sizeof arguments, "sh -c 'echo $$ >%s; exec sleep 1000'", path("pid"));
    pid_t job = start(arguments);
    for (int i = 0; i < 60000 && !is_alive(path("pid")); i++) usleep(1000);
    CHECK(is_alive(path("pid")));
    kill(job, SIGKILL);
    CHECK(end_of(job) == 1000 + SIGKILL);
    for (int i = 0; i < 60000 && is_alive(path("pid")); i++) usleep(1000);
    CHECK(!is_alive(path("pid")));
}

/* Whoever starts it may have closed files, or ignore what it lives by. */
static void starts_from_anywhere(void)
{
    make_folder();
    const char *job = "timeout -s KILL 60 " LAUNCH "-n 2 sh -c 'cat; echo $RANK out; echo err >&2'";
    CHECK(run("%s <&-", job) == 0 && says("0 out\n") && says("1 out\n"));
    CHECK(run("%s >&-", job) == 0 && says("err\nerr\n"));
    CHECK(run("%s 2>&- </dev/null", job) == 0 && says("0 out\n") && says("1 out\n"));
    CHECK(run("%s <&- >&- 2>&-", job) == 0);
    CHECK(run("env -u PATH " LAUNCH "true") == 0);
    CHECK(run("timeout -s KILL 60 sh -c \"trap '' CHLD; exec " LAUNCH "-n 2 " WORKER " 1=exit 4\"") == 4);
}

/* Two workers that save when they are told to end, started with this in front; they are ready. */
static pid_t start_savers(const char *before)
{
    make_folder();
    char line[512];
    snprintf(line, sizeof line, "%s" LAUNCH "-n 2 " WORKER " save %s", before, path("marks"));
    pid_t job = start_line(line, "out");
    wait_for(path("marks"), "ready", 2);
    return job;
}

static void nohup_is_heeded(void)
{
    pid_t job = start_savers("nohup ");
    kill(job, SIGHUP);
    kill(job, SIGUSR1);
    wait_for(path("marks"), "hint", 2);
    kill(job, SIGTERM);
    CHECK(end_of(job) == 143); /* and not 129 */
    CHECK(count_lines(path("marks"), "saved") == 2);
}

/* As the first process of a container, whose signals the system drops where nobody asked for them. */
static void is_a_good_first_process(void)
{
    if (!may_unshare("-pf --kill-child true")) return;
    pid_t outer = start_savers("unshare -pf --kill-child ");
    CHECK(run("kill -TERM $(cat /proc/%d/task/%d/children)", (int)outer, (int)outer) == 0);
    CHECK(end_of(outer) == 143);
    CHECK(count_lines(path("marks"), "saved") == 2);
}

/* ---- Nothing is left ---- */

static void leaves_no_process(void)
{
    make_folder();
    CHECK(run(LAUNCH WORKER " behind %s", path("pid")) == 0);
    CHECK(access(path("pid"), F_OK) == 0 && !is_alive(path("pid")));
    CHECK(run(LAUNCH "--shutdown-timeout 0.2 " WORKER " behind-stubborn %s", path("pid2")) == 0);
    CHECK(access(path("pid2"), F_OK) == 0 && !is_alive(path("pid2")));
}

static void leaves_no_file(void)
{
    make_folder();
    run("TMPDIR=%s " LAUNCH "-n 2 --max-restarts 1 " WORKER " 1=error-file", folder);
    CHECK(run("ls -I 'tsan.rodata.*' %s", folder) == 0); /* which a sanitizer leaves if it is killed as it starts */
    CHECK_TEXT(output, "");
}

static void leaves_earlier_children_alone(void)
{
    CHECK(run("sh -c 'sleep 0.3; echo still here' & exec " LAUNCH WORKER) == 0);
    CHECK(says("still here"));
}

/* ---- Restarts ---- */

static void restarts_all_within_the_budget(void)
{
    char script[600];
    make_folder();
    /* Rank 1 fails only after rank 0 has had its say, however slow it is. */
    snprintf(script, sizeof script,
             "sh -c 'echo $RANK:$TORCHELASTIC_RESTART_COUNT/$TORCHELASTIC_MAX_RESTARTS; "
             "mark=%s/$TORCHELASTIC_MAX_RESTARTS.$TORCHELASTIC_RESTART_COUNT; [ $RANK = 1 ] || touch $mark; "
             "until [ -e $mark ]; do sleep 0.01; done; [ $RANK = 0 ] || [ $TORCHELASTIC_RESTART_COUNT = 3 ]'",
             folder);
    CHECK(run(LAUNCH "-n 2 --max-restarts 3 %s", script) == 0);
    CHECK(says("0:0/3") && says("1:0/3") && says("0:3/3") && says("1:3/3") && says("restart 3 of 3"));
    CHECK(run(LAUNCH "-n 2 --max-restarts 2 %s", script) == 1);
    CHECK(says("1:2/2") && !strstr(output, "1:3"));
}

static void does_not_restart_for_ever(void)
{
    CHECK(run(LAUNCH "--max-restarts 100 --max-quick-restarts 2 sh -c 'echo run; exit 8'") == 8);
    CHECK(says("3 failures in a row within 10 s") && says("98 of 100 restarts left"));
}

/* ---- What cannot be started ---- */

static void refuses_by_name(void)
{
    make_folder();
    CHECK(run(LAUNCH "-n 2 no-such-program") == 127);
    CHECK(says("program no-such-program not found in PATH"));
    CHECK(run(LAUNCH "%s/missing", folder) == 127);
    close(open(path("plain"), O_CREAT | O_WRONLY, 0644));
    CHECK(run(LAUNCH "--max-restarts 3 %s", path("plain")) == 126);
    CHECK(says("is not executable"));
    CHECK(run(LAUNCH "--num_proceses 2 true") == 2);
    CHECK(says("unknown option \"--num_proceses\"; did you mean \"--num_processes\"?"));
    CHECK(run(LAUNCH) == 2 && says("give a program:"));
    CHECK(run(LAUNCH "--use_fsdp true") == 2 && says("--use_fsdp cannot be used: FSDP is not supported"));
    CHECK(run(LAUNCH "--fsdp-version 2 true") == 2 && says("--fsdp-version cannot be used"));
    CHECK(run(LAUNCH "-n x true") == 2 && says("--num_processes x: must be a whole number"));
    CHECK(run(LAUNCH "--gradient_accumulation_steps 0 true") == 2 && says("must be a whole number, at least 1"));
    CHECK(run(LAUNCH "-n 0 --nproc-per-node 0 true") == 2);
    CHECK(run(LAUNCH "--mixed_precision f16 true") == 2 && says("no|fp16|bf16|fp8"));
    CHECK(run(LAUNCH "--tee 4 true") == 2 && says("give 0, 1, 2 or 3"));
    CHECK(run(LAUNCH "--nnodes 2 true") == 2 && says("you need to specify the main process IP"));
    CHECK(run(LAUNCH "--nnodes 3:2 true") == 2 && says("MIN:MAX"));
    CHECK(run(LAUNCH "--nnodes 2 --node-rank 2 --master-addr a true") == 2 && says("there are 2 hosts"));
    CHECK(run(LAUNCH "--nnodes 2 --master-addr a --rdzv-conf join=1 true") == 2 && says("--rdzv-conf join=1"));
    CHECK(run(LAUNCH "-n 3 --num_machines 2 --main_process_ip a true") == 2 && says("cannot be divided among 2"));
    CHECK(run(LAUNCH "-n 0 true") == 2 && says("--num_processes 0: must be a number above 0"));
    CHECK(run(LAUNCH "--nproc-per-node 2x true") == 2 && says("--nproc-per-node 2x: must be a number above 0"));
    CHECK(run(LAUNCH "--standalone --hostfile a true") == 2 && says("omit --hostfile"));
    CHECK(run(LAUNCH "--max-restarts 3 %s/missing.py", folder) == 127 && says("missing.py cannot be read: No such"));
    CHECK(run(LAUNCH "-n 2 --help") == 0 && says("usage: lockstep launch") && says("--num_processes N"));
}

/* ---- Environment ---- */

static void speaks_torchrun(void)
{
    CHECK(run("env -u OMP_NUM_THREADS RANK=77 WORLD_SIZE=99 " LAUNCH
              "-n 2 --max-restarts 1 --rdzv-id job7 --role trainer --master-port 0 env | sort") == 0);
    static const char *const expected[] = {
        "\nRANK=1\n",
        "\nLOCAL_RANK=1\n",
        "\nGROUP_RANK=0\n",
        "\nROLE_RANK=1\n",
        "\nROLE_NAME=trainer\n",
        "\nLOCAL_WORLD_SIZE=2\n",
        "\nWORLD_SIZE=2\n",
        "\nGROUP_WORLD_SIZE=1\n",
        "\nROLE_WORLD_SIZE=2\n",
        "\nRANK=0\n",
        "\nMASTER_PORT=",
        "\nMASTER_ADDR=127.0.0.1\n",
        "\nOMP_NUM_THREADS=",
        "\nTORCHELASTIC_RESTART_COUNT=0\n",
        "\nTORCHELASTIC_MAX_RESTARTS=1\n",
        "\nTORCHELASTIC_RUN_ID=job7\n",
        "\nTORCHELASTIC_USE_AGENT_STORE=False\n",
        "\nTORCHELASTIC_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT\n",
        "/1/error.json\n",
        "\nTORCH_NCCL_ASYNC_ERROR_HANDLING=1\n",
    };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) CHECK(says(expected[i]));
    /* Never shown: that another port than the wanted one was taken, or a token that is no secret. */
    CHECK(!strstr(output, "already in use") && !strstr(output, "LOCKSTEP_JOB_TOKEN"));
    CHECK(!strstr(output, "RANK=77") && !strstr(output, "WORLD_SIZE=99"));
}

static void speaks_accelerate(void)
{
    CHECK(run(LAUNCH "--num-processes 1 --cpu --mixed-precision=bf16 --gradient_accumulation_steps 4 --debug "
                     "--num_cpu_threads_per_process 3 --gpu_ids 1,2 --dynamo_backend no env | sort") == 0);
    CHECK(says("ACCELERATE_USE_CPU=True\n") && says("ACCELERATE_MIXED_PRECISION=bf16\n"));
    CHECK(says("ACCELERATE_GRADIENT_ACCUMULATION_STEPS=4\n") && says("ACCELERATE_DEBUG_MODE=true\n"));
    CHECK(says("OMP_NUM_THREADS=3\n") && says("CUDA_VISIBLE_DEVICES=1,2\n"));
}

static void takes_defaults_from_pet(void)
{
    const char *pet = "PET_NPROC_PER_NODE=3 PET_NNODES=1 PET_STANDALONE= PET_RDZV_ID=x PET_MAX_RESTARTS=2 ";
    CHECK(run("%s" LAUNCH "sh -c 'echo $WORLD_SIZE $TORCHELASTIC_RUN_ID $TORCHELASTIC_MAX_RESTARTS'", pet) == 0);
    CHECK_TEXT(output, "3 x 2\n3 x 2\n3 x 2\n");
    CHECK(run("%s" LAUNCH "--nproc_per_node 1 sh -c 'echo $WORLD_SIZE'", pet) == 0);
    CHECK_TEXT(output, "1\n");
}

static void runs_python(void)
{
    if (run("python3 -c 0") != 0) CHECK_SKIP("python3 is not installed");
    make_folder();
    FILE *script = fopen(path("ranks.py"), "w");
    fputs("import os, sys\nprint(os.environ['RANK'], sys.argv[1:], sys.flags.optimize)\n", script);
    fclose(script);
    CHECK(run(LAUNCH "%s -n --tee", path("ranks.py")) == 0);
    CHECK_TEXT(output, "0 ['-n', '--tee'] 0\n");
    CHECK(run("cd %s && " LAUNCH "-m ranks a", folder) == 0);
    CHECK_TEXT(output, "0 ['a'] 0\n");
    CHECK(run(LAUNCH "-m --no_python ranks") == 2);
    CHECK(run(LAUNCH "--no-python %s", path("ranks.py")) == 126);
}

/* The number of threads; CPUs are taken by the processes themselves. */
static void shares_cpus_out(void)
{
    CHECK(run("env -u OMP_NUM_THREADS taskset -c 0 " LAUNCH "-n 2 sh -c 'echo $OMP_NUM_THREADS $LOCKSTEP_PIN'") == 0);
    CHECK_TEXT(output, "1\n1\n");
    CHECK(run("OMP_NUM_THREADS=3 " LAUNCH "--no-pin sh -c 'echo $OMP_NUM_THREADS $LOCKSTEP_PIN'") == 0);
    CHECK_TEXT(output, "3 no\n");
    CHECK(run("OMP_NUM_THREADS=3 LOCKSTEP_NUM_THREADS=4 " LAUNCH
              "--enable_cpu_affinity sh -c 'echo $OMP_NUM_THREADS $LOCKSTEP_NUM_THREADS $LOCKSTEP_PIN'") == 0);
    CHECK_TEXT(output, "4 yes\n"); /* who is said to win does */
    CHECK(run("OMP_NUM_THREADS=3 LOCKSTEP_NUM_THREADS=4 " LAUNCH
              "--num_cpu_threads_per_process 5 sh -c 'echo $OMP_NUM_THREADS $LOCKSTEP_NUM_THREADS'") == 0);
    CHECK_TEXT(output, "5\n");
}

static void only_the_first_reads_stdin(void)
{
    CHECK(run("echo text | " LAUNCH "-n 3 sh -c 'echo $RANK $(cat)' | sort") == 0);
    CHECK_TEXT(output, "0 text\n1\n2\n");
}

/* ---- Configuration ---- */

#define CONFIG LOCKSTEP_COMMAND " config "

static void asks_and_remembers(void)
{
    make_folder();
    const char *yaml = path("c.yaml");
    CHECK(run("printf '1\\n1\\nmaybe\\nyes\\n3\\n\\nbf16\\n' | " CONFIG "--config_file %s", yaml) == 0);
    CHECK(says("  1  multi-CPU\n") && says("Please enter yes or no.") && says("lockstep configuration saved at "));
    CHECK(run("cat %s", yaml) == 0);
    CHECK_TEXT(output, "compute_environment: LOCAL_MACHINE\ndebug: true\ndistributed_type: MULTI_CPU\n"
                       "enable_cpu_affinity: false\nmachine_rank: 0\nmixed_precision: bf16\nnum_machines: "
                       "1\nnum_processes: 3\nrdzv_backend: static\nsame_network: true\n"
                       "use_cpu: true\n");
    const char *print = "sh -c 'echo $WORLD_SIZE $ACCELERATE_MIXED_PRECISION $ACCELERATE_DEBUG_MODE' | sort -u";
    CHECK(run(LAUNCH "--config_file %s %s", yaml, print) == 0);
    CHECK_TEXT(output, "3 bf16 true\n");
    /* Options and variables win over the file. */
    CHECK(run("PET_NPROC_PER_NODE=2 " LAUNCH "--config-file %s --mixed_precision no %s", yaml, print) == 0);
    CHECK_TEXT(output, "2 no true\n");
    CHECK(run(CONFIG "--config_file %s </dev/null", path("d.json")) == 0);
    CHECK(run("cat %s", path("d.json")) == 0 && says("  \"distributed_type\": \"NO\",\n"));
    CHECK(run("printf '1\\n2\\n' | " CONFIG "--config_file %s", path("e.yaml")) == 1 && says("the input ended"));
    CHECK(run("printf '1\\n2\\n1\\nnode0\\n\\n\\n\\nyes\\n\\n\\n8\\n' | HOME=/h " CONFIG "--config_file %s",
              path("f.yaml")) == 0);
    CHECK(run("cat %s", path("f.yaml")) == 0 && says("mpirun_config:\n  mpirun_hostfile: /h/hostfile\n"));
}

static void bears_with_odd_answers(void)
{
    make_folder();
    /* A line too long for an answer, numbers out of range, three processes for two machines. */
    CHECK(run("{ head -c 3000 /dev/zero | tr '\\0' 1; printf '\\n7\\nmulti-cpu\\nx\\n2\\n2\\n1\\n "
              "\\nnode0\\n70000\\n1234\\n\\n"
              "c10d\\n\\n\\n3\\n4\\n'; } | " CONFIG "--config_file %s",
              path("c.yaml")) == 0);
    CHECK(says("Please enter a multiple of 2") && says("Please enter a number from 1 to 65535."));
    CHECK(run("cat %s", path("c.yaml")) == 0 &&
          says("machine_rank: 1\nmain_process_ip: node0\nmain_process_port: 1234\n"));
    CHECK(says("num_machines: 2\nnum_processes: 4\nrdzv_backend: c10d\n"));
    /* The end of the input at a terminal: nothing is written. */
    CHECK(run("script -qec '" CONFIG "--config_file %s' /dev/null </dev/null", path("d.yaml")) == 1);
    CHECK(says("nothing was written") && access(path("d.yaml"), F_OK) != 0);
    CHECK(run(CONFIG "--config_file=") == 2 && says("--config_file needs a value"));
    CHECK(run(CONFIG "default --mixed_precision") == 2 && says("--mixed_precision needs a value"));
}

static void writes_the_basic_file(void)
{
    make_folder();
    CHECK(run("LOCKSTEP_HOME=%s/new/home " CONFIG "default --mixed-precision BF16", folder) == 0);
    CHECK(run("LOCKSTEP_HOME=%s/new/home " CONFIG "default", folder) == 0 && says("will not override"));
    CHECK(run("LOCKSTEP_HOME=%s/new/home " LAUNCH "sh -c 'echo $ACCELERATE_MIXED_PRECISION'", folder) == 0);
    CHECK_TEXT(output, "bf16\n");
    CHECK(run(CONFIG "default --mixed_precision fp4") == 2 && says("should be one of"));
    CHECK(run(CONFIG "update --config_file %s", path("none")) == 1 && says("doesn't exist"));
    CHECK(run(CONFIG "upgrade") == 2);
}

static void uses_accelerates_file(void)
{
    make_folder();
    run("mkdir -p %s/accelerate", folder);
    FILE *file = fopen(path("accelerate/default_config.yaml"), "w");
    fputs("distributed_type: MULTI_CPU\nnum_processes: 2\ndowncast_bf16: 'no'\n", file);
    fclose(file);
    CHECK(run("HF_HOME=%s " LAUNCH "sh -c 'echo $WORLD_SIZE'", folder) == 0);
    CHECK(says("defaults from accelerate's ") && says("2\n2\n"));
    CHECK(run("echo 'fsdp_config: {a: 1}' >>%s", path("accelerate/default_config.yaml")) == 0);
    CHECK(run("HF_HOME=%s " LAUNCH "sh -c 'echo $WORLD_SIZE'", folder) == 0);
    CHECK(says("accelerate's file is not used: ") && says("FSDP is not supported") && says("\n1\n"));
    CHECK(run(LAUNCH "--config_file %s true", path("accelerate/default_config.yaml")) == 2);
    CHECK(run(LAUNCH "--config_file %s true", path("missing")) == 2 && says("No such file"));
    CHECK(run("HF_HOME=%s " LOCKSTEP_COMMAND " env", folder) == 0 && says("configuration of the launcher\n  file "));
    CHECK(says("/accelerate/default_config.yaml\n  not used ") && says("FSDP is not supported"));
    CHECK(run(LOCKSTEP_COMMAND " env --config_file %s", path("accelerate/default_config.yaml")) == 0);
    CHECK(says("/accelerate/default_config.yaml\n  not used ") && says("\n  memory                             "));
    CHECK(run(LOCKSTEP_COMMAND " env --json --config-file=%s", path("missing")) == 0 && says("No such file"));
    CHECK(run(LOCKSTEP_COMMAND " env --config_file") == 2);
    CHECK(run("LOCKSTEP_HOME=%s " CONFIG "default --mixed_precision bf16; LOCKSTEP_HOME=%s " LOCKSTEP_COMMAND " env",
              folder, folder) == 0);
    CHECK(says("\n  mixed_precision                    bf16\n") && says("\n  num_processes                      1\n"));
}

/* They are named once, and stay. */
static void keeps_keys_of_accelerate(void)
{
    make_folder();
    CHECK(run("printf 'distributed_type: NO\\ntpu_name: pod\\ntpu_env: []\\n' >%s && " CONFIG "update --config_file %s",
              path("k.yaml"), path("k.yaml")) == 0);
    CHECK(says("kept, but without effect here: tpu_name\n") && says("Successfully updated"));
    CHECK(run("cat %s", path("k.yaml")) == 0 && says("\ntpu_name: pod\ntpu_env: []\n"));
    CHECK(run(LAUNCH "-n 2 --config_file %s true", path("k.yaml")) == 0);
    CHECK(says("k.yaml: these keys have no effect here: tpu_name\n"));
    CHECK(run(LOCKSTEP_COMMAND " env --config_file %s", path("k.yaml")) == 0);
    CHECK(says("  without effect                     tpu_name\n"));
}

/* Programs that print how they are called, in place of those of Open MPI and of MPICH. */
static void make_mpirun(const char *name, const char *version)
{
    FILE *file = fopen(path(name), "w");
    fprintf(file,
            "#!/bin/sh\nif [ \"$1\" = --version ]; then echo '%s'; exit; fi\n"
            "echo $0 $*; echo $ACCELERATE_MIXED_PRECISION $OMP_NUM_THREADS $MASTER_ADDR; exit 7\n",
            version);
    fclose(file);
    chmod(path(name), 0755);
}

static void calls_mpirun(void)
{
    make_folder();
    const char *line = "PATH=%s:$PATH OMP_NUM_THREADS=3 " LAUNCH "--config_file %s %s";
    char file[200];
    snprintf(file, sizeof file, "%s", path("mpi.yaml"));
    FILE *config = fopen(file, "w");
    fputs("distributed_type: MULTI_CPU\nmain_process_ip: node0\nmain_process_port: 29500\nmixed_precision: bf16\n"
          "mpirun_config:\n  mpirun_ccl: '1'\n  mpirun_hostfile: /etc/mpi/hostfile\nnum_machines: 4\n"
          "num_processes: 16\n",
          config);
    fclose(config);
    make_mpirun("mpirun", "HYDRA build details:");
    CHECK(run(line, folder, file, "./program --cpu") == 7);
    CHECK(says("/mpirun -f /etc/mpi/hostfile -ppn 4 -n 16 ./program --cpu\nbf16 3 node0\n"));
    make_mpirun("mpirun", "mpirun (Open MPI) 4.1.4");
    CHECK(run(line, folder, file, "./program --cpu") == 7);
    CHECK(says("/mpirun --hostfile /etc/mpi/hostfile --npernode 4 -n 16 --bind-to socket -x OMP_NUM_THREADS=3"));
    CHECK(says(" -x MASTER_ADDR=node0 -x MASTER_PORT=29500 -x ACCELERATE_MIXED_PRECISION=bf16 -x CCL_WORKER_COUNT=1 "
               "./program --cpu\n"));
    CHECK(run(line, folder, file, "--max-restarts 1 true") == 2 && says("--max-restarts cannot be used with --mpirun"));
    CHECK(run(line, folder, file, "-n 3 true") == 2 && says("--num_processes 3 cannot be divided among 4 hosts"));
    CHECK(run(LAUNCH "--mpirun_hostfile a true") == 2 && says("mpirun needs --num_processes"));
    CHECK(run("PATH=/nowhere " LAUNCH "--mpirun_hostfile a -n 2 true") == 2 &&
          says("neither mpirun nor mpiexec was found"));
}

/* ---- Output ---- */

static void keeps_lines_whole(void)
{
    CHECK(run(LAUNCH "-n 4 " WORKER " print 300") == 0);
    int lines = 0;
    for (char *line = output, *end; (end = strchr(line, '\n')); line = end + 1, lines++)
        for (char *c = line; c < end; c++) CHECK(*c == *line);
    CHECK(lines == 4 * 300);
}

static void writes_torchruns_files(void)
{
    make_folder();
    CHECK(run(LAUNCH
              "-n 12 --rdzv-id j --log-dir %s --redirects 10:3,11:1 --tee 0:1 sh -c 'echo out $RANK; echo err >&2'",
              folder) == 0);
    CHECK(says("[default0]:out 0\n") && !strstr(output, "out 10\n") && says("out 9\n"));
    CHECK(run("cat %s/j_*/attempt_0/10/stderr.log %s/j_*/attempt_0/11/stdout.log %s/j_*/attempt_0/0/stdout.log", folder,
              folder, folder) == 0);
    CHECK_TEXT(output, "err\nout 11\nout 0\n");
    CHECK(run(LAUNCH "--log-dir %s --redirects 3 " WORKER " say 1", folder) == 1);
    CHECK(says("    the last words\n") && says("logs of all workers: "));
}

static void a_full_disk_costs_the_log(void)
{
    if (!may_mount()) return;
    make_folder();
    CHECK(run("mkdir %s/disk && unshare -m sh -c 'mount -t tmpfs -o size=64k none %s/disk && exec " LAUNCH
              "-n 2 --tee 3 --log-dir %s/disk " WORKER " print 200 | wc -l'",
              folder, folder, folder) == 0);
    CHECK(says("a log file ends here, and the job continues: No space left on device") && says("400\n"));
}

static void marks_lines_with_ranks(void)
{
    CHECK(
        run(LAUNCH
            "-n 2 --prefix --log-line-prefix-template '<${rank}> ' --local-ranks-filter 1 sh -c 'echo a; printf b'") ==
        0);
    CHECK_TEXT(output, "<1> a\n<1> b\n");
}

static void passes_a_prompt_on(void)
{
    make_folder();
    /* It ends its line when the prompt has been seen. */
    CHECK(run(LAUNCH "--prefix sh -c 'printf name?; until grep -q name %s; do sleep 0.01; done; echo' >%s",
              path("seen"), path("seen")) == 0);
    CHECK(run("cat %s", path("seen")) == 0);
    CHECK_TEXT(output, "[default0]:name?[default0]:\n");
}

static void supervises_while_nobody_reads(void)
{
    /* The reader of its output sleeps; the pipe is full; SIGTERM must still end the job. */
    CHECK(run("{ timeout -s TERM 0.5 " LAUNCH "-n 2 --shutdown-timeout 1 sh -c 'yes'; echo $? >%s; } | sleep 4",
              path("rc")) == 0);
    CHECK(run("cat %s", path("rc")) == 0);
    CHECK_TEXT(output, "124\n");
}

static void notices_that_nobody_reads(void)
{
    CHECK(run(LAUNCH "-n 2 sh -c 'yes' | head -n 2 | wc -l") == 0);
    CHECK(strstr(output, "2\n"));
}

static void starts_many(void)
{
    CHECK(run(LAUNCH "-n 64 sh -c 'echo $RANK' | sort -n | uniq | wc -l") == 0);
    CHECK(atoi(output) == 64);
    CHECK(run(LAUNCH "-n 64 " WORKER " 63=exit 5") == 5);
    /* Files for more than may be open at first; workers keep that number. */
    CHECK(run("ulimit -Sn 40; " LAUNCH "-n 30 --no-pin sh -c 'ulimit -Sn' | sort -u") == 0);
    CHECK_TEXT(output, "40\n");
}

int main(int argc, char **argv)
{
    begin_shell(argc, argv);
    CHECK_RUN(succeeds);
    CHECK_RUN(passes_exit_codes_on);
    CHECK_RUN(names_signals);
    CHECK_RUN(shows_the_last_words);
    CHECK_RUN(tells_kubernetes);
    CHECK_RUN(kills_what_does_not_go);
    CHECK_RUN(stops_stopped_workers);
    CHECK_RUN(lets_programs_save);
    CHECK_RUN(dies_at_the_second_request);
    CHECK_RUN(workers_die_with_the_launcher);
    CHECK_RUN(starts_from_anywhere);
    CHECK_RUN(nohup_is_heeded);
    CHECK_RUN(is_a_good_first_process);
    CHECK_RUN(leaves_no_process);
    CHECK_RUN(leaves_no_file);
    CHECK_RUN(leaves_earlier_children_alone);
    CHECK_RUN(restarts_all_within_the_budget);
    CHECK_RUN(does_not_restart_for_ever);
    CHECK_RUN(refuses_by_name);
    CHECK_RUN(speaks_torchrun);
    CHECK_RUN(speaks_accelerate);
    CHECK_RUN(takes_defaults_from_pet);
    CHECK_RUN(runs_python);
    CHECK_RUN(shares_cpus_out);
    CHECK_RUN(only_the_first_reads_stdin);
    CHECK_RUN(asks_and_remembers);
    CHECK_RUN(bears_with_odd_answers);
    CHECK_RUN(writes_the_basic_file);
    CHECK_RUN(uses_accelerates_file);
    CHECK_RUN(keeps_keys_of_accelerate);
    CHECK_RUN(calls_mpirun);
    CHECK_RUN(keeps_lines_whole);
    CHECK_RUN(writes_torchruns_files);
    CHECK_RUN(a_full_disk_costs_the_log);
    CHECK_RUN(marks_lines_with_ranks);
    CHECK_RUN(passes_a_prompt_on);
    CHECK_RUN(supervises_while_nobody_reads);
    CHECK_RUN(notices_that_nobody_reads);
    CHECK_RUN(starts_many);
    return check_done();
}
