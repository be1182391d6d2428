/* config.c - settings come from the environment once; mistakes are reported, not obeyed. Also the log they go to. */
#include "base/config.h"

#include "../../plugins/variables.h"

#include "base/capture.h"
#include "base/log.h"
#include "check.h"

#define CHECK_HAS(text, part) CHECK_MSG(strstr(text, part), "\"%s\" lacks \"%s\"", text, part)

static char text[8192];

static int threads(void)
{
    return (int)ls_config_count(LS_SETTING_NUM_THREADS);
}

static int aborts(void)
{
    return ls_config_switch(LS_SETTING_ABORT) ? 1 : 0;
}

static int says_level_is_set(void)
{
    ls_log_shows(LS_LOG_WARN);
    return ls_config_source(LS_SETTING_LOG) || *ls_config_text(LS_SETTING_LOG);
}

static int logs_all(void)
{
    ls_log_line(LS_LOG_ERROR, "e %d", 1);
    ls_log_line(LS_LOG_WARN, "w");
    ls_log_line(LS_LOG_INFO, "i\nj");
    ls_log_line(LS_LOG_DEBUG, "d");
    for (int i = 0; i < 3; i++) LS_LOG_ONCE(LS_LOG_WARN, "once");
    return ls_log_shows(LS_LOG_DEBUG);
}

static int logs_long(void)
{
    ls_log_line(LS_LOG_WARN, "%5000d", 1);
    return 0;
}

static int logs_of_job(void)
{
    ls_log_of_job(LS_LOG_WARN, "told by the launcher");
    ls_log_set_rank(1);
    ls_log_of_job(LS_LOG_WARN, "second");
    ls_log_set_rank(0);
    ls_log_of_job(LS_LOG_WARN, "first");
    for (int i = 0; i < 3; i++) LS_LOG_ONCE_OF_JOB(LS_LOG_WARN, "once");
    return 0;
}

static int code(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void values_are_read(void)
{
    CHECK(code(run_captured("LOCKSTEP_NUM_THREADS=7", threads, text, sizeof text)) == 7);
    CHECK(code(run_captured("LOCKSTEP_NUM_THREADS=", threads, text, sizeof text)) == 0);
    CHECK(code(run_captured("LOCKSTEP_ABORT=yes", aborts, text, sizeof text)) == 1);
    CHECK(code(run_captured("LOCKSTEP_ABORT=off", aborts, text, sizeof text)) == 0);
    CHECK_TEXT(text, "");
}

static void mistakes_are_reported(void)
{
    static char *bad[] = {"LOCKSTEP_NUM_THREADS=two", "LOCKSTEP_NUM_THREADS=-1", "LOCKSTEP_NUM_THREADS=1x",
                          "LOCKSTEP_NUM_THREADS=99999999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(code(run_captured(bad[i], threads, text, sizeof text)) == 0);
        char want[200];
        snprintf(
            want, sizeof want,
            "lockstep: warning: LOCKSTEP_NUM_THREADS must be a whole number, not \"%s\"; the default, 0, is used\n",
            strchr(bad[i], '=') + 1);
        CHECK_TEXT(text, want);
    }
    CHECK(code(run_captured("LOCKSTEP_ABORT=perhaps", aborts, text, sizeof text)) == 0);
    CHECK_HAS(text, "LOCKSTEP_ABORT must be 0 or 1, not \"perhaps\"; the default, 0, is used");
    CHECK(code(run_captured("LOCKSTEP_NUMTHREADS=3", logs_all, text, sizeof text)) == 0);
    CHECK_HAS(text, "lockstep: warning: unknown environment variable LOCKSTEP_NUMTHREADS has no effect\n");
    CHECK(strstr(strstr(text, "NUMTHREADS") + 1, "NUMTHREADS") == NULL);
}

static void levels_filter(void)
{
    CHECK(code(run_captured(NULL, logs_all, text, sizeof text)) == 0);
    CHECK_TEXT(text, "lockstep: error: e 1\nlockstep: warning: w\nlockstep: warning: once\n");
    CHECK(code(run_captured("LOCKSTEP_LOG=error", logs_all, text, sizeof text)) == 0);
    CHECK_TEXT(text, "lockstep: error: e 1\n");
    CHECK(code(run_captured("LOCKSTEP_LOG=debug", logs_all, text, sizeof text)) == 1);
    CHECK_HAS(text, "lockstep: i j\nlockstep: debug: d\n");
    CHECK(code(run_captured("LOCKSTEP_LOG=loud", logs_all, text, sizeof text)) == 0);
    CHECK_HAS(text, "LOCKSTEP_LOG=loud is not one of error, warn, info, debug; using warn\n");
    CHECK(code(run_captured("LOCKSTEP_LOG=loud", says_level_is_set, text, sizeof text)) == 0);
    CHECK(code(run_captured("LOCKSTEP_LOG=info", says_level_is_set, text, sizeof text)) == 1);
    run_captured(NULL, logs_long, text, sizeof text);
    CHECK(strlen(text) < 2048 && text[strlen(text) - 1] == '\n');
}

static void rows_describe_themselves(void)
{
    for (int i = 0; i < LS_SETTING_COUNT_OF; i++) {
        const ls_setting_row *row = ls_config_row((ls_setting)i);
        CHECK(strncmp(row->name, "LOCKSTEP_", 9) == 0 && row->fallback && strlen(row->help) > 10);
    }
}

static void a_variable_that_went_is_forgotten(void)
{
    setenv("LOCKSTEP_COMM_TIMEOUT", "7", 1);
    ls_config_reload();
    CHECK(ls_config_count(LS_SETTING_COMM_TIMEOUT) == 7);
    unsetenv("LOCKSTEP_COMM_TIMEOUT");
    ls_config_reload();
    CHECK(ls_config_count(LS_SETTING_COMM_TIMEOUT) == 600);
}

static void names_of_other_systems_are_read(void)
{
    static const char *const names[] = {"OMP_NUM_THREADS", "CCL_WORKER_COUNT", "LOCKSTEP_NUM_THREADS"};
    for (int i = 0; i < 3; i++) unsetenv(names[i]);
    ls_config_reload();
    CHECK(!ls_config_source(LS_SETTING_NUM_THREADS) && ls_config_count(LS_SETTING_COMM_WORKERS) == 1);
    setenv("OMP_NUM_THREADS", "6,2", 1); /* one for each level */
    setenv("CCL_WORKER_COUNT", "3", 1);
    ls_config_reload();
    CHECK(ls_config_count(LS_SETTING_NUM_THREADS) == 6 && ls_config_count(LS_SETTING_COMM_WORKERS) == 3);
    CHECK_TEXT(ls_config_source(LS_SETTING_NUM_THREADS), "OMP_NUM_THREADS");
    setenv("LOCKSTEP_NUM_THREADS", "2", 1); /* our own wins */
    ls_config_reload();
    CHECK(ls_config_count(LS_SETTING_NUM_THREADS) == 2);
    CHECK_TEXT(ls_config_source(LS_SETTING_NUM_THREADS), "LOCKSTEP_NUM_THREADS");
    setenv("LOCKSTEP_NUM_THREADS", "2,1", 1); /* and is no list */
    ls_config_reload();
    CHECK(ls_config_count(LS_SETTING_NUM_THREADS) == 0 && !ls_config_source(LS_SETTING_NUM_THREADS));
    for (int i = 0; i < 3; i++) unsetenv(names[i]);
    ls_config_reload();
}

static void the_first_process_speaks_for_the_job(void)
{
    static const char last[] = "lockstep: warning: first\nlockstep: warning: once\n";
    run_captured("LOCKSTEP_RANK=1", logs_of_job, text, sizeof text);
    CHECK_TEXT(text, last);
    run_captured("LOCKSTEP_RANK=0", logs_of_job, text, sizeof text);
    CHECK_HAS(text, "lockstep: warning: told by the launcher\n");
    CHECK(!strstr(text, "second"));
    run_captured(NULL, logs_of_job, text, sizeof text);
    CHECK_HAS(text, "lockstep: warning: told by the launcher\n");
}

/* Both read the variable: 0 if they agree that it is off, 3 if they agree that it is on. */
static int plugin_agrees(void)
{
    return ls_config_switch(LS_SETTING_CUDA_TF32) + 2 * variable_is_on("LOCKSTEP_CUDA_TF32");
}

static int plugin_counts(void)
{
    return (int)variable_count("LOCKSTEP_COMM_TIMEOUT", 7) == (int)ls_config_count(LS_SETTING_COMM_TIMEOUT);
}

static void plugins_read_what_the_library_does(void)
{
    static const char *const off[] = {"", "0", "no", "No", "OFF", "False", "n", "F", "maybe", "2"};
    static const char *const on[] = {"1", "yes", "On", "TRUE", "y", "t"};
    char setting[64];
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        snprintf(setting, sizeof setting, "LOCKSTEP_CUDA_TF32=%s", off[i]);
        CHECK_MSG(code(run_captured(setting, plugin_agrees, text, sizeof text)) == 0, "%s", setting);
    }
    for (size_t i = 0; i < sizeof on / sizeof *on; i++) {
        snprintf(setting, sizeof setting, "LOCKSTEP_CUDA_TF32=%s", on[i]);
        CHECK_MSG(code(run_captured(setting, plugin_agrees, text, sizeof text)) == 3, "%s", setting);
    }
    CHECK(code(run_captured("LOCKSTEP_COMM_TIMEOUT=0", plugin_counts, text, sizeof text)) == 1);
    CHECK(code(run_captured("LOCKSTEP_COMM_TIMEOUT=31", plugin_counts, text, sizeof text)) == 1);
    static const char *const ignored[] = {"", "soon", "-1", "3s", "99999999999999999999"};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
        CHECK(setenv("LOCKSTEP_TEST_NUMBER", ignored[i], 1) == 0);
        CHECK_MSG(variable_count("LOCKSTEP_TEST_NUMBER", 600) == 600, "%s", ignored[i]);
    }
    unsetenv("LOCKSTEP_TEST_NUMBER");
    CHECK(variable_count("LOCKSTEP_TEST_NUMBER", 600) == 600);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(values_are_read);
    CHECK_RUN(mistakes_are_reported);
    CHECK_RUN(plugins_read_what_the_library_does);
    CHECK_RUN(levels_filter);
    CHECK_RUN(the_first_process_speaks_for_the_job);
    CHECK_RUN(rows_describe_themselves);
    CHECK_RUN(a_variable_that_went_is_forgotten);
    CHECK_RUN(names_of_other_systems_are_read);
    return check_done();
}
