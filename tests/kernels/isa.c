/* isa.c - detection, caps, and tables laid over each other. */
#include "kernels/kernels.h"

#include "base/capture.h"
#include "base/config.h"
#include "check.h"

static char text[1024];

static int report_isa(void)
{
    ls_isa isa = ls_isa_in_use();
    return ls_isa_in_use() == isa && ls_isa_usable(isa) ? (int)isa : 100; /* asked twice: reported once */
}

static int says_it_is_set(void)
{
    ls_isa_in_use();
    return ls_config_source(LS_SETTING_ISA) || *ls_config_text(LS_SETTING_ISA);
}

static void the_environment_caps(void)
{
    int best = WEXITSTATUS(run_captured(NULL, report_isa, text, sizeof text));
    CHECK_TEXT(text, "");
    CHECK(WEXITSTATUS(run_captured("LOCKSTEP_ISA=ref", report_isa, text, sizeof text)) == LS_ISA_REF);
    CHECK_TEXT(text, "");
    CHECK(WEXITSTATUS(run_captured("LOCKSTEP_ISA=sse9", report_isa, text, sizeof text)) == best);
    CHECK(WEXITSTATUS(run_captured("LOCKSTEP_ISA=ref", says_it_is_set, text, sizeof text)) == 1);
    CHECK(WEXITSTATUS(run_captured("LOCKSTEP_ISA=sse9", says_it_is_set, text, sizeof text)) == 0);
#if defined(__aarch64__)
    CHECK_TEXT(text, "lockstep: warning: LOCKSTEP_ISA=sse9 is ignored: valid on this architecture are ref, neon, "
                     "neon-bf16\n");
    CHECK(WEXITSTATUS(run_captured("LOCKSTEP_ISA=neon", report_isa, text, sizeof text)) == LS_ISA_NEON);
    CHECK_TEXT(text, "");
    CHECK(WEXITSTATUS(run_captured("LOCKSTEP_ISA=avx2", report_isa, text, sizeof text)) == best);
    CHECK(strstr(text, "LOCKSTEP_ISA=avx2 is ignored") != NULL);
#elif defined(__x86_64__)
    CHECK_TEXT(text, "lockstep: warning: LOCKSTEP_ISA=sse9 is ignored: valid on this architecture are ref, avx2, "
                     "avx512, avx512-bf16, amx\n");
    CHECK(WEXITSTATUS(run_captured("LOCKSTEP_ISA=neon", report_isa, text, sizeof text)) == best);
    CHECK(strstr(text, "LOCKSTEP_ISA=neon is ignored") != NULL);
#endif
}

static void isas_build_on_each_other(void)
{
    CHECK(ls_isa_usable(LS_ISA_REF) && !ls_isa_usable(LS_ISA_COUNT));
    CHECK(!ls_isa_usable(LS_ISA_NEON_BF16) || ls_isa_usable(LS_ISA_NEON));
    for (int isa = LS_ISA_AVX512; isa <= LS_ISA_AMX; isa++) {
        CHECK(!ls_isa_usable((ls_isa)isa) || ls_isa_usable((ls_isa)(isa - 1)));
    }
    CHECK(!(ls_isa_usable(LS_ISA_NEON) && ls_isa_usable(LS_ISA_AVX2)));
    CHECK_TEXT(ls_isa_name(LS_ISA_AVX512_BF16), "avx512-bf16");
    CHECK_TEXT(ls_isa_name(LS_ISA_COUNT), "?");
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        ls_isa_cap((ls_isa)isa);
        CHECK(ls_isa_in_use() <= (ls_isa)isa && ls_isa_usable(ls_isa_in_use()));
        CHECK(!ls_isa_usable((ls_isa)isa) || ls_isa_in_use() == (ls_isa)isa);
    }
}

/* ---- Tables */

typedef struct demo_table {
    int (*a)(void), (*b)(void), (*c)(void);
} demo_table;

static int low(void)
{
    return 1;
}
static int middle(void)
{
    return 2;
}
static int high(void)
{
    return 3;
}

static const demo_table demo_ref = {low, low, low}, demo_middle = {.b = middle, .c = middle}, demo_high = {.c = high};
static demo_table demo_tables[LS_ISA_COUNT];
static ls_family demo = {
    .bytes = sizeof *demo_tables,
    .tables = demo_tables,
    .offers = {[LS_ISA_REF] = &demo_ref,
               [LS_ISA_NEON] = &demo_middle,
               [LS_ISA_NEON_BF16] = &demo_high,
               [LS_ISA_AVX2] = &demo_middle,
               [LS_ISA_AVX512] = &demo_high},
};

static void tables_overlay(void)
{
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        ls_isa_cap((ls_isa)isa);
        bool has_middle = ls_isa_in_use() >= LS_ISA_NEON;
        bool has_high = ls_isa_in_use() == LS_ISA_NEON_BF16 || ls_isa_in_use() >= LS_ISA_AVX512;
        for (int again = 0; again < 2; again++) {
            const demo_table *table = ls_family_table(&demo);
            CHECK(table->a() == 1 && table->b() == (has_middle ? 2 : 1));
            CHECK(table->c() == (has_high ? 3 : has_middle ? 2 : 1));
        }
    }
}

int main(int argc, char **argv)
{
    if (argc > 1) check_filter = argv[1];
    unsetenv("LOCKSTEP_ISA");        /* whoever runs this may have set it */
    CHECK_RUN(the_environment_caps); /* first: read once */
    CHECK_RUN(isas_build_on_each_other);
    CHECK_RUN(tables_overlay);
    return check_done();
}
