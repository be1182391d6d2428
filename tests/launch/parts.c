/* parts.c - the pure parts of the launcher: placement, lists of streams, environments, the words of a cause. */
#include "check.h"

#include "launch/control/token.h"
#include "launch/placement.h"
#include "launch/plan.h"
#include "launch/supervise/cause.h"

#include <sys/stat.h>
#include <unistd.h>

/* ---- Placement: machines made of files ---- */

static char root[64];

static void put(const char *text, const char *format, ...)
{
    char path[512];
    int length = snprintf(path, sizeof path, "%s", root);
    va_list args;
    va_start(args, format);
    vsnprintf(path + length, sizeof path - (size_t)length, format, args);
    va_end(args);
    for (char *slash = strchr(path + length + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    fprintf(file, "%s\n", text);
    fclose(file);
}

/* Two nodes of 4 cores with two threads each: CPUs 0-3 and 8-11 on node 0, 4-7 and 12-15 on node 1. */
static void make_machine(void)
{
    strcpy(root, "/tmp/placement_XXXXXX");
    if (!mkdtemp(root)) exit(1);
    put("0-1", "/sys/devices/system/node/online");
    put("0-3,8-11", "/sys/devices/system/node/node0/cpulist");
    put("4-7,12-15", "/sys/devices/system/node/node1/cpulist");
    for (int cpu = 0; cpu < 16; cpu++) {
        char siblings[16];
        snprintf(siblings, sizeof siblings, "%d,%d", cpu % 8, cpu % 8 + 8);
        put(siblings, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    }
}

/* "0 8 1 9|2 10 3 11": CPUs of each worker. */
static const char *placed(int count, int processes)
{
    static char text[256];
    int cpus[16], first[17];
    text[0] = '\0';
    for (int i = 0; i < count; i++) cpus[i] = i;
    if (!ls_placement(root, cpus, count, processes, first)) return "none";
    for (int i = 0; i < processes; i++)
        for (int c = first[i]; c < first[i + 1]; c++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%d%s", cpus[c],
                     c + 1 < first[i + 1] ? " "
                     : i + 1 < processes  ? "|"
                                          : "");
    return text;
}

static void places_by_node_and_core(void)
{
    make_machine();
    CHECK_TEXT(placed(16, 1), "0 8 1 9 2 10 3 11 4 12 5 13 6 14 7 15");
    CHECK_TEXT(placed(16, 2), "0 8 1 9 2 10 3 11|4 12 5 13 6 14 7 15");
    CHECK_TEXT(placed(16, 4), "0 8 1 9|2 10 3 11|4 12 5 13|6 14 7 15");
    CHECK_TEXT(placed(16, 3), "0 8 1 9|2 10 3 11|4 12 5 13 6 14 7 15");
    CHECK_TEXT(placed(6, 2), "0 1 2 3|4 5"); /* four on one node, two on the other: within nodes, not equal */
    CHECK_TEXT(placed(2, 3), "none");
    char line[100];
    snprintf(line, sizeof line, "rm -rf %s", root);
    CHECK(system(line) == 0);
    strcpy(root, "/nowhere"); /* no /sys: one node, cores without threads */
    CHECK_TEXT(placed(5, 2), "0 1|2 3 4");
}

/* ---- Lists ---- */

static void reads_lists_of_streams(void)
{
    uint8_t s[12];
    CHECK(ls_streams_parse("3", 12, s) && s[0] == 3 && s[11] == 3);
    CHECK(ls_streams_parse("0:1,11:2", 12, s) && s[0] == 1 && s[1] == 0 && s[11] == 2);
    CHECK(ls_streams_parse("40:1", 12, s)); /* a rank of another host's size */
    static const char *const wrong[] = {"", "4", "33", "0:", "0:4", "a:1", "0:1,", "0:1;1:1", "-1:1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_MSG(!ls_streams_parse(wrong[i], 12, s), "\"%s\" was accepted", wrong[i]);
}

/* ---- Environments ---- */

static void overlays_environments(void)
{
    const char *const base[] = {"A=1", "AB=2", "C=", NULL}, *const over[] = {"A=3", "D=4", NULL};
    CHECK_TEXT(ls_environment_get(base, "A"), "1");
    CHECK_TEXT(ls_environment_get(base, "C"), "");
    CHECK(!ls_environment_get(base, "B") && !ls_environment_get(NULL, "A"));
    CHECK(ls_environment_integer(base, "AB", 0, 9, -1) == 2 && ls_environment_integer(base, "AB", 3, 9, -1) == -1);
    ls_environment e = {0};
    ls_environment_add_all(&e, base);
    ls_environment_add_all(&e, over);
    ls_environment_set(&e, "AB", "%d", 5);
    CHECK(!e.failed && e.count == 4);
    const char *const *list = (const char *const *)e.entry;
    CHECK_TEXT(ls_environment_get(list, "A"), "3");
    CHECK_TEXT(ls_environment_get(list, "AB"), "5");
    CHECK_TEXT(ls_environment_get(list, "D"), "4");
    ls_environment_unset(&e, "AB");
    CHECK(e.count == 3 && !ls_environment_get(list, "AB") && ls_environment_get(list, "D"));
    ls_environment_free(&e);
}

/* ---- Causes ---- */

static void keeps_the_last_lines(void)
{
    ls_cause cause = {0};
    const char *text = "one\ntwo\nthree\n\n";
    ls_cause_tail(&cause, text, strlen(text), 2);
    CHECK_TEXT(cause.tail, "two\nthree");
    ls_cause_tail(&cause, text, strlen(text), 9);
    CHECK_TEXT(cause.tail, "one\ntwo\nthree");
    ls_cause_tail(&cause, "\n\n", 2, 2);
    CHECK_TEXT(cause.tail, "");
}

/* ---- Tokens ---- */

static void proves_tokens(void)
{
    char proof[LS_PROOF], other[LS_PROOF];
    /* RFC 4231, case 2 */
    ls_token_prove("Jefe", "what do ya want ", "for nothing?", proof);
    CHECK_TEXT(proof, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    ls_token_prove("Jefe", "what do ya want ", "for nothing!", other);
    CHECK(ls_token_same(proof, proof) && !ls_token_same(proof, other) && !ls_token_same(NULL, proof));
    CHECK(!ls_token_same("", proof));
    ls_token_challenge(proof);
    ls_token_challenge(other);
    CHECK(strlen(proof) == 64 && strcmp(proof, other) != 0);
}

int main(int argc, char **argv)
{
    check_filter = argc > 1 ? argv[1] : NULL;
    CHECK_RUN(places_by_node_and_core);
    CHECK_RUN(reads_lists_of_streams);
    CHECK_RUN(overlays_environments);
    CHECK_RUN(keeps_the_last_lines);
    CHECK_RUN(proves_tokens);
    return check_done();
}
