/* op_cases.h - one table of operator calls, walked by the tests: forward, gradient, instruction sets, types, devices.
 *
 * A case names its operator, its inputs by shape and kind of numbers, and the function that calls it. */
#ifndef LOCKSTEP_TESTS_OP_CASES_H
#define LOCKSTEP_TESTS_OP_CASES_H

#include <lockstep.h>
#include <lockstep/plugin.h>

typedef enum input_kind {
    INPUT_NONE,
    INPUT_NORMAL,   /* around 0, both signs, none near 0 where functions have a kink */
    INPUT_POSITIVE, /* 0.5 .. 2 */
    INPUT_DISTINCT, /* all different by a clear margin: extremes and orders do not depend on rounding */
    INPUT_BOOL,     /* 0 or 1 */
    INPUT_INDEX,    /* i64, 0 .. limit-1 */
} input_kind;

typedef struct case_input {
    input_kind kind;
    ls_shape shape;
    int64_t limit;    /* of INPUT_INDEX */
    bool no_gradient; /* of a floating input: do not ask for one */
} case_input;

enum { CASE_INPUTS = 8 };

typedef struct op_case {
    ls_opcode op;
    const char *label;
    case_input in[CASE_INPUTS];
    ls_tensor *(*call)(ls_run *run, ls_tensor **in);
    bool exact;   /* half types give the rounded f64 result: no sum inside */
    double slack; /* times the usual tolerance; 0: 1 */
    bool random;  /* result is random: the same on every device and ISA, but not a function of the inputs */
} op_case;

extern const op_case op_cases[];
extern const int op_case_count;

#endif
