/* Depthwise convolutions: a filter of its own for each channel. */
#include "kernels_float32.h"

#define CHANNELS 8u /* at a time: their filters lie on the stack, up to 7 x 7 */
#define TAPS 49u

/* Filters of n channels from `first` on: taps (kernel * kernel, CHANNELS). */
static void filters(float *taps, tt_layer layer, uint32_t first, uint32_t n)
{
    for (uint32_t t = 0; t < layer.kept->fan_in; t++)
        tt_weight_row(taps + t * CHANNELS, layer, t, first, n);
}

/* y (out_height, out_width, channels) = the convolution of x (height, width, channels) and its bias, then
 * ReLU6 if asked for. `top` rows of zeros lie above x, (kernel - 1) / 2 columns left and right of it. Taps are
 * added row by row, left to right, those inside the image alone, and the bias last. */
void tt_depthwise(float *y, const float *x, tt_layer layer, tt_shape s, int top, int relu6)
{
    int height = s.height, width = s.width, kernel = s.kernel, pad = (s.kernel - 1) / 2;
    uint32_t channels = s.channels;
    const float *bias = tt_bias(layer);
    float taps[TAPS * CHANNELS], sums[CHANNELS];

    for (uint32_t first = 0; first < channels; first += CHANNELS) {
        uint32_t n = channels - first < CHANNELS ? channels - first : CHANNELS;
        filters(taps, layer, first, n);
        for (int i = 0; i < s.out_height; i++)
            for (int j = 0; j < s.out_width; j++) {
                int r = i * s.stride - top, q = j * s.stride - pad;
                float *out = y + (uint32_t)(i * s.out_width + j) * channels + first;
                for (uint32_t c = 0; c < n; c++)
                    sums[c] = 0.0f;
                for (int dy = r < 0 ? -r : 0; dy < kernel && r + dy < height; dy++)
                    for (int dx = q < 0 ? -q : 0; dx < kernel && q + dx < width; dx++) {
                        const float *in = x + (uint32_t)((r + dy) * width + q + dx) * channels + first;
                        const float *tap = taps + (uint32_t)(dy * kernel + dx) * CHANNELS;
                        for (uint32_t c = 0; c < n; c++)
                            sums[c] = tt_fused(in[c], tap[c], sums[c]);
                    }
                for (uint32_t c = 0; c < n; c++) {
                    float value = sums[c] + bias[first + c];
                    out[c] = relu6 ? tt_relu6(value) : value;
                }
            }
    }
}

/* gx (height, width, channels) = the gradient of the input from g (out_height, out_width, channels). */
void tt_depthwise_grad_input(float *gx, const float *g, tt_layer layer, tt_shape s)
{
    float taps[TAPS * CHANNELS];

    for (uint32_t first = 0; first < s.channels; first += CHANNELS) {
        uint32_t n = s.channels - first < CHANNELS ? s.channels - first : CHANNELS;
        filters(taps, layer, first, n);
        tt_depthwise_grad_some(gx + first, g + first, taps, CHANNELS, s, n);
    }
}
