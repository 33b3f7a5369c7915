/* Images: how they are changed at random. */
#include "kernels.h"

#define FILL 128u /* what a moved image uncovers */

typedef struct {
    float shift, mean, spread, contrast;
} colours;

static uint8_t limited(float x)
{
    x = 0.0f > x ? 0.0f : x;
    return (uint8_t)(255.0f < x ? 255.0f : x);
}

/* Write pixel (a, b, c): distances to its own mean times `spread`, to that of the image times `contrast`. */
static void recolour(uint8_t *out, int channels, float a, float b, float c, const colours *how)
{
    float grey = (a + b + c) * (1.0f / 3.0f);
    float centre = ((grey + how->shift - how->mean) * how->contrast + how->mean) + 0.5f;

    out[0] = limited((a - grey) * how->spread + centre);
    out[channels / 2] = limited((b - grey) * how->spread + centre);
    out[channels - 1] = limited((c - grey) * how->spread + centre);
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
    float near = (1.0f - far - low + corner) * (float)p[0] + (far - corner) * (float)p[step];

    return corner * (float)o[step] + ((low - corner) * (float)o[0] + near);
}

static void moved(uint8_t *y, const uint8_t *x, const tt_augmentation *how, const colours *colour, tt_part_of part)
{
    int height = part.height, width = part.width, channels = part.channels;
    int right = how->right, first = right > 0 ? right : 0, last = right < 0 ? width + right : width;
    int start = how->flip ? width - last + right : first - right;

    for (int i = part.first; i < part.first + part.rows; i++, y += channels * width) {
        int r = i - how->down;
        for (int j = 0; j < channels * width; j++)
            y[j] = FILL;
        if (r < 0 || r >= height)
            continue;
        for (int j = 0; j < last - first; j++) {
            const uint8_t *p = x + channels * (r * width + start + j);
            recolour(y + channels * (first + j), channels, (float)p[0], (float)p[channels / 2],
                     (float)p[channels - 1], colour);
        }
        if (how->flip)
            mirror(y + channels * first, channels, last - first);
    }
}

static void turned(uint8_t *y, const uint8_t *x, const tt_augmentation *how, const colours *colour, tt_part_of part)
{
    int height = part.height, width = part.width, channels = part.channels;
    float side = how->flip ? -1.0f : 1.0f, bottom = (float)(height - 1), end = (float)(width - 1);
    float sine = how->sine, cosine = how->cosine;
    int second = channels / 2, third = channels - 1;

    for (int i = part.first; i < part.first + part.rows; i++) {
        float v = -0.5f * bottom + (float)(i - how->down);
        float h = -side * (0.5f * end + (float)how->right);
        float first_r = 0.5f * bottom + (cosine * v + -sine * h);
        float first_q = 0.5f * end + (sine * v + cosine * h);
        for (int j = 0; j < width; j++, y += channels) {
            float r = -side * sine * (float)j + first_r, q = side * cosine * (float)j + first_q, low, far;
            const uint8_t *p, *o;
            int top, left;
            if (!(r >= 0.0f && q >= 0.0f && r < bottom && q < end)) {
                y[0] = y[second] = y[third] = FILL;
                continue;
            }
            top = (int)r;
            left = (int)q;
            low = r - (float)top;
            far = q - (float)left;
            p = x + channels * (top * width + left);
            o = p + channels * width;
            recolour(y, channels, bilinear(p, o, channels, far, low),
                     bilinear(p + second, o + second, channels, far, low),
                     bilinear(p + third, o + third, channels, far, low), colour);
        }
    }
}

/* The sum of the values of an image (height, width, 3 or 1). */
int32_t tt_sum_pixels(const uint8_t *x, int height, int width, int channels)
{
    int32_t total = 0;

    for (int i = 0; i < height * width * channels; i++)
        total += x[i];
    return total;
}

/* y (rows, width, channels) = rows of a changed copy of the image x: turned about its middle and made larger or
 * smaller, recoloured, mirrored, moved. `total` is the sum of all values of x. */
void tt_augment(uint8_t *y, const uint8_t *x, const tt_augmentation *how, int32_t total, tt_part_of part)
{
    colours colour;

    colour.shift = how->brightness;
    colour.mean = (float)total / (float)(part.channels * part.height * part.width) + how->brightness;
    colour.spread = how->saturation * how->contrast;
    colour.contrast = how->contrast;
    if (how->cosine == 1.0f && how->sine == 0.0f)
        moved(y, x, how, &colour, part);
    else
        turned(y, x, how, &colour, part);
}
