/* font.h - a small font of strokes: lines and curves for every character of ASCII. */
#ifndef LOCKSTEP_TRACK_PLOT_FONT_H
#define LOCKSTEP_TRACK_PLOT_FONT_H

#include <stdbool.h>
#include <uchar.h>

/* Units of the glyph grid: capitals are 12 high, x is 8 high, nothing extends more than 4 below the baseline. */
enum { LS_FONT_CAPITAL = 12, LS_FONT_POINTS = 160 };

/* One stroke as a polyline: x to the right, y up from the baseline, in units. */
typedef struct ls_font_stroke {
    int count;
    float x[LS_FONT_POINTS], y[LS_FONT_POINTS];
} ls_font_stroke;

/* The next stroke of a character's glyph. Start with *state = NULL; false if there are no more. */
bool ls_font_next(char32_t character, const char **state, ls_font_stroke *stroke);
/* Distance from the start of a character to that of the next, in units. */
float ls_font_advance(char32_t character);
/* The next character of a UTF-8 text, 0 at its end; invalid bytes count as one unknown character each. */
char32_t ls_font_character(const char **text);
/* Width of a text whose capitals are as high as LS_FONT_CAPITAL units. */
float ls_font_width(const char *text);

#endif
