/* Depthwise convolutions in int8: a filter of its own for each channel. */
#include "kernels_int8_arithmetic.h"

#define CHANNELS 4u /* at a time: their filters lie on the stack, up to 7 x 7 */
#define TAPS 49u

/* Four sums, one for each channel. */
typedef struct {
    int32_t a, b, c, d;
} sums_of;

/* The weights of four channels at one place of the filter: of the first and the third, the second and the fourth. */
typedef union {
    int16_t codes[CHANNELS];
    int32_t pairs[2];
} tap_of;

/* What four channels need. A sum begins with `starts`, or, if only pixels inside of x are added and each less the
 * code of 0, with `edges`. */
typedef struct {
    tap_of taps[TAPS];
    int32_t starts[CHANNELS], edges[CHANNELS];
    tt_scaling how[CHANNELS];
    int32_t given; /* the code of 0, twice 16 bits */
    uint32_t step, line; /* from a pixel to the next, and to the one below it */
    int kernel;
} filters_of;

static void prepare(filters_of *f, tt_layer layer, uint32_t first)
{
    static const uint8_t place[CHANNELS] = {0, 2, 1, 3};

    for (uint32_t c = 0; c < CHANNELS; c++) {
        tt_channel w = tt_channel_of(layer, first + c);
        int32_t total = 0;
        for (uint32_t t = 0; t < layer.kept->fan_in; t++) {
            f->taps[t].codes[place[c]] = w.codes[t * w.step];
            total += w.codes[t * w.step];
        }
        f->starts[c] = tt_start_of(layer, first + c, w);
        f->edges[c] = f->starts[c] + layer.kept->given * total;
        f->how[c] = tt_scaling_of(layer.kept, first + c);
    }
}

/* Taps of a filter that lie inside of x: rows [above, below), columns [left, right). */
typedef struct {
    int above, below, left, right;
} window_of;

/* Codes of one pixel; `in` is what the first tap inside of x reads. `edge`: some taps lie outside. */
static inline void pixel(int8_t *y, const int8_t *in, const filters_of *f, window_of at, const int edge)
{
    const int32_t *start = edge ? f->edges : f->starts;
    const tap_of *row = f->taps + at.above * f->kernel + at.left;
    sums_of s = {start[0], start[1], start[2], start[3]};
    uint32_t step = f->step, line = 0;

    for (int i = at.above; i < at.below; i++, row += f->kernel, line += f->line) {
        uint32_t place = line;
        for (const tap_of *tap = row, *end = row + (at.right - at.left); tap != end; tap++, place += step) {
#if TT_PAIRS
            uint32_t codes = tt_word(in + place);
            int16x2_t even = tt_even(codes), odd = tt_odd(codes);
            if (edge) {
                even = __ssub16(even, f->given);
                odd = __ssub16(odd, f->given);
            }
            s.a = __smlabb(even, tap->pairs[0], s.a);
            s.c = __smlatt(even, tap->pairs[0], s.c);
            s.b = __smlabb(odd, tap->pairs[1], s.b);
            s.d = __smlatt(odd, tap->pairs[1], s.d);
#else
            int32_t zero = edge ? f->given : 0;
            s.a += (in[place] - zero) * tap->codes[0];
            s.c += (in[place + 2u] - zero) * tap->codes[1];
            s.b += (in[place + 1u] - zero) * tap->codes[2];
            s.d += (in[place + 3u] - zero) * tap->codes[3];
#endif
        }
    }
    y[0] = (int8_t)tt_as_code(s.a, &f->how[0]);
    y[1] = (int8_t)tt_as_code(s.b, &f->how[1]);
    y[2] = (int8_t)tt_as_code(s.c, &f->how[2]);
    y[3] = (int8_t)tt_as_code(s.d, &f->how[3]);
}

/* Codes of `count` pixels of a row, whose filters lie inside of x; `forth`: from one of them to the next in x. */
TT_APART static void inner_pixels(int8_t *y, const int8_t *in, const filters_of *f, int count, uint32_t forth)
{
    window_of all = {0, f->kernel, 0, f->kernel};

    for (; count > 0; count--, y += f->step, in += forth)
        pixel(y, in, f, all, 0);
}

TT_APART static void edge_pixel(int8_t *y, const int8_t *in, const filters_of *f, window_of at)
{
    pixel(y, in, f, at, 1);
}

/* Taps [*first, *end) of a row or column of a filter that read inputs [0, size), if tap 0 reads input `at`. */
static void inside(int *first, int *end, int at, int kernel, int size)
{
    *first = at < 0 ? -at : 0;
    *end = size - at < kernel ? size - at : kernel;
    if (*first > *end)
        *first = *end = 0;
}

/* y (out_height, out_width, channels) of four channels: y and x point at the first of them. */
static void four_channels(int8_t *y, const int8_t *x, const filters_of *f, tt_shape s, int top)
{
    int kernel = s.kernel, stride = s.stride, side = (kernel - 1) / 2, room = s.width - kernel + side;
    int begin = (side + stride - 1) / stride, end = room < 0 ? 0 : room / stride + 1; /* columns of `inner_pixels` */
    window_of rows = {0, 0, 0, 0};

    for (int i = 0, r = -top; i < s.out_height; i++, r += stride) {
        inside(&rows.above, &rows.below, r, kernel, s.height);
        for (int j = 0; j < s.out_width; j++, y += f->step) {
            int q = j * stride - side, run = end < s.out_width ? end - j : s.out_width - j;
            const int8_t *in = x;
            window_of at = rows;
            inside(&at.left, &at.right, q, kernel, s.width);
            if (at.above < at.below && at.left < at.right)
                in += (uint32_t)(r + at.above) * f->line + (uint32_t)(q + at.left) * f->step;
            else
                at.below = at.above;
            if (at.below - at.above < kernel || j < begin || run <= 0) {
                edge_pixel(y, in, f, at);
                continue;
            }
            inner_pixels(y, in, f, run, (uint32_t)stride * f->step);
            j += run - 1;
            y += (uint32_t)(run - 1) * f->step;
        }
    }
}

/* The same of one channel, for layers that have fewer than four. */
static void one_channel(int8_t *y, const int8_t *x, tt_layer layer, uint32_t channel, tt_shape s, int top)
{
    tt_channel w = tt_channel_of(layer, channel);
    tt_scaling how = tt_scaling_of(layer.kept, channel);
    int32_t start = tt_start_of(layer, channel, w);
    int side = (s.kernel - 1) / 2;

    for (int i = 0; i < s.out_height; i++)
        for (int j = 0; j < s.out_width; j++, y += s.channels) {
            int32_t sum = start;
            for (int t = 0; t < s.kernel * s.kernel; t++) {
                int r = i * s.stride - top + t / s.kernel, q = j * s.stride - side + t % s.kernel;
                int outside = r < 0 || r >= s.height || q < 0 || q >= s.width;
                sum += (outside ? layer.kept->given : x[(r * s.width + q) * s.channels]) * w.codes[(uint32_t)t * w.step];
            }
            *y = (int8_t)tt_as_code(sum, &how);
        }
}

/* y (out_height, out_width, channels) = codes of the convolution of x (height, width, channels) and its bias. `top`
 * rows lie above x, (kernel - 1) / 2 columns left and right of it: what is outside has the code of 0. */
void tt_depthwise_codes(int8_t *y, const int8_t *x, tt_layer layer, tt_shape s, int top)
{
    filters_of f;

    if (s.channels < CHANNELS)
        for (uint32_t c = 0; c < s.channels; c++)
            one_channel(y + c, x + c, layer, c, s, top);
    f.step = s.channels;
    f.line = (uint32_t)s.width * s.channels;
    f.kernel = s.kernel;
#if TT_PAIRS
    f.given = (int32_t)((uint32_t)(uint16_t)layer.kept->given * 0x10001u);
#else
    f.given = layer.kept->given;
#endif
    for (uint32_t c = 0; c < s.channels && s.channels >= CHANNELS; c += CHANNELS) {
        uint32_t first = c + CHANNELS > s.channels ? s.channels - CHANNELS : c; /* the last four may overlap */
        prepare(&f, layer, first);
        four_channels(y + first, x + first, &f, s, top);
    }
}
