/* call.h - how calls look: options by name, and lists, in C17 and in C++20.
 *
 *     ls_optim *adam = ls_adamw_new(run, model, .lr = 3e-4, .weight_decay = 0);
 *
 * An option that is not named has the default written next to its declaration; one that is named is used as given,
 * even if it is 0 (docs/options.md). In C a value without a name does not compile; in C++ options must be named in the
 * order of their struct. */
#ifndef LOCKSTEP_CALL_H
#define LOCKSTEP_CALL_H

#include <lockstep/base.h>

#include <math.h>

/* ---- Options ---- */

/* A struct of options, `type`, ends with a member `_`: the bytes before it are the options the caller was compiled
 * with. A newer library uses its own defaults for options that an older struct lacks. Defaults are written next to the
 * members, for C++, and in the macro type_defaults, for C and for the library; a test compares the two.
 *
 * LS_OPTIONS(type, .name = value) is a value of the type, for a program that keeps its options in a variable and passes
 * them to a function that ends in _sized. LS_CALL_n(f, type, a1 ... an, .name = value, ...,) calls f_sized(a1 ... an,
 * options, their size); the comma at its end makes a call without options legal. */
#define LS_OPTS_SIZE(type) offsetof(type, _)

/* The type of `_`. It also rejects a value without a name, as in ls_sgd_new(run, model, 0.1): in C that initialises the
 * member after the last one named, so the defaults end inside `_`. In gcc that member is `last`, which the attribute
 * rejects; elsewhere there is no such member. The pragmas below turn both warnings into errors. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__cplusplus)
typedef struct ls_options_end {
    bool first, last;
} __attribute__((designated_init)) ls_options_end;
#define LS_OPTIONS_END_ ._.first = false
#else
typedef struct ls_options_end {
    bool first, last;
} ls_options_end;
#define LS_OPTIONS_END_ ._.last = false
#endif

#ifdef __cplusplus
#define LS_DEFAULT(...) = __VA_ARGS__
#define LS_OPTIONS(type, ...) (type{__VA_ARGS__})
#define LS_OPTS(type, ...) ls_opts_address_(type{__VA_ARGS__}), LS_OPTS_SIZE(type)
#else
#define LS_DEFAULT(...)
/* Defaults first, then the named options; the warning about members initialised twice is switched off here. The literal
 * is an array of one element because gcc allows the pragma inside a struct but not in an expression. */
#define LS_OPTIONS(type, ...)                                                                                          \
    ((const type[LS_ONE_QUIET_]){{type##_defaults, LS_OPTIONS_END_, __VA_ARGS__}}[LS_ONE_LOUD_ - 1])
#define LS_OPTS(type, ...) &LS_OPTIONS(type, __VA_ARGS__), LS_OPTS_SIZE(type)
#if defined(__clang__)
#define LS_ONE_QUIET_                                                                                                  \
    _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Winitializer-overrides\"")                   \
        _Pragma("clang diagnostic error \"-Wexcess-initializers\"") 1
#define LS_ONE_LOUD_ _Pragma("clang diagnostic pop") 1
#elif defined(__GNUC__)
#define LS_ONE_QUIET_                                                                                                  \
    sizeof(struct {                                                                                                    \
        _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Woverride-init\"")                           \
            _Pragma("GCC diagnostic error \"-Wdesignated-init\"") char one;                                            \
    })
#define LS_ONE_LOUD_ sizeof(struct { _Pragma("GCC diagnostic pop") char one; })
#else
#define LS_ONE_QUIET_ 1
#define LS_ONE_LOUD_ 1
#endif
#endif
#define LS_CALL_0(name, type, ...) name##_sized(LS_OPTS(type, __VA_ARGS__))
#define LS_CALL_1(name, type, a, ...) name##_sized((a), LS_OPTS(type, __VA_ARGS__))
#define LS_CALL_2(name, type, a, b, ...) name##_sized((a), (b), LS_OPTS(type, __VA_ARGS__))
#define LS_CALL_3(name, type, a, b, c, ...) name##_sized((a), (b), (c), LS_OPTS(type, __VA_ARGS__))
#define LS_CALL_4(name, type, a, b, c, d, ...) name##_sized((a), (b), (c), (d), LS_OPTS(type, __VA_ARGS__))

/* ---- Lists ---- */

/* Elements written in a call, f(a, b, c): LS_LIST is an array of them that lives as long as the call, LS_LIST_COUNT how
 * many there are, LS_ITEMS both, for a function f_n. */
#ifdef __cplusplus
#define LS_LIST_COUNT(type, ...) static_cast<int64_t>(sizeof(ls_list_count_<type>({__VA_ARGS__})))
#define LS_LIST(type, ...) ls_list_<type>({__VA_ARGS__})
#define LS_LITERAL(type) type
#undef LS_SHAPE /* base.h has the C version */
#define LS_SHAPE(...) ls_shape_n(LS_ITEMS(int64_t, __VA_ARGS__))
extern "C++" {
template <class T> const T *ls_opts_address_(const T &opts)
{
    return &opts;
}
template <class T, size_t N> const char (&ls_list_count_(const T (&list)[N]))[N];
template <class T, size_t N> const T *ls_list_(const T (&list)[N])
{
    return list;
}
}
#else
#define LS_LIST_COUNT(type, ...) ((int64_t)(sizeof((type const[]){__VA_ARGS__}) / sizeof(type)))
#define LS_LIST(type, ...) ((type const[]){__VA_ARGS__})
#define LS_LITERAL(type) (type)
#endif
#define LS_ITEMS(type, ...) LS_LIST(type, __VA_ARGS__), LS_LIST_COUNT(type, __VA_ARGS__)

#endif
