/* Gradients through a block in int8, for n of its inner channels at a time: those from `first` on. */
#include "kernels_int8.h"

/* y (n,) += factor times the codes of n inputs of a channel, from `first` on. */
void tt_add_codes_of(float *y, float factor, tt_channel w, uint32_t first, uint32_t n)
{
    uint32_t k = 0, r = 0;

    while (r < w.rows && (uint32_t)w.inputs[r] < first)
        r++;
    for (;; r++) {
        uint32_t end = r < w.rows && (uint32_t)w.inputs[r] < first + n ? (uint32_t)w.inputs[r] - first : n;
        for (; k < end; k++)
            y[k] += factor * (float)w.codes[(first + k) * w.step];
        if (k == n)
            return;
        y[k++] += factor * (float)w.over[r * w.over_step];
    }
}

/* gx (rows, n) = g (rows, cout) times the values of n inputs of the weights, summed in the order of cout. */
void tt_grad_input_columns(float *gx, const float *g, tt_layer layer, uint32_t rows, uint32_t first, uint32_t n)
{
    uint32_t cout = layer.kept->cout;

    tt_clear(gx, rows * n);
    for (uint32_t j = 0; j < cout; j++) {
        tt_channel w = tt_channel_of(layer, j);
        for (uint32_t i = 0; i < rows; i++)
            tt_add_codes_of(gx + i * n, g[i * cout + j] * layer.kept->scales[j], w, first, n);
    }
}

/* gx (rows, fan_in) += g (rows, n) times the values of the weights of n outputs; the first ones start it at 0. */
void tt_grad_input_rows(float *gx, const float *g, tt_layer layer, uint32_t rows, uint32_t first, uint32_t n)
{
    uint32_t fan_in = layer.kept->fan_in;

    if (first == 0)
        tt_clear(gx, rows * fan_in);
    for (uint32_t j = 0; j < n; j++) {
        tt_channel w = tt_channel_of(layer, first + j);
        for (uint32_t i = 0; i < rows; i++)
            tt_add_codes_of(gx + i * fan_in, g[i * n + j] * layer.kept->scales[first + j], w, 0, fan_in);
    }
}

/* n columns of gw (fan_in, columns) += the values of codes x (rows, fan_in), transposed, times g (rows, n). */
void tt_grad_weight_columns(float *gw, const int8_t *x, const float *g, float scale, int zero, uint32_t rows,
                            uint32_t fan_in, uint32_t n, uint32_t first, uint32_t columns)
{
    for (uint32_t i = 0; i < rows; i++, x += fan_in, g += n)
        for (uint32_t k = 0; k < fan_in; k++) {
            float factor = scale * (float)(x[k] - zero), *row = gw + k * columns + first;
            for (uint32_t j = 0; j < n; j++)
                row[j] += factor * g[j];
        }
}

/* g (rows, n) becomes 0 where no bit is set; the bits are those of (rows, channels), as tt_pack_inside packs them. */
void tt_mask_columns(float *g, const uint8_t *bits, uint32_t rows, uint32_t first, uint32_t n, uint32_t channels)
{
    uint32_t bytes = (rows * channels + 7u) / 8u;

    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t c = 0; c < n; c++, g++) {
            uint32_t place = i * channels + first + c;
            if (!(bits[place % bytes] >> (place / bytes) & 1u))
                *g = 0.0f;
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
            dots[c] = scale * (float)(a[first + c] - zero) * g[c] + dots[c];
    for (uint32_t c = 0; c < n; c++)
        total[c] = 0.5f * dots[c] * dots[c] + total[c];
}
