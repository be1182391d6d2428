/* watch.c - serve the page of a folder, or write it into a file. */
#include <lockstep/watch.h>

#include <errno.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/opts.h"
#include "run/session.h"
#include "watch/document.h"
#include "watch/http.h"
#include "watch/page.h"

/* ---- serving ---- */

static const ls_page_file *file_named(const char *name)
{
    for (const ls_page_file *file = ls_page_files; file->name; file++)
        if (strcmp(file->name, name) == 0) return file;
    return NULL;
}

static const char *type_of(const char *name)
{
    const char *end = strrchr(name, '.');
    if (strcmp(end, ".html") == 0) return "text/html; charset=utf-8";
    return strcmp(end, ".css") == 0 ? "text/css; charset=utf-8" : "text/javascript; charset=utf-8";
}

static ls_http_answer answer_file(const ls_page_file *file)
{
    char *copy = ls_sys_alloc(file->size);
    if (!copy) return (ls_http_answer){.status = 500};
    memcpy(copy, file->bytes, file->size);
    return (ls_http_answer){.status = 200, .type = type_of(file->name), .body = copy, .size = file->size};
}

static ls_http_answer answer_json(ls_json_writer *w)
{
    size_t size = 0;
    char *text = ls_json_take(w, &size);
    return text ? (ls_http_answer){.status = 200, .type = "application/json", .body = text, .size = size}
                : (ls_http_answer){.status = 500};
}

/* Requests name runs and files of the page, both of which are looked up in lists: none becomes part of a path. */
static ls_http_answer answer(const ls_http_request *request, void *user)
{
    ls_watched_folder *folder = user;
    ls_json_writer w = {.indent = 0};
    if (strcmp(request->path, "/api/runs") == 0) {
        ls_document_put_list(&w, NULL, folder);
        return answer_json(&w);
    }
    bool wants_status = strcmp(request->path, "/api/status") == 0;
    if (wants_status || strcmp(request->path, "/api/run") == 0) {
        ls_watched_look(folder);
        ls_watched_run *run = ls_watched_find(folder, request->value);
        if (!run) return (ls_http_answer){.status = 404};
        if (wants_status) ls_document_put_status(&w, NULL, folder, run);
        else ls_document_put_run(&w, NULL, folder, run);
        return answer_json(&w);
    }
    const ls_page_file *file = file_named(strcmp(request->path, "/") == 0 ? "watch.html" : request->path + 1);
    return file ? answer_file(file) : (ls_http_answer){.status = 404};
}

/* False (and an error) if there is no such folder. */
static bool is_folder(ls_run *run, const char *who, const char *folder)
{
    if (folder && ls_path_kind_of(folder) == LS_PATH_FOLDER) return true;
    ls_fail(&run->errors, LS_ERR_IO, "%s: %s is not a folder", who, folder ? folder : "NULL");
    return false;
}

bool ls_watch_sized(ls_run *run, const char *folder, const ls_watch_opts *opts, size_t opts_size)
{
    if (!run || ls_failed(run) || !is_folder(run, "ls_watch", folder)) return false;
    ls_watch_opts o = LS_OPTS_READ(ls_watch_opts, opts, opts_size);
    if (o.port < 0 || o.port > 65535)
        return ls_fail(&run->errors, LS_ERR_VALUE, "ls_watch: port %d: must be from 0 to 65535", o.port), false;
    ls_message why = {{0}};
    ls_http_server *server = ls_http_open(o.port, &why);
    if (!server)
        return ls_fail(&run->errors, LS_ERR_IO, "ls_watch: %s; choose another with .port (--port)", why.text), false;
    ls_watched_folder watched = {.path = folder};
    bool over = ls_should_stop(run); /* listens to signals before anybody can know that it serves */
    ls_print(run, "http://127.0.0.1:%d/\n", ls_http_port(server));
    for (; !over; over = ls_should_stop(run)) ls_http_serve(server, 500, answer, &watched);
    run->session->stop_signal = 0; /* done: nothing was interrupted */
    ls_session_end_stop();
    ls_watched_free(&watched);
    ls_http_close(server);
    return true;
}

/* ---- writing ---- */

/* JSON inside a script element: no "<" may begin a tag there. */
static void put_data(ls_byte_buffer *page, ls_watched_folder *folder)
{
    ls_json_writer w = {.indent = 0};
    ls_json_put_object(&w, NULL);
    ls_document_put_list(&w, "list", folder);
    ls_json_put_array(&w, "runs");
    for (int i = 0; i < folder->count; i++) ls_document_put_run(&w, NULL, folder, folder->runs[i]);
    ls_json_put_end(&w);
    ls_json_put_array(&w, "statuses");
    for (int i = 0; i < folder->count; i++) ls_document_put_status(&w, NULL, folder, folder->runs[i]);
    ls_json_put_end(&w);
    ls_json_put_end(&w);
    size_t size = 0;
    char *text = ls_json_take(&w, &size);
    if (!text) page->failed = true;
    for (size_t i = 0; text && i < size; i++) {
        if (text[i] == '<') ls_byte_buffer_put(page, "\\u003c", 6);
        else ls_byte_buffer_put(page, &text[i], 1);
    }
    ls_sys_free(text);
}

/* The page refers to its other files by elements on lines of their own: put their contents there. */
static void put_line(ls_byte_buffer *page, const char *line, size_t size, ls_watched_folder *folder)
{
    static const char style[] = "<link rel=\"stylesheet\" href=\"", script[] = "<script src=\"";
    bool is_style = size > sizeof style && memcmp(line, style, sizeof style - 1) == 0;
    bool is_script = size > sizeof script && memcmp(line, script, sizeof script - 1) == 0;
    if (!is_style && !is_script) {
        ls_byte_buffer_put(page, line, size);
        return;
    }
    char name[64];
    const char *from = line + (is_style ? sizeof style : sizeof script) - 1;
    const char *quote = memchr(from, '"', (size_t)(line + size - from));
    snprintf(name, sizeof name, "%.*s", (int)(quote - from), from);
    const ls_page_file *file = file_named(name);
    if (is_style)
        ls_byte_buffer_print(page,
                             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src "
                             "'unsafe-inline'; style-src 'unsafe-inline'; img-src data:\">\n<style>\n");
    if (is_script && strcmp(name, "chart.js") == 0) {
        ls_byte_buffer_print(page, "<script type=\"application/json\" id=\"data\">");
        put_data(page, folder);
        ls_byte_buffer_print(page, "</script>\n");
    }
    if (is_script) ls_byte_buffer_print(page, "<script>\n");
    ls_byte_buffer_put(page, file->bytes, file->size);
    ls_byte_buffer_print(page, is_style ? "</style>\n" : "</script>\n");
}

bool ls_watch_export(ls_run *run, const char *folder, const char *path)
{
    if (!run || ls_failed(run) || !is_folder(run, "ls_watch_export", folder)) return false;
    if (!path) return ls_fail(&run->errors, LS_ERR_VALUE, "ls_watch_export: the path is NULL"), false;
    ls_watched_folder watched = {.path = folder};
    ls_byte_buffer page = {.bytes = NULL};
    const ls_page_file *html = file_named("watch.html");
    for (const char *line = html->bytes, *end = line + html->size, *next; line < end; line = next) {
        next = (const char *)memchr(line, '\n', (size_t)(end - line)) + 1;
        put_line(&page, line, (size_t)(next - line), &watched);
    }
    ls_watched_free(&watched);
    ls_message why = {{0}};
    bool ok = !page.failed && ls_file_write(path, page.bytes, page.length, false, &why);
    ls_byte_buffer_free(&page);
    if (!ok)
        ls_fail(&run->errors, why.text[0] ? LS_ERR_IO : LS_ERR_MEMORY, "ls_watch_export: %s",
                why.text[0] ? why.text : "no memory for the page");
    return ok;
}
