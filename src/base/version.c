/* version.c - the library's version as text. */
#include <lockstep/version.h>

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

const char *ls_version(void)
{
    return TEXT(LS_VERSION_MAJOR) "." TEXT(LS_VERSION_MINOR) "." TEXT(LS_VERSION_PATCH);
}
