/* kernels.h - which kernels this CPU runs: tables of functions on raw pointers, one table per ISA and family.
 *
 * Each family has a header (elementwise.h, gemm.h, ...) that declares its table type. An ISA with kernels for a family
 * exports one const table; a NULL entry means "keep that of the lower ISA". At first use the reference table is copied
 * and overlaid, lowest ISA first, with every table that CPU and OS allow and LOCKSTEP_ISA permits. */
#ifndef LOCKSTEP_KERNELS_H
#define LOCKSTEP_KERNELS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* LS_ISA(symbol, "name"), per architecture lowest first. Names are the values of LOCKSTEP_ISA. */
#define LS_ISA_LIST(LS_ISA)                                                                                            \
    LS_ISA(LS_ISA_REF, "ref")                                                                                          \
    LS_ISA(LS_ISA_NEON, "neon")                                                                                        \
    LS_ISA(LS_ISA_NEON_BF16, "neon-bf16")                                                                              \
    LS_ISA(LS_ISA_AVX2, "avx2")                                                                                        \
    LS_ISA(LS_ISA_AVX512, "avx512")                                                                                    \
    LS_ISA(LS_ISA_AVX512_BF16, "avx512-bf16")                                                                          \
    LS_ISA(LS_ISA_AMX, "amx")

typedef enum ls_isa {
#define LS_ISA(symbol, name) symbol,
    LS_ISA_LIST(LS_ISA) LS_ISA_COUNT
#undef LS_ISA
} ls_isa;

const char *ls_isa_name(ls_isa isa);
/* True if this CPU and its OS can run it, regardless of LOCKSTEP_ISA. */
bool ls_isa_usable(ls_isa isa);
/* The highest ISA in use: the best usable one, capped by LOCKSTEP_ISA. An unknown cap is reported once. */
ls_isa ls_isa_in_use(void);
/* For tests: cap from now on, whatever LOCKSTEP_ISA says. LS_ISA_COUNT - 1 lifts the cap. Not while kernels run. */
void ls_isa_cap(ls_isa isa);

/* One family of kernels. A table is a struct of pointers and nothing else; that of LS_ISA_REF is complete. A family's
 * file reads:
 *
 *     static ls_vector_table tables[LS_ISA_COUNT];
 *     static const ls_family_field fields[] = {LS_FAMILY_FIELD(ls_vector_table, sum)};
 *     ls_family ls_family_vector = {.name = "vector", .fields = fields, .field_count = 1,
 *                                   .bytes = sizeof *tables, .tables = tables, .offers = {
 *         [LS_ISA_REF] = &ls_vector_ref,
 *     #if defined(__aarch64__)
 *         [LS_ISA_NEON] = &ls_vector_neon,
 *     #endif
 *     }};
 *     const ls_vector_table *ls_vector_kernels(void) { return ls_family_table(&ls_family_vector); } */
typedef struct ls_family_field {
    const char *name; /* of a table member: one pointer or an array of them */
    size_t offset, pointers;
} ls_family_field;
#define LS_FAMILY_FIELD(table, member)                                                                                 \
    {                                                                                                                  \
#member, offsetof(table, member), sizeof(((table *)0)->member) / sizeof(void *)                                \
    }

typedef struct ls_family {
    const char *name;
    const ls_family_field *fields; /* all table members, to report which kernels were chosen */
    int field_count;
    size_t bytes;                     /* of one table */
    void *tables;                     /* room for LS_ISA_COUNT finished tables, one per ISA that can be in use */
    const void *offers[LS_ISA_COUNT]; /* table of each ISA; NULL: none */
    atomic_bool ready[LS_ISA_COUNT];  /* which of `tables` are finished */
} ls_family;

/* All families, each defined in the file of the same name. */
#define LS_FAMILY_LIST(LS_FAMILY)                                                                                      \
    LS_FAMILY(attention)                                                                                               \
    LS_FAMILY(combine)                                                                                                 \
    LS_FAMILY(elementwise)                                                                                             \
    LS_FAMILY(gemm)                                                                                                    \
    LS_FAMILY(image)                                                                                                   \
    LS_FAMILY(jpeg)                                                                                                    \
    LS_FAMILY(loss)                                                                                                    \
    LS_FAMILY(norm)                                                                                                    \
    LS_FAMILY(optim)                                                                                                   \
    LS_FAMILY(reduce)                                                                                                  \
    LS_FAMILY(softmax)                                                                                                 \
    LS_FAMILY(winograd)
#define LS_FAMILY(name) extern ls_family ls_family_##name;
LS_FAMILY_LIST(LS_FAMILY)
#undef LS_FAMILY

/* The ISA that supplied a pointer of a family's table; LS_ISA_COUNT if it is NULL. */
ls_isa ls_family_source(ls_family *family, const ls_family_field *field, size_t pointer);

/* The finished table for the ISA in use. Cheap after the first call; thread-safe. */
const void *ls_family_table(ls_family *family);

#endif
