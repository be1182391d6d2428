/* json.c - the reader takes all of JSON and nothing else; what the writer wrote reads back the same. */
#include "base/json.h"

#include "base/memory.h"
#include "check.h"

static ls_json *read_text(const char *text, ls_message *why)
{
    return ls_json_read(text, strlen(text), why);
}

static void reads_every_kind_of_value(void)
{
    ls_message why;
    ls_json *root =
        read_text(" {\"null\":null, \"yes\":true,\"no\":false,\n\"int\":-12,\"real\":-2.5e-3,\"text\":\"a\\u00e9\\n\","
                  "\"list\":[1,[],{}],\"object\":{\"x\":1}}\t",
                  &why);
    CHECK_MSG(root, "%s", why.text);
    CHECK(root->type == LS_JSON_OBJECT && root->count == 8);
    CHECK(ls_json_get(root, "null")->type == LS_JSON_NULL);
    CHECK(ls_json_bool(ls_json_get(root, "yes"), false) && !ls_json_bool(ls_json_get(root, "no"), true));
    CHECK(ls_json_integer(ls_json_get(root, "int"), 0) == -12);
    CHECK(ls_json_number(ls_json_get(root, "int"), 0) == -12.0);
    CHECK(ls_json_number(ls_json_get(root, "real"), 0) == -2.5e-3);
    CHECK_TEXT(ls_json_text(ls_json_get(root, "text")), "a\xc3\xa9\n");
    CHECK(ls_json_get(root, "text")->count == 4);
    const ls_json *list = ls_json_get(root, "list");
    CHECK(list->count == 3 && ls_json_first(list)->integer == 1 && ls_json_first(list)->next->type == LS_JSON_ARRAY);
    CHECK(ls_json_integer(ls_json_get(ls_json_get(root, "object"), "x"), 0) == 1);
    ls_json_free(root);
}

static void what_is_not_there_is_not_found(void)
{
    ls_message why;
    ls_json *root = read_text("[1.5]", &why);
    CHECK(!ls_json_get(NULL, "x") && !ls_json_get(root, "x") && !ls_json_first(NULL) && !ls_json_text(root));
    CHECK(ls_json_integer(ls_json_first(root), 7) == 7 && ls_json_number(NULL, 2.5) == 2.5 && ls_json_bool(root, true));
    ls_json_free(root);
    ls_json_free(NULL);
}

static void only_objects_have_members(void)
{
    ls_message why;
    ls_json *root = read_text("{\"list\": [1], \"text\": \"x\"}", &why);
    CHECK_TEXT(ls_json_members(root)->key, "list");
    CHECK(!ls_json_members(ls_json_get(root, "list")) && !ls_json_members(ls_json_get(root, "text")));
    CHECK(!ls_json_members(NULL));
    ls_json_free(root);
}

static void refuses_what_is_not_json(void)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "line 1, column 1: the text ends"},
        {"{\"a\":1,}", "column 8: expected a key"},
        {"[1,]", "column 4: expected a value"},
        {"[1 2]", "column 4: expected a comma or ]"},
        {"{\"a\" 1}", "expected a colon after the key \"a\""},
        {"{a:1}", "expected a key in quotes"},
        {"'a'", "expected a value"},
        {"// x\n1", "expected a value"},
        {"1 2", "unexpected text after the value"},
        {"nul", "expected a value"},
        {"NaN", "expected a value"},
        {"-", "a number needs a digit"},
        {"+1", "expected a value"},
        {"01", "leading zero"},
        {"1.", "digit after the point"},
        {"1e", "digits in its exponent"},
        {"1e999", "out of range"},
        {"\"a", "unterminated string"},
        {"\"a\\", "unterminated string"},
        {"\"\\x\"", "unknown escape"},
        {"\"\\u12g4\"", "four hexadecimal digits"},
        {"\"\\ud800\"", "without the second half"},
        {"\"\\udc00\"", "without the first half"},
        {"\"\\u0000\"", "U+0000"},
        {"\"\n\"", "control character (0x0a)"},
        {"\"\xff\"", "invalid UTF-8 (0xff)"},
        {"\"\xc0\x80\"", "invalid UTF-8"},
        {"\"\xed\xa0\x80\"", "invalid UTF-8"},
        {"\"\xf4\x90\x80\x80\"", "invalid UTF-8"},
        {"\"\xe2\x82\"", "invalid UTF-8"},
        {"{\"a\":1,\n\"b\":2,\"a\":3}", "line 2, column 13: duplicate key \"a\""},
        {"[[1],\n [2,\n  x]]", "line 3, column 3: expected a value"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ls_message why = {{0}};
        ls_json *root = read_text(bad[i].text, &why);
        CHECK_MSG(!root && strstr(why.text, bad[i].says), "%s: \"%s\" does not say \"%s\"", bad[i].text, why.text,
                  bad[i].says);
        ls_json_free(root);
    }
}

static void nesting_has_a_limit(void)
{
    char text[2 * LS_JSON_DEPTH + 8] = "";
    ls_message why;
    for (int extra = 0; extra < 2; extra++) {
        int depth = LS_JSON_DEPTH + extra;
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        text[2 * depth] = 0;
        ls_json *root = read_text(text, &why);
        CHECK((root != NULL) == (extra == 0));
        if (!root) CHECK(strstr(why.text, "deeper than 64 levels"));
        ls_json_free(root);
    }
}

static void large_objects_find_members_and_duplicates(void)
{
    enum { MEMBERS = 3000 };
    for (int twice = 0; twice < 2; twice++) {
        ls_json_writer w = {0};
        ls_json_put_object(&w, NULL);
        char key[32];
        for (int i = 0; i < MEMBERS; i++) {
            snprintf(key, sizeof key, "layer.%d.weight", i);
            ls_json_put_integer(&w, key, i);
        }
        if (twice) ls_json_put_null(&w, "layer.17.weight");
        ls_json_put_end(&w);
        char *text = ls_json_take(&w, NULL);
        ls_message why;
        ls_json *root = read_text(text, &why);
        CHECK((root != NULL) == !twice);
        if (twice) CHECK(strstr(why.text, "duplicate key \"layer.17.weight\""));
        for (int i = 0; root && i < MEMBERS; i++) {
            snprintf(key, sizeof key, "layer.%d.weight", i);
            CHECK(ls_json_integer(ls_json_get(root, key), -1) == i);
        }
        CHECK(!ls_json_get(root, "layer.3000.weight"));
        ls_json_free(root);
        ls_sys_free(text);
    }
}

static void numbers_keep_their_bits(void)
{
    static const double reals[] = {0.1, -0.0, 1, 1e300, 5e-324, 1.7976931348623157e308, 1.0 / 3, 123456789012345680.0};
    ls_json_writer w = {0};
    ls_json_put_array(&w, NULL);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) ls_json_put_number(&w, NULL, reals[i]);
    ls_json_put_integer(&w, NULL, INT64_MIN);
    ls_json_put_integer(&w, NULL, INT64_MAX);
    ls_json_put_number(&w, NULL, NAN);
    ls_json_put_end(&w);
    char *text = ls_json_take(&w, NULL);
    ls_message why;
    ls_json *root = read_text(text, &why);
    CHECK_MSG(root, "%s in %s", why.text, text);
    const ls_json *v = ls_json_first(root);
    for (size_t i = 0; v && i < sizeof reals / sizeof *reals; i++, v = v->next)
        CHECK_MSG(v->type == LS_JSON_REAL && memcmp(&v->real, &reals[i], sizeof(double)) == 0, "%.17g", reals[i]);
    CHECK(v->type == LS_JSON_INTEGER && v->integer == INT64_MIN);
    CHECK(v->next->type == LS_JSON_INTEGER && v->next->integer == INT64_MAX);
    CHECK(v->next->next->type == LS_JSON_NULL);
    ls_json_free(root);
    ls_sys_free(text);
    root = read_text("9223372036854775808", &why);
    CHECK(root && root->type == LS_JSON_REAL && root->real == 9223372036854775808.0);
    ls_json_free(root);
}

static void write_sample(ls_json_writer *w)
{
    ls_json_put_object(w, NULL);
    ls_json_put_text(w, "text", "q\"\\\n\x01 \xc3\xa9\xf0\x9f\x98\x80");
    ls_json_put_array(w, "list");
    ls_json_put_integer(w, NULL, 1);
    ls_json_put_object(w, NULL);
    ls_json_put_end(w);
    ls_json_put_array(w, NULL);
    ls_json_put_end(w);
    ls_json_put_end(w);
    ls_json_put_bool(w, "b", true);
    ls_json_put_text(w, "n", NULL);
    ls_json_put_end(w);
}

static void writes_what_python_writes(void)
{
    ls_json_writer w = {.indent = 2, .ascii = true};
    write_sample(&w);
    size_t length;
    char *text = ls_json_take(&w, &length);
    CHECK_TEXT(text,
               "{\n  \"text\": \"q\\\"\\\\\\n\\u0001 \\u00e9\\ud83d\\ude00\",\n  \"list\": [\n    1,\n    {},\n    []\n"
               "  ],\n  \"b\": true,\n  \"n\": null\n}");
    CHECK(length == strlen(text));
    ls_sys_free(text);
    w.indent = 0;
    w.ascii = false;
    write_sample(&w);
    text = ls_json_take(&w, NULL);
    CHECK_TEXT(text,
               "{\"text\":\"q\\\"\\\\\\n\\u0001 \xc3\xa9\xf0\x9f\x98\x80\",\"list\":[1,{},[]],\"b\":true,\"n\":null}");
    ls_message why;
    ls_json *root = read_text(text, &why);
    ls_json_put_value(&w, NULL, root);
    char *again = ls_json_take(&w, NULL);
    CHECK_TEXT(again, text);
    ls_json_free(root);
    ls_sys_free(again);
    ls_sys_free(text);
    ls_json_put_text(&w, NULL,
                     "a\xff"
                     "b");
    text = ls_json_take(&w, NULL);
    CHECK_TEXT(text, "\"a\xef\xbf\xbd"
                     "b\"");
    ls_sys_free(text);
}

static void memory_that_is_out_is_said(void)
{
    for (uint64_t n = 1; n < 4; n++) {
        ls_message why;
        ls_sys_fail_at(n);
        ls_json *root = read_text("{\"a\":[1,2,3]}", &why);
        ls_sys_fail_at(0);
        CHECK(n > 2 ? root != NULL : !root && strstr(why.text, "no memory"));
        ls_json_free(root);
    }
    ls_json_writer w = {0};
    ls_sys_fail_at(1);
    write_sample(&w);
    ls_sys_fail_at(0);
    CHECK(!ls_json_take(&w, NULL));
}

/* Damage a valid text everywhere: every outcome is fine but a crash. */
static void damaged_text_never_hurts(void)
{
    const char *sample = "{\"a\\u00e9\":[1,-2.5e3,true,null,\"x\\\"y\"],\"b\":{\"c\":\"\xc3\xa9\"}}";
    size_t length = strlen(sample);
    char copy[128];
    ls_message why;
    for (size_t at = 0; at < length; at++)
        for (int byte = 0; byte < 256; byte++) {
            memcpy(copy, sample, length);
            copy[at] = (char)byte;
            ls_json_free(ls_json_read(copy, length, &why));
        }
    for (size_t cut = 0; cut < length; cut++) {
        char *exact = ls_sys_alloc(cut); /* a read past the end would be noticed by the sanitizer */
        memcpy(exact, sample, cut);
        CHECK(!ls_json_read(exact, cut, &why));
        ls_sys_free(exact);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(reads_every_kind_of_value);
    CHECK_RUN(what_is_not_there_is_not_found);
    CHECK_RUN(only_objects_have_members);
    CHECK_RUN(refuses_what_is_not_json);
    CHECK_RUN(nesting_has_a_limit);
    CHECK_RUN(large_objects_find_members_and_duplicates);
    CHECK_RUN(numbers_keep_their_bits);
    CHECK_RUN(writes_what_python_writes);
    CHECK_RUN(memory_that_is_out_is_said);
    CHECK_RUN(damaged_text_never_hurts);
    return check_done();
}
