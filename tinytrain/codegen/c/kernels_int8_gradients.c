/* Gradients through layers in int8: floats, of values and not of codes. */
#include "kernels_int8.h"

/* Bit k of byte i says whether y[k * bytes + i] is neither the lowest nor the highest code: only there a gradient
 * passes. */
void tt_pack_inside(uint8_t *bits, const int8_t *y, uint32_t n)
{
    uint32_t bytes = (n + 7u) / 8u;

    for (uint32_t i = 0; i < bytes; i++)
        bits[i] = 0;
    for (uint32_t k = 0; k < 8; k++)
        for (uint32_t i = 0; i < bytes && k * bytes + i < n; i++)
            if (y[k * bytes + i] > -128 && y[k * bytes + i] < 127)
                bits[i] = (uint8_t)(bits[i] | 1u << k);
}

/* gw (fan_in, n) += the values of codes x (rows, fan_in), transposed, times g (rows, n). */
void tt_grad_weight_codes(float *gw, const int8_t *x, const float *g, float scale, int zero, uint32_t rows,
                          uint32_t fan_in, uint32_t n)
{
    tt_grad_weight_columns(gw, x, g, scale, zero, rows, fan_in, n, 0, n);
}

/* gw (kernel * kernel, channels) += the gradient of the weights of a depthwise layer, from codes x (height, width,
 * channels) and g (out_height, out_width, channels): positions row by row, left to right. */
void tt_depthwise_grad_weight_codes(float *gw, const int8_t *x, const float *g, float scale, int zero, tt_shape s)
{
    int pad = (s.kernel - 1) / 2;

    for (int i = 0; i < s.out_height; i++)
        for (int j = 0; j < s.out_width; j++, g += s.channels)
            for (int t = 0; t < s.kernel * s.kernel; t++) {
                int r = i * s.stride - pad + t / s.kernel, q = j * s.stride - pad + t % s.kernel;
                const int8_t *in = x;
                float *out = gw + t * s.channels;
                if (r < 0 || r >= s.height || q < 0 || q >= s.width)
                    continue;
                in += (r * s.width + q) * s.channels;
                for (uint32_t c = 0; c < s.channels; c++)
                    out[c] = tt_fused(scale * (float)(in[c] - zero), g[c], out[c]);
            }
}

#define CHANNELS 16u /* at a time: as many have room in `work` */

/* Values of the filters of n channels from `first` on: work (kernel * kernel, CHANNELS). */
static void filters(float *work, tt_layer layer, uint32_t first, uint32_t n)
{
    for (uint32_t c = 0; c < n; c++) {
        tt_channel w = tt_channel_of(layer, first + c);
        for (uint32_t t = 0; t < layer.kept->fan_in; t++)
            work[t * CHANNELS + c] = (float)w.codes[t * w.step] * layer.kept->scales[first + c];
    }
}

/* out (n,) = the gradient of input (r, q) from g (out_height, out_width, step): taps are added row by row, left to
 * right. */
static void gather_taps(float *out, const float *g, uint32_t step, const float *work, tt_shape s, int r, int q,
                        uint32_t n)
{
    int pad = (s.kernel - 1) / 2;
    float sums[CHANNELS];

    tt_clear(sums, CHANNELS);
    for (int a = 0; a < s.kernel; a++) {
        int i = r + pad - a;
        if (i < 0 || i % s.stride || i / s.stride >= s.out_height)
            continue;
        for (int b = 0; b < s.kernel; b++) {
            int j = q + pad - b;
            const float *in = g, *tap = work + (uint32_t)(a * s.kernel + b) * CHANNELS;
            if (j < 0 || j % s.stride || j / s.stride >= s.out_width)
                continue;
            in += (uint32_t)(i / s.stride * s.out_width + j / s.stride) * step;
            for (uint32_t c = 0; c < n; c++)
                sums[c] = tt_fused(in[c], tap[c], sums[c]);
        }
    }
    tt_copy(out, sums, n);
}

/* gx (height, width, channels) = the gradient of the input from g (out_height, out_width, channels). `work`
 * (kernel * kernel, CHANNELS) is overwritten. */
void tt_depthwise_grad_codes(float *gx, float *work, const float *g, tt_layer layer, tt_shape s)
{
    uint32_t channels = s.channels;

    for (uint32_t first = 0; first < channels; first += CHANNELS) {
        uint32_t n = channels - first < CHANNELS ? channels - first : CHANNELS;
        filters(work, layer, first, n);
        for (int r = 0; r < s.height; r++)
            for (int q = 0; q < s.width; q++)
                gather_taps(gx + (uint32_t)(r * s.width + q) * channels + first, g + first, channels, work, s, r, q, n);
    }
}

/* The same in the place of g (height, width, channels), with stride 1. `work` (kernel * kernel + height * width,
 * CHANNELS) takes a copy of the gradients of some channels. */
void tt_depthwise_grad_in_place(float *g, float *work, tt_layer layer, tt_shape s)
{
    uint32_t channels = s.channels, pixels = (uint32_t)s.height * s.width;
    float *copied = work + layer.kept->fan_in * CHANNELS;

    for (uint32_t first = 0; first < channels; first += CHANNELS) {
        uint32_t n = channels - first < CHANNELS ? channels - first : CHANNELS;
        filters(work, layer, first, n);
        for (uint32_t p = 0; p < pixels; p++)
            tt_copy(copied + p * CHANNELS, g + p * channels + first, n);
        for (int r = 0; r < s.height; r++)
            for (int q = 0; q < s.width; q++)
                gather_taps(g + (uint32_t)(r * s.width + q) * channels + first, copied, CHANNELS, work, s, r, q, n);
    }
}
