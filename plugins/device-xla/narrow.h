/* narrow.h - number types in the memory of chips that are narrower than the library's, where the user asked for them:
 * XLA_USE_BF16=1 stores f32 and f64 as bf16, XLA_DOWNCAST_BF16=1 f32 as bf16 and f64 as f32. The library sees its own
 * types: numbers are rounded when they are stored, and widened when they are read. */
#ifndef LOCKSTEP_XLA_NARROW_H
#define LOCKSTEP_XLA_NARROW_H

#include <lockstep/plugin.h>

#include "shlo.h"

/* The type in which numbers of this one are stored. */
ls_dtype xla_narrowed(ls_dtype dtype);
/* Convert `count` numbers between a type of the library, f32 or f64, and what it is narrowed to. */
void xla_narrow(ls_dtype dtype, const void *from, void *to, size_t count);
void xla_widen(ls_dtype dtype, const void *from, void *to, size_t count);

#endif
