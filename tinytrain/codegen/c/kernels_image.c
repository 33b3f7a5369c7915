/* Images: how they are changed at random. */
#include "kernels.h"

#define FILL 128u /* what a moved image uncovers */

typedef struct {
    float shift, mean, spread, contrast;
} colours;

/* Write pixel (a, b, c): distances to its own mean times `spread`, to that of the image times `contrast`. */
static void recolour(uint8_t *out, int channels, float a, float b, float c, const colours *how)
{
    float grey = (a + b + c) * (1.0f / 3.0f);
    float centre = tt_fused(grey + how->shift - how->mean, how->contrast, how->mean) + 0.5f;

    out[0] = tt_byte_of(tt_fused(a - grey, how->spread, centre));
    out[channels / 2] = tt_byte_of(tt_fused(b - grey, how->spread, centre));
    out[channels - 1] = tt_byte_of(tt_fused(c - grey, how->spread, centre));
}

static void mirror(uint8_t *pixels, int channels, int n)
{
    for (int j = 0; j < n / 2; j++)
        for (int c = 0; c < channels; c++) {
            uint8_t *p = pixels + channels * j + c, *q = pixels + channels * (n - 1 - j) + c, kept = *p;
            *p = *q;
            *q = kept;
        }
}

/* `far` of the way from p to p + step, and `low` of the way to the same pair at o. */
static float bilinear(const uint8_t *p, const uint8_t *o, int step, float far, float low)
{
    float corner = far * low;
    float near = tt_fused(1.0f - far - low + corner, (float)p[0], (far - corner) * (float)p[step]);

    return tt_fused(corner, (float)o[step], tt_fused(low - corner, (float)o[0], near));
}

static void moved(uint8_t *y, tt_row_of row, const tt_augmentation *how, const colours *colour, tt_part_of part)
{
    int height = part.height, width = part.width, channels = part.channels;
    int right = how->right, first = right > 0 ? right : 0, last = right < 0 ? width + right : width;
    int start = how->flip ? width - last + right : first - right;

    memset(y, FILL, (size_t)(part.rows * width * channels));
    for (int i = part.first; i < part.first + part.rows; i++, y += channels * width) {
        int r = i - how->down;
        const uint8_t *x;
        if (r < 0 || r >= height)
            continue;
        x = row(r) + channels * start;
        for (int j = 0; j < last - first; j++) {
            const uint8_t *p = x + channels * j;
            recolour(y + channels * (first + j), channels, (float)p[0], (float)p[channels / 2],
                     (float)p[channels - 1], colour);
        }
        if (how->flip)
            mirror(y + channels * first, channels, last - first);
    }
}

/* Where the pixels of an output row lie in a turned image: (r, q) of pixel j are slope * j + start of each. */
typedef struct {
    float r_start, r_slope, q_start, q_slope;
} line;

static line line_of(const tt_augmentation *how, tt_part_of part, int i)
{
    float side = how->flip ? -1.0f : 1.0f, bottom = (float)(part.height - 1), end = (float)(part.width - 1);
    float v = tt_fused(-0.5f, bottom, (float)(i - how->down));
    float h = -side * tt_fused(0.5f, end, (float)how->right);
    line found;

    found.r_start = tt_fused(0.5f, bottom, tt_fused(how->cosine, v, -how->sine * h));
    found.q_start = tt_fused(0.5f, end, tt_fused(how->sine, v, how->cosine * h));
    found.r_slope = -side * how->sine;
    found.q_slope = side * how->cosine;
    return found;
}

/* The first pixel j of an output row whose r is at least `limit`, or, if r falls, is below it; `width` if none. */
static int first_beyond(line l, float limit, int width)
{
    int low = 0, high = width;

    while (low < high) {
        int j = (low + high) / 2;
        if ((tt_fused(l.r_slope, (float)j, l.r_start) >= limit) == (l.r_slope >= 0.0f))
            high = j;
        else
            low = j + 1;
    }
    return low;
}

/* Rows of the image from the first on, and of each pair of them all output pixels in between. */
static void turned(uint8_t *y, tt_row_of row, const tt_augmentation *how, const colours *colour, tt_part_of part)
{
    int width = part.width, channels = part.channels, second = channels / 2, third = channels - 1;
    float bottom = (float)(part.height - 1), end = (float)(width - 1);
    int lowest = part.height - 1, highest = -1; /* of the upper rows of these pairs */

    memset(y, FILL, (size_t)(part.rows * width * channels));
    for (int i = part.first; i < part.first + part.rows; i++) {
        line l = line_of(how, part, i);
        float far = tt_fused(l.r_slope, end, l.r_start);
        float least = far < l.r_start ? far : l.r_start, most = far < l.r_start ? l.r_start : far;
        int top = least < 0.0f ? 0 : least < bottom ? (int)least : part.height - 1;
        int under = most < 0.0f ? -1 : most < bottom ? (int)most : part.height - 2;
        lowest = top < lowest ? top : lowest;
        highest = under > highest ? under : highest;
    }
    for (int top = lowest; top <= highest; top++)
        for (int i = 0; i < part.rows; i++) {
            line l = line_of(how, part, part.first + i);
            int rises = l.r_slope >= 0.0f;
            int first = first_beyond(l, (float)(rises ? top : top + 1), width);
            int last = first_beyond(l, (float)(rises ? top + 1 : top), width);
            for (int j = first; j < last; j++) {
                float r = tt_fused(l.r_slope, (float)j, l.r_start), q = tt_fused(l.q_slope, (float)j, l.q_start), low, far;
                const uint8_t *p, *o;
                int left;
                if (!(q >= 0.0f && q < end))
                    continue;
                left = (int)q;
                low = r - (float)top;
                far = q - (float)left;
                p = row(top) + channels * left;
                o = row(top + 1) + channels * left;
                recolour(y + channels * (width * i + j), channels, bilinear(p, o, channels, far, low),
                         bilinear(p + second, o + second, channels, far, low),
                         bilinear(p + third, o + third, channels, far, low), colour);
            }
        }
}

/* y (rows, width, channels) = rows of a changed copy of an image: turned about its middle and made larger or smaller,
 * recoloured, mirrored, moved. `row` gives its rows, which it asks for in rising order, the last two of them by turns;
 * `total` is the sum of all its values. */
void tt_augment(uint8_t *y, tt_row_of row, const tt_augmentation *how, int32_t total, tt_part_of part)
{
    colours colour;

    colour.shift = how->brightness;
    colour.mean = (float)total / (float)(part.channels * part.height * part.width) + how->brightness;
    colour.spread = how->saturation * how->contrast;
    colour.contrast = how->contrast;
    if (how->cosine == 1.0f && how->sine == 0.0f)
        moved(y, row, how, &colour, part);
    else
        turned(y, row, how, &colour, part);
}
