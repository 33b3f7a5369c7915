/* Layers in int8, forward: sums are int32, and become codes in integers alone. */
#include "kernels_int8.h"

/* floor(x / 2^shift) */
static int64_t shifted(int64_t x, int shift)
{
    return x < 0 ? ~(~x >> shift) : x >> shift;
}

static int8_t limited(int64_t code)
{
    return (int8_t)(code < -128 ? -128 : code > 127 ? 127 : code);
}

/* The code of a sum of an output channel: the nearest, halves up. */
static int8_t as_code(int32_t sum, const tt_weights *kept, uint32_t channel)
{
    int shift = kept->shift[channel];
    int64_t value = (int64_t)sum * kept->factor[channel] + ((int64_t)1 << (shift - 1));

    return limited(shifted(value, shift) + kept->zero);
}

/* The weights of an output channel as they are now. */
tt_channel tt_channel_of(tt_layer layer, uint32_t channel)
{
    const tt_weights *kept = layer.kept;
    uint32_t low = 0, high = layer.change ? layer.change->count : 0;
    tt_channel found = {NULL, NULL, NULL, 1u, 0, 0};

    while (low < high) { /* among the changed ones, which rise */
        uint32_t middle = (low + high) / 2u, other = (uint32_t)layer.change->channels[middle];
        if (other == channel && layer.change->inputs) {
            found.over = layer.change->weights + middle;
            found.over_step = layer.change->count;
            found.inputs = layer.change->inputs;
            found.rows = layer.change->rows;
            break;
        }
        if (other == channel) {
            found.codes = layer.change->weights + middle;
            found.step = layer.change->count;
            return found;
        }
        if (other < channel)
            low = middle + 1u;
        else
            high = middle;
    }
    found.codes = kept->codes + (kept->depthwise ? channel : channel * kept->fan_in);
    found.step = kept->depthwise ? kept->cout : 1u;
    return found;
}

/* What training added to the code of input inputs[r] of a channel. */
static int32_t change_of(tt_channel w, uint32_t r)
{
    return w.over[r * w.over_step] - w.codes[(uint32_t)w.inputs[r] * w.step];
}

/* What the sums of an output channel start with, as its weights and its bias are now. */
static int32_t start_of(tt_layer layer, uint32_t channel, tt_channel w)
{
    const tt_weights *kept = layer.kept;
    const float *bias = layer.change && layer.change->bias ? layer.change->bias : kept->bias;
    int32_t total = 0;

    if (!layer.change)
        return kept->start[channel];
    for (uint32_t k = 0; k < kept->fan_in; k++)
        total += w.codes[k * w.step];
    for (uint32_t r = 0; r < w.rows; r++)
        total += change_of(w, r);
    return tt_in_units(bias[channel], kept->unit[channel]) - kept->given * total;
}

#define ROWS 4u /* at a time, so that a weight is read less often */

/* sums (ROWS,) += as many rows of x (rows, n) times the weights of a channel. */
static void add_rows(int32_t *sums, const int8_t *x, tt_channel w, uint32_t n)
{
    const int8_t *second = x + n, *third = second + n, *fourth = third + n, *code = w.codes;
    int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];

    for (uint32_t k = 0; k < n; k++, code += w.step) {
        int32_t weight = *code;
        a += x[k] * weight;
        b += second[k] * weight;
        c += third[k] * weight;
        d += fourth[k] * weight;
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
}

/* sums (rows,) += x (rows, n) times what training added to the weights of some inputs of a channel. */
static void add_changes(int32_t *sums, const int8_t *x, tt_channel w, uint32_t n, uint32_t rows)
{
    for (uint32_t r = 0; r < w.rows; r++)
        for (uint32_t i = 0; i < rows; i++)
            sums[i] += x[i * n + (uint32_t)w.inputs[r]] * change_of(w, r);
}

/* y (rows, cout) = codes of x (rows, fan_in) times the weights, and of the bias. */
void tt_product_codes(int8_t *y, const int8_t *x, tt_layer layer, uint32_t rows)
{
    uint32_t fan_in = layer.kept->fan_in, cout = layer.kept->cout;

    for (uint32_t j = 0; j < cout; j++) {
        tt_channel w = tt_channel_of(layer, j);
        int32_t start = start_of(layer, j, w);
        uint32_t i = 0;
        for (; i + ROWS <= rows; i += ROWS) {
            int32_t sums[ROWS] = {start, start, start, start};
            add_rows(sums, x + i * fan_in, w, fan_in);
            add_changes(sums, x + i * fan_in, w, fan_in, ROWS);
            for (uint32_t r = 0; r < ROWS; r++)
                y[(i + r) * cout + j] = as_code(sums[r], layer.kept, j);
        }
        for (; i < rows; i++) {
            int32_t sum = start;
            for (uint32_t k = 0; k < fan_in; k++)
                sum += x[i * fan_in + k] * w.codes[k * w.step];
            add_changes(&sum, x + i * fan_in, w, fan_in, 1u);
            y[i * cout + j] = as_code(sum, layer.kept, j);
        }
    }
}

/* The same of 16-bit codes, those of an image. */
void tt_product_wide(int8_t *y, const int16_t *x, tt_layer layer, uint32_t rows)
{
    uint32_t fan_in = layer.kept->fan_in, cout = layer.kept->cout;

    for (uint32_t j = 0; j < cout; j++) {
        tt_channel w = tt_channel_of(layer, j);
        int32_t start = start_of(layer, j, w);
        for (uint32_t i = 0; i < rows; i++) {
            int32_t sum = start;
            for (uint32_t k = 0; k < fan_in; k++)
                sum += x[i * fan_in + k] * w.codes[k * w.step];
            y[i * cout + j] = as_code(sum, layer.kept, j);
        }
    }
}

#define CHANNELS 8u /* at a time */

/* y (out_height, out_width, channels) = codes of the convolution of x (height, width, channels) and its bias. `top`
 * rows lie above x, (kernel - 1) / 2 columns left and right of it: what is outside has the code of 0. */
void tt_depthwise_codes(int8_t *y, const int8_t *x, tt_layer layer, tt_shape s, int top)
{
    int side = (s.kernel - 1) / 2;
    uint32_t channels = s.channels;
    int32_t starts[CHANNELS], sums[CHANNELS];

    for (uint32_t first = 0; first < channels; first += CHANNELS) {
        uint32_t n = channels - first < CHANNELS ? channels - first : CHANNELS;
        for (uint32_t c = 0; c < n; c++)
            starts[c] = start_of(layer, first + c, tt_channel_of(layer, first + c));
        for (int i = 0; i < s.out_height; i++)
            for (int j = 0; j < s.out_width; j++) {
                const int8_t *w = layer.kept->codes + first;
                int8_t *out = y + (uint32_t)(i * s.out_width + j) * channels + first;
                for (uint32_t c = 0; c < n; c++)
                    sums[c] = starts[c];
                for (int dy = 0; dy < s.kernel; dy++)
                    for (int dx = 0; dx < s.kernel; dx++, w += channels) {
                        int r = i * s.stride - top + dy, q = j * s.stride - side + dx;
                        if (r < 0 || r >= s.height || q < 0 || q >= s.width) {
                            for (uint32_t c = 0; c < n; c++)
                                sums[c] += layer.kept->given * w[c];
                        } else {
                            const int8_t *in = x + (uint32_t)(r * s.width + q) * channels + first;
                            if (n == CHANNELS) /* a length that the compiler knows */
                                for (uint32_t c = 0; c < CHANNELS; c++)
                                    sums[c] += in[c] * w[c];
                            else
                                for (uint32_t c = 0; c < n; c++)
                                    sums[c] += in[c] * w[c];
                        }
                    }
                for (uint32_t c = 0; c < n; c++)
                    out[c] = as_code(sums[c], layer.kept, first + c);
            }
    }
}

/* y (rows, out_width, kernel * kernel * channels) = patches of output rows from `first` on, of an image or of some
 * of its rows. `codes` (256, channels) has the code of every pixel value; padding is 0. */
void tt_unfold_codes(int16_t *y, const uint8_t *image, tt_shape s, uint32_t first, uint32_t rows, int rotated,
                     const int16_t *codes)
{
    int pad = (s.kernel - 1) / 2;

    for (uint32_t i = 0; i < rows; i++)
        for (int j = 0; j < s.out_width; j++)
            for (int dy = 0; dy < s.kernel; dy++)
                for (int dx = 0; dx < s.kernel; dx++) {
                    int r = (int)(first + i) * s.stride + dy - pad, q = j * s.stride + dx - pad;
                    const uint8_t *pixel = tt_pixel_at(image, s, r, q, rotated);
                    for (uint32_t c = 0; c < s.channels; c++)
                        *y++ = pixel ? codes[(uint32_t)pixel[c] * s.channels + c] : 0;
                }
}

/* y (n,) = codes of the sums of two values; y may be x or skip. Factors are below 2^20, so that 32 bits are enough. */
void tt_add_codes(int8_t *y, const int8_t *x, const int8_t *skip, uint32_t n, tt_sum_of how)
{
    for (uint32_t i = 0; i < n; i++) {
        int32_t sum = (x[i] - how.x_zero) * how.x_factor + (skip[i] - how.skip_zero) * how.skip_factor;
        y[i] = limited(shifted((int64_t)sum + ((int32_t)1 << (how.shift - 1)), how.shift) + how.zero);
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
