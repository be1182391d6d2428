/* font.h - a small font of strokes: lines and curves for every character of ASCII. */
#ifndef LOCKSTEP_TRACK_PLOT_FONT_H
#define LOCKSTEP_TRACK_PLOT_FONT_H

#include <stdbool.h>
#include <uchar.h>

/* Units of the grid glyphs are drawn on: capitals are 12 high, x is 8 high,
 * nothing goes lower than 4 below the line. */
enum { LS_FONT_CAPITAL = 12, LS_FONT_POINTS = 160 };

/* One stroke as a polyline: x to the right, y up from the line the text stands on, in units. */
typedef struct ls_font_stroke {
    int count;
    float x[LS_FONT_POINTS], y[LS_FONT_POINTS];
} ls_font_stroke;

/* The next stroke of a character's glyph. Start with *state = NULL; false when there are no more. */
bool ls_font_next(char32_t character, const char **state, ls_font_stroke *stroke);
/* From the start of a character to the start of the next one, in units. */
float ls_font_advance(char32_t character);
/* The next character of a UTF-8 text, 0 at its end; damaged bytes count as one unknown character each. */
char32_t ls_font_character(const char **text);
/* Width of a text whose capitals are as high as LS_FONT_CAPITAL units. */
float ls_font_width(const char *text);

#endif
