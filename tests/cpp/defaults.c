/* defaults.c - the options of a call that names none, as C has them. */
#include <lockstep.h>

#define TYPE(type)                                                                                                     \
    extern const type type##_in_c;                                                                                     \
    const type type##_in_c = {type##_defaults};
#include "option_types.def"
