/* options.c - every row of cli/launch_options.def, in all its spellings, by what it makes of the call that launches. */
#include <lockstep/launch.h>

#include <unistd.h>

#include "check.h"

#include "launch.h"

/* ---- The call, caught ---- */

enum { MOST = 8192, CODE = 9 };
static char caught[MOST], said[MOST];

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...)
{
    size_t used = strlen(caught);
    va_list args;
    va_start(args, format);
    vsnprintf(caught + used, sizeof caught - used, format, args);
    va_end(args);
}

/* What the command calls here in place of the library. */
int ls_launch_program_sized(char *const *argv, const ls_launch_opts *o, size_t opts_size)
{
    CHECK(opts_size == LS_OPTS_SIZE(ls_launch_opts));
    /* clang-format off */
#define INTEGER(name) note(#name "=%d\n", (int)o->name);
#define NUMBER(name) note(#name "=%g\n", o->name);
#define TEXT(name) note(#name "=%s\n", o->name ? o->name : "");
    INTEGER(num_processes) INTEGER(max_restarts) INTEGER(max_quick_restarts) NUMBER(shutdown_timeout)
    TEXT(master_addr) INTEGER(master_port) TEXT(run_id) TEXT(role) INTEGER(min_hosts) INTEGER(max_hosts)
    INTEGER(host_rank) INTEGER(elastic) INTEGER(leads) TEXT(hostfile) TEXT(endpoint) TEXT(token) NUMBER(join_timeout)
    NUMBER(last_call) NUMBER(heartbeat) NUMBER(dead_after) INTEGER(num_threads) INTEGER(pin) TEXT(log_dir)
    TEXT(tee) TEXT(redirects) INTEGER(prefix) TEXT(prefix_template) TEXT(show_ranks) INTEGER(quiet)
#undef INTEGER
#undef NUMBER
#undef TEXT
        /* clang-format on */
        for (const char *const *variable = o->environment; *variable; variable++) note("%s\n", *variable);
    for (; *argv; argv++) note("word %s\n", *argv);
    return CODE;
}

void write_page(const command *about, FILE *to)
{
    (void)about, (void)to;
}

const char *nearest(const char *wanted, const char *const *names, size_t count)
{
    (void)wanted, (void)names, (void)count;
    return NULL;
}

/* Run the command; what it calls is in `caught`, what it says in `said`. */
static int launch_words(int argc, char **argv)
{
    caught[0] = '\0';
    fflush(stderr);
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    int code = command_launch.run(argc, argv);
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = '\0';
    fclose(file);
    if (caught[0]) note("code=%d\n", code);
    return code;
}

/* With these words, separated by blanks. */
static int launch(const char *words)
{
    char line[1024], *argv[64] = {"launch"};
    int argc = 1;
    snprintf(line, sizeof line, "%s", words);
    for (char *word = strtok(line, " "); word; word = strtok(NULL, " ")) argv[argc++] = word;
    argv[argc] = NULL;
    return launch_words(argc, argv);
}

/* The lines of `caught` that are not in `usual`, separated by blanks. */
static const char *difference(const char *usual)
{
    static char text[MOST];
    text[0] = '\0';
    for (char *line = caught, *end; (end = strchr(line, '\n')); line = end + 1) {
        char whole[512];
        snprintf(whole, sizeof whole, "\n%.*s\n", (int)(end - line), line);
        if (strstr(usual, whole)) continue;
        whole[strlen(whole) - 1] = '\0';
        if (text[0]) strcat(text, " ");
        strcat(text, whole + 1);
    }
    return text;
}

/* ---- The rows ---- */

typedef enum kind { COUNT, POSITIVE, NUMBER, TEXT, SWITCH, CHOICE, IDLE, REFUSED } kind;
static const struct row {
    const char *name;
    char letter;
    kind kind;
    const char *argument, *pet;
} rows[OPTION_COUNT] = {
#define OPTION(symbol, name, letter, kind, argument, pet, ...) [OPTION_##symbol] = {name, letter, kind, argument, pet},
#include "launch_options.def"
#undef OPTION
};

#define TWO_HOSTS "--nnodes 2 --master-addr a "

/* A value, what changes with it, and what else has to be given for it to matter. */
static const struct effect {
    const char *value, *change, *with;
} effects[OPTION_COUNT] = {
    [OPTION_NUM_PROCESSES] = {"3", "num_processes=3", ""},
    [OPTION_NPROC_PER_NODE] = {"3", "num_processes=3", ""},
    [OPTION_NUM_THREADS] = {"3", "num_threads=3", ""},
    [OPTION_NO_PIN] = {"", "pin=0", ""},
    [OPTION_ENABLE_CPU_AFFINITY] = {"", "LOCKSTEP_PIN=yes", ""},
    [OPTION_MODULE] = {"", "word python3 word -u word -m", ""},
    [OPTION_NO_PYTHON] = {"", "", ""}, /* see below */
    [OPTION_HELP] = {"", "", ""},      /* nothing is launched */
    [OPTION_CONFIG_FILE] = {"options_test.yaml", "num_processes=5 ACCELERATE_MIXED_PRECISION=bf16", ""},
    [OPTION_MIXED_PRECISION] = {"bf16", "ACCELERATE_MIXED_PRECISION=bf16", ""},
    [OPTION_ACCUMULATION] = {"4", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS=4", ""},
    [OPTION_CLIPPING] = {"1.5", "ACCELERATE_GRADIENT_CLIPPING=1.5", ""},
    [OPTION_CPU] = {"", "ACCELERATE_USE_CPU=True", ""},
    [OPTION_DEBUG] = {"", "ACCELERATE_DEBUG_MODE=true", ""},
    [OPTION_MULTI_GPU] = {"", "LOCKSTEP_DEVICE=cuda LOCKSTEP_USE_CPU=0", "-n 2 "},
    [OPTION_GPU_IDS] = {"0,1", "num_processes=2 CUDA_VISIBLE_DEVICES=0,1 LOCKSTEP_DEVICE=cuda LOCKSTEP_USE_CPU=0", ""},
    [OPTION_TPU] = {NULL, NULL, NULL}, /* refused without chips: see run/tpus.c */
    [OPTION_DOWNCAST_BF16] = {"", "ACCELERATE_DOWNCAST_BF16=true", ""},
    [OPTION_DYNAMO_BACKEND] = {"inductor", "ACCELERATE_DYNAMO_BACKEND=inductor", ""},
    [OPTION_DYNAMO_MODE] = {"default", "ACCELERATE_DYNAMO_MODE=default", ""},
    [OPTION_DYNAMO_FULLGRAPH] = {"", "ACCELERATE_DYNAMO_USE_FULLGRAPH=True", ""},
    [OPTION_DYNAMO_DYNAMIC] = {"", "ACCELERATE_DYNAMO_USE_DYNAMIC=True", ""},
    [OPTION_DYNAMO_REGIONAL] = {"", "ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION=True", ""},
    [OPTION_NNODES] = {"1:4", "max_hosts=4 elastic=1", ""},
    [OPTION_HOSTFILE] = {"hosts", "num_processes=-2147483648 hostfile=hosts", ""},
    [OPTION_MPIRUN_HOSTFILE] = {NULL, NULL, NULL}, /* another program: see command.c */
    [OPTION_MPIRUN_CCL] = {"3", "CCL_WORKER_COUNT=3", ""},
    [OPTION_NUM_MACHINES] = {"2", "min_hosts=2 max_hosts=2", ""},
    [OPTION_NODE_RANK] = {"1", "host_rank=1", TWO_HOSTS},
    [OPTION_MACHINE_RANK] = {"1", "host_rank=1", TWO_HOSTS},
    [OPTION_MASTER_ADDR] = {"b", "master_addr=b", ""},
    [OPTION_MAIN_PROCESS_IP] = {"b", "master_addr=b", ""},
    [OPTION_MASTER_PORT] = {"77", "master_port=77", ""},
    [OPTION_MAIN_PROCESS_PORT] = {"77", "master_port=77", ""},
    [OPTION_STANDALONE] = {"", "master_addr= min_hosts=1 max_hosts=1", TWO_HOSTS},
    [OPTION_RDZV_BACKEND] = {"c10d", "elastic=1", ""},
    [OPTION_RDZV_ENDPOINT] = {"c:5", "endpoint=c:5", ""},
    [OPTION_RDZV_ID] = {"job", "run_id=job", ""},
    [OPTION_RDZV_CONF] = {"join_timeout=7,last_call_timeout=0.5,heartbeat=3,dead_after=9",
                          "join_timeout=7 last_call=0.5 heartbeat=3 dead_after=9", ""},
    [OPTION_LOCAL_ADDR] = {"d", "master_addr=d", "--rdzv-backend c10d --rdzv-endpoint c:5 "},
    [OPTION_MAX_RESTARTS] = {"6", "max_restarts=6", ""},
    [OPTION_MAX_QUICK_RESTARTS] = {"6", "max_quick_restarts=6", ""},
    [OPTION_SHUTDOWN_TIMEOUT] = {"2.5", "shutdown_timeout=2.5", ""},
    [OPTION_EXIT_CODE_COMPAT] = {"torchrun", "code=1", ""},
    [OPTION_QUIET] = {"", "quiet=1", ""},
    [OPTION_TEE] = {"0:3,1:2", "tee=0:3,1:2", ""},
    [OPTION_REDIRECTS] = {"3", "redirects=3", ""},
    [OPTION_LOG_DIR] = {"logs", "log_dir=logs", ""},
    [OPTION_PREFIX] = {"", "prefix=1", ""},
    [OPTION_PREFIX_TEMPLATE] = {"<${rank}>", "prefix_template=<${rank}>", ""},
    [OPTION_LOCAL_RANKS_FILTER] = {"0,2", "show_ranks=0,2", ""},
    [OPTION_ROLE] = {"trainer", "role=trainer", ""},
};

/* A name that stands for a family, by one of its members. */
static void spell(const char *name, char dash, char to[80])
{
    snprintf(to, 80, "--%s", name);
    for (char *c = to + 2; *c; c++) {
        if (*c == '-' || *c == '_') *c = dash;
        if (*c == '*') strcpy(c, "x");
    }
}

static char usual[MOST + 1];

static void set_usual(const char *with)
{
    char words[256];
    snprintf(words, sizeof words, "%sprogram a", with);
    CHECK(launch(words) == CODE);
    strcpy(usual, "\n");
    strcat(usual, caught);
}

static void check_change(option i, const char *form)
{
    char words[512];
    snprintf(words, sizeof words, "%s%s program a", effects[i].with, form);
    launch(words);
    CHECK_MSG(strcmp(difference(usual), effects[i].change) == 0, "%s changes \"%s\", not \"%s\" (%s)", words,
              difference(usual), effects[i].change, said);
    CHECK_TEXT(said, "");
}

static void every_option_reaches_the_call(void)
{
    for (option i = 0; i < OPTION_COUNT; i++) {
        if (rows[i].kind == IDLE || rows[i].kind == REFUSED || i == OPTION_MPIRUN_HOSTFILE || i == OPTION_TPU) continue;
        char name[80], form[256];
        const char *value = effects[i].value;
        CHECK_MSG(value, "--%s is not in this test's table", rows[i].name);
        if (!value) continue;
        CHECK((*value != '\0') == (rows[i].argument[0] != '\0'));
        set_usual(effects[i].with);
        for (const char *dash = "-_"; *dash; dash++) {
            spell(rows[i].name, *dash, name);
            snprintf(form, sizeof form, "%s %s", name, value);
            check_change(i, form);
            snprintf(form, sizeof form, "%s%s%s", name, *value ? "=" : "", value);
            check_change(i, form);
        }
        if (rows[i].letter) {
            snprintf(form, sizeof form, "-%c %s", rows[i].letter, value);
            check_change(i, form);
            snprintf(form, sizeof form, "-%c%s", rows[i].letter, value);
            check_change(i, form);
        }
        if (rows[i].pet[0]) {
            setenv(rows[i].pet, *value ? value : "1", 1);
            check_change(i, "");
            unsetenv(rows[i].pet);
        }
    }
}

static void the_command_line_wins_over_variables(void)
{
    setenv("PET_MAX_RESTARTS", "8", 1);
    setenv("PET_NPROC_PER_NODE", "7", 1);
    setenv("PET_STANDALONE", "0", 1);
    set_usual("--nproc-per-node 1 --max-restarts 0 ");
    CHECK(strstr(usual, "\nmax_restarts=0\n") && strstr(usual, "\nnum_processes=1\n"));
    unsetenv("PET_MAX_RESTARTS");
    unsetenv("PET_NPROC_PER_NODE");
    unsetenv("PET_STANDALONE");
}

static void torchruns_second_names_are_known(void)
{
    set_usual("");
    setenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "<>", 1);
    setenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "3", 1);
    CHECK(launch("program a") == CODE);
    CHECK_TEXT(difference(usual), "shutdown_timeout=3 prefix_template=<>");
    unsetenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
    unsetenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
}

static void blanks_in_settings_are_fine(void)
{
    char *words[] = {"launch", "--rdzv-conf", " join_timeout=7, heartbeat=3 ", "program", NULL};
    caught[0] = '\0';
    CHECK(command_launch.run(4, words) == CODE);
    CHECK(strstr(caught, "\njoin_timeout=7\n") && strstr(caught, "\nheartbeat=3\n"));
    set_usual("");
    launch("--rdzv-conf is_host=True,store_type=tcp,use_libuv=0 program a");
    CHECK_TEXT(difference(usual), "leads=1");
    launch("--rdzv-conf is_host=0,last_call_timeout=0 program a");
    CHECK(strstr(difference(usual), "leads=0 last_call=0"));
    CHECK(launch("--rdzv-conf is_host=maybe program") == EXIT_USAGE);
    CHECK(launch("--rdzv-conf store_type=file program") == EXIT_USAGE);
    CHECK(launch("--rdzv-conf join_timeout=nan program") == EXIT_USAGE);
}

static void idle_options_say_so(void)
{
    for (option i = 0; i < OPTION_COUNT; i++) {
        if (rows[i].kind != IDLE) continue;
        char name[80], words[160];
        set_usual("");
        spell(rows[i].name, '_', name);
        snprintf(words, sizeof words, "%s %s program a", name, rows[i].argument[0] ? "1" : "");
        CHECK(launch(words) == CODE);
        CHECK_TEXT(difference(usual), "");
        CHECK_MSG(strstr(said, " has no effect: "), "%s: %s", words, said);
        if (!rows[i].pet[0]) continue;
        setenv(rows[i].pet, "1", 1);
        CHECK(launch("program a") == CODE);
        CHECK_TEXT(difference(usual), "");
        CHECK_MSG(strstr(said, rows[i].pet) && strstr(said, " has no effect: "), "%s: %s", rows[i].pet, said);
        unsetenv(rows[i].pet);
    }
}

static void others_are_refused_with_the_reason(void)
{
    for (option i = 0; i < OPTION_COUNT; i++) {
        if (rows[i].kind != REFUSED) continue;
        char name[80], words[160], expected[200];
        for (const char *dash = "-_"; *dash; dash++) {
            spell(rows[i].name, *dash, name);
            snprintf(words, sizeof words, "%s program", name);
            snprintf(expected, sizeof expected, "lockstep launch: %s cannot be used: ", name);
            CHECK(launch(words) == EXIT_USAGE && !caught[0]);
            CHECK_MSG(strncmp(said, expected, strlen(expected)) == 0 && strlen(said) > strlen(expected) + 5, "%s: %s",
                      words, said);
        }
        if (!rows[i].pet[0]) continue;
        setenv(rows[i].pet, "1", 1);
        CHECK(launch("program") == EXIT_USAGE && strstr(said, rows[i].pet));
        setenv(rows[i].pet, rows[i].argument[0] ? "" : "0", 1); /* the default, spelt out */
        CHECK_MSG(launch("program") == CODE, "%s: %s", rows[i].pet, said);
        unsetenv(rows[i].pet);
    }
    CHECK(launch("--nonsense program") == EXIT_USAGE && strstr(said, "unknown option \"--nonsense\""));
}

static void the_help_page_has_them_all(void)
{
    char *page = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&page, &size);
    launch_options_list(to);
    fclose(to);
    for (option i = 0; i < OPTION_COUNT; i++) {
        char name[80];
        snprintf(name, sizeof name, "--%s ", rows[i].name);
        CHECK_MSG((rows[i].kind == REFUSED) != (strstr(page, name) != NULL), "%s in the help page", name);
    }
    free(page);
}

/* flags.txt: what torchrun and accelerate know is accepted or refused with words, and has torchrun's variable. */
static void nothing_of_theirs_is_unknown(void)
{
    char line[200], flag[100], pet[100], words[200];
    FILE *file = fopen(FLAGS, "r");
    int count = 0;
    for (; file && fgets(line, sizeof line, file); count++) {
        pet[0] = '\0';
        if (line[0] == '#' || sscanf(line, "%*s %99s %99s", flag, pet) < 1) continue;
        snprintf(words, sizeof words, "%s 1", flag);
        launch(words);
        CHECK_MSG(!strstr(said, "unknown option"), "%s", said);
        option i = 0;
        while (pet[0] && i < OPTION_COUNT && strcmp(rows[i].pet, pet) != 0) i++;
        CHECK_MSG(i < OPTION_COUNT, "%s is not read", pet);
    }
    CHECK(count > 150);
    if (file) fclose(file);
}

/* ---- What they mean together ---- */

static void python_is_put_in_front(void)
{
    set_usual("");
    CHECK(launch("train.py a") == LS_LAUNCH_NOT_FOUND && !caught[0] && strstr(said, "the script train.py cannot be"));
    fclose(fopen("train.py", "w"));
    launch("train.py a");
    CHECK_TEXT(difference(usual), "word python3 word -u word train.py");
    launch("--no_python train.py a");
    CHECK_TEXT(difference(usual), "word train.py");
    launch("--mixed_precision BF16 program a");
    CHECK_TEXT(difference(usual), "ACCELERATE_MIXED_PRECISION=bf16");
    launch("-- -n a");
    CHECK_TEXT(difference(usual), "word -n");
    remove("train.py");
}

static void accelerates_rules_hold(void)
{
    CHECK(launch("--multi_gpu program") == EXIT_USAGE && strstr(said, "You need to use at least 2 processes"));
    CHECK(launch("--multi_gpu -n 1 program") == EXIT_USAGE &&
          strstr(said, "at least 2 processes to use `--multi_gpu`."));
    CHECK(launch("--multi_gpu --cpu -n 2 program") == EXIT_USAGE && strstr(said, "You can only use one of `--cpu`"));
    CHECK(launch("--multi_gpu --gpu_ids 1 -n 2 program") == EXIT_USAGE && strstr(said, "Less than two GPU ids"));
    CHECK(launch("--multi_gpu --gpu_ids all -n 2 program") == CODE);
    CHECK(launch("--cpu --gpu_ids 0 program") == CODE && !strstr(caught, "LOCKSTEP_DEVICE"));
    CHECK(launch("--module --no_python program") == EXIT_USAGE);
    set_usual("");
    launch("--num_processes 8 --num_machines 2 --main_process_ip a program a"); /* over all hosts */
    CHECK_TEXT(difference(usual), "num_processes=4 master_addr=a min_hosts=2 max_hosts=2");
    launch("--nproc-per-node 8 " TWO_HOSTS "program a"); /* on each */
    CHECK_TEXT(difference(usual), "num_processes=8 master_addr=a min_hosts=2 max_hosts=2");
}

/* With a list of GPUs, which may have blanks. */
static int launch_on(const char *ids)
{
    char list[64], *argv[] = {"launch", "--gpu_ids", list, "program", NULL};
    snprintf(list, sizeof list, "%s", ids);
    return launch_words(4, argv);
}

static void lists_of_gpus_are_checked(void)
{
    static const char *const wrong[] = {"",    ",",   "0,", ",0",    "0,,1",        "-1",   "abc",
                                        "0;1", "0 1", "1x", "all,0", "GPU-1,GPU-1", "0, 0", "10,1,10"};
    static const char *const right[] = {"0", "10,1,0", "0, 1", "all", "GPU-8932f937-d72c,MIG-1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_MSG(launch_on(wrong[i]) == EXIT_USAGE && strstr(said, "--gpu_ids "), "\"%s\": %s", wrong[i], said);
    }
    CHECK(strstr(said, "--gpu_ids 10,1,10: GPU 10 is there twice"));
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        CHECK_MSG(launch_on(right[i]) == CODE, "\"%s\": %s", right[i], said);
    CHECK(launch("--cpu --gpu_ids none program") == CODE); /* no GPU is wanted */
}

/* A file for one host and one process does not stand in the way of a command line for several. */
static void hosts_win_over_the_file(void)
{
    FILE *config = fopen("options_test.yaml", "w");
    fputs("distributed_type: NO\nnum_processes: 1\nnum_machines: 1\nmachine_rank: 0\n", config);
    fclose(config);
    set_usual("");
    CHECK(launch("--config_file options_test.yaml --hostfile hosts program a") == CODE);
    CHECK_TEXT(difference(usual), "num_processes=-2147483648 hostfile=hosts ACCELERATE_MIXED_PRECISION=no");
    CHECK(launch("--config_file options_test.yaml --num_machines 2 --main_process_ip a program a") == CODE);
    CHECK_TEXT(difference(usual), "master_addr=a min_hosts=2 max_hosts=2 ACCELERATE_MIXED_PRECISION=no");
    CHECK(launch("--config_file options_test.yaml --nnodes 1:4 --rdzv-endpoint c:5 program a") == CODE);
    CHECK_TEXT(difference(usual), "max_hosts=4 elastic=1 endpoint=c:5 ACCELERATE_MIXED_PRECISION=no");
}

/* Who wants GPUs says so to programs of Lockstep; files have words about GPUs also where nobody wants any. */
static void gpus_are_asked_for_by_name(void)
{
    static const struct {
        const char *keys;
        bool asked;
    } files[] = {
        {"distributed_type: MULTI_GPU\nnum_processes: 2\ngpu_ids: all\n", true},
        {"distributed_type: MULTI_GPU\nnum_processes: 2\nuse_cpu: true\n", false},
        {"distributed_type: MULTI_CPU\nnum_processes: 2\ngpu_ids: all\nuse_cpu: false\n", false},
        {"distributed_type: MULTI_CPU\nnum_processes: 2\ngpu_ids: '0,1'\n", false},
        {"distributed_type: NO\ngpu_ids: all\n", false},
        {"distributed_type: NO\ngpu_ids: '0'\n", true},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        FILE *config = fopen("options_test.yaml", "w");
        fputs(files[i].keys, config);
        fclose(config);
        CHECK(launch("--config_file options_test.yaml program") == CODE);
        CHECK_MSG((strstr(caught, "\nLOCKSTEP_DEVICE=cuda\n") != NULL) == files[i].asked, "%s", files[i].keys);
    }
}

/* In one line, whatever their number. */
static void keys_without_effect_are_named(void)
{
    FILE *config = fopen("options_test.yaml", "w");
    fputs("distributed_type: NO\ndowncast_bf16: true\ntpu_env: [A=1]\nmain_training_function: main\ntpu_zone: ''\n",
          config);
    fclose(config);
    CHECK(launch("--config_file options_test.yaml program") == CODE);
    CHECK_TEXT(said, "lockstep launch: options_test.yaml: these keys have no effect here: tpu_env\n");
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    setenv("LOCKSTEP_HOME", "/nowhere", 1);
    setenv("HF_HOME", "/nowhere", 1);
    FILE *config = fopen("options_test.yaml", "w");
    if (!config) return 1;
    fputs("distributed_type: MULTI_CPU\nnum_processes: 5\nmixed_precision: bf16\n", config);
    fclose(config);
    CHECK_RUN(every_option_reaches_the_call);
    CHECK_RUN(the_command_line_wins_over_variables);
    CHECK_RUN(torchruns_second_names_are_known);
    CHECK_RUN(blanks_in_settings_are_fine);
    CHECK_RUN(idle_options_say_so);
    CHECK_RUN(others_are_refused_with_the_reason);
    CHECK_RUN(the_help_page_has_them_all);
    CHECK_RUN(nothing_of_theirs_is_unknown);
    CHECK_RUN(python_is_put_in_front);
    CHECK_RUN(accelerates_rules_hold);
    CHECK_RUN(lists_of_gpus_are_checked);
    CHECK_RUN(hosts_win_over_the_file);
    CHECK_RUN(gpus_are_asked_for_by_name);
    CHECK_RUN(keys_without_effect_are_named);
    remove("options_test.yaml");
    return check_done();
}
