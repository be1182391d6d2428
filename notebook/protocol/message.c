/* message.c - messages of Jupyter's protocol as bytes. */
#include "message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/memory.h"
#include "base/sha256.h"

static const char delimiter[] = "<IDS|MSG>";

static bool is_delimiter(const frame *f)
{
    return f->size == strlen(delimiter) && memcmp(f->bytes, delimiter, f->size) == 0;
}

static void sign(char signature[LS_SHA256_HEX + 1], const frame parts[MESSAGE_PARTS], const char *key)
{
    ls_hmac mac;
    ls_hmac_begin(&mac, key, strlen(key));
    for (int i = 0; i < MESSAGE_PARTS; i++) ls_hmac_add(&mac, parts[i].bytes, parts[i].size);
    ls_hmac_end(&mac, signature);
}

static bool is_signed(const frame *signature, const frame parts[MESSAGE_PARTS], const char *key)
{
    if (!*key) return true;
    char expected[LS_SHA256_HEX + 1];
    sign(expected, parts, key);
    return signature->size == LS_SHA256_HEX && ls_equal_in_constant_time(signature->bytes, expected, LS_SHA256_HEX);
}

bool message_read(message *to, const frame *frames, size_t count, const char *key, ls_message *why)
{
    *to = (message){0};
    size_t at = 0;
    while (at < count && !is_delimiter(&frames[at])) at++;
    if (at > MOST_IDENTITIES || count - at < 2 + MESSAGE_PARTS) {
        ls_message_set(why, "not a message of Jupyter: %zu frames", count);
        return false;
    }
    const frame *parts = &frames[at + 2];
    if (!is_signed(&frames[at + 1], parts, key)) {
        ls_message_set(why, "the signature is wrong: ignored");
        return false;
    }
    to->header = ls_json_read(parts[0].bytes, parts[0].size, why);
    to->type = ls_json_text(ls_json_get(to->header, "msg_type"));
    if (!to->type) {
        if (to->header) ls_message_set(why, "the header has no msg_type");
        message_free(to);
        return false;
    }
    to->content = ls_json_read(parts[3].bytes, parts[3].size, &to->fault);
    for (size_t i = 0; i < at; i++) text_put(&to->identities[to->identity_count++], frames[i].bytes, frames[i].size);
    text_put(&to->header_text, parts[0].bytes, parts[0].size);
    return true;
}

void message_free(message *what)
{
    for (int i = 0; i < what->identity_count; i++) text_free(&what->identities[i]);
    text_free(&what->header_text);
    ls_json_free(what->header);
    ls_json_free(what->content);
    *what = (message){0};
}

void random_name(char name[33])
{
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) abort(); /* 16 bytes are never refused */
    for (int i = 0; i < 16; i++) snprintf(name + 2 * i, 3, "%02x", (unsigned)bytes[i]);
}

static void write_header(string *to, const char *type, const char *session)
{
    char name[33], date[32];
    random_name(name);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct tm parts;
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &parts));
    text_print(to,
               "{\"msg_id\":\"%s\",\"session\":\"%s\",\"username\":\"kernel\",\"date\":\"%s.%06ldZ\","
               "\"msg_type\":\"%s\",\"version\":\"" PROTOCOL_VERSION "\"}",
               name, session, date, now.tv_nsec / 1000, type);
}

void answer_write(answer *to, const message *parent, const char *type, const char *content, const char *session,
                  const char *key)
{
    *to = (answer){0};
    write_header(&to->parts[0], type, session);
    text_add(&to->parts[1], parent ? text_view(&parent->header_text) : "{}");
    text_add(&to->parts[2], "{}");
    text_add(&to->parts[3], content);
    frame parts[MESSAGE_PARTS];
    for (int i = 0; i < MESSAGE_PARTS; i++) parts[i] = (frame){to->parts[i].bytes, to->parts[i].length};
    if (*key) sign(to->signature, parts, key);
}

void answer_free(answer *what)
{
    for (int i = 0; i < MESSAGE_PARTS; i++) text_free(&what->parts[i]);
}
