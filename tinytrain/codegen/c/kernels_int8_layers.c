/* What int8 passes need beside convolutions: patches of images, sums of two values, means, copies. */
#include "kernels_int8_arithmetic.h"

/* y (rows, out_width, kernel * kernel * channels) = patches of output rows from `first` on, of an image or of some
 * of its rows. `codes` (256, channels) has the code of every pixel value; padding is 0. */
void tt_unfold_codes(int16_t *y, const uint8_t *image, tt_shape s, uint32_t first, uint32_t rows, int rotated,
                     const int16_t *codes)
{
    int pad = (s.kernel - 1) / 2, forth = rotated ? -(int)s.channels : (int)s.channels;

    for (uint32_t i = 0; i < rows; i++)
        for (int j = 0; j < s.out_width; j++)
            for (int dy = 0; dy < s.kernel; dy++) {
                int r = (int)(first + i) * s.stride + dy - pad, q = j * s.stride - pad;
                /* the pixel of the first column, which may be outside */
                int at = (rotated ? (s.height - r) * s.width - 1 - q : r * s.width + q) * s.channels;
                for (int end = q + s.kernel; q < end; q++, at += forth)
                    if (r >= 0 && r < s.height && q >= 0 && q < s.width)
                        for (uint32_t c = 0; c < s.channels; c++)
                            *y++ = codes[image[(uint32_t)at + c] * s.channels + c];
                    else
                        for (uint32_t c = 0; c < s.channels; c++)
                            *y++ = 0;
            }
}

/* y (rows, out_width, kernel * kernel * channels) = patches of output rows from `first` on, of codes x (height, width,
 * channels) below `top` rows of padding, whose code is `fill`. */
void tt_unfold_plane_codes(int8_t *y, const int8_t *x, tt_shape s, uint32_t first, uint32_t rows, int top, int fill)
{
    int pad = (s.kernel - 1) / 2;

    for (uint32_t i = 0; i < rows; i++)
        for (int j = 0; j < s.out_width; j++)
            for (int dy = 0; dy < s.kernel; dy++) {
                int r = (int)(first + i) * s.stride + dy - top, q = j * s.stride - pad;
                for (int end = q + s.kernel; q < end; q++, y += s.channels)
                    if (r >= 0 && r < s.height && q >= 0 && q < s.width)
                        memcpy(y, x + (uint32_t)(r * s.width + q) * s.channels, s.channels);
                    else
                        memset(y, fill, s.channels);
            }
}

/* y (n,) = codes of the sums of two values; y may be x or skip. Factors are below 2^20, so that 32 bits are enough. */
void tt_add_codes(int8_t *y, const int8_t *x, const int8_t *skip, uint32_t n, tt_sum_of how)
{
    for (uint32_t i = 0; i < n; i++) {
        int32_t sum = (x[i] - how.x_zero) * how.x_factor + (skip[i] - how.skip_zero) * how.skip_factor;
        y[i] = (int8_t)tt_limited(tt_shifted(sum + ((int32_t)1 << (how.shift - 1)), how.shift) + how.zero);
    }
}

/* y (n,) = means of the values of codes x (positions, n); `scale` is that of a code divided by positions. */
void tt_pool_codes(float *y, const int8_t *x, uint32_t positions, uint32_t n, float scale, int zero)
{
    for (uint32_t c = 0; c < n; c++) {
        int32_t total = 0;
        for (uint32_t i = 0; i < positions; i++)
            total += x[i * n + c];
        y[c] = scale * (float)(total - (int32_t)positions * zero);
    }
}

/* y (n,) = x in rising order; x may overlap y from above. */
void tt_copy_codes(int8_t *y, const int8_t *x, uint32_t n)
{
    for (; n >= 4u; n -= 4u, y += 4, x += 4) {
        uint32_t word;
        memcpy(&word, x, sizeof word);
        memcpy(y, &word, sizeof word);
    }
    for (uint32_t i = 0; i < n; i++)
        y[i] = x[i];
}

/* y (rows, count) = the named columns of x (rows, n). */
void tt_gather_codes(int8_t *y, const int8_t *x, const int32_t *columns, uint32_t rows, uint32_t n, uint32_t count)
{
    for (uint32_t i = 0; i < rows; i++, y += count, x += n)
        for (uint32_t k = 0; k < count; k++)
            y[k] = x[columns[k]];
}
