/* worker.c - a program that behaves as it is told: "worker VERB [ARGUMENT]", or "worker RANK=VERB ..." for one rank
 * alone, the others then hang until they are stopped. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Signals that are waited for from now on, and not handled: sanitizers put handlers off, and have lost signals. */
static sigset_t signals_heard(const int *numbers, int count)
{
    sigset_t heard;
    sigemptyset(&heard);
    for (int i = 0; i < count; i++) sigaddset(&heard, numbers[i]);
    sigprocmask(SIG_BLOCK, &heard, NULL);
    return heard;
}

static void hang(void)
{
    for (;;) pause();
}

static void leave_mark(const char *path, const char *text)
{
    FILE *file = fopen(path, "a");
    if (file) fprintf(file, "%s\n", text);
    if (file) fclose(file);
}

static void print_lines(int count)
{
    char line[3000];
    memset(line, 'a' + atoi(getenv("RANK")) % 26, sizeof line);
    for (int i = 0; i < count; i++) {
        size_t length = (size_t)(i * 37 % 2900 + 1);
        line[length] = '\n';
        for (size_t done = 0;
             done <= length;) { /* in pieces, so that only a reader of whole lines puts them together */
            size_t piece = length + 1 - done < 701 ? length + 1 - done : 701;
            ssize_t wrote = write(STDOUT_FILENO, line + done, piece);
            if (wrote < 0) exit(1);
            done += (size_t)wrote;
        }
        line[length] = line[0];
    }
}

/* Leaves a process behind that has its own session and ignores the end of its parent. */
static void leave_behind(const char *path, int ignored)
{
    if (fork() == 0) {
        setsid();
        if (ignored) signal(ignored, SIG_IGN);
        char text[32];
        snprintf(text, sizeof text, "%d", getpid());
        leave_mark(path, text);
        hang();
    }
    while (access(path, F_OK) != 0) usleep(1000);
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "", *argument = argc > 2 ? argv[2] : "";
    char *rest;
    long rank = strtol(verb, &rest, 10);
    if (rest != verb && *rest == '=') {
        if (rank != atoi(getenv("RANK"))) hang();
        verb = rest + 1;
    }
    if (strcmp(verb, "exit") == 0) return atoi(argument);
    if (strcmp(verb, "say") == 0) {
        fprintf(stderr, "line one\nthe last words\n");
        return atoi(argument);
    }
    if (strcmp(verb, "signal") == 0) {
        signal(atoi(argument), SIG_DFL); /* a sanitizer would make an exit status of it */
        raise(atoi(argument));
    }
    if (strcmp(verb, "hang") == 0) hang();
    if (strcmp(verb, "stubborn") == 0) { /* says that it was told to end, and stays */
        sigset_t heard = signals_heard((int[]){SIGTERM}, 1);
        leave_mark(argument, "ready");
        for (int number; sigwait(&heard, &number) == 0;) leave_mark(argument, "told");
    }
    if (strcmp(verb, "save") == 0) { /* as a program that writes a checkpoint when it is told to end */
        sigset_t heard = signals_heard((int[]){SIGTERM, SIGINT, SIGUSR1}, 3);
        char ready[64];
        snprintf(ready, sizeof ready, "ready %s %d", getenv("RANK"), getpid());
        leave_mark(argument, ready);
        for (int number = SIGUSR1; number == SIGUSR1;) {
            if (sigwait(&heard, &number) != 0) return 98;
            if (number == SIGUSR1) leave_mark(argument, "hint");
        }
        leave_mark(argument, "saved");
        return 0;
    }
    if (strcmp(verb, "print") == 0) print_lines(atoi(argument));
    if (strcmp(verb, "behind") == 0) leave_behind(argument, 0);
    if (strcmp(verb, "behind-stubborn") == 0) leave_behind(argument, SIGTERM);
    if (strcmp(verb, "error-file") == 0) {
        FILE *file = fopen(getenv("TORCHELASTIC_ERROR_FILE"), "w");
        if (!file) return 99;
        fputs("{\"message\": {\"message\": \"RuntimeError: out of cheese\", \"extraInfo\": {\"timestamp\": \"17\"}}}",
              file);
        fclose(file);
        return 1;
    }
    return 0;
}
