/* attention.c - attention in plain C: the reference that faster kernels are tested against. */
#include "kernels/attention.h"

#include <math.h>
#include <string.h>

#define REAL float
#define NAME(x) f32_##x
#define EXP expf
#define LOG logf
#define BIAS ls_attention_bias
#include "attention.inc"
#undef REAL
#undef NAME
#undef EXP
#undef LOG
#undef BIAS

#define REAL double
#define NAME(x) f64_##x
#define EXP exp
#define LOG log
#define BIAS ls_attention_bias_f64
#include "attention.inc"

const ls_attention_table ls_attention_ref = {.f32 = &f32_kernel, .f64 = &f64_kernel};
