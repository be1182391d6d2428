/* message.h - messages of Jupyter's protocol 5.3 as bytes in frames: read and verified, or written and signed.
 *
 *     identities...  <IDS|MSG>  signature  header  parent header  metadata  content  buffers...
 *
 * The signature is the HMAC-SHA256 of the four parts behind it, in hexadecimal digits. Nothing of a message is looked
 * at before its signature was verified. With an empty key nothing is signed: a user can ask Jupyter for that. */
#ifndef LOCKSTEP_NOTEBOOK_MESSAGE_H
#define LOCKSTEP_NOTEBOOK_MESSAGE_H

#include "base/json.h"
#include "cell/text.h"

#define PROTOCOL_VERSION "5.3"

typedef struct frame {
    const char *bytes;
    size_t size;
} frame;

enum { MESSAGE_PARTS = 4, MOST_IDENTITIES = 8 };

/* A request. Everything belongs to it; message_free() frees it. */
typedef struct message {
    string identities[MOST_IDENTITIES]; /* whom to answer */
    int identity_count;
    string header_text;        /* copied into every answer, as its parent header */
    ls_json *header, *content; /* no content if it is not JSON: then `fault` tells why */
    ls_message fault;
    const char *type; /* header's msg_type */
} message;

/* False, with the reason, for what is no message or not signed with the key. */
bool message_read(message *to, const frame *frames, size_t count, const char *key, ls_message *why);
void message_free(message *what);

/* The four parts of an answer, and their signature ("" with an empty key). */
typedef struct answer {
    char signature[65];
    string parts[MESSAGE_PARTS];
} answer;

/* `parent` is what it answers, or NULL; `content` is a JSON object; `session` identifies this kernel. */
void answer_write(answer *to, const message *parent, const char *type, const char *content, const char *session,
                  const char *key);
void answer_free(answer *what);

/* 32 random hexadecimal digits, zero-terminated. */
void random_name(char name[33]);

#endif
