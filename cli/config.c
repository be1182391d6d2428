/* config.c - lockstep config: questions whose answers become the defaults of `lockstep launch`. */
#include <lockstep/launch.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "options.h"

enum { LONGEST = 1024 };

static int failed(const char *why)
{
    fprintf(stderr, "lockstep config: %s\n", why);
    return EXIT_FAILURE;
}

/* ---- Questions ------------------------------------------------------------------------------------------------ */

/* Read one line, without surrounding blanks; empty at the end of the input, where every question has its default.
 * Ending the input at a terminal quits. */
static void read_answer(char *answer)
{
    char line[LONGEST] = "";
    bool ended = !fgets(line, sizeof line, stdin);
    if (ended) putchar('\n');
    if (ended && isatty(STDIN_FILENO)) exit(failed("nothing was written"));
    if (!ended && !strchr(line, '\n')) /* too long for an answer: skip the rest */
        for (int c = getchar(); c != EOF && c != '\n';) c = getchar();
    char *begin = line, *end = line + strlen(line);
    while (isspace((unsigned char)*begin)) begin++;
    while (end > begin && isspace((unsigned char)end[-1])) end--;
    *end = '\0';
    memcpy(answer, begin, (size_t)(end - begin) + 1);
    if (!isatty(STDIN_FILENO)) puts(answer);
}

static int ask_number(const char *question, int fallback, int least, int most)
{
    char answer[LONGEST], *end;
    for (;;) {
        printf("%s [%d]: ", question, fallback);
        fflush(stdout);
        read_answer(answer);
        if (!*answer) return fallback;
        long value = strtol(answer, &end, 10);
        if (!*end && value >= least && value <= most) return (int)value;
        printf("Please enter a number from %d to %d.\n", least, most);
    }
}

static bool ask_yes(const char *question, bool fallback)
{
    char answer[LONGEST];
    for (;;) {
        printf("%s [%s]: ", question, fallback ? "YES/no" : "yes/NO");
        fflush(stdout);
        read_answer(answer);
        if (!*answer) return fallback;
        if (strcasecmp(answer, "yes") == 0 || strcasecmp(answer, "y") == 0) return true;
        if (strcasecmp(answer, "no") == 0 || strcasecmp(answer, "n") == 0) return false;
        puts("Please enter yes or no.");
    }
}

/* By number or by name; the first is the default. Returns its index. */
static int ask_choice(const char *question, const char *const *choices, int count)
{
    char answer[LONGEST], *end;
    for (;;) {
        printf("%s\n", question);
        for (int i = 0; i < count; i++) printf("  %d  %s\n", i, choices[i]);
        printf("[0]: ");
        fflush(stdout);
        read_answer(answer);
        long value = strtol(answer, &end, 10);
        if (!*end && value >= 0 && value < count) return (int)value;
        for (int i = 0; i < count; i++)
            if (strcasecmp(answer, choices[i]) == 0) return i;
        printf("Please enter a number from 0 to %d.\n", count - 1);
    }
}

/* Without a default: repeated until there is an answer. False at the end of the input. */
static bool ask_text(const char *question, char *answer, size_t size)
{
    char line[LONGEST];
    while (!feof(stdin)) {
        printf("%s ", question);
        fflush(stdout);
        read_answer(line);
        if (*line && strlen(line) < size) {
            strcpy(answer, line);
            return true;
        }
    }
    return false;
}

/* Ask for a path, by default in the user's home, which "~/" stands for. Repeated until it is short enough. */
static void ask_path(const char *question, const char *fallback, char *path, size_t size)
{
    char line[LONGEST];
    const char *home = getenv("HOME");
    int length;
    do {
        printf("%s [~/%s]: ", question, fallback);
        fflush(stdout);
        read_answer(line);
        bool below = !*line || strncmp(line, "~/", 2) == 0;
        length = snprintf(path, size, "%s%s%s", below && home ? home : "", below ? "/" : "",
                          !*line  ? fallback
                          : below ? line + 2
                                  : line);
    } while (length >= (int)size);
}

#define CHECK_QUESTION                                                                                                 \
    "Should distributed operations be checked while running for errors? This can avoid timeout issues but will be "    \
    "slower."

/* ---- The three subcommands -------------------------------------------------------------------------------------- */

static bool ask_about_machines(ls_launch_config *config)
{
    static const char *const backends[] = {"static", "c10d"};
    config->num_machines = ask_number(
        "How many different machines will you use (use more than 1 for multi-node training)?", 1, 1, 1 << 16);
    if (config->num_machines == 1) return true;
    config->machine_rank = ask_number("What is the rank of this machine?", 0, 0, config->num_machines - 1);
    if (!ask_text("What is the IP address of the machine that will host the main process?", config->main_process_ip,
                  sizeof config->main_process_ip))
        return false;
    config->main_process_port =
        ask_number("What is the port you will use to communicate with the main process?", 29500, 1, 65535);
    config->same_network = ask_yes("Are all the machines on the same local network?", true);
    strcpy(config->rdzv_backend, backends[ask_choice("What rendezvous backend will you use?", backends, 2)]);
    if (ask_yes("Do you want lockstep to launch mpirun, which then starts the processes on all machines?", false))
        ask_path("Please enter the path to the hostfile to use with mpirun", "hostfile", config->mpirun_hostfile,
                 sizeof config->mpirun_hostfile);
    return true;
}

static int ask_processes(const char *question, int fallback, int machines)
{
    for (;;) {
        int count = ask_number(question, fallback, machines, 1 << 20);
        if (count % machines == 0) return count;
        printf("Please enter a multiple of %d: they are distributed evenly.\n", machines);
    }
}

static int write_to(const char *path, const ls_launch_config *config, const char *message)
{
    char why[LONGEST];
    if (ls_launch_config_write(path, config, why, sizeof why)) return failed(why);
    printf(message, path);
    return EXIT_SUCCESS;
}

/* Which of them is left to CUDA_VISIBLE_DEVICES, unless the answer is a list. */
static void ask_gpus(ls_launch_config *config)
{
    int here = ls_launch_gpus();
    config->num_processes = ask_processes("How many GPU(s) should be used for distributed training?",
                                          (here ? here : 1) * config->num_machines, config->num_machines);
    printf("What GPU(s) (by id) should be used for training on this machine as a comma-separated list? [all]: ");
    fflush(stdout);
    char answer[LONGEST];
    read_answer(answer);
    snprintf(config->gpu_ids, sizeof config->gpu_ids, "%.200s", *answer ? answer : "all");
}

/* On one host: in a cluster, lockstep launch is started on every worker. */
static void ask_about_tpus(ls_launch_config *config)
{
    int here = ls_launch_tpus();
    strcpy(config->distributed_type, "TPU");
    config->debug = ask_yes(CHECK_QUESTION, false);
    config->num_processes =
        ask_number("How many TPU cores should be used for distributed training?", here ? here : 1, 1, 1 << 16);
}

static bool ask_about_processes(ls_launch_config *config, bool on_gpus)
{
    strcpy(config->distributed_type, on_gpus ? "MULTI_GPU" : "MULTI_CPU");
    if (!ask_about_machines(config)) return false;
    config->debug = ask_yes(CHECK_QUESTION, false);
    if (on_gpus) ask_gpus(config);
    else
        config->num_processes =
            ask_processes("How many processes should be used for distributed training, on all machines together?",
                          config->num_machines, config->num_machines);
    return true;
}

static int ask(const char *path)
{
    enum { NOT_DISTRIBUTED, MULTI_CPU, MULTI_GPU, TPU, MACHINES };
    static const char *const machines[MACHINES] = {"No distributed training", "multi-CPU", "multi-GPU", "TPU"};
    static const char *const precisions[] = {"no", "fp16", "bf16"};
    ls_launch_config config;
    ls_launch_config_default(&config);
    int machine = ask_choice("Which type of machine are you using?", machines, MACHINES);
    if (machine == TPU) ask_about_tpus(&config);
    else if (machine && !ask_about_processes(&config, machine == MULTI_GPU))
        return failed("the input ended before a question that has no default");
    if (machine == MULTI_GPU && config.num_processes == 1)
        return failed("Specified distributed type MULTI_GPU but only using 1 GPU on a single machine. Please select "
                      "`No distributed training` for the type of machine you are using.");
    config.use_cpu = machine == MULTI_CPU || (machine == NOT_DISTRIBUTED && !ls_launch_gpus() && !ls_launch_tpus());
    if (machine == NOT_DISTRIBUTED && !config.use_cpu)
        config.use_cpu = ask_yes("Do you want to run your training on CPU only (even if a GPU is available)?", false);
    config.num_cpu_threads_per_process =
        ask_number("How many threads should each process use (0: its share of the CPUs)?", 0, 0, 1 << 16);
    strcpy(config.mixed_precision, precisions[ask_choice("Do you wish to use mixed precision?", precisions, 3)]);
    if (machine == TPU && strcmp(config.mixed_precision, "bf16") == 0)
        config.downcast_bf16 = ask_yes(
            "Should f32 numbers be stored as bf16 on TPUs, and f64 as f32 (mixed precision does not need it)?", false);
    return write_to(path, &config, "lockstep configuration saved at %s\n");
}

static int write_default(const char *path, const char *precision)
{
    char why[2 * LONGEST];
    ls_status status = ls_launch_config_write_basic(path, precision, why, sizeof why);
    if (status && status != LS_ERR_STATE) return failed(why);
    if (status) puts(why); /* there is a file already */
    else printf("lockstep configuration saved at %s\n", path);
    return EXIT_SUCCESS;
}

static int update(const char *path)
{
    ls_launch_config config;
    char why[LONGEST];
    if (access(path, F_OK) != 0) {
        snprintf(why, sizeof why, "The passed config file located at %.900s doesn't exist.", path);
        return failed(why);
    }
    if (ls_launch_config_read(path, &config, why, sizeof why)) return failed(why);
    if (*config.ineffective)
        fprintf(stderr, "lockstep config: kept, but without effect here: %s\n", config.ineffective);
    return write_to(path, &config, "Successfully updated the configuration file at %s.\n");
}

static int run(int argc, char **argv)
{
    static const char *const precisions[] = {"no", "fp16", "bf16"};
    char path[LONGEST];
    const char *file = NULL, *precision = NULL;
    const option_row rows[] = {{.name = "--config_file", .text = &file},
                               {.name = "--mixed_precision", .text = &precision}};
    int left = options_read(&command_config, argc, argv, rows, 2);
    const char *form = left > 0 ? argv[1] : "";
    bool by_default = strcmp(form, "default") == 0, updates = strcmp(form, "update") == 0, known = false;
    if (left < 0) return EXIT_USAGE;
    if (left > 1 || (*form && !by_default && !updates)) return no_such_option(&command_config, argv[left]);
    if (precision && !by_default) return no_such_option(&command_config, "--mixed_precision");
    if (!precision) precision = "no";
    if (file && strlen(file) >= sizeof path) return failed("the path of --config_file is too long");
    if (file) strcpy(path, file);
    else ls_launch_config_place(path, sizeof path);
    for (int i = 0; i < 3; i++) known |= strcasecmp(precision, precisions[i]) == 0;
    if (!known) {
        fprintf(stderr, "lockstep config: `mixed_precision` should be one of 'no', 'fp16' or 'bf16'. Received %s\n",
                precision);
        return EXIT_USAGE;
    }
    return by_default ? write_default(path, precision) : updates ? update(path) : ask(path);
}

const command command_config = {
    .name = "config",
    .summary = "answer a few questions to set the defaults of lockstep launch",
    .usage =
        "usage: lockstep config [--config_file FILE]\n"
        "       lockstep config default [--config_file FILE] [--mixed_precision no|fp16|bf16]\n"
        "       lockstep config update [--config_file FILE]\n"
        "\n"
        "Asks how you train and writes the answers to FILE: YAML, or JSON if the name ends in .json. Answers may\n"
        "also come from a file or a pipe, one per line; an empty or missing line takes the default in brackets.\n"
        "`default` asks nothing. `update` reads a file, also of accelerate, and rewrites it.\n"
        "\n"
        "FILE defaults to default_config.yaml in LOCKSTEP_HOME, or in lockstep in the user's cache folder. `lockstep\n"
        "launch` takes defaults from there or, if it does not exist, from accelerate's file.\n"
        "\n"
        "  --config_file FILE                 the file to write, or to update\n"
        "  --mixed_precision no|fp16|bf16     number type of matrix products, for `default`\n",
    .run = run,
};
