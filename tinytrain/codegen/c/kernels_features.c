/* What a float32 network reads of an image, and its features in 8 bits. */
#include "kernels_float32.h"

/* y (out_height, out_width, channels) = pixels from row `first` and column -`side` of the image on. A value v
 * enters as (v - mean) * scale of its channel, what lies outside as 0. */
void tt_enter_rows(float *y, const uint8_t *image, tt_shape s, int first, int side, int rotated, const float *mean,
                   const float *scale)
{
    for (int i = 0; i < s.out_height; i++)
        for (int j = 0; j < s.out_width; j++) {
            const uint8_t *pixel = tt_pixel_at(image, s, first + i, j - side, rotated);
            for (uint32_t c = 0; c < s.channels; c++)
                *y++ = pixel ? ((float)pixel[c] - mean[c]) * scale[c] : 0.0f;
        }
}

/* y (n,) = values x of an item of one pixel with n channels, likewise. */
void tt_enter(float *y, const float *x, uint32_t n, const float *mean, const float *scale)
{
    for (uint32_t c = 0; c < n; c++)
        y[c] = (x[c] - mean[c]) * scale[c];
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
        float code = tt_fused(x[i] - low, scale, 0.5f);
        codes[i] = code >= 0.0f && code < 256.0f ? (uint8_t)code : 0u; /* NaN and infinity have no code */
    }
}

void tt_dequantize(float *x, const uint8_t *codes, const float *span, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        x[i] = tt_fused(span[1], (float)codes[i], span[0]);
}
