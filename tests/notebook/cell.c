/* cell.c - cells divided into parts, and what they define. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "cell/split.h"
#include "cell/unit.h"
#include "check.h"

/* ---- Parts ---- */

static bool x_and_f_are_values(const char *name, size_t length, const void *user)
{
    (void)user;
    return length == 1 && (*name == 'x' || *name == 'f');
}

/* The parts of a cell as letters: # directive, s statement, e expression to be shown, f function, d declaration; ? at
 * the end if the cell is not finished. Valid until the next call. */
static const char *parts_of(const char *code)
{
    static char letters[64];
    token_list tokens = tokens_read(code, strlen(code));
    part_list parts = split(&tokens, x_and_f_are_values, NULL);
    size_t count = 0;
    for (; count < parts.count && count < 60; count++) letters[count] = "#sefd"[parts.parts[count].kind];
    if (parts.unfinished) letters[count++] = '?';
    letters[count] = '\0';
    parts_free(&parts);
    tokens_free(&tokens);
    return letters;
}

static void declarations_are_told_from_statements(void)
{
    CHECK_TEXT(parts_of("int a = 1; a++;"), "ds");
    CHECK_TEXT(parts_of("ls_run *run = ls_init(NULL, NULL);"), "d");
    CHECK_TEXT(parts_of("static const char *const names[] = {\"a;b\", \"c}\"}, c = ';';"), "d");
    CHECK_TEXT(parts_of("size_t n;\nn = 3;"), "ds");
    CHECK_TEXT(parts_of("double (*op)(double) = sin;"), "d");
    CHECK_TEXT(parts_of("callback (*op)(double);"), "d");
    CHECK_TEXT(parts_of("typedef struct { int a; } pair; pair p = {1};"), "dd");
    CHECK_TEXT(parts_of("enum { A, B } e; union u { int i; float f; };"), "dd");
    CHECK_TEXT(parts_of("__attribute__((unused)) int a;"), "d");
    CHECK_TEXT(parts_of("_Static_assert(1, \"\"); return;"), "ss");
}

static void functions_end_with_their_body(void)
{
    CHECK_TEXT(parts_of("int g(int a) { return a; } g(1);"), "fs");
    CHECK_TEXT(parts_of("struct s { int a; } g(void) { return (struct s){1}; }"), "f");
    CHECK_TEXT(parts_of("struct s *g(struct s a)\n{\n}\nint h(void);"), "fd");
    CHECK_TEXT(parts_of("thing *g(other *a)\n{\n    return a->b;\n}"), "f");
    CHECK_TEXT(parts_of("thing *g(void) {} x * f(1)"), "fe");
    CHECK_TEXT(parts_of("int g(void) __attribute__((noinline)) { return 1; } int b;"), "fd");
}

static void a_product_is_shown_and_a_pointer_is_declared(void)
{
    CHECK_TEXT(parts_of("thing *p;"), "d");
    CHECK_TEXT(parts_of("thing *p"), "e");
    CHECK_TEXT(parts_of("x * y;"), "s");
    CHECK_TEXT(parts_of("thing **p = q, r[3];"), "d");
    CHECK_TEXT(parts_of("thing *const p = q;"), "d");
    CHECK_TEXT(parts_of("f (*y)(2);"), "s");
    CHECK_TEXT(parts_of("sizeof y"), "e");
}

static void the_last_expression_is_shown_without_a_semicolon(void)
{
    CHECK_TEXT(parts_of("1 + 2"), "e");
    CHECK_TEXT(parts_of("a = 1; a // comment; with a semicolon"), "se");
    CHECK_TEXT(parts_of("a;"), "s");
    CHECK_TEXT(parts_of("a = 1; a;;"), "ss");
    CHECK_TEXT(parts_of("\"a\\\"b\""), "e");
    CHECK_TEXT(parts_of("f((struct s){.a = 1})"), "e");
}

static void control_flow_stays_in_one_piece(void)
{
    CHECK_TEXT(parts_of("if (a) b(); else if (c) { d(); } else e(); g();"), "ss");
    CHECK_TEXT(parts_of("for (int i = 0; i < 3; i++) for (;;) { break; } g();"), "ss");
    CHECK_TEXT(parts_of("do { a(); } while (b); while (c) d();"), "ss");
    CHECK_TEXT(parts_of("switch (a) { case 1: break; default: ; } { int local; }"), "ss");
    CHECK_TEXT(parts_of("ls_main_first(run) { a(); } b();"), "ss");
    CHECK_TEXT(parts_of("again: a(); goto again;"), "ss");
}

static void directives_are_parts(void)
{
    CHECK_TEXT(parts_of("#include <math.h>\n#define TWO(a) do { a; \\\n a; } while (0)\nint b;"), "##d");
    CHECK_TEXT(parts_of("#if 1\nint a;\n#ifdef B\n#endif\n#else\n#endif\nint b;"), "#d");
    CHECK_TEXT(parts_of("int a\n#define X 1\n;"), "d#");
    CHECK_TEXT(parts_of("#define URL \"http://x /*\"\nint a;"), "#d");
}

static void an_unfinished_cell_is_recognised(void)
{
    CHECK_TEXT(parts_of("for (;;) {"), "s?");
    CHECK_TEXT(parts_of("int g(int a"), "d?");
    CHECK_TEXT(parts_of("if (a)"), "s?");
    CHECK_TEXT(parts_of("/* never closed"), "?");
    CHECK_TEXT(parts_of("#if 1\nint a;"), "#?");
    CHECK_TEXT(parts_of("#define A \\\n"), "#?");
    CHECK_TEXT(parts_of("int a;"), "d");
    CHECK_TEXT(parts_of(""), "");
}

/* ---- Definitions ---- */

static definitions known;
static string unit, removed;
static ls_message why;

/* The unit of a cell, whose definitions are kept as after a run. */
static bool define(const char *code, int number)
{
    text_clear(&unit);
    text_clear(&removed);
    unit_request request = {.code = code, .number = number, .shown_as = number, .shows = true};
    return unit_write(&unit, &known, &request, &removed, &why);
}

static void forget(void)
{
    definitions_free(&known);
    text_free(&unit);
    text_free(&removed);
}

static bool unit_has(const char *words)
{
    return strstr(text_view(&unit), words) != NULL;
}

static const char *source_of(const char *name)
{
    const definition *found = definitions_find(&known, name, strlen(name));
    return found ? found->source : "nothing";
}

static void each_version_of_a_name_has_its_own_symbol(void)
{
    CHECK(define("int step = 1;\nint twice(int a) { return 2 * a; }", 1));
    CHECK(unit_has("extern int step __asm__(\"c1_step\")") && unit_has("LS_NOTEBOOK_STORAGE(step, c1_step)"));
    CHECK(unit_has("extern int twice ( int a ) __asm__(\"c1_twice\")"));
    CHECK(define("static int twice(int a) { return a + a; }", 2));
    CHECK(unit_has("__asm__(\"c1_step\")") && unit_has("__asm__(\"c2_twice\")") && !unit_has("c1_twice"));
    CHECK(!unit_has("static int twice") && !unit_has("STORAGE(step"));
    forget();
}

static void initialisers_run_in_order_with_the_statements(void)
{
    CHECK(define("int a = f(); g(); int b[2] = {a, 2}, c;", 1));
    const char *first = strstr(unit.bytes, "ls_value_a"), *call = strstr(unit.bytes, "g();");
    const char *second = strstr(unit.bytes, "ls_value_b");
    CHECK(first && call && second && first < call && call < second && !unit_has("ls_value_c"));
    forget();
}

static void messages_speak_of_the_cell_s_lines(void)
{
    CHECK(define("\n\n  g();\nint a;\nint f(void)\n{\n}", 7));
    CHECK(unit_has("#line 3 \"In[7]\"\n  g();"));
    CHECK(unit_has("#line 5 \"In[7]\"\nint f(void)\n{\n}"));
    forget();
}

static void a_changed_type_removes_what_was_declared_with_it(void)
{
    CHECK(define("struct s { int a; };\ntypedef struct s *link;", 1));
    CHECK(define("link head;\nint other;\nint use(link l) { return 0; }\nvoid s(void) {}", 2));
    CHECK(define("struct s { int a; };", 3));
    CHECK_TEXT(text_view(&removed), "");
    CHECK(define("struct s { int a, b; };", 4));
    CHECK_TEXT(text_view(&removed), "link, head, use");
    CHECK_TEXT(source_of("head"), "nothing");
    CHECK_TEXT(source_of("other"), "int other");
    CHECK_TEXT(source_of("struct s"), "struct s { int a , b ; }");
    CHECK_TEXT(source_of("s"), "void s ( void )");
    forget();
}

static void a_changed_macro_removes_what_was_declared_with_it(void)
{
    CHECK(define("#define N 3\n#define M (2 * N)\nfloat w[M];\nint n;", 1));
    CHECK(define("#define N 3", 2));
    CHECK_TEXT(text_view(&removed), "");
    CHECK(define("#define N 4", 3));
    CHECK_TEXT(text_view(&removed), "w");
    CHECK(unit_has("#undef N"));
    forget();
}

static void a_variable_can_change_its_type(void)
{
    CHECK(define("int n = 1;\nint parameter(int n) { return n; }", 1));
    CHECK(define("__typeof__(n) m;", 2));
    CHECK(define("double n = 1;", 3));
    CHECK_TEXT(source_of("n"), "double n");
    CHECK_TEXT(text_view(&removed), "m");
    forget();
}

/* It is written as it is, once, for the compiler to refuse. */
static void a_type_with_two_tags_ends(void)
{
    CHECK(define("enum { A, B } enum e;", 1));
    CHECK(strstr(source_of("A"), "enum"));
    forget();
}

static void constants_of_an_enum_are_its_names(void)
{
    CHECK(define("enum { RED, GREEN = (1, 2), BLUE };", 1));
    CHECK(strstr(source_of("GREEN"), "enum") && strstr(source_of("BLUE"), "enum"));
    CHECK(define("enum { RED, BLACK };", 2));
    CHECK_TEXT(source_of("GREEN"), "nothing");
    forget();
}

static void a_struct_without_a_tag_gets_one(void)
{
    CHECK(define("struct { int a; } pair = {1};", 3));
    CHECK(unit_has("struct c3_type_1 { int a; };") && unit_has("extern struct c3_type_1 pair"));
    forget();
}

static void the_size_of_an_array_is_learnt(void)
{
    CHECK(define("int a[] = {1, 2, 3};", 1));
    CHECK(unit_has("ls_notebook_size(\"a\""));
    definitions_set_size(&known, "a", 3);
    CHECK(define("1", 2));
    CHECK(unit_has("extern int a [3] __asm__(\"c1_a\")"));
    forget();
}

static void one_cell_defines_a_name_once(void)
{
    CHECK(!define("int a;\ndouble a;", 5));
    CHECK_TEXT(why.text, "In[5]:2: a is defined twice in this cell");
    forget();
    CHECK(define("int f(void);\nint f(void) { return 1; }\nint f(void);", 1));
    CHECK(unit_has("__asm__(\"c1_f\")"));
    forget();
}

static void a_comment_must_end(void)
{
    CHECK(!define("int a = 1; /* one\n*/\na++; /* two\na++;", 5));
    CHECK_TEXT(why.text, "In[5]:3: the comment that begins here does not end: */ is missing");
    forget();
    CHECK(!define("#define A 1 /* one", 6));
    CHECK_TEXT(why.text, "In[6]:1: the comment that begins here does not end: */ is missing");
    forget();
    CHECK(define("int a = 1; // one", 7));
    forget();
}

static void a_prototype_declares_a_function_of_a_library(void)
{
    CHECK(define("double cbrt(double a);\nextern int errors;", 1));
    CHECK(unit_has("extern double cbrt ( double a );") && unit_has("extern int errors;") && !unit_has("__asm__"));
    forget();
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    CHECK_RUN(declarations_are_told_from_statements);
    CHECK_RUN(functions_end_with_their_body);
    CHECK_RUN(a_product_is_shown_and_a_pointer_is_declared);
    CHECK_RUN(the_last_expression_is_shown_without_a_semicolon);
    CHECK_RUN(control_flow_stays_in_one_piece);
    CHECK_RUN(directives_are_parts);
    CHECK_RUN(an_unfinished_cell_is_recognised);
    CHECK_RUN(each_version_of_a_name_has_its_own_symbol);
    CHECK_RUN(initialisers_run_in_order_with_the_statements);
    CHECK_RUN(messages_speak_of_the_cell_s_lines);
    CHECK_RUN(a_changed_type_removes_what_was_declared_with_it);
    CHECK_RUN(a_changed_macro_removes_what_was_declared_with_it);
    CHECK_RUN(a_variable_can_change_its_type);
    CHECK_RUN(constants_of_an_enum_are_its_names);
    CHECK_RUN(a_type_with_two_tags_ends);
    CHECK_RUN(a_struct_without_a_tag_gets_one);
    CHECK_RUN(the_size_of_an_array_is_learnt);
    CHECK_RUN(one_cell_defines_a_name_once);
    CHECK_RUN(a_comment_must_end);
    CHECK_RUN(a_prototype_declares_a_function_of_a_library);
    return check_done();
}
