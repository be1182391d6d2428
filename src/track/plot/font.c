/* font.c - the glyphs, and how they are encoded.
 *
 * A glyph is a string of strokes. A stroke starts with '-' (straight lines between its points) or '~' (a smooth curve:
 * a quadratic spline with its points as control points, closed if the first point is repeated at the end). A point is
 * two digits, x and y, in 0-9 a-z; y = 4 is the baseline, c the height of an x, g that of capitals. So "~0g04848g0g" is
 * an O: the corners of a box, rounded; and "-0g8g-4g44" is a T. */
#include "track/plot/font.h"

#include <string.h>

#include "base/utf8.h"

enum { FIRST = '!', LAST = '~', BASE_LINE = 4, SPACING = 3, DIGIT_WIDTH = 8, BLANK_WIDTH = 3, CURVE_STEPS = 6 };

static const char *const glyphs[] = {
    ['!' - FIRST] = "-0g08-0405",
    ['"' - FIRST] = "-0g0d-3g3d",
    ['#' - FIRST] = "-243g-546g-0878-0c8c",
    ['$' - FIRST] = "~8d8g0g0a8a840407-4h43",
    ['%' - FIRST] = "~0g0b4b4g0g~6964a4a969-8g24",
    ['&' - FIRST] = "~841d1g6g6c08046489",
    ['\'' - FIRST] = "-0g0d",
    ['(' - FIRST] = "~3h0e0633",
    [')' - FIRST] = "~0h3e3603",
    ['*' - FIRST] = "-3g3a-0f6b-0b6f",
    ['+' - FIRST] = "-0969-3c36",
    [',' - FIRST] = "-1502",
    ['-' - FIRST] = "-0858",
    ['.' - FIRST] = "-0405",
    ['/' - FIRST] = "-035g",
    ['0' - FIRST] = "~0g04848g0g",
    ['1' - FIRST] = "-2d5g54",
    ['2' - FIRST] = "~0d0g8g8b04-0484",
    ['3' - FIRST] = "~0e0g7g7a3a~3a8a840406",
    ['4' - FIRST] = "-6g0888-6g64",
    ['5' - FIRST] = "-7g1g0b~0b2c8c840406",
    ['6' - FIRST] = "~7e6g0g04848b0b08",
    ['7' - FIRST] = "-0g8g34",
    ['8' - FIRST] = "~0g0a8a8g0g~0a04848a0a",
    ['9' - FIRST] = "~1624848g0g09898c",
    [':' - FIRST] = "-0405-0b0c",
    [';' - FIRST] = "-1502-1b1c",
    ['<' - FIRST] = "-6c0864",
    ['=' - FIRST] = "-0b6b-0767",
    ['>' - FIRST] = "-0c6804",
    ['?' - FIRST] = "~0e0g6g6a3a37-3435",
    ['@' - FIRST] = "~7c3c36767c~7c76a6ag0g0484",
    ['A' - FIRST] = "-045ga4-2888",
    ['B' - FIRST] = "-040g~0g7g7a0a~0a8a8404",
    ['C' - FIRST] = "~8d7g0g047487",
    ['D' - FIRST] = "-040g~0g9g9404",
    ['E' - FIRST] = "-7g0g0474-0a6a",
    ['F' - FIRST] = "-7g0g04-0a6a",
    ['G' - FIRST] = "~8d7g0g048489-8959",
    ['H' - FIRST] = "-040g-848g-0a8a",
    ['I' - FIRST] = "-040g",
    ['J' - FIRST] = "-5g57~57540407",
    ['K' - FIRST] = "-040g-7g09-2b84",
    ['L' - FIRST] = "-0g0474",
    ['M' - FIRST] = "-040g58aga4",
    ['N' - FIRST] = "-040g848g",
    ['O' - FIRST] = "~0g04949g0g",
    ['P' - FIRST] = "-040g~0g8g8909",
    ['Q' - FIRST] = "~0g04949g0g-5793",
    ['R' - FIRST] = "-040g~0g8g8909-4984",
    ['S' - FIRST] = "~8d8g0g0a8a840407",
    ['T' - FIRST] = "-0g8g-4g44",
    ['U' - FIRST] = "-0g08~08048488-888g",
    ['V' - FIRST] = "-0g54ag",
    ['W' - FIRST] = "-0g346e94cg",
    ['X' - FIRST] = "-048g-0g84",
    ['Y' - FIRST] = "-0g4a8g-4a44",
    ['Z' - FIRST] = "-0g8g0484",
    ['[' - FIRST] = "-3h0h0333",
    ['\\' - FIRST] = "-0g53",
    [']' - FIRST] = "-0h3h3303",
    ['^' - FIRST] = "-0c3g6c",
    ['_' - FIRST] = "-0373",
    ['`' - FIRST] = "-0g2e",
    ['a' - FIRST] = "~0c04747c0c-7c74",
    ['b' - FIRST] = "~0c04747c0c-0g04",
    ['c' - FIRST] = "~7a6c0c046476",
    ['d' - FIRST] = "~0c04747c0c-7g74",
    ['e' - FIRST] = "-0878~787c0c046476",
    ['f' - FIRST] = "~6g2g2c-2c24-0c5c",
    ['g' - FIRST] = "~0c04747c0c-7c73~73700002",
    ['h' - FIRST] = "-0g04~080c7c78-7874",
    ['i' - FIRST] = "-0c04-0g0f",
    ['j' - FIRST] = "-2c22~222000-2g2f",
    ['k' - FIRST] = "-0g04-6c07-2964",
    ['l' - FIRST] = "-0g04",
    ['m' - FIRST] = "-0c04~080c5c58-5854~585caca8-a8a4",
    ['n' - FIRST] = "-0c04~080c7c78-7874",
    ['o' - FIRST] = "~0c04747c0c",
    ['p' - FIRST] = "~0c04747c0c-0c00",
    ['q' - FIRST] = "~0c04747c0c-7c70",
    ['r' - FIRST] = "-0c04~080c5c",
    ['s' - FIRST] = "~6a6c0c0868640406",
    ['t' - FIRST] = "-2g27~272454-0c5c",
    ['u' - FIRST] = "-0c08~08047478-7c74",
    ['v' - FIRST] = "-0c448c",
    ['w' - FIRST] = "-0c245b84ac",
    ['x' - FIRST] = "-046c-0c64",
    ['y' - FIRST] = "-0c34-6c20",
    ['z' - FIRST] = "-0c6c0464",
    ['{' - FIRST] = "~4h1h2a0a~0a2a1343",
    ['|' - FIRST] = "-0h03",
    ['}' - FIRST] = "~0h3h2a4a~4a2a3303",
    ['~' - FIRST] = "~070a3a467679",
};

static const char *const unknown_glyph = "-04747g0g04";

static const char *glyph_of(char32_t character)
{
    if (character == ' ') return "";
    return character >= FIRST && character <= LAST ? glyphs[character - FIRST] : unknown_glyph;
}

static int digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

static void add_point(ls_font_stroke *stroke, float x, float y)
{
    if (stroke->count == LS_FONT_POINTS) return;
    stroke->x[stroke->count] = x;
    stroke->y[stroke->count++] = y;
}

/* The spline runs from the middle of one side of the polygon to the middle of the next, with the corner in between as
 * its control point. */
static void smooth(const ls_font_stroke *corners, ls_font_stroke *curve)
{
    int last = corners->count - 1;
    const float *x = corners->x, *y = corners->y;
    bool closed = x[0] == x[last] && y[0] == y[last];
    curve->count = 0;
    for (int i = closed ? 0 : 1; i < last; i++) {
        int before = i > 0 ? i - 1 : last - 1, after = i + 1;
        bool from_end = !closed && i == 1, to_end = !closed && after == last;
        float x0 = from_end ? x[0] : (x[before] + x[i]) / 2, y0 = from_end ? y[0] : (y[before] + y[i]) / 2;
        float x2 = to_end ? x[last] : (x[i] + x[after]) / 2, y2 = to_end ? y[last] : (y[i] + y[after]) / 2;
        for (int step = curve->count ? 1 : 0; step <= CURVE_STEPS; step++) {
            float t = (float)step / CURVE_STEPS, u = 1 - t;
            add_point(curve, u * u * x0 + 2 * u * t * x[i] + t * t * x2, u * u * y0 + 2 * u * t * y[i] + t * t * y2);
        }
    }
}

bool ls_font_next(char32_t character, const char **state, ls_font_stroke *stroke)
{
    const char *at = *state ? *state : glyph_of(character);
    if (!*at) return false;
    bool curved = *at++ == '~';
    stroke->count = 0;
    for (; *at && *at != '-' && *at != '~'; at += 2)
        add_point(stroke, (float)digit(at[0]), (float)(digit(at[1]) - BASE_LINE));
    *state = at;
    if (!curved) return true;
    ls_font_stroke corners = *stroke;
    smooth(&corners, stroke);
    return true;
}

float ls_font_advance(char32_t character)
{
    if (character == ' ') return BLANK_WIDTH + SPACING;
    if (character >= '0' && character <= '9') return DIGIT_WIDTH + SPACING;
    int widest = 0;
    for (const char *at = glyph_of(character); *at;) {
        if (*at == '-' || *at == '~') {
            at++;
            continue;
        }
        if (digit(*at) > widest) widest = digit(*at);
        at += 2;
    }
    return (float)(widest + SPACING);
}

char32_t ls_font_character(const char **text)
{
    if (!**text) return 0;
    size_t length = ls_utf8_length(*text, strlen(*text));
    char32_t character = length ? (char32_t)ls_utf8_decode(*text, length) : 0xfffd;
    *text += length ? length : 1;
    return character;
}

float ls_font_width(const char *text)
{
    float width = 0;
    for (char32_t c; (c = ls_font_character(&text));) width += ls_font_advance(c);
    return width > SPACING ? width - SPACING : 0;
}
