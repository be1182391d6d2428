/* pmi.c - the PMI client: one question, one answer ("cmd=put key=k value=v"). */
#include "launch/bootstrap/pmi.h"

#include "launch/control/hex.h"
#include "launch/control/loop.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { COUNT = 6 /* characters of a length */ };

/* ---- Messages ------------------------------------------------------------------------------------------------- */

/* Wait until the socket is ready. */
static ls_status wait_for(const ls_pmi *pmi, short events, int64_t deadline, ls_message *why)
{
    for (;;) {
        int64_t left = deadline - ls_now();
        struct pollfd one = {.fd = pmi->fd, .events = events};
        int timeout = left / 1000000 < INT_MAX ? (int)(left / 1000000) + 1 : INT_MAX;
        int ready = left > 0 ? poll(&one, 1, timeout) : 0;
        if (ready > 0) return LS_OK;
        if (ready < 0 && errno == EINTR) continue;
        return ls_explain(why, LS_ERR_PEER, "PMI: rank %d of %d: %s", pmi->rank, pmi->world,
                          ready < 0 ? strerror(errno) : "no answer in time; did every rank get this far?");
    }
}

static ls_status lost(const ls_pmi *pmi, ls_message *why)
{
    return ls_explain(why, LS_ERR_PEER, "PMI: rank %d of %d: the process manager is gone", pmi->rank, pmi->world);
}

static ls_status send_text(ls_pmi *pmi, const char *text, size_t size, int64_t deadline, ls_message *why)
{
    for (size_t done = 0; done < size;) {
        ssize_t sent = send(pmi->fd, text + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) done += (size_t)sent;
        else if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
            ls_status status = wait_for(pmi, POLLOUT, deadline, why);
            if (status) return status;
        } else return lost(pmi, why);
    }
    return LS_OK;
}

/* Parse a length: digits, then blanks. -1: invalid. */
static int read_count(const char text[COUNT])
{
    int count = 0, digits = 0;
    while (digits < COUNT && isdigit((unsigned char)text[digits])) count = 10 * count + text[digits++] - '0';
    for (int i = digits; i < COUNT; i++)
        if (text[i] != ' ') return -1;
    return digits ? count : -1;
}

/* Is there a whole message? Sets where it begins and ends, and its size with the frame. A message with an invalid
 * length counts as whole and empty, which answers no question. */
static bool find_message(const ls_pmi *pmi, size_t *begin, size_t *end, size_t *taken)
{
    if (pmi->counted) {
        if (pmi->length < COUNT) return false;
        int count = read_count(pmi->text);
        *begin = COUNT;
        *taken = *end = COUNT + (size_t)(count < 0 ? 0 : count);
        return *end <= pmi->length;
    }
    const char *line = memchr(pmi->text, '\n', pmi->length);
    *begin = 0;
    *end = line ? (size_t)(line - pmi->text) : 0;
    *taken = *end + 1;
    return line;
}

static ls_status read_answer(ls_pmi *pmi, char *answer, int64_t deadline, ls_message *why)
{
    for (;;) {
        size_t begin, end, taken;
        if (find_message(pmi, &begin, &end, &taken)) {
            memcpy(answer, pmi->text + begin, end - begin);
            answer[end - begin] = '\0';
            pmi->length -= taken;
            memmove(pmi->text, pmi->text + taken, pmi->length);
            return LS_OK;
        }
        if (pmi->length == sizeof pmi->text)
            return ls_explain(why, LS_ERR_PEER, "PMI: an answer of more than %zu characters", sizeof pmi->text);
        ls_status status = wait_for(pmi, POLLIN, deadline, why);
        if (status) return status;
        ssize_t got = recv(pmi->fd, pmi->text + pmi->length, sizeof pmi->text - pmi->length, MSG_DONTWAIT);
        if (got > 0) pmi->length += (size_t)got;
        else if (got == 0 || (errno != EAGAIN && errno != EINTR)) return lost(pmi, why);
    }
}

/* The value of a name in an answer: up to the next separator. */
static bool find(const char *answer, char separator, const char *name, char *value, size_t room)
{
    size_t length = strlen(name);
    for (const char *c = answer; c; c = strchr(c, separator)) {
        c += *c == separator;
        if (strncmp(c, name, length) != 0 || c[length] != '=') continue;
        const char *from = c + length + 1, *stop = strchr(from, separator);
        size_t size = stop ? (size_t)(stop - from) : strlen(from);
        if (size >= room) return false;
        memcpy(value, from, size);
        value[size] = '\0';
        return true;
    }
    return false;
}

ls_status ls_pmi_ask(ls_pmi *pmi, const char *wanted, const char *name, char *value, int64_t end, ls_message *why,
                     const char *question, ...)
{
    char message[COUNT + sizeof pmi->text], answer[sizeof pmi->text], text[256] = "", *words = message + COUNT;
    va_list args;
    va_start(args, question);
    int size = vsnprintf(words, sizeof pmi->text, question, args);
    va_end(args);
    if (size < 0 || (size_t)size >= sizeof pmi->text) return LS_ERR_INTERNAL;
    if (pmi->counted) {
        char count[COUNT + 1];
        snprintf(count, sizeof count, "%-6d", size);
        memcpy(message, count, COUNT);
    }
    char separator = pmi->counted ? ';' : ' ';
    size_t head = pmi->counted ? COUNT : 0;
    ls_status status = send_text(pmi, words - head, head + (size_t)size, end, why);
    if (!status) status = read_answer(pmi, answer, end, why);
    if (status) return status;
    bool good = find(answer, separator, "cmd", text, sizeof text) && strcmp(text, wanted) == 0;
    good = good && (!find(answer, separator, "rc", text, sizeof text) || atoi(text) == 0);
    if (good && name) good = find(answer, separator, name, value, sizeof pmi->text);
    if (good) return LS_OK;
    words[strcspn(words, "\n")] = '\0';
    return ls_explain(why, LS_ERR_PEER, "PMI: unexpected answer to \"%.90s\": \"%.90s\"", words, answer);
}

/* ---- The client ----------------------------------------------------------------------------------------------- */

ls_status ls_pmi_open(ls_pmi *pmi, const ls_pmi_dialect *dialect, int fd, int rank, int world, double seconds,
                      ls_message *why)
{
    *pmi = (ls_pmi){.dialect = dialect, .fd = fd, .rank = rank, .world = world};
    return dialect->hello(pmi, ls_after(seconds), why);
}

ls_status ls_pmi_all_gather(ls_pmi *pmi, const void *mine, size_t size, void *all, double seconds, ls_message *why)
{
    enum { MOST = 512 };
    int64_t end = ls_after(seconds);
    char key[64], text[2 * MOST + 1], value[sizeof pmi->text];
    size_t piece = (size_t)(pmi->value_most - 1) / 2; /* the limit may include the terminating zero */
    if (piece > MOST) piece = MOST;
    int round = pmi->rounds++;
    ls_status status = LS_OK;
    for (size_t at = 0; at < size && !status; at += piece) {
        ls_hex_write((const char *)mine + at, size - at < piece ? size - at : piece, text);
        snprintf(key, sizeof key, "lockstep-%d-%d-%zu", round, pmi->rank, at);
        status = pmi->dialect->put(pmi, key, text, end, why);
    }
    if (!status) status = pmi->dialect->fence(pmi, end, why);
    for (int rank = 0; rank < pmi->world && !status; rank++) {
        char *to = (char *)all + (size_t)rank * size;
        for (size_t at = 0; at < size && !status; at += piece) {
            snprintf(key, sizeof key, "lockstep-%d-%d-%zu", round, rank, at);
            status = pmi->dialect->get(pmi, key, value, end, why);
            if (!status && !ls_hex_read(value, to + at, size - at < piece ? size - at : piece))
                status = ls_explain(why, LS_ERR_PEER, "PMI: rank %d sent a different number of bytes than rank %d",
                                    rank, pmi->rank);
        }
    }
    return status;
}

void ls_pmi_close(ls_pmi *pmi)
{
    ls_message why;
    pmi->dialect->goodbye(pmi, ls_after(5), &why);
    pmi->fd = -1;
}
