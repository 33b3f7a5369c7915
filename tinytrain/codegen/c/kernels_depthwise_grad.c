/* Gradient of the input of a depthwise convolution. */
#include "kernels.h"

/* n channels of gx (height, width, channels) = the gradient of the input from those of g (out_height, out_width,
 * channels) and from their filters taps (kernel * kernel, step). Every input adds the outputs that read it, row
 * by row, left to right. */
void tt_depthwise_grad_some(float *gx, const float *g, const float *taps, uint32_t step, tt_shape s, uint32_t n)
{
    int kernel = s.kernel, stride = s.stride, pad = (s.kernel - 1) / 2;

    for (int r = 0; r < s.height; r++)
        for (int q = 0; q < s.width; q++, gx += s.channels) {
            /* The first output that reads this input does so by its highest tap. */
            int low_i = r + pad - kernel + 1, low_j = q + pad - kernel + 1;
            low_i = low_i <= 0 ? 0 : (low_i + stride - 1) / stride;
            low_j = low_j <= 0 ? 0 : (low_j + stride - 1) / stride;
            tt_clear(gx, n);
            for (int i = low_i; i < s.out_height && i * stride <= r + pad; i++)
                for (int j = low_j; j < s.out_width && j * stride <= q + pad; j++) {
                    int tap = (r + pad - i * stride) * kernel + q + pad - j * stride;
                    const float *in = g + (uint32_t)(i * s.out_width + j) * s.channels;
                    const float *w = taps + (uint32_t)tap * step;
                    for (uint32_t c = 0; c < n; c++)
                        gx[c] = tt_fused(in[c], w[c], gx[c]);
                }
            for (uint32_t c = 0; c < n; c++)
                gx[c] += 0.0f; /* of a zero, the sign */
        }
}
