/* yaml.c - what the reader of YAML takes, as JSON, and what it refuses, with lines. */
#include "check.h"

#include "base/memory.h"
#include "base/yaml.h"

static const char *as_json(const char *yaml)
{
    static char text[2048];
    ls_message why = {""};
    ls_json *root = ls_yaml_read(yaml, strlen(yaml), &why);
    if (!root) {
        snprintf(text, sizeof text, "%s", why.text);
        return text;
    }
    ls_json_writer w = {0};
    ls_json_put_value(&w, NULL, root);
    char *json = ls_json_take(&w, NULL);
    snprintf(text, sizeof text, "%s", json);
    ls_sys_free(json);
    ls_json_free(root);
    return text;
}

static void reads_scalars(void)
{
    CHECK_TEXT(as_json("a: 1\nb: -2.5\nc: 1e3\nd: true\ne: False\nf: null\ng: ~\nh:\n"),
               "{\"a\":1,\"b\":-2.5,\"c\":1000.0,\"d\":true,\"e\":false,\"f\":null,\"g\":null,\"h\":null}");
    CHECK_TEXT(as_json("a: no\nb: 'no'\nc: \"a\\tb\\\"\"\nd: it's\ne: 'it''s'\nf: '1'\n"),
               "{\"a\":\"no\",\"b\":\"no\",\"c\":\"a\\tb\\\"\",\"d\":\"it's\",\"e\":\"it's\",\"f\":\"1\"}");
    CHECK_TEXT(as_json("ip: 10.0.0.1\nport: 29500\nurl: http://a:80/b#c\nv: 1.2.3\nhex: 0x10\nlist: 0,1\n"),
               "{\"ip\":\"10.0.0.1\",\"port\":29500,\"url\":\"http://a:80/"
               "b#c\",\"v\":\"1.2.3\",\"hex\":\"0x10\",\"list\":\"0,1\"}");
    CHECK_TEXT(as_json("a : b # comment\n'key': v\r\n"), "{\"a\":\"b\",\"key\":\"v\"}");
    CHECK_TEXT(as_json(""), "null");
    CHECK_TEXT(as_json("# only this\n---\n"), "null");
}

static void reads_collections(void)
{
    CHECK_TEXT(as_json("---\na:\n  b: 1\n  c:\n    d: 2\ne: 3\n"), "{\"a\":{\"b\":1,\"c\":{\"d\":2}},\"e\":3}");
    CHECK_TEXT(as_json("a:\n- 1\n- x\nb:\n  - 2\n  -\n"), "{\"a\":[1,\"x\"],\"b\":[2,null]}");
    CHECK_TEXT(as_json("- a: 1\n  b: 2\n- c: 3\n- - 4\n  - 5\n"), "[{\"a\":1,\"b\":2},{\"c\":3},[4,5]]");
    CHECK_TEXT(as_json("a: {}\nb: []\nc: [1, 'x, y', [z]]\nd: {e: f, g: {h: 1}} # end\n"),
               "{\"a\":{},\"b\":[],\"c\":[1,\"x, y\",[\"z\"]],\"d\":{\"e\":\"f\",\"g\":{\"h\":1}}}");
    CHECK_TEXT(as_json("{\n  \"a\": [1, 2]\n}\n"), "{\"a\":[1,2]}");
}

static void refuses_with_lines(void)
{
    static const struct {
        const char *yaml, *complaint;
    } cases[] = {
        {"a: 1\n\tb: 2\n", "line 2: indented with a tab"},
        {"a: &x 1\n", "line 1: \"&\" is not supported"},
        {"a: 1\nb: *x\n", "line 2: \"*\" is not supported"},
        {"a: !!int 1\n", "line 1: \"!\""},
        {"a: |\n  text\n", "line 1: \"|\""},
        {"a: >\n  text\n", "line 1: \">\""},
        {"<<: x\n", "line 1: \"<<\""},
        {"a: 1\na: 2\n", "line 2: duplicate key \"a\""},
        {"a: 1\n---\nb: 2\n", "line 2: a second document"},
        {"a: 1\n  b: 2\n", "line 2: unexpected indentation"},
        {"  a: 1\nb: 2\n", "line 2: indented less"},
        {"a:\n  - 1\n  b: 2\n", "line 3: unexpected indentation"},
        {"a: 1\n- 2\n", "line 2: a list item among keys"},
        {"just text\n", "line 1: \"just text\" is not \"key: value\""},
        {"a: 'open\n", "line 1: unterminated quoted text"},
        {"a: \"\\q\"\n", "line 1: unsupported escape"},
        {"a: 'x' y\n", "line 1: unexpected text"},
        {"a: [1, 2\n", "line 1: a comma or ] is missing"},
        {"a: {b}\n", "line 1: \"b\" without a value"},
        {"a: [1 2] 3\n", "line 1: unexpected text"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *got = as_json(cases[i].yaml);
        CHECK_MSG(strstr(got, cases[i].complaint) == got, "%s gives %s", cases[i].yaml, got);
    }
    char nested[400] = "a: ";
    for (int i = 0; i < 100; i++) strcat(nested, "[");
    CHECK_MSG(strstr(as_json(nested), "line 1: nested more than"), "%s", as_json(nested));
}

/* Every prefix and every file with one byte changed ends in a tree or in a reason. */
static void messages_end_where_the_text_ends(void)
{
    static const char text[] = "a: 'x' y and what is not the file's";
    ls_message why = {""};
    CHECK(!ls_yaml_read(text, 8, &why));
    CHECK_TEXT(why.text, "line 1: unexpected text after a value: \"y\"");
}

static void survives_damage(void)
{
    const char *yaml = "a: [1, {b: 'c'}]\nd:\n  - e: \"f\\n\"\n    g: ~\n  - - h\ni: -1.5 # j\n";
    char text[128];
    size_t length = strlen(yaml);
    for (size_t i = 0; i <= length; i++) {
        ls_message why = {""};
        memcpy(text, yaml, i);
        ls_json *root = ls_yaml_read(text, i, &why);
        CHECK(root || why.text[0]);
        ls_json_free(root);
        for (int byte = 1; i < length && byte < 128; byte++) {
            memcpy(text, yaml, length);
            text[i] = (char)byte;
            why.text[0] = '\0';
            root = ls_yaml_read(text, length, &why);
            CHECK(root || why.text[0]);
            ls_json_free(root);
        }
    }
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(reads_scalars);
    CHECK_RUN(reads_collections);
    CHECK_RUN(refuses_with_lines);
    CHECK_RUN(messages_end_where_the_text_ends);
    CHECK_RUN(survives_damage);
    return check_done();
}
