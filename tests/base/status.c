/* status.c - the first failure is kept, with path and words; abort on demand. */
#include "base/status.h"

#include "base/capture.h"
#include "base/log.h"
#include "check.h"

#include <signal.h>

static void the_first_failure_stays(void)
{
    ls_errors errors = {0};
    CHECK(ls_fail(&errors, LS_ERR_SHAPE, "[%d] and [%d]", 2, 3) == LS_ERR_SHAPE);
    CHECK(ls_fail(&errors, LS_ERR_MEMORY, "later") == LS_ERR_MEMORY);
    CHECK(errors.code == LS_ERR_SHAPE);
    CHECK_TEXT(errors.message, "[2] and [3]");
    ls_errors_clear(&errors);
    CHECK(errors.code == LS_OK && errors.message[0] == '\0');
    strcpy(errors.path, "net/fc1");
    ls_fail(&errors, LS_ERR_VALUE, "p = %g", 1.5);
    CHECK_TEXT(errors.message, "net/fc1: p = 1.5");
    CHECK_TEXT(errors.path, "net/fc1");
}

static void long_words_are_cut(void)
{
    ls_errors errors = {0};
    memset(errors.path, 'p', sizeof errors.path - 1);
    ls_fail(&errors, LS_ERR_IO, "%5000d", 1);
    CHECK(strlen(errors.message) == sizeof errors.message - 1);
    CHECK(memcmp(errors.message + sizeof errors.path - 1, ": ", 2) == 0);
}

/* What a terminal would obey, in the text of a failure, a log line, and the function by itself. */
static void text_of_others_is_made_printable(void)
{
    static const struct {
        const char *text, *shown;
    } rows[] = {
        {"plain, \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "plain, \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\x1b[2J\x1b]0;title\x07", "?[2J?]0;title?"}, /* an escape sequence clears the screen, another one lies */
        {"a\xc2\x9b"
         "31m",
         "a?31m"}, /* the same introducer as one character, U+009B */
        {"a\x9b"
         "31m",
         "a?31m"}, /* and as one byte, which is not UTF-8 */
        {"\xe2\x80\xae"
         "gpj.exe",
         "?gpj.exe"},                                  /* U+202E turns the rest around */
        {"\xe2\x81\xa6x\xe2\x81\xa9\xd8\x9c", "?x??"}, /* other marks of direction */
        {"one\r\ntwo\tthree\xe2\x80\xa8"
         "four",
         "one  two three?four"},
        {"\x7f\xed\xa0\x80\xf0\x9f", "??????"}, /* DEL, half of a pair, a character that is cut */
        {"", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char to[64];
        ls_errors errors = {0};
        ls_fail(&errors, LS_ERR_IO, "%s", rows[i].text);
        CHECK_TEXT(errors.message, rows[i].shown);
        CHECK_TEXT(ls_printable(to, sizeof to, rows[i].text), rows[i].shown);
        snprintf(to, sizeof to, "%s", rows[i].text);
        CHECK_TEXT(ls_printable(to, sizeof to, to), rows[i].shown);
    }
    char few[4];
    CHECK_TEXT(ls_printable(few, sizeof few, "ab\xc3\xa4"), "ab"); /* cut between characters */
    CHECK_TEXT(ls_printable(few, 1, "ab"), "");
    strcpy(few, "abc");
    ls_printable(few, 0, "x");
    CHECK_TEXT(few, "abc");
}

static int logs_an_escape(void)
{
    ls_log_line(LS_LOG_WARN, "host \x1b[31m%s\nlockstep: error: forged", "\xc2\x9b");
    return 3;
}

static void log_lines_are_printable(void)
{
    char text[512];
    run_captured(NULL, logs_an_escape, text, sizeof text);
    CHECK_TEXT(text, "lockstep: warning: host ?[31m? lockstep: error: forged\n");
}

static int fails(void)
{
    ls_errors errors = {0};
    ls_fail(&errors, LS_ERR_IO, "no file");
    return 3;
}

static int fails_with_flag(void)
{
    ls_errors errors = {.abort_on_fail = true};
    ls_fail(&errors, LS_ERR_IO, "no file");
    return 3;
}

static void aborts_on_demand(void)
{
    char text[512];
    int status = run_captured("LOCKSTEP_ABORT=1", fails, text, sizeof text);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK_TEXT(text, "lockstep: error: file could not be read or written: no file\n");
    status = run_captured(NULL, fails_with_flag, text, sizeof text);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    status = run_captured(NULL, fails, text, sizeof text);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(aborts_on_demand);
    CHECK_RUN(log_lines_are_printable);
    CHECK_RUN(text_of_others_is_made_printable);
    CHECK_RUN(the_first_failure_stays);
    CHECK_RUN(long_words_are_cut);
    return check_done();
}
