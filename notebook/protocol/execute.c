/* execute.c - run a cell: divide, compile, load, wait; keep what it defined if it ends well. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "cell/unit.h"
#include "kernel.h"

/* ---- The session ---- */

static void load_libraries(kernel *k)
{
    session_message event;
    string payload = {0};
    for (size_t i = 0; i < k->library_count; i++) {
        cell_request request = {.number = k->libraries[i].number};
        snprintf(request.path, sizeof request.path, "%s", k->libraries[i].path);
        if (!link_request(&k->link, &request)) break;
        while (!kernel_wait(k, &event, &payload)) continue;
        if (event.event == SESSION_LOST) break;
        link_follow(&k->link, event.process);
    }
    text_free(&payload);
}

void kernel_renew_session(kernel *k, bool keep)
{
    ls_message why;
    kernel_wait_for_header(k); /* all other processes that the kernel started end */
    link_end(&k->link);
    if (!keep) {
        text_clear(&k->loss);
        definitions_free(&k->known);
        k->library_count = 0;
    }
    if (!link_start(&k->link, k->session_program, &why)) {
        kernel_stream(k, "stderr", why.text, strlen(why.text));
        k->ends = true;
        return;
    }
    load_libraries(k);
}

void kernel_lose_session(kernel *k, int status)
{
    ls_message how;
    link_explain(status, &how);
    text_clear(&k->loss);
    text_print(
        &k->loss,
        "the session ended before this cell: %s\n"
        "The values of all variables are lost, definitions are kept. This cell was not run: first run those again "
        "that set variables.",
        how.text);
    kernel_renew_session(k, true);
}

/* ---- Answers ---- */

static void put_error(ls_json_writer *w, const char *name, const char *words)
{
    ls_json_put_text(w, "ename", name);
    ls_json_put_text(w, "evalue", words);
    ls_json_put_array(w, "traceback");
    string line = {0};
    text_print(&line, "\033[31m%s\033[0m: %s", name, words);
    ls_json_put_text(w, NULL, line.bytes);
    text_free(&line);
    ls_json_put_end(w);
}

/* An error is told twice: to everybody, and to the one who asked, who would go on with the next cell otherwise. */
void kernel_reply_error(kernel *k, void *socket, const char *name, const char *words)
{
    string type = {0};
    text_print(&type, "%.*s_reply", (int)(strlen(k->request->type) - strlen("_request")), k->request->type);
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    put_error(&w, name, words);
    ls_json_put_end(&w);
    kernel_publish(k, "error", &w);
    ls_json_put_object(&w, NULL);
    ls_json_put_text(&w, "status", "error");
    ls_json_put_integer(&w, "execution_count", (int64_t)k->history_count);
    put_error(&w, name, words);
    ls_json_put_end(&w);
    kernel_reply(k, socket, type.bytes, &w);
    text_free(&type);
}

static void put_page(ls_json_writer *w, const string *page)
{
    ls_json_put_object(w, NULL);
    ls_json_put_text(w, "source", "page");
    ls_json_put_object(w, "data");
    ls_json_put_text(w, "text/plain", page->bytes);
    ls_json_put_end(w);
    ls_json_put_integer(w, "start", 0);
    ls_json_put_end(w);
}

static void reply_ok(kernel *k, void *socket, const string *page)
{
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_text(&w, "status", "ok");
    ls_json_put_integer(&w, "execution_count", (int64_t)k->history_count);
    ls_json_put_array(&w, "payload");
    if (page->length) put_page(&w, page);
    ls_json_put_end(&w);
    ls_json_put_object(&w, "user_expressions");
    ls_json_put_end(&w);
    ls_json_put_end(&w);
    kernel_reply(k, socket, "execute_reply", &w);
}

static void publish_input(kernel *k, const char *code)
{
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_text(&w, "code", code);
    ls_json_put_integer(&w, "execution_count", (int64_t)k->history_count);
    ls_json_put_end(&w);
    kernel_publish(k, "execute_input", &w);
}

/* ---- A cell ---- */

typedef struct outcome {
    const char *error;      /* its kind; NULL: none */
    char failed[WIRE_NAME]; /* the kind of what failed in a cell that ran to its end: what it defined stays */
    string words;
} outcome;

static void tell_removed(kernel *k, const string *removed)
{
    if (!removed->length) return;
    string note = {0};
    text_print(&note, "note: what %s is declared with has changed: define again what you need of it\n", removed->bytes);
    kernel_stream(k, "stderr", note.bytes, note.length);
    text_free(&note);
}

static const char *const why_lost[] = {
    [SNAPSHOT_POSSIBLE] = "The copy of the session that was made before the cell has ended, too",
    [SNAPSHOT_THREADS] = "The session had threads and could not be copied before the cell",
    [SNAPSHOT_MEMORY] = "The session needed more memory than is free and could not be copied before the cell",
    [SNAPSHOT_REFUSED] = "The system refused a second process, so the session could not be copied before the cell",
};

/* " at In[3]:4:" and the code of that line, if it is known where the cell crashed. */
static void add_place(const kernel *k, string *words)
{
    int cell, line;
    if (!k->crash.name[0] || !compiler_find_line(&k->compiler, k->crash.name, (uint64_t)k->crash.number, &cell, &line))
        return;
    text_print(words, " at In[%d]:%d", cell, line);
    if (cell < 1 || (size_t)cell > k->history_count) return;
    const char *code = k->history[cell - 1];
    while (--line > 0 && code) {
        code = strchr(code, '\n');
        if (code) code++;
    }
    if (!code) return;
    code += strspn(code, " \t");
    text_print(words, ":\n    %.*s", (int)strcspn(code, "\r\n"), code);
}

/* What became of the process that ran the cell. */
static void explain_end(kernel *k, const session_message *event, outcome *result)
{
    ls_message how;
    link_explain(event->status, &how);
    bool killed = k->interrupts > 1;
    result->error = killed ? "Interrupted" : "Crash";
    text_add(&result->words, killed ? "the cell did not stop when asked, and was ended" : how.text);
    add_place(k, &result->words);
    if (event->event == SESSION_RESTORED)
        text_add(&result->words, "\nThe session is as it was before the cell: values and definitions are kept.");
    else
        text_print(&result->words,
                   "\n%s: definitions are kept, but the values of all variables are lost. Run the cells that set them "
                   "again.",
                   why_lost[k->obstacle]);
}

/* The session ended since the last cell: this one would find zeros where values were. */
static void tell_loss(kernel *k, outcome *result)
{
    result->error = "SessionLost";
    text_add(&result->words, k->loss.bytes);
    text_clear(&k->loss);
}

/* The library runs in the session. */
static void run_library(kernel *k, const cell_library *library, outcome *result)
{
    cell_request request = {.number = library->number, .runs = 1};
    snprintf(request.path, sizeof request.path, "%s", library->path);
    session_message event = {.event = SESSION_LOST};
    string payload = {0};
    if (link_request(&k->link, &request))
        while (!kernel_wait(k, &event, &payload)) continue;
    else event.status = link_bury(&k->link);
    if (event.event != SESSION_LOST) link_follow(&k->link, event.process);
    if (event.event == SESSION_NOT_LOADED) {
        result->error = "LinkError";
        text_add(&result->words, text_view(&payload));
    } else if (event.event == SESSION_LOST && !event.process && !k->ends) {
        kernel_lose_session(k, event.status);
        tell_loss(k, result);
    } else if (event.event != SESSION_DONE) {
        explain_end(k, &event, result);
        if (event.event == SESSION_LOST && !k->ends) kernel_renew_session(k, true);
    } else if (event.name[0]) {
        memcpy(result->failed, event.name, sizeof result->failed);
        result->error = result->failed;
        text_add(&result->words, text_view(&payload));
    }
    text_free(&payload);
}

/* Has the user changed their mind while the cell was compiled? */
static bool is_unwanted(const kernel *k)
{
    return k->interrupts || k->ends;
}

/* Divide and compile; `known` gains what the cell defines. */
static bool try_to_compile(kernel *k, const unit_request *request, definitions *known, char path[LONGEST_LIBRARY],
                           string *messages)
{
    string unit = {0}, removed = {0};
    ls_message why;
    bool ok = unit_write(&unit, known, request, &removed, &why);
    if (!ok) text_add(messages, why.text);
    compilation what = {request->number, request->shown_as, request->code, text_view(&unit)};
    if (ok) kernel_wait_for_header(k);
    ok = ok && !is_unwanted(k) && compiler_begin(&k->compiler, &what, path, messages);
    if (ok) {
        while (kernel_wait_for_compiler(k), compiler_listen(&k->compiler, messages)) continue;
        ok = compiler_end(&k->compiler);
    }
    if (ok) tell_removed(k, &removed);
    text_free(&unit);
    text_free(&removed);
    return ok;
}

/* A call without a value at the end of a cell cannot be shown, which only the compiler knows: it is run instead. */
static bool compile(kernel *k, const char *code, definitions *known, cell_library *library, outcome *result)
{
    string messages = {0};
    unit_request request = {code, library->number, (int)k->history_count, true};
    bool ok = try_to_compile(k, &request, known, library->path, &messages);
    if (!ok && !is_unwanted(k) && strstr(text_view(&messages), "ls_shown")) {
        definitions_free(known);
        definitions_copy(known, &k->known);
        text_clear(&messages);
        request.shows = false;
        ok = try_to_compile(k, &request, known, library->path, &messages);
    }
    if (is_unwanted(k)) {
        ok = false;
        result->error = "Interrupted";
        text_add(&result->words, "the compiler was stopped: nothing of the cell has run");
    } else if (!ok) {
        result->error = "CompileError";
        text_add(&result->words, text_view(&messages));
    } else if (messages.length) {
        kernel_stream(k, "stderr", messages.bytes, messages.length); /* warnings */
    }
    text_free(&messages);
    return ok;
}

static void run_cell(kernel *k, const char *code, const magic *wanted, outcome *result)
{
    definitions before = k->known, known;
    definitions_copy(&known, &before);
    cell_library library = {.number = ++k->cells};
    double begin = ls_clock_seconds(), compiled = begin, end = begin;
    if (compile(k, code, &known, &library, result)) {
        compiled = ls_clock_seconds();
        k->known = known; /* array sizes are added while it runs */
        run_library(k, &library, result);
        known = k->known;
        end = ls_clock_seconds();
    }
    if (result->error && !result->failed[0]) {
        k->known = before;
        definitions_free(&known);
        return;
    }
    definitions_free(&before);
    k->known = known;
    k->libraries = must_grow(k->libraries, k->library_count, sizeof *k->libraries);
    k->libraries[k->library_count++] = library;
    if (wanted->time) {
        string told = {0};
        text_print(&told, "ran %.3f s, compiled %.3f s\n", end - compiled, compiled - begin);
        kernel_stream(k, "stdout", told.bytes, told.length);
        text_free(&told);
    }
}

static bool is_blank(const char *code)
{
    return code[strspn(code, " \t\r\n;")] == '\0';
}

void kernel_execute(kernel *k, void *socket)
{
    const ls_json *content = k->request->content;
    const char *sent = ls_json_text(ls_json_get(content, "code"));
    bool silent = ls_json_bool(ls_json_get(content, "silent"), false);
    char *code = copy_text(sent ? sent : "");
    if (!silent && !is_blank(code)) {
        kernel_remember(k, code);
        publish_input(k, code);
    }
    magic wanted = {0};
    outcome result = {0};
    ls_message why;
    k->interrupts = 0;
    text_clear(&k->places);
    if (!magic_obey(k, code, &wanted, &why)) {
        result.error = "UsageError";
        text_add(&result.words, why.text);
    } else if (!is_blank(code) && k->loss.length) {
        tell_loss(k, &result);
    } else if (!is_blank(code)) {
        run_cell(k, code, &wanted, &result);
    }
    if (result.error && ls_json_bool(ls_json_get(content, "stop_on_error"), true)) kernel_hold_requests(k);
    if (result.error) kernel_reply_error(k, socket, result.error, text_view(&result.words));
    else reply_ok(k, socket, &wanted.page);
    text_free(&wanted.page);
    text_free(&result.words);
    ls_sys_free(code);
}
