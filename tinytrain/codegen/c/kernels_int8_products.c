/* Matrix products in int8: rows are positions of feature maps, or patches of an image. */
#include "kernels_int8_arithmetic.h"

#define ROWS 4u /* at a time, so that a weight is read less often */

/* Four sums, one for each of as many rows. */
typedef struct {
    int32_t a, b, c, d;
} sums_of;

#if TT_PAIRS
/* Four weights of a channel, `step` bytes apart. */
static inline uint32_t four_codes(const int8_t *w, uint32_t step)
{
    if (step == 1u)
        return tt_word(w);
    return (uint32_t)(uint8_t)w[0] | (uint32_t)(uint8_t)w[step] << 8 | (uint32_t)(uint8_t)w[2u * step] << 16
           | (uint32_t)(uint8_t)w[3u * step] << 24;
}

static inline int32_t add_codes(int32_t sum, uint32_t x, int16x2_t even, int16x2_t odd)
{
    return __smlad(tt_odd(x), odd, __smlad(tt_even(x), even, sum));
}

static inline int32_t add_wide(int32_t sum, const int16_t *x, int16x2_t low, int16x2_t high)
{
    return __smlad((int16x2_t)tt_word(x + 2), high, __smlad((int16x2_t)tt_word(x), low, sum));
}
#endif

/* A channel and what else is needed for its codes, for rows of n numbers of which `cout` are made. */
typedef struct {
    tt_channel w;
    tt_scaling how;
    int32_t start;
    uint32_t n, cout;
} column_of;

static column_of column(tt_layer layer, uint32_t j)
{
    column_of c = {tt_channel_of(layer, j), tt_scaling_of(layer.kept, j), 0, layer.kept->fan_in, layer.kept->cout};

    c.start = tt_start_of(layer, j, c.w);
    return c;
}

static inline void keep(int8_t *y, sums_of s, const column_of *c)
{
    y[0] = (int8_t)tt_as_code(s.a, &c->how);
    y[c->cout] = (int8_t)tt_as_code(s.b, &c->how);
    y[2u * c->cout] = (int8_t)tt_as_code(s.c, &c->how);
    y[3u * c->cout] = (int8_t)tt_as_code(s.d, &c->how);
}

/* Add four rows of x (rows, n) times n weights, `step` bytes apart. */
static inline sums_of add_rows(sums_of s, const int8_t *x, const int8_t *w, uint32_t step, uint32_t n)
{
    const int8_t *third = x + 2u * n, *end = x + n;

#if TT_PAIRS
    for (const int8_t *last = x + (n & ~3u); x != last; x += 4, third += 4, w += 4u * step) {
        uint32_t codes = four_codes(w, step);
        int16x2_t even = tt_even(codes), odd = tt_odd(codes);
        s.a = add_codes(s.a, tt_word(x), even, odd);
        s.b = add_codes(s.b, tt_word(x + n), even, odd);
        s.c = add_codes(s.c, tt_word(third), even, odd);
        s.d = add_codes(s.d, tt_word(third + n), even, odd);
    }
#endif
    for (; x != end; x++, third++, w += step) {
        int32_t weight = *w;
        s.a += x[0] * weight;
        s.b += x[n] * weight;
        s.c += third[0] * weight;
        s.d += third[n] * weight;
    }
    return s;
}

/* Codes of two neighbouring channels, whose weights lie side by side in flash, for two rows at a time: every number is
 * read half as often. */
TT_APART static void pair_of_channels(int8_t *y, const int8_t *x, const column_of *c, uint32_t rows)
{
    uint32_t n = c->n;

    for (; rows >= 2u; rows -= 2u, x += n, y += 2u * c->cout) {
        sums_of s = {c[0].start, c[1].start, c[0].start, c[1].start};
        const int8_t *w = c->w.codes, *end = x + n;
#if TT_PAIRS
        for (const int8_t *last = x + (n & ~3u); x != last; x += 4, w += 4) {
            uint32_t first = tt_word(w), second = tt_word(w + n), codes = tt_word(x);
            int16x2_t even = tt_even(first), odd = tt_odd(first), other = tt_even(second), another = tt_odd(second);
            s.a = add_codes(s.a, codes, even, odd);
            s.b = add_codes(s.b, codes, other, another);
            codes = tt_word(x + n);
            s.c = add_codes(s.c, codes, even, odd);
            s.d = add_codes(s.d, codes, other, another);
        }
#endif
        for (; x != end; x++, w++) {
            s.a += x[0] * w[0];
            s.b += x[0] * w[n];
            s.c += x[n] * w[0];
            s.d += x[n] * w[n];
        }
        y[0] = (int8_t)tt_as_code(s.a, &c[0].how);
        y[1] = (int8_t)tt_as_code(s.b, &c[1].how);
        y[c->cout] = (int8_t)tt_as_code(s.c, &c[0].how);
        y[c->cout + 1u] = (int8_t)tt_as_code(s.d, &c[1].how);
    }
}

/* x (n,) times what training added to the weights of some inputs of a channel. */
static int32_t changes(const int8_t *x, tt_channel w)
{
    int32_t sum = 0;

    for (uint32_t r = 0; r < w.rows; r++)
        sum += x[(uint32_t)w.inputs[r]] * tt_change_of(w, r);
    return sum;
}

/* Codes of any channel for four rows at a time: training may have changed it. */
TT_APART static void any_channel(int8_t *y, const int8_t *x, const column_of *c, uint32_t rows)
{
    for (; rows >= ROWS; rows -= ROWS, x += ROWS * c->n, y += ROWS * c->cout) {
        sums_of s = {c->start, c->start, c->start, c->start};
        s = add_rows(s, x, c->w.codes, c->w.step, c->n);
        if (c->w.rows) {
            s.a += changes(x, c->w);
            s.b += changes(x + c->n, c->w);
            s.c += changes(x + 2u * c->n, c->w);
            s.d += changes(x + 3u * c->n, c->w);
        }
        keep(y, s, c);
    }
}

/* Codes of one row. */
static int8_t one_row(const int8_t *x, const column_of *c)
{
    const int8_t *w = c->w.codes, *end = x + c->n;
    int32_t sum = c->start + changes(x, c->w);

#if TT_PAIRS
    for (const int8_t *last = x + (c->n & ~3u); x != last; x += 4, w += 4u * c->w.step) {
        uint32_t codes = four_codes(w, c->w.step);
        sum = add_codes(sum, tt_word(x), tt_even(codes), tt_odd(codes));
    }
#endif
    for (; x != end; x++, w += c->w.step)
        sum += *x * *w;
    return (int8_t)tt_as_code(sum, &c->how);
}

/* y (rows, cout) = codes of x (rows, fan_in) times the weights, and of the bias. */
void tt_product_codes(int8_t *y, const int8_t *x, tt_layer layer, uint32_t rows)
{
    uint32_t cout = layer.kept->cout, n = layer.kept->fan_in, made = 2u;
    column_of c[2];

    for (uint32_t j = 0; j < cout; j += made) {
        uint32_t left = rows % ROWS;
        c[0] = made == 2u ? column(layer, j) : c[1];
        c[1] = j + 1u < cout ? column(layer, j + 1u) : c[0];
        made = j + 1u < cout && c[1].w.codes == c[0].w.codes + n && !c[0].w.rows && !c[1].w.rows ? 2u : 1u;
        if (made == 2u) {
            pair_of_channels(y + j, x, c, rows);
            left = rows % 2u;
        } else
            any_channel(y + j, x, c, rows);
        for (uint32_t i = rows - left; i < rows; i++)
            for (uint32_t k = 0; k < made; k++)
                y[i * cout + j + k] = one_row(x + i * n, c + k);
    }
}

/* As `any_channel`, of 16-bit codes and without changes of some inputs. */
TT_APART static void wide_rows(int8_t *y, const int16_t *x, const column_of *c, uint32_t rows)
{
    uint32_t n = c->n, step = c->w.step;

    for (; rows >= ROWS; rows -= ROWS, x += 3u * n, y += ROWS * c->cout) {
        sums_of s = {c->start, c->start, c->start, c->start};
        const int16_t *third = x + 2u * n, *end = x + n;
        const int8_t *w = c->w.codes;
#if TT_PAIRS
        for (const int16_t *last = x + (n & ~3u); x != last; x += 4, third += 4, w += 4u * step) {
            uint32_t codes = four_codes(w, step), even = (uint32_t)tt_even(codes), odd = (uint32_t)tt_odd(codes);
            int16x2_t low = (int16x2_t)((even & 0xFFFFu) | odd << 16);
            int16x2_t high = (int16x2_t)(even >> 16 | (odd & 0xFFFF0000u));
            s.a = add_wide(s.a, x, low, high);
            s.b = add_wide(s.b, x + n, low, high);
            s.c = add_wide(s.c, third, low, high);
            s.d = add_wide(s.d, third + n, low, high);
        }
#endif
        for (; x != end; x++, third++, w += step) {
            int32_t weight = *w;
            s.a += x[0] * weight;
            s.b += x[n] * weight;
            s.c += third[0] * weight;
            s.d += third[n] * weight;
        }
        keep(y, s, c);
    }
}

/* The same of 16-bit codes, those of an image. */
void tt_product_wide(int8_t *y, const int16_t *x, tt_layer layer, uint32_t rows)
{
    for (uint32_t j = 0; j < layer.kept->cout; j++) {
        column_of c = column(layer, j);
        wide_rows(y + j, x, &c, rows);
        for (uint32_t i = rows - rows % ROWS; i < rows; i++) {
            int32_t sum = c.start;
            for (uint32_t k = 0; k < c.n; k++)
                sum += x[i * c.n + k] * c.w.codes[k * c.w.step];
            y[i * c.cout + j] = (int8_t)tt_as_code(sum, &c.how);
        }
    }
}
