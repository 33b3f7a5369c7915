/* Gradients through a block in int8, for n of its inner channels at a time: those from `first` on. */
#include "kernels_int8.h"

/* n columns of gw (fan_in, columns) += the values of codes x (rows, fan_in), transposed, times g (rows, n). */
void tt_grad_weight_columns(float *gw, const int8_t *x, const float *g, float scale, int zero, uint32_t rows,
                            uint32_t fan_in, uint32_t n, uint32_t first, uint32_t columns)
{
    for (uint32_t i = 0; i < rows; i++, x += fan_in, g += n)
        for (uint32_t k = 0; k < fan_in; k++) {
            float factor = scale * (float)(x[k] - zero), *row = gw + k * columns + first;
            for (uint32_t j = 0; j < n; j++)
                row[j] = tt_fused(factor, g[j], row[j]);
        }
}

/* g (rows, n) becomes 0 where no bit is set; the bits are those of (rows, channels), as tt_pack_inside packs them. */
void tt_mask_columns(float *g, const uint8_t *bits, uint32_t rows, uint32_t first, uint32_t n, uint32_t channels)
{
    uint32_t bytes = (rows * channels + 7u) / 8u;

    for (uint32_t i = 0; i < rows; i++) {
        uint32_t place = i * channels + first, bit = place / bytes, byte = place % bytes;
        for (uint32_t c = 0; c < n; c++, g++) {
            if (!(bits[byte] >> bit & 1u))
                *g = 0.0f;
            if (++byte == bytes) {
                byte = 0;
                bit++;
            }
        }
    }
}

/* y (fan_in, n) = values of the filters of n channels of a depthwise layer. */
void tt_widen_columns(float *y, tt_layer layer, uint32_t first, uint32_t n)
{
    const tt_weights *kept = layer.kept;

    for (uint32_t t = 0; t < kept->fan_in; t++)
        for (uint32_t c = 0; c < n; c++)
            *y++ = (float)kept->codes[t * kept->cout + first + c] * kept->scales[first + c];
}

/* Column k of y (rows, count) = the column of x (rows, n) that is channel columns[k], if x has it. */
void tt_gather_some(float *y, const float *x, const int32_t *columns, uint32_t rows, uint32_t count, uint32_t first,
                    uint32_t n)
{
    for (uint32_t k = 0; k < count; k++) {
        uint32_t c = (uint32_t)columns[k] - first; /* huge if it is below */
        if (c < n)
            for (uint32_t i = 0; i < rows; i++)
                y[i * count + k] = x[i * n + c];
    }
}

/* total (n,) += half of the squared sum over rows of a * g: codes a (rows, channels), g (rows, n); dots (n,) is
 * overwritten. */
void tt_add_fisher_columns(float *total, float *dots, const int8_t *a, const float *g, float scale, int zero,
                           uint32_t rows, uint32_t first, uint32_t n, uint32_t channels)
{
    tt_clear(dots, n);
    for (uint32_t i = 0; i < rows; i++, a += channels, g += n)
        for (uint32_t c = 0; c < n; c++)
            dots[c] = tt_fused(scale * (float)(a[first + c] - zero), g[c], dots[c]);
    for (uint32_t c = 0; c < n; c++)
        total[c] = tt_fused(0.5f * dots[c], dots[c], total[c]);
}
