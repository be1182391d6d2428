/* winograd_math.h - the transforms of winograd.h for a number type `number` and one channel, or a vector of them.
 * EACH(i, n): a loop whose numbers stay in registers. */
#if defined(__clang__)
#define EACH(i, n) _Pragma("clang loop unroll(full)") for (int i = 0; i < (n); i++)
#else
#define EACH(i, n) _Pragma("GCC unroll 32") for (int i = 0; i < (n); i++)
#endif

/* Bt x B, in place. */
static inline void transform_pixels(number x[4][4])
{
    EACH(j, 4)
    {
        number first = x[0][j] - x[2][j], second = x[1][j] + x[2][j], third = x[2][j] - x[1][j];
        x[3][j] = x[1][j] - x[3][j];
        x[0][j] = first;
        x[1][j] = second;
        x[2][j] = third;
    }
    EACH(i, 4)
    {
        number first = x[i][0] - x[i][2], second = x[i][1] + x[i][2], third = x[i][2] - x[i][1];
        x[i][3] = x[i][1] - x[i][3];
        x[i][0] = first;
        x[i][1] = second;
        x[i][2] = third;
    }
}

/* G w Gt. */
static inline void transform_weights(number w[3][3], number to[4][4])
{
    number half[4][3];
    EACH(j, 3)
    {
        number outer = w[0][j] + w[2][j];
        half[0][j] = w[0][j];
        half[1][j] = (outer + w[1][j]) * 0.5f;
        half[2][j] = (outer - w[1][j]) * 0.5f;
        half[3][j] = w[2][j];
    }
    EACH(i, 4)
    {
        number outer = half[i][0] + half[i][2];
        to[i][0] = half[i][0];
        to[i][1] = (outer + half[i][1]) * 0.5f;
        to[i][2] = (outer - half[i][1]) * 0.5f;
        to[i][3] = half[i][2];
    }
}

/* At m A. */
static inline void transform_products(number m[4][4], number to[2][2])
{
    number half[2][4];
    EACH(j, 4)
    {
        half[0][j] = m[0][j] + m[1][j] + m[2][j];
        half[1][j] = m[1][j] - m[2][j] - m[3][j];
    }
    EACH(i, 2)
    {
        to[i][0] = half[i][0] + half[i][1] + half[i][2];
        to[i][1] = half[i][1] - half[i][2] - half[i][3];
    }
}

/* A dy At. */
static inline void transform_gradients(number dy[2][2], number to[4][4])
{
    number half[4][2];
    EACH(j, 2)
    {
        half[0][j] = dy[0][j];
        half[1][j] = dy[0][j] + dy[1][j];
        half[2][j] = dy[0][j] - dy[1][j];
        half[3][j] = -dy[1][j];
    }
    EACH(i, 4)
    {
        to[i][0] = half[i][0];
        to[i][1] = half[i][0] + half[i][1];
        to[i][2] = half[i][0] - half[i][1];
        to[i][3] = -half[i][1];
    }
}

/* Gt m G. */
static inline void transform_sums(number m[4][4], number to[3][3])
{
    number half[3][4];
    EACH(j, 4)
    {
        number outer = (m[1][j] + m[2][j]) * 0.5f;
        half[0][j] = m[0][j] + outer;
        half[1][j] = (m[1][j] - m[2][j]) * 0.5f;
        half[2][j] = outer + m[3][j];
    }
    EACH(i, 3)
    {
        number outer = (half[i][1] + half[i][2]) * 0.5f;
        to[i][0] = half[i][0] + outer;
        to[i][1] = (half[i][1] - half[i][2]) * 0.5f;
        to[i][2] = outer + half[i][3];
    }
}

/* ---- With a stride of two ---------------------------------------------------------------------------------------- */

/* The term of each pixel of a tile, counted sum by sum. */
static const int strided_term[5][5] = {
    {0, 1, 4, 6, 7}, {2, 3, 5, 8, 9}, {10, 11, 12, 13, 14}, {15, 16, 19, 21, 22}, {17, 18, 20, 23, 24}};

/* A row of pixels in place; `middle`: the row in the middle of the tile, done before, which is subtracted from the
 * first and the last; NULL for others. So a tile needs ten registers at a time. */
static inline void transform_strided_row(number x[5], const number *middle)
{
    x[0] -= x[2];
    x[4] -= x[2];
    if (middle) {
        EACH(j, 5) x[j] -= middle[j];
    }
}

/* Weights; terms by row and column. */
static inline void transform_strided_weights(number w[3][3], number to[5][5])
{
    number half[5][3];
    EACH(j, 3)
    {
        half[0][j] = w[0][j];
        half[1][j] = half[3][j] = w[1][j];
        half[2][j] = w[0][j] + w[2][j];
        half[4][j] = w[2][j];
    }
    EACH(i, 5)
    {
        to[i][0] = half[i][0];
        to[i][1] = to[i][3] = half[i][1];
        to[i][2] = half[i][0] + half[i][2];
        to[i][4] = half[i][2];
    }
}

/* Points of sums. */
static inline void transform_strided_sums(number m[3][3], number to[2][2])
{
    number half[2][3];
    EACH(j, 3)
    {
        half[0][j] = m[0][j] + m[1][j];
        half[1][j] = m[1][j] + m[2][j];
    }
    EACH(i, 2)
    {
        to[i][0] = half[i][0] + half[i][1];
        to[i][1] = half[i][1] + half[i][2];
    }
}
