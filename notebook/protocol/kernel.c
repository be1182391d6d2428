/* kernel.c - requests of Jupyter, and the loop that waits for them. */
#include "kernel.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "base/memory.h"

/* ---- Answers ---- */

void kernel_reply(kernel *k, void *socket, const char *type, ls_json_writer *w)
{
    char *content = ls_json_take(w, NULL);
    if (content) channels_reply(&k->channels, socket, k->request, type, content);
    ls_sys_free(content);
}

void kernel_publish(kernel *k, const char *type, ls_json_writer *w)
{
    char *content = ls_json_take(w, NULL);
    if (content) channels_publish(&k->channels, k->request, type, content);
    ls_sys_free(content);
}

void kernel_stream(kernel *k, const char *name, const char *bytes, size_t length)
{
    char *words = copy_bytes(bytes, length);
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_text(&w, "name", name);
    ls_json_put_text(&w, "text", words);
    ls_json_put_end(&w);
    kernel_publish(k, "stream", &w);
    ls_sys_free(words);
}

static void publish_state(kernel *k, const char *state)
{
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_text(&w, "execution_state", state);
    ls_json_put_end(&w);
    kernel_publish(k, "status", &w);
}

/* ---- What the session prints ---- */

/* Bytes at the end that begin a character whose rest has not come yet. */
static size_t unfinished_character(const char *bytes, size_t length)
{
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        unsigned char c = (unsigned char)bytes[length - back];
        if ((c & 0xc0) == 0x80) continue;
        size_t needed = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
        return needed > back ? back : 0;
    }
    return 0;
}

/* Pass on what is there. A character cut in two by the end of the pipe's buffer is completed. */
static void pass_on(kernel *k, int from, const char *name)
{
    enum { PIECE = 65536 };
    char bytes[PIECE];
    size_t kept = 0;
    for (ssize_t got; (got = read(from, bytes + kept, PIECE - kept)) > 0;) {
        size_t length = kept + (size_t)got;
        kept = unfinished_character(bytes, length);
        if (length > kept) kernel_stream(k, name, bytes, length - kept);
        memmove(bytes, bytes + length - kept, kept);
    }
    if (kept) kernel_stream(k, name, bytes, kept);
}

static void pass_on_output(kernel *k)
{
    pass_on(k, k->link.output, "stdout");
    pass_on(k, k->link.errors, "stderr");
}

/* ---- Requests ---- */

static void reply_kernel_info(kernel *k, void *socket)
{
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_text(&w, "status", "ok");
    ls_json_put_text(&w, "protocol_version", PROTOCOL_VERSION);
    ls_json_put_text(&w, "implementation", "lockstep");
    ls_json_put_text(&w, "implementation_version", LOCKSTEP_VERSION);
    ls_json_put_text(&w, "banner", "C (Lockstep " LOCKSTEP_VERSION "): lockstep.h is included in every cell");
    ls_json_put_object(&w, "language_info");
    ls_json_put_text(&w, "name", "c");
    ls_json_put_text(&w, "version", "17");
    ls_json_put_text(&w, "mimetype", "text/x-csrc");
    ls_json_put_text(&w, "file_extension", ".c");
    ls_json_put_text(&w, "codemirror_mode", "text/x-csrc");
    ls_json_put_text(&w, "pygments_lexer", "c");
    ls_json_put_end(&w);
    ls_json_put_array(&w, "help_links");
    ls_json_put_end(&w);
    ls_json_put_end(&w);
    kernel_reply(k, socket, "kernel_info_reply", &w);
}

static void reply_comm_info(kernel *k, void *socket)
{
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_text(&w, "status", "ok");
    ls_json_put_object(&w, "comms"); /* widgets need Python */
    ls_json_put_end(&w);
    ls_json_put_end(&w);
    kernel_reply(k, socket, "comm_info_reply", &w);
}

/* Also if a cell is compiled, or runs. */
static void end_at_once(kernel *k)
{
    k->ends = true;
    compiler_stop(&k->compiler);
    link_signal(&k->link, SIGKILL);
}

static void reply_shutdown(kernel *k, void *socket)
{
    bool restart = ls_json_bool(ls_json_get(k->request->content, "restart"), false);
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_text(&w, "status", "ok");
    ls_json_put_bool(&w, "restart", restart);
    ls_json_put_end(&w);
    kernel_reply(k, socket, "shutdown_reply", &w);
    end_at_once(k);
}

/* The first asks the cell to stop, the second ends its process; the compiler is stopped by the first. One that comes
 * just before the cell runs waits for it. */
static void deliver_interrupts(const kernel *k)
{
    if (k->interrupts) compiler_stop(&k->compiler);
    if (k->link.running && k->interrupts) link_signal(&k->link, k->interrupts > 1 ? SIGKILL : SIGINT);
}

static void reply_interrupt(kernel *k, void *socket)
{
    k->interrupts++;
    deliver_interrupts(k);
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_text(&w, "status", "ok");
    ls_json_put_end(&w);
    kernel_reply(k, socket, "interrupt_reply", &w);
}

static const struct {
    const char *type;
    void (*answer)(kernel *k, void *socket);
} requests[] = {
    {"kernel_info_request", reply_kernel_info},  {"execute_request", kernel_execute},
    {"complete_request", kernel_complete},       {"inspect_request", kernel_inspect},
    {"is_complete_request", kernel_is_complete}, {"history_request", kernel_history},
    {"comm_info_request", reply_comm_info},      {"interrupt_request", reply_interrupt},
    {"shutdown_request", reply_shutdown},
};

static void reply_aborted(kernel *k, void *socket)
{
    ls_json_writer w = {0};
    ls_json_put_object(&w, NULL);
    ls_json_put_text(&w, "status", "aborted");
    ls_json_put_integer(&w, "execution_count", (int64_t)k->history_count);
    ls_json_put_end(&w);
    kernel_reply(k, socket, "execute_reply", &w);
}

/* What was asked cannot be read, as with U+0000 in the code. Cells behind this one are not run. */
static void refuse_request(kernel *k, void *socket, bool is_cell)
{
    string words = {0};
    text_print(&words, "the front end's message cannot be read: %s", k->request->fault.text);
    if (is_cell) kernel_hold_requests(k);
    kernel_reply_error(k, socket, "MessageError", words.bytes);
    text_free(&words);
}

/* While a cell runs this is called for the control channel, inside the answer to that cell's request: cells are taken
 * from the shell channel only. */
static void answer_request(kernel *k, void *socket, message *request, bool runs_cells)
{
    const message *outer = k->request;
    k->request = request;
    publish_state(k, "busy");
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
        if (strcmp(request->type, requests[i].type) != 0) continue;
        bool is_cell = requests[i].answer == kernel_execute;
        if (is_cell && !runs_cells) reply_aborted(k, socket);
        else if (!request->content) refuse_request(k, socket, is_cell);
        else requests[i].answer(k, socket);
    }
    publish_state(k, "idle");
    k->request = outer;
    message_free(request);
}

static void answer_one(kernel *k, void *socket)
{
    message request;
    if (channels_receive(&k->channels, socket, &request))
        answer_request(k, socket, &request, socket == k->channels.shell);
}

void kernel_hold_requests(kernel *k)
{
    for (message request; channels_receive(&k->channels, k->channels.shell, &request);) {
        k->held = must_grow(k->held, k->held_count, sizeof *k->held);
        k->held[k->held_count++] = request;
    }
}

static void answer_held(kernel *k)
{
    for (size_t i = 0; i < k->held_count; i++) answer_request(k, k->channels.shell, &k->held[i], false);
    k->held_count = 0;
}

/* ---- Waiting ---- */

/* Signals belong to the process: hence a global. */
static volatile sig_atomic_t told_to_end;

static void on_termination(int number)
{
    (void)number;
    told_to_end = 1;
}

enum {
    WAIT_CONTROL,
    WAIT_HEARTBEAT,
    WAIT_COMPILER,
    WAIT_OUTPUT,
    WAIT_ERRORS,
    WAIT_SESSION,
    WAIT_DEATH,
    WAIT_INPUT,
    WAIT_SHELL,
    WAITS
};

/* Does nobody need this kernel any more? Jupyter may have died without a word: if it started this process itself, which
 * it says in JPY_PARENT_PID, the process has another parent then. */
static bool is_abandoned(const kernel *k)
{
    return told_to_end || (k->jupyter && getppid() != k->jupyter);
}

/* Wait for the first `count` kinds. */
static bool wait_for_any(kernel *k, int count, zmq_pollitem_t items[WAITS])
{
    enum { SECOND = 1000 };
    const channels *c = &k->channels;
    void *sockets[WAITS] = {
        [WAIT_CONTROL] = c->control, [WAIT_HEARTBEAT] = c->heartbeat, [WAIT_INPUT] = c->input, [WAIT_SHELL] = c->shell};
    int files[WAITS] = {[WAIT_COMPILER] = k->compiler.messages,
                        [WAIT_OUTPUT] = k->link.output,
                        [WAIT_ERRORS] = k->link.errors,
                        [WAIT_SESSION] = k->link.socket,
                        [WAIT_DEATH] = k->link.death};
    for (int i = 0; i < WAITS; i++) items[i] = (zmq_pollitem_t){sockets[i], files[i], ZMQ_POLLIN, 0};
    if (zmq_poll(items, count, SECOND) < 0 && zmq_errno() != EINTR) return false;
    if (is_abandoned(k)) end_at_once(k);
    if (items[WAIT_HEARTBEAT].revents) channels_echo(&k->channels);
    if (items[WAIT_CONTROL].revents) answer_one(k, k->channels.control);
    if (items[WAIT_INPUT].revents) kernel_take_input(k);
    if (items[WAIT_COMPILER].revents && k->compiler.preparing) compiler_listen_header(&k->compiler);
    return true;
}

/* What the session sent, in order with what it printed before. True: the cell's fate. */
static bool take_events(kernel *k, session_message *event, string *payload)
{
    while (link_has_message(&k->link)) {
        pass_on_output(k); /* printed before the message was sent */
        if (!link_receive(&k->link, event, payload)) return false;
        switch ((session_event)event->event) {
        case SESSION_STARTED:
            k->link.running = event->process;
            k->obstacle = (snapshot_obstacle)event->number;
            k->crash = (session_message){0};
            deliver_interrupts(k);
            break;
        case SESSION_SIZE: definitions_set_size(&k->known, event->name, event->number); break;
        case SESSION_INPUT: kernel_ask(k); break;
        case SESSION_CLEAR: kernel_clear(k); break;
        case SESSION_DISPLAY:
        case SESSION_RESULT: kernel_show(k, event, payload); break;
        case SESSION_CRASHED: k->crash = *event; break;
        case SESSION_DONE:
        case SESSION_NOT_LOADED:
        case SESSION_RESTORED:
        case SESSION_LOST: return true;
        }
    }
    return false;
}

bool kernel_wait(kernel *k, session_message *event, string *payload)
{
    zmq_pollitem_t items[WAITS];
    if (!wait_for_any(k, WAIT_SHELL, items)) return false;
    pass_on_output(k);
    if (take_events(k, event, payload)) return true;
    if (!items[WAIT_DEATH].revents) return false;
    if (take_events(k, event, payload)) return true; /* sent before it died */
    pass_on_output(k);
    *event = (session_message){.event = SESSION_LOST, .process = k->link.running};
    event->status = link_bury(&k->link);
    return true;
}

void kernel_wait_for_header(kernel *k)
{
    zmq_pollitem_t items[WAITS];
    while (k->compiler.preparing && !k->interrupts && !k->ends)
        if (!wait_for_any(k, WAIT_COMPILER + 1, items)) return;
}

void kernel_wait_for_compiler(kernel *k)
{
    zmq_pollitem_t items[WAITS];
    do {
        if (!wait_for_any(k, WAIT_COMPILER + 1, items)) return;
    } while (!items[WAIT_COMPILER].revents);
}

int kernel_serve(kernel *k)
{
    const char *jupyter = getenv("JPY_PARENT_PID");
    if (jupyter && atoi(jupyter) == getppid()) k->jupyter = getppid();
    signal(SIGTERM, on_termination);
    publish_state(k, "starting");
    while (!k->ends) {
        zmq_pollitem_t items[WAITS];
        if (!wait_for_any(k, WAITS, items)) return 1;
        pass_on_output(k);
        if (items[WAIT_DEATH].revents) kernel_lose_session(k, link_bury(&k->link));
        if (!k->ends && items[WAIT_SHELL].revents) answer_one(k, k->channels.shell);
        answer_held(k);
    }
    return 0;
}
