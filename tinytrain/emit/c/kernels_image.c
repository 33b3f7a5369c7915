/* Images and feature maps in 8 bits: unfolding, augmentation, storage. */
#include "kernels.h"

#define FILL 128u /* what a moved image uncovers */

/* y (rows, out_width, kernel * kernel * channels) = patches of output rows from `first` on. A value v of the
 * image enters as (v - mean) * scale of its channel, padding as 0. */
void tt_unfold(float *y, const uint8_t *image, tt_shape s, uint32_t first, uint32_t rows, int rotated,
               const float *mean, const float *scale)
{
    int pad = (s.kernel - 1) / 2, height = s.height, width = s.width;

    for (uint32_t i = 0; i < rows; i++)
        for (int j = 0; j < s.out_width; j++)
            for (int dy = 0; dy < s.kernel; dy++)
                for (int dx = 0; dx < s.kernel; dx++) {
                    int r = (int)(first + i) * s.stride + dy - pad, q = j * s.stride + dx - pad;
                    int inside = r >= 0 && r < height && q >= 0 && q < width;
                    const uint8_t *pixel = image;
                    if (inside && rotated)
                        pixel += (uint32_t)((height - 1 - r) * width + width - 1 - q) * s.channels;
                    else if (inside)
                        pixel += (uint32_t)(r * width + q) * s.channels;
                    for (uint32_t c = 0; c < s.channels; c++)
                        *y++ = inside ? ((float)pixel[c] - mean[c]) * scale[c] : 0.0f;
                }
}

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

static void moved(uint8_t *y, const uint8_t *x, const tt_augmentation *how, const colours *colour, int height,
                  int width, int channels)
{
    int right = how->right, first = right > 0 ? right : 0, last = right < 0 ? width + right : width;
    int start = how->flip ? width - last + right : first - right;

    for (int i = 0; i < height; i++, y += channels * width) {
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

static void turned(uint8_t *y, const uint8_t *x, const tt_augmentation *how, const colours *colour, int height,
                   int width, int channels)
{
    float side = how->flip ? -1.0f : 1.0f, bottom = (float)(height - 1), end = (float)(width - 1);
    float sine = how->sine, cosine = how->cosine;
    int second = channels / 2, third = channels - 1;

    for (int i = 0; i < height; i++) {
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

/* y = a changed copy of the image x (height, width, 3 or 1): turned about its middle and made larger or
 * smaller, recoloured, mirrored, moved. */
void tt_augment(uint8_t *y, const uint8_t *x, const tt_augmentation *how, int height, int width, int channels)
{
    int32_t total = 0;
    colours colour;

    for (int i = 0; i < height * width * channels; i++)
        total += x[i];
    colour.shift = how->brightness;
    colour.mean = (float)total / (float)(channels * height * width) + how->brightness;
    colour.spread = how->saturation * how->contrast;
    colour.contrast = how->contrast;
    if (how->cosine == 1.0f && how->sine == 0.0f)
        moved(y, x, how, &colour, height, width, channels);
    else
        turned(y, x, how, &colour, height, width, channels);
}

/* codes (n,) and span = (lowest, step) of x (n,), so that x is about lowest + step * code. */
void tt_quantize(uint8_t *codes, float *span, const float *x, uint32_t n)
{
    float low = x[0], high = x[0], step, scale;

    for (uint32_t i = 0; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    step = (high - low) / 255.0f;
    span[0] = low;
    span[1] = step;
    scale = step > 0.0f ? 1.0f / step : 0.0f;
    for (uint32_t i = 0; i < n; i++) {
        float code = (x[i] - low) * scale + 0.5f;
        codes[i] = code >= 0.0f && code < 256.0f ? (uint8_t)code : 0u; /* NaN and infinity have no code */
    }
}

void tt_dequantize(float *x, const uint8_t *codes, const float *span, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        x[i] = span[1] * (float)codes[i] + span[0];
}
