/* message.c - messages of Jupyter: signatures, what is accepted and what is not. */
#include "protocol/message.h"

#include <string.h>

#include "base/sha256.h"
#include "check.h"

static void digest_of(const void *bytes, size_t size, size_t piece, char hex[65])
{
    ls_sha256 hash;
    unsigned char digest[LS_SHA256_BYTES];
    ls_sha256_begin(&hash);
    for (size_t i = 0; i < size; i += piece)
        ls_sha256_add(&hash, (const char *)bytes + i, size - i < piece ? size - i : piece);
    ls_sha256_end(&hash, digest);
    for (int i = 0; i < LS_SHA256_BYTES; i++) snprintf(hex + 2 * i, 3, "%02x", (unsigned)digest[i]);
}

/* Values of FIPS 180-4. */
static void sha256_has_the_standard_s_values(void)
{
    char hex[65];
    digest_of("", 0, 1, hex);
    CHECK_TEXT(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    digest_of("abc", 3, 3, hex);
    CHECK_TEXT(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    digest_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, 56, hex);
    CHECK_TEXT(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void sha256_does_not_depend_on_pieces(void)
{
    char bytes[200], whole[65], pieces[65];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * 7);
    for (size_t size = 0; size < sizeof bytes; size++) {
        digest_of(bytes, size, sizeof bytes, whole);
        digest_of(bytes, size, 1 + size % 13, pieces);
        CHECK_TEXT(pieces, whole);
    }
}

/* Values of RFC 4231, tests 2 and 6. */
static void hmac_has_the_standard_s_values(void)
{
    char hex[65], key[131];
    ls_hmac mac;
    ls_hmac_begin(&mac, "Jefe", 4);
    ls_hmac_add(&mac, "what do ya want ", 16);
    ls_hmac_add(&mac, "for nothing?", 12);
    ls_hmac_end(&mac, hex);
    CHECK_TEXT(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    ls_hmac_begin(&mac, key, sizeof key);
    ls_hmac_add(&mac, "Test Using Larger Than Block-Size Key - Hash Key First", 54);
    ls_hmac_end(&mac, hex);
    CHECK_TEXT(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void equality_looks_at_every_byte(void)
{
    char a[64], b[64];
    memset(a, 1, sizeof a);
    memset(b, 1, sizeof b);
    CHECK(ls_equal_in_constant_time(a, b, sizeof a));
    for (size_t i = 0; i < sizeof a; i++) {
        b[i] ^= 0x40;
        CHECK(!ls_equal_in_constant_time(a, b, sizeof a));
        b[i] ^= 0x40;
    }
    CHECK(ls_equal_in_constant_time(a, "", 0));
}

/* A message as frames; those of `a` behind two identities. */
static void frames_of(const answer *a, frame frames[8])
{
    frames[0] = (frame){"id\0entity", 9};
    frames[1] = (frame){"<IDS|MSG>", 9};
    frames[2] = (frame){a->signature, strlen(a->signature)};
    for (int i = 0; i < MESSAGE_PARTS; i++) frames[3 + i] = (frame){a->parts[i].bytes, a->parts[i].length};
}

static void what_was_signed_is_read(void)
{
    answer a;
    frame frames[8];
    message m;
    ls_message why;
    answer_write(&a, NULL, "execute_request", "{\"code\":\"1\"}", "session", "secret");
    frames_of(&a, frames);
    CHECK(message_read(&m, frames, 7, "secret", &why));
    CHECK_TEXT(m.type, "execute_request");
    CHECK_TEXT(ls_json_text(ls_json_get(m.content, "code")), "1");
    CHECK(m.identity_count == 1 && m.identities[0].length == 9 && memcmp(m.identities[0].bytes, "id\0entity", 9) == 0);

    answer reply;
    answer_write(&reply, &m, "execute_reply", "{}", "session", "secret");
    CHECK_TEXT(reply.parts[1].bytes, a.parts[0].bytes);
    answer_free(&reply);
    message_free(&m);
    answer_free(&a);
}

static void what_was_changed_is_refused(void)
{
    answer a;
    frame frames[8];
    message m;
    ls_message why;
    answer_write(&a, NULL, "execute_request", "{\"code\":\"1\"}", "session", "secret");
    frames_of(&a, frames);
    CHECK(!message_read(&m, frames, 7, "another", &why));
    CHECK_TEXT(why.text, "the signature is wrong: ignored");
    for (int part = 0; part < MESSAGE_PARTS; part++) {
        a.parts[part].bytes[0] ^= 1;
        CHECK(!message_read(&m, frames, 7, "secret", &why));
        a.parts[part].bytes[0] ^= 1;
    }
    frames[2].size--;
    CHECK(!message_read(&m, frames, 7, "secret", &why));
    frames[2].size = 0;
    CHECK(!message_read(&m, frames, 7, "secret", &why));
    CHECK(message_read(&m, frames, 7, "", &why)); /* an empty key: nothing is signed */
    message_free(&m);
    answer_free(&a);
}

static void content_that_is_not_json_is_explained(void)
{
    answer a;
    frame frames[8];
    message m;
    ls_message why;
    answer_write(&a, NULL, "execute_request", "{\"code\":\"\\u0000\"}", "session", "secret");
    frames_of(&a, frames);
    CHECK(message_read(&m, frames, 7, "secret", &why));
    CHECK_TEXT(m.type, "execute_request");
    CHECK(!m.content && strstr(m.fault.text, "U+0000"));
    message_free(&m);
    answer_free(&a);
}

static void what_is_no_message_is_refused(void)
{
    const frame empty[] = {{"<IDS|MSG>", 9}, {"", 0}, {"{}", 2}, {"{}", 2}, {"{}", 2}, {"{}", 2}};
    message m;
    ls_message why;
    for (size_t count = 0; count < 6; count++) CHECK(!message_read(&m, empty, count, "", &why));
    CHECK(!message_read(&m, empty, 6, "", &why));
    CHECK_TEXT(why.text, "the header has no msg_type");
    frame many[20];
    for (int i = 0; i < 20; i++) many[i] = (frame){"x", 1};
    memcpy(many + 14, empty, sizeof empty);
    CHECK(!message_read(&m, many, 20, "", &why));
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(sha256_has_the_standard_s_values);
    CHECK_RUN(sha256_does_not_depend_on_pieces);
    CHECK_RUN(hmac_has_the_standard_s_values);
    CHECK_RUN(equality_looks_at_every_byte);
    CHECK_RUN(what_was_signed_is_read);
    CHECK_RUN(what_was_changed_is_refused);
    CHECK_RUN(content_that_is_not_json_is_explained);
    CHECK_RUN(what_is_no_message_is_refused);
    return check_done();
}
