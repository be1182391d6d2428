/* watch.c - the page of runs: what it serves, whom it refuses, and what it says about the files. */
#include <lockstep/watch.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/json.h"
#include "base/memory.h"
#include "check.h"
#include "folder.h"
#include "lockstep/track.h"
#include "watch/http.h"
#include "watch/thin.h"

#define FOLDER "watch_test"
#define HOST "Host: 127.0.0.1\r\n"

/* ---- a server in a process of its own ---- */

typedef struct served {
    pid_t process;
    int port;
} served;

static served serve(void)
{
    int ends[2], port = 0;
    CHECK(pipe(ends) == 0);
    fflush(NULL);
    pid_t process = fork();
    if (process == 0) {
        dup2(ends[1], 1);
        setvbuf(stdout, NULL, _IOLBF, 0);
        ls_run *run = ls_init(NULL, NULL, .device = "cpu");
        ls_watch(run, FOLDER, .port = 0);
        _exit(ls_finish(run));
    }
    close(ends[1]);
    FILE *said = fdopen(ends[0], "r");
    CHECK(fscanf(said, "http://127.0.0.1:%d/", &port) == 1);
    fclose(said);
    return (served){process, port};
}

static void end(served s)
{
    int status = -1;
    kill(s.process, SIGTERM);
    CHECK(waitpid(s.process, &status, 0) == s.process && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int connected(served s)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s.port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(client, (struct sockaddr *)&to, sizeof to) == 0);
    return client;
}

/* The answer to a request: its status, and its body if `body` is not NULL; free() it. */
static int asked(served s, const char *request, char **body)
{
    int client = connected(s), status = 0;
    CHECK(send(client, request, strlen(request), MSG_NOSIGNAL) == (ssize_t)strlen(request));
    char *text = NULL;
    size_t length = 0;
    for (ssize_t got = 1; got > 0; length += (size_t)got) {
        text = realloc(text, length + 65536 + 1);
        got = recv(client, text + length, 65536, 0);
        if (got < 0) got = 0;
    }
    text[length] = '\0';
    close(client);
    sscanf(text, "HTTP/1.1 %d", &status);
    const char *content = strstr(text, "\r\n\r\n");
    if (body) *body = strdup(content ? content + 4 : "");
    free(text);
    return status;
}

static ls_json *run_document(served s, const char *name)
{
    char request[300], *body;
    snprintf(request, sizeof request, "GET /api/run?name=%s HTTP/1.1\r\n" HOST "\r\n", name);
    CHECK(asked(s, request, &body) == 200);
    ls_message why = {{0}};
    ls_json *root = ls_json_read(body, strlen(body), &why);
    CHECK_MSG(root, "%s", why.text);
    free(body);
    return root;
}

static void put(const char *path, const char *mode, const char *text)
{
    FILE *file = fopen(path, mode);
    fputs(text, file);
    fclose(file);
}

static void make_run(const char *name, const char *values)
{
    char path[300];
    snprintf(path, sizeof path, FOLDER "/%s", name);
    mkdir(path, 0777);
    strcat(path, "/values.jsonl");
    put(path, "w", values);
}

/* ---- the documents ---- */

static void values_arrive_as_they_are_recorded(void)
{
    folder_fresh(FOLDER);
    make_run("a", "{\"step\":1,\"time\":10,\"loss\":4}\n{\"step\":2,\"time\":11,\"loss\":3}\n{\"step\":3,\"ti");
    put(FOLDER "/a/config.json", "w", "{\"lr\": 0.5}");
    served s = serve();
    ls_json *before = run_document(s, "a");
    const ls_json *loss = ls_json_first(ls_json_get(before, "series"));
    CHECK_TEXT(ls_json_text(ls_json_get(loss, "name")), "loss");
    CHECK(ls_json_integer(ls_json_get(loss, "count"), 0) == 2);
    CHECK(ls_json_number(ls_json_get(ls_json_get(before, "config"), "lr"), 0) == 0.5);
    put(FOLDER "/a/values.jsonl", "a", "me\":12,\"loss\":2}\n{\"step\":2,\"time\":13,\"loss\":1}\n");
    usleep(600000); /* a look at the folder is fresh for half a second */
    ls_json *after = run_document(s, "a");
    loss = ls_json_first(ls_json_get(after, "series"));
    CHECK(ls_json_integer(ls_json_get(loss, "count"), 0) == 2); /* the run was resumed from step 1 */
    CHECK(ls_json_number(ls_json_get(loss, "last"), 0) == 1);
    const ls_json *times = ls_json_first(ls_json_get(ls_json_get(after, "times"), "y"));
    CHECK(ls_json_number(times, 0) == 10 && ls_json_number(times->next, 0) == 13);
    CHECK(strcmp(ls_json_text(ls_json_get(before, "version")), ls_json_text(ls_json_get(after, "version"))) != 0);
    ls_json_free(before);
    ls_json_free(after);
    end(s);
}

/* Values of other steps, such as epochs, do not take the times of steps away, not even when a resumed run repeats them;
 * lines without a step are counted on. */
static void steps_may_be_of_several_kinds(void)
{
    folder_fresh(FOLDER);
    make_run("a", "{\"step\":10,\"time\":1,\"loss\":4,\"lr\":1}\n{\"step\":20,\"time\":2,\"loss\":3,\"lr\":1}\n"
                  "{\"step\":1,\"time\":3,\"accuracy\":0.5}\n{\"step\":30,\"time\":4,\"loss\":3,\"lr\":1}\n");
    make_run("b", "{\"loss\":4}\n{\"loss\":3}\n");
    served s = serve();
    ls_json *root = run_document(s, "a"), *counted = run_document(s, "b");
    const ls_json *times = ls_json_get(ls_json_get(root, "times"), "y");
    CHECK(times->count == 3 && ls_json_number(ls_json_first(times), 0) == 1);
    ls_json_free(root), ls_json_free(counted);
    put(FOLDER "/a/values.jsonl", "a",
        "{\"step\":30,\"loss\":3}\n{\"step\":1,\"time\":5,\"accuracy\":0.6}\n{\"step\":1,\"time\":6,\"recall\":0.6}\n"
        "{\"step\":20,\"time\":7,\"loss\":3}\n");
    put(FOLDER "/b/values.jsonl", "a", "{\"loss\":2}\n{\"loss\":1}\n");
    usleep(600000); /* a look at the folder is fresh for half a second */
    root = run_document(s, "a");
    times = ls_json_get(ls_json_get(root, "times"), "y");
    CHECK(times->count == 2 && ls_json_number(ls_json_first(times), 0) == 1);
    CHECK(ls_json_number(ls_json_first(times)->next, 0) == 7);
    ls_json_free(root);
    counted = run_document(s, "b");
    CHECK(ls_json_integer(ls_json_get(ls_json_first(ls_json_get(counted, "series")), "count"), 0) == 4);
    ls_json_free(counted);
    end(s);
}

static void a_file_that_is_written_anew_is_read_anew(void)
{
    folder_fresh(FOLDER);
    char values[20 * 32] = "";
    for (int step = 1; step <= 10; step++) sprintf(values + strlen(values), "{\"step\":%d,\"loss\":100}\n", step);
    make_run("a", values);
    served s = serve();
    ls_json_free(run_document(s, "a"));
    for (int round = 0; round < 2; round++) { /* longer than before, then other values of the same length */
        int value = 400 + round;
        values[0] = '\0';
        for (int step = 1; step <= 20; step++)
            sprintf(values + strlen(values), "{\"step\":%d,\"loss\":%d}\n", step, value + (step == 20));
        make_run("a", values);
        usleep(600000); /* a look at the folder is fresh for half a second */
        ls_json *root = run_document(s, "a");
        const ls_json *loss = ls_json_first(ls_json_get(root, "series"));
        CHECK(ls_json_integer(ls_json_get(loss, "count"), 0) == 20);
        CHECK(ls_json_number(ls_json_first(ls_json_get(loss, "y")), 0) == value);
        CHECK(ls_json_number(ls_json_get(loss, "last"), 0) == value + 1);
        ls_json_free(root);
    }
    end(s);
}

static void a_run_whose_name_is_not_utf8_can_be_asked_for(void)
{
    folder_fresh(FOLDER);
    make_run("a\xff %", "{\"step\":1,\"loss\":4}\n");
    make_run("a\xfe %", "{\"step\":1,\"loss\":5}\n");
    served s = serve();
    char *body;
    CHECK(asked(s, "GET /api/runs HTTP/1.1\r\n" HOST "\r\n", &body) == 200);
    CHECK(strstr(body, "\"id\":\"a%FE%20%25\"") && strstr(body, "\"id\":\"a%FF%20%25\""));
    free(body);
    ls_json *root = run_document(s, "a%FF%20%25");
    CHECK_TEXT(ls_json_text(ls_json_get(root, "id")), "a%FF%20%25");
    CHECK(ls_json_number(ls_json_get(ls_json_first(ls_json_get(root, "series")), "last"), 0) == 4);
    ls_json_free(root);
    end(s);
}

static void the_list_has_runs_of_every_format_below_the_folder(void)
{
    folder_fresh(FOLDER);
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    static const char *const kinds[] = {"csv", "jsonl", "tensorboard"};
    for (int i = 0; i < 3; i++) {
        ls_tracker *tracker = ls_tracker_new(run, kinds[i], .project_dir = FOLDER "/deep/er", .name = kinds[i]);
        ls_track(run, 7, {"loss", 0.5});
        ls_tracker_free(tracker);
    }
    CHECK(ls_finish(run) == 0);
    served s = serve();
    char *body;
    CHECK(asked(s, "GET /api/runs HTTP/1.1\r\n" HOST "\r\n", &body) == 200);
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "deep/er/%s", kinds[i]);
        CHECK(strstr(body, name));
        ls_json *root = run_document(s, name);
        const ls_json *loss = ls_json_first(ls_json_get(root, "series"));
        CHECK(ls_json_number(ls_json_first(ls_json_get(loss, "x")), 0) == 7);
        CHECK(ls_json_number(ls_json_first(ls_json_get(loss, "y")), 0) == 0.5);
        CHECK(ls_json_number(ls_json_first(ls_json_get(ls_json_get(root, "times"), "y")), 0) > 1.7e9);
        ls_json_free(root);
    }
    free(body);
    end(s);
}

static void signs_of_life_are_served(void)
{
    folder_fresh(FOLDER);
    make_run("a", "{\"step\":1,\"loss\":4}\n");
    served s = serve();
    char *body;
    CHECK(asked(s, "GET /api/status?name=a HTTP/1.1\r\n" HOST "\r\n", &body) == 200);
    CHECK_TEXT(body, "null");
    free(body);
    put(FOLDER "/a/status.json", "w", "{\"state\":\"running\"}");
    put(FOLDER "/a/system.jsonl", "w", "{\"step\":1,\"memory MB\":9}\n");
    usleep(600000); /* a look at the folder is fresh for half a second */
    CHECK(asked(s, "GET /api/status?name=a HTTP/1.1\r\n" HOST "\r\n", &body) == 200);
    CHECK_TEXT(body, "{\"state\":\"running\"}");
    free(body);
    ls_json *root = run_document(s, "a");
    const ls_json *memory = ls_json_first(ls_json_get(root, "system"));
    CHECK_TEXT(ls_json_text(ls_json_get(memory, "name")), "memory MB");
    CHECK(ls_json_number(ls_json_get(memory, "last"), 0) == 9);
    ls_json_free(root);
    end(s);
}

static void damaged_values_are_reported_not_guessed(void)
{
    folder_fresh(FOLDER);
    make_run("bad", "{\"step\":1,\"loss\":4}\nnot JSON\n");
    served s = serve();
    ls_json *root = run_document(s, "bad");
    const char *problem = ls_json_text(ls_json_get(root, "problem"));
    CHECK_MSG(problem && strstr(problem, "line 2"), "%s", problem ? problem : "no problem");
    ls_json_free(root);
    end(s);
}

static void long_curves_keep_their_means_and_extremes(void)
{
    enum { COUNT = LS_THIN_POINTS * 4 };
    static double x[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++) x[i] = i, y[i] = i % 4 == 3 ? (double)NAN : i % 4;
    ls_json_writer w = {.indent = 0};
    ls_json_put_object(&w, NULL);
    ls_thin_put(&w, &(ls_history_series){.count = COUNT, .x = x, .y = y});
    ls_json_put_end(&w);
    size_t size;
    char *text = ls_json_take(&w, &size);
    ls_json *root = ls_json_read(text, size, &(ls_message){{0}});
    CHECK(ls_json_get(root, "x")->count == LS_THIN_POINTS);
    CHECK(ls_json_number(ls_json_first(ls_json_get(root, "x")), 0) == 3);
    CHECK(ls_json_number(ls_json_first(ls_json_get(root, "y")), 0) == 1);
    CHECK(ls_json_number(ls_json_first(ls_json_get(root, "low")), 9) == 0);
    CHECK(ls_json_number(ls_json_first(ls_json_get(root, "high")), 0) == 2);
    ls_json_free(root);
    ls_sys_free(text);
}

/* ---- who is refused ---- */

static void requests_are_accepted_or_refused_by_the_book(void)
{
    static const struct {
        int status;
        const char *head, *path, *value;
    } rows[] = {
        {200, "GET / HTTP/1.1\r\n" HOST "\r\n", "/", ""},
        {200, "GET /a%20b?name=x%2fy HTTP/1.1\r\nhost:\tlocalhost:80 \r\n\r\n", "/a b", "x/y"},
        {200, "HEAD /a HTTP/1.0\r\nAccept: x\r\nHOST: [::1]:6116\r\n\r\n", "/a", ""},
        {403, "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", NULL, NULL},
        {403, "GET / HTTP/1.1\r\nHost: 127.0.0.1.example.org\r\n\r\n", NULL, NULL},
        {403, "GET / HTTP/1.1\r\nHost: localhost:80@example.org\r\n\r\n", NULL, NULL},
        {403, "GET / HTTP/1.1\r\n" HOST "Host: example.org\r\n\r\n", NULL, NULL},
        {403, "GET / HTTP/1.1\r\n\r\n", NULL, NULL},
        {405, "POST / HTTP/1.1\r\n" HOST "\r\n", NULL, NULL},
        {400, "GET http://127.0.0.1/ HTTP/1.1\r\n" HOST "\r\n", NULL, NULL},
        {400, "GET /%00 HTTP/1.1\r\n" HOST "\r\n", NULL, NULL},
        {400, "GET /%4 HTTP/1.1\r\n" HOST "\r\n", NULL, NULL},
        {400, "GET /\r\n\r\n", NULL, NULL},
        {400, "\r\n\r\n", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_http_request request;
        int status = ls_http_parse(rows[i].head, strlen(rows[i].head), &request);
        CHECK_MSG(status == rows[i].status, "%s: %d", rows[i].head, status);
        if (!rows[i].path) continue;
        CHECK_TEXT(request.path, rows[i].path);
        CHECK_TEXT(request.value, rows[i].value);
    }
}

static void nothing_outside_the_folder_is_served(void)
{
    folder_fresh(FOLDER);
    folder_fresh("watch_outside");
    put("watch_outside/values.jsonl", "w", "{\"step\":1,\"secret\":4}\n");
    make_run("a", "{\"step\":1,\"loss\":4}\n");
    CHECK(symlink("../watch_outside", FOLDER "/link") == 0);
    mkdir(FOLDER "/b", 0777);
    CHECK(symlink("../../watch_outside/values.jsonl", FOLDER "/b/values.jsonl") == 0);
    CHECK(symlink("../../watch_outside/values.jsonl", FOLDER "/a/config.json") == 0);
    static const char *const links[] = {"values.jsonl", "events.out.tfevents.1"}; /* beside a file */
    mkdir(FOLDER "/c", 0777);
    put(FOLDER "/c/values.csv", "w", "step,loss\n1,4\n");
    for (int i = 0; i < 2; i++) {
        char link[300];
        snprintf(link, sizeof link, FOLDER "/c/%s", links[i]);
        CHECK(symlink("../../watch_outside/values.jsonl", link) == 0);
    }
    served s = serve();
    static const char *const names[] = {"..", "../watch_outside", "link", "b", "a/../../watch_outside", "%2e%2e", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char request[300];
        snprintf(request, sizeof request, "GET /api/run?name=%s HTTP/1.1\r\n" HOST "\r\n", names[i]);
        CHECK_MSG(asked(s, request, NULL) == 404, "%s", names[i]);
    }
    CHECK(asked(s, "GET /../../etc/passwd HTTP/1.1\r\n" HOST "\r\n", NULL) == 404);
    char *body;
    CHECK(asked(s, "GET /api/run?name=a HTTP/1.1\r\n" HOST "\r\n", &body) == 200);
    CHECK(!strstr(body, "secret"));
    free(body);
    CHECK(asked(s, "GET /api/run?name=c HTTP/1.1\r\n" HOST "\r\n", &body) == 200);
    CHECK_MSG(!strstr(body, "secret") && strstr(body, "loss"), "%s", body);
    free(body);
    end(s);
}

/* A server that may not enter every folder, as root may. False if there cannot be one here. */
static bool serve_as_nobody(served *s)
{
    bool is_root = geteuid() == 0;
    if (is_root) {
        chmod(FOLDER, 0755);
        chmod(FOLDER "/a", 0755);
        chmod(FOLDER "/a/values.jsonl", 0644);
        if (seteuid(65534) != 0) return false;
    }
    struct stat status;
    bool reached = stat(FOLDER "/a/values.jsonl", &status) == 0;
    if (reached) *s = serve();
    if (is_root) CHECK(seteuid(0) == 0);
    return reached;
}

static void a_folder_that_may_not_be_entered_is_named(void)
{
    static const mode_t modes[] = {0, 0444}; /* with the second, its names may be listed */
    for (int i = 0; i < 2; i++) {
        folder_fresh(FOLDER);
        make_run("a", "{\"step\":1,\"loss\":4}\n");
        make_run("secret", "{\"step\":1,\"loss\":4}\n");
        chmod(FOLDER "/secret", modes[i]);
        served s;
        if (!serve_as_nobody(&s)) CHECK_SKIP("root may enter every folder, and others may not enter this one");
        char *body;
        CHECK(asked(s, "GET /api/runs HTTP/1.1\r\n" HOST "\r\n", &body) == 200);
        CHECK_MSG(strstr(body, "\"closed\":\"secret\"") && strstr(body, "\"name\":\"a\""), "%s", body);
        free(body);
        end(s);
        chmod(FOLDER "/secret", 0700);
    }
}

static void slow_and_silent_clients_keep_nobody_waiting(void)
{
    folder_fresh(FOLDER);
    make_run("a", "{\"step\":1,\"loss\":4}\n");
    served s = serve();
    enum { SLOW = 200 };
    int slow[SLOW];
    for (int i = 0; i < SLOW; i++) {
        slow[i] = connected(s);
        if (i % 2) CHECK(send(slow[i], "G", 1, MSG_NOSIGNAL) == 1);
        if (i % 50 == 49) CHECK(asked(s, "GET / HTTP/1.1\r\n" HOST "\r\n", NULL) == 200);
    }
    for (int i = 0; i < SLOW; i++) close(slow[i]);
    char long_head[LS_HTTP_HEAD + 1];
    memset(long_head, 'x', sizeof long_head);
    long_head[LS_HTTP_HEAD] = '\0';
    CHECK(asked(s, long_head, NULL) == 431);
    end(s);
}

/* ---- the file ---- */

static void the_exported_page_needs_nothing_else_and_runs_nothing_of_the_logs(void)
{
    folder_fresh(FOLDER);
    make_run("a", "{\"step\":1,\"</script><script>evil()</script>\":4}\n");
    put(FOLDER "/a/config.json", "w", "{\"note\": \"<!--<script>\"}");
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    CHECK(ls_watch_export(run, FOLDER, "watch_export.html"));
    CHECK(ls_finish(run) == 0);
    char *page = file_text("watch_export.html", NULL);
    CHECK(!strstr(page, "<script>evil") && !strstr(page, "<!--"));
    CHECK(!strstr(page, " src=") && !strstr(page, "href="));
    CHECK(strstr(page, "\\u003c/script>\\u003cscript>evil()"));
    free(page);
}

static void mistakes_are_named(void)
{
    folder_fresh(FOLDER);
    served s = serve();
    ls_run *run = ls_init(NULL, NULL, .device = "cpu");
    CHECK(!ls_watch(run, "no_such_folder") && strstr(ls_error_message(run), "no_such_folder is not a folder"));
    ls_clear_error(run);
    CHECK(!ls_watch(run, FOLDER, .port = 70000) && strstr(ls_error_message(run), "port 70000"));
    ls_clear_error(run);
    CHECK(!ls_watch(run, FOLDER, .port = s.port) && strstr(ls_error_message(run), "choose another"));
    ls_clear_error(run);
    CHECK(!ls_watch_export(run, FOLDER, "no_such_folder/page.html") && ls_error(run) == LS_ERR_IO);
    end(s);
    ls_clear_error(run);
    ls_finish(run);
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN_FORK(values_arrive_as_they_are_recorded);
    CHECK_RUN_FORK(steps_may_be_of_several_kinds);
    CHECK_RUN_FORK(a_file_that_is_written_anew_is_read_anew);
    CHECK_RUN_FORK(a_run_whose_name_is_not_utf8_can_be_asked_for);
    CHECK_RUN_FORK(the_list_has_runs_of_every_format_below_the_folder);
    CHECK_RUN_FORK(signs_of_life_are_served);
    CHECK_RUN_FORK(damaged_values_are_reported_not_guessed);
    CHECK_RUN(long_curves_keep_their_means_and_extremes);
    CHECK_RUN(requests_are_accepted_or_refused_by_the_book);
    CHECK_RUN_FORK(nothing_outside_the_folder_is_served);
    CHECK_RUN_FORK(a_folder_that_may_not_be_entered_is_named);
    CHECK_RUN_FORK(slow_and_silent_clients_keep_nobody_waiting);
    CHECK_RUN(the_exported_page_needs_nothing_else_and_runs_nothing_of_the_logs);
    CHECK_RUN_FORK(mistakes_are_named);
    folder_remove(FOLDER);
    folder_remove("watch_outside");
    return check_done();
}
