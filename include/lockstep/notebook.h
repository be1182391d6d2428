/* notebook.h - what a cell of a notebook can do beyond C: show things, and see that it was interrupted.
 *
 * Every cell sees this header and <lockstep.h>. Its functions exist in a notebook's session only, so programs do not
 * include it. docs/notebooks.md is the guide. */
#ifndef LOCKSTEP_NOTEBOOK_H
#define LOCKSTEP_NOTEBOOK_H

#include <lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Show data of a MIME type below the cell: text/plain, text/html, text/markdown, image/svg+xml, image/png,
 * image/jpeg. */
void ls_notebook_display(const char *mime, const void *data, size_t size);
/* The same in a place with a name: the first call of a cell makes it, later ones replace what it shows. */
void ls_notebook_update(const char *place, const char *mime, const void *data, size_t size);
/* Remove all that the cell has printed and shown, as soon as it shows something new. */
void ls_notebook_clear(void);
/* Show a picture: a file whose name ends in .png, .jpg or .svg. False, with a message on stderr, if it cannot be
 * read. */
bool ls_notebook_picture(const char *path);

/* Show a tensor as a picture: [C,H,W], or several, [N,C,H,W], of which at most 32 are shown; 1 or 3 channels. Such a
 * tensor at the end of a cell is shown as a picture as well. */
void ls_notebook_image(ls_tensor *value);

/* Add a point to a curve, drawn below the cell while it runs; each name has its own panel of one picture:
 *
 *     ls_notebook_curve(run, "loss", step, ls_item(loss));
 *
 * Steps of a curve must increase. At most 16 curves in a cell. In a job, only the main process should call it. */
void ls_notebook_curve(ls_run *run, const char *name, double step, double value);

/* In cells, ls_launch() marks the lines of all ranks but the first, unless the call says otherwise. */
typedef ls_launch_opts ls_notebook_launch;
#define ls_notebook_launch_defaults                                                                                    \
    ls_launch_opts_defaults, .prefix = true, .prefix_main = false, .prefix_template = "[rank ${rank}] "
#undef ls_launch
#define ls_launch(function, ...) LS_CALL_2(ls_launch, ls_notebook_launch, function, __VA_ARGS__, )

/* Was the running cell asked to stop (the notebook's stop button)? Loops with a run ask ls_should_stop(run) instead. */
bool ls_notebook_interrupted(void);

/* ---- Used by the code that is made of a cell ---- */

/* Each shows a value as the result of the cell. */
void ls_notebook_show_bool(bool value);
void ls_notebook_show_character(char value);
void ls_notebook_show_integer(long long value);
void ls_notebook_show_natural(unsigned long long value);
void ls_notebook_show_real(double value);
void ls_notebook_show_text(const char *value);
void ls_notebook_show_tensor(ls_tensor *value);
void ls_notebook_show_module(ls_module *value);
void ls_notebook_show_shape(ls_shape value);
void ls_notebook_show_pointer(const void *value);
void ls_notebook_show_struct(size_t size);

/* How many elements an array without a given size has. */
void ls_notebook_size(const char *name, size_t count);

/* Memory of a variable, under a symbol that no other version of it has. */
#define LS_NOTEBOOK_STORAGE(name, symbol)                                                                              \
    __attribute__((aligned(__alignof__(name)))) unsigned char ls_storage_##name[sizeof(name)] __asm__(#symbol);
/* Initialise it, also if it is constant or an array. By a call, since the time that compilers take for a function grows
 * with the square of the assignments between two calls in it. */
void ls_notebook_set(void *variable, const void *value, size_t size);
#define LS_NOTEBOOK_SET(name, value) ls_notebook_set((void *)&(name), (const void *)&(value), sizeof(name))

/* Show a variable as the result of the cell. A struct becomes its size: what is not chosen must compile, too. */
#define LS_NOTEBOOK_IS_STRUCT(x)                                                                                       \
    (__builtin_classify_type(x) >= 12 && __builtin_classify_type(x) <= 13 &&                                           \
     !__builtin_types_compatible_p(__typeof__(x), ls_shape))
#define LS_NOTEBOOK_OTHER(x)                                                                                           \
    __builtin_choose_expr(LS_NOTEBOOK_IS_STRUCT(x), ls_notebook_show_struct, ls_notebook_show_pointer)
#define LS_NOTEBOOK_SHOW(x)                                                                                            \
    _Generic((x),                                                                                                      \
             bool: ls_notebook_show_bool,                                                                              \
             char: ls_notebook_show_character,                                                                         \
             signed char: ls_notebook_show_integer,                                                                    \
             short: ls_notebook_show_integer,                                                                          \
             int: ls_notebook_show_integer,                                                                            \
             long: ls_notebook_show_integer,                                                                           \
             long long: ls_notebook_show_integer,                                                                      \
             unsigned char: ls_notebook_show_natural,                                                                  \
             unsigned short: ls_notebook_show_natural,                                                                 \
             unsigned: ls_notebook_show_natural,                                                                       \
             unsigned long: ls_notebook_show_natural,                                                                  \
             unsigned long long: ls_notebook_show_natural,                                                             \
             float: ls_notebook_show_real,                                                                             \
             double: ls_notebook_show_real,                                                                            \
             long double: ls_notebook_show_real,                                                                       \
             char *: ls_notebook_show_text,                                                                            \
             const char *: ls_notebook_show_text,                                                                      \
             ls_tensor *: ls_notebook_show_tensor,                                                                     \
             ls_module *: ls_notebook_show_module,                                                                     \
             ls_shape: ls_notebook_show_shape,                                                                         \
             default: LS_NOTEBOOK_OTHER(x))(__builtin_choose_expr(LS_NOTEBOOK_IS_STRUCT(x), sizeof(x), (x)))

#ifdef __cplusplus
}
#endif
#endif
