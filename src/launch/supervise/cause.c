/* cause.c - describe how a worker ended. */
#include "launch/supervise/cause.h"

#include "base/json.h"
#include "base/memory.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define HEADING "lockstep: first cause: "

int ls_cause_exit_code(const ls_cause *cause)
{
    if (WIFSTOPPED(cause->status)) return 128 + WSTOPSIG(cause->status);
    return WIFSIGNALED(cause->status) ? 128 + WTERMSIG(cause->status) : WEXITSTATUS(cause->status);
}

void ls_cause_read(ls_cause *cause, const char *error_file)
{
    FILE *file = *error_file ? fopen(error_file, "r") : NULL;
    if (!file) return;
    enum { MOST = 1 << 20 };
    char *text = ls_sys_alloc(MOST);
    size_t length = text ? fread(text, 1, MOST, file) : 0;
    fclose(file);
    ls_message why;
    ls_json *root = ls_json_read(text, length, &why);
    ls_sys_free(text);
    /* {"message": {"message": "Type: text", "extraInfo": {"timestamp": "1700000000"}}}, or {"message": "text"} */
    const ls_json *outer = ls_json_get(root, "message");
    const char *words = ls_json_text(ls_json_get(outer, "message"));
    if (!words) words = ls_json_text(outer);
    if (words) snprintf(cause->words, sizeof cause->words, "%s", words);
    for (size_t n = strlen(cause->words); n && cause->words[n - 1] == '\n'; n--) cause->words[n - 1] = '\0';
    const ls_json *stamp = ls_json_get(ls_json_get(outer, "extraInfo"), "timestamp");
    const char *digits = ls_json_text(stamp);
    cause->stamp = digits ? atof(digits) : ls_json_number(stamp, 0);
    ls_json_free(root);
}

void ls_cause_tail(ls_cause *cause, const char *text, size_t length, int lines)
{
    while (length && (text[length - 1] == '\n' || text[length - 1] == '\r')) length--;
    size_t from = length;
    while (from && lines) {
        if (text[--from] == '\n' && --lines == 0) from++;
        if (!lines) break;
    }
    size_t size = length - from < sizeof cause->tail - 1 ? length - from : sizeof cause->tail - 1;
    memcpy(cause->tail, text + length - size, size);
    cause->tail[size] = '\0';
}

static void describe_end(const ls_cause *cause, char *text, size_t size)
{
    if (WIFEXITED(cause->status)) {
        snprintf(text, size, "exited with code %d", WEXITSTATUS(cause->status));
        return;
    }
    bool stopped = WIFSTOPPED(cause->status);
    int number = stopped ? WSTOPSIG(cause->status) : WTERMSIG(cause->status);
    const char *name = sigabbrev_np(number);
    if (stopped) snprintf(text, size, "was stopped by SIG%s (signal %d) and not continued", name ? name : "?", number);
    else
        snprintf(text, size, "was killed by SIG%s (signal %d%s)", name ? name : "?", number,
                 number == SIGKILL ? "; if nobody sent it, the system ran out of memory" : "");
}

static void put_lines(const char *title, const char *lines, char *text, size_t size)
{
    if (!*lines) return;
    size_t used = strlen(text);
    snprintf(text + used, size - used, "lockstep: %s:\n", title);
    for (const char *line = lines; line && *line;) {
        const char *stop = strchr(line, '\n');
        int length = (int)(stop ? stop - line : (long)strlen(line));
        used = strlen(text);
        snprintf(text + used, size - used, "    %.*s\n", length, line);
        line = stop ? stop + 1 : NULL;
    }
}

void ls_cause_headline(const char *report, char *line, size_t size)
{
    if (strncmp(report, HEADING, sizeof HEADING - 1) == 0) report += sizeof HEADING - 1;
    snprintf(line, size, "%.*s", (int)strcspn(report, "\n"), report);
}

void ls_cause_tell(const ls_cause *cause, char *text, size_t size)
{
    char end[128];
    describe_end(cause, end, sizeof end);
    snprintf(text, size, HEADING "rank %d (local rank %d, host %s, pid %d) %s after %.1f s\n", cause->rank,
             cause->local_rank, cause->host, cause->pid, end, cause->seconds);
    size_t used = strlen(text);
    if (cause->words[0]) snprintf(text + used, size - used, "lockstep: its error: %s\n", cause->words);
    put_lines("the last lines of its stderr", cause->tail, text, size);
    put_lines("the last collective calls of all workers", cause->calls, text, size);
}
