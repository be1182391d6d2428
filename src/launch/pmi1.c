/* pmi1.c - "cmd=put kvsname=K key=k value=v", one question and one answer a line. */
#include "launch/pmi1.h"

#include "launch/loop.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* ---- Lines ---------------------------------------------------------------------------------------------------- */

/* Until the socket is ready. */
static ls_status wait_for(const ls_pmi1 *pmi, short events, int64_t deadline, ls_message *why)
{
    for (;;) {
        int64_t left = deadline - ls_now();
        struct pollfd one = {.fd = pmi->fd, .events = events};
        int ready = left > 0 ? poll(&one, 1, (int)(left / 1000000) + 1) : 0;
        if (ready > 0) return LS_OK;
        if (ready < 0 && errno == EINTR) continue;
        snprintf(why->text, sizeof why->text, "PMI: rank %d of %d: %s", pmi->rank, pmi->world,
                 ready < 0 ? strerror(errno) : "no answer in time; has every rank come this far?");
        return LS_ERR_PEER;
    }
}

static ls_status lost(const ls_pmi1 *pmi, ls_message *why)
{
    snprintf(why->text, sizeof why->text, "PMI: rank %d of %d: the process manager is gone", pmi->rank, pmi->world);
    return LS_ERR_PEER;
}

static ls_status send_line(ls_pmi1 *pmi, const char *line, int64_t deadline, ls_message *why)
{
    for (size_t done = 0, size = strlen(line); done < size;) {
        ssize_t sent = send(pmi->fd, line + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) done += (size_t)sent;
        else if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
            ls_status status = wait_for(pmi, POLLOUT, deadline, why);
            if (status) return status;
        } else return lost(pmi, why);
    }
    return LS_OK;
}

/* One line, without its end, in `answer`. */
static ls_status read_line(ls_pmi1 *pmi, char *answer, int64_t deadline, ls_message *why)
{
    for (;;) {
        char *end = memchr(pmi->line, '\n', pmi->length);
        if (end) {
            size_t size = (size_t)(end - pmi->line);
            memcpy(answer, pmi->line, size);
            answer[size] = '\0';
            pmi->length -= size + 1;
            memmove(pmi->line, end + 1, pmi->length);
            return LS_OK;
        }
        if (pmi->length == sizeof pmi->line) {
            snprintf(why->text, sizeof why->text, "PMI: an answer of more than %zu characters", sizeof pmi->line);
            return LS_ERR_PEER;
        }
        ls_status status = wait_for(pmi, POLLIN, deadline, why);
        if (status) return status;
        ssize_t got = recv(pmi->fd, pmi->line + pmi->length, sizeof pmi->line - pmi->length, MSG_DONTWAIT);
        if (got > 0) pmi->length += (size_t)got;
        else if (got == 0 || (errno != EAGAIN && errno != EINTR)) return lost(pmi, why);
    }
}

/* The value of a name in an answer; it goes to the next blank. */
static bool find(const char *answer, const char *name, char *value, size_t room)
{
    size_t length = strlen(name);
    for (const char *c = answer; c; c = strchr(c, ' ')) {
        c += *c == ' ';
        if (strncmp(c, name, length) != 0 || c[length] != '=') continue;
        const char *from = c + length + 1;
        size_t size = strcspn(from, " ");
        if (size >= room) return false;
        memcpy(value, from, size);
        value[size] = '\0';
        return true;
    }
    return false;
}

/* A question, and the answer whose command must be `wanted`; `name` of it goes to `value` unless NULL. */
LS_PRINTF(7, 8)
static ls_status ask(ls_pmi1 *pmi, const char *wanted, const char *name, char *value, int64_t deadline, ls_message *why,
                     const char *question, ...)
{
    char line[sizeof pmi->line], answer[sizeof pmi->line], text[256] = "";
    va_list args;
    va_start(args, question);
    int size = vsnprintf(line, sizeof line, question, args);
    va_end(args);
    if (size < 0 || (size_t)size >= sizeof line) return LS_ERR_INTERNAL;
    ls_status status = send_line(pmi, line, deadline, why);
    if (!status) status = read_line(pmi, answer, deadline, why);
    if (status) return status;
    bool good = find(answer, "cmd", text, sizeof text) && strcmp(text, wanted) == 0;
    good = good && (!find(answer, "rc", text, sizeof text) || atoi(text) == 0);
    if (good && name) good = find(answer, name, value, sizeof pmi->line);
    if (good) return LS_OK;
    line[strcspn(line, "\n")] = '\0';
    snprintf(why->text, sizeof why->text, "PMI: \"%.90s\" was answered with \"%.90s\"", line, answer);
    return LS_ERR_PEER;
}

/* ---- The client ----------------------------------------------------------------------------------------------- */

ls_status ls_pmi1_open(ls_pmi1 *pmi, int fd, int rank, int world, double seconds, ls_message *why)
{
    *pmi = (ls_pmi1){.fd = fd, .rank = rank, .world = world};
    int64_t end = ls_after(seconds);
    char value[sizeof pmi->line];
    ls_status status = ask(pmi, "response_to_init", NULL, NULL, end, why, "cmd=init pmi_version=1 pmi_subversion=1\n");
    if (!status) status = ask(pmi, "maxes", "vallen_max", value, end, why, "cmd=get_maxes\n");
    if (!status) pmi->value_most = atoi(value);
    if (!status) status = ask(pmi, "appnum", "appnum", value, end, why, "cmd=get_appnum\n");
    if (!status) pmi->application = atoi(value);
    if (!status) status = ask(pmi, "my_kvsname", "kvsname", value, end, why, "cmd=get_my_kvsname\n");
    if (status) return status;
    if (pmi->value_most < 8 || strlen(value) >= sizeof pmi->space) {
        snprintf(why->text, sizeof why->text, "PMI: values of %d characters, a name of %zu: not usable",
                 pmi->value_most, strlen(value));
        return LS_ERR_PEER;
    }
    strcpy(pmi->space, value);
    return LS_OK;
}

/* Values are text: two digits a byte. */
static void to_text(const unsigned char *bytes, size_t size, char *text)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * size] = '\0';
}

static bool from_text(const char *text, unsigned char *bytes, size_t size)
{
    if (strlen(text) != 2 * size || strspn(text, "0123456789abcdef") != 2 * size) return false;
    for (size_t i = 0; i < size; i++) {
        char two[3] = {text[2 * i], text[2 * i + 1], '\0'};
        bytes[i] = (unsigned char)strtoul(two, NULL, 16);
    }
    return true;
}

ls_status ls_pmi1_all_gather(ls_pmi1 *pmi, const void *mine, size_t size, void *all, double seconds, ls_message *why)
{
    enum { MOST = 512 };
    int64_t end = ls_after(seconds);
    char text[2 * MOST + 1], value[sizeof pmi->line];
    size_t piece = (size_t)(pmi->value_most - 1) / 2; /* the end of a text may count */
    if (piece > MOST) piece = MOST;
    int round = pmi->rounds++;
    ls_status status = LS_OK;
    for (size_t at = 0; at < size && !status; at += piece) {
        to_text((const unsigned char *)mine + at, size - at < piece ? size - at : piece, text);
        status = ask(pmi, "put_result", NULL, NULL, end, why, "cmd=put kvsname=%s key=lockstep-%d-%d-%zu value=%s\n",
                     pmi->space, round, pmi->rank, at, text);
    }
    if (!status) status = ask(pmi, "barrier_out", NULL, NULL, end, why, "cmd=barrier_in\n");
    for (int rank = 0; rank < pmi->world && !status; rank++) {
        unsigned char *to = (unsigned char *)all + (size_t)rank * size;
        for (size_t at = 0; at < size && !status; at += piece) {
            status = ask(pmi, "get_result", "value", value, end, why, "cmd=get kvsname=%s key=lockstep-%d-%d-%zu\n",
                         pmi->space, round, rank, at);
            if (!status && !from_text(value, to + at, size - at < piece ? size - at : piece)) {
                snprintf(why->text, sizeof why->text, "PMI: rank %d gave another number of bytes than rank %d", rank,
                         pmi->rank);
                status = LS_ERR_PEER;
            }
        }
    }
    return status;
}

void ls_pmi1_close(ls_pmi1 *pmi)
{
    ls_message why;
    ask(pmi, "finalize_ack", NULL, NULL, ls_after(5), &why, "cmd=finalize\n");
    pmi->fd = -1;
}
