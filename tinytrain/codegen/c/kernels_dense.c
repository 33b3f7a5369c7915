/* Matrix products with the weights of a layer, and what surrounds them. Rows are positions of feature maps. */
#include "kernels_float32.h"

const float *tt_bias(tt_layer layer)
{
    return layer.change && layer.change->bias ? layer.change->bias : layer.kept->bias;
}

/* Weight (row, column) as it is in flash. */
float tt_weight(tt_layer layer, uint32_t row, uint32_t column)
{
    uint32_t at = row * layer.kept->cout + column;

    if (layer.kept->values)
        return layer.kept->values[at];
    return (float)layer.kept->codes[at] * layer.kept->scales[column];
}

/* Columns [first, first + n) of one row of the weights as they are now. */
void tt_weight_row(float *out, tt_layer layer, uint32_t row, uint32_t first, uint32_t n)
{
    const tt_weights *kept = layer.kept;
    const tt_change *change = layer.change;
    uint32_t at = row * kept->cout + first;

    if (kept->values)
        for (uint32_t j = 0; j < n; j++)
            out[j] = kept->values[at + j];
    else
        for (uint32_t j = 0; j < n; j++)
            out[j] = (float)kept->codes[at + j] * kept->scales[first + j];
    if (change)
        for (uint32_t c = 0; c < change->count; c++) {
            uint32_t column = (uint32_t)change->channels[c];
            if (column >= first && column < first + n)
                out[column - first] = change->weights[row * change->count + c];
        }
}

/* Rows [first, first + n) of one column of the weights as they are now; `trained` is its place among the
 * changed columns, or -1. */
static void weight_column(float *out, tt_layer layer, uint32_t column, int32_t trained, uint32_t first,
                          uint32_t n)
{
    const tt_weights *kept = layer.kept;
    const tt_change *change = layer.change;

    if (trained >= 0)
        for (uint32_t k = 0; k < n; k++)
            out[k] = change->weights[(first + k) * change->count + (uint32_t)trained];
    else if (kept->values)
        for (uint32_t k = 0; k < n; k++)
            out[k] = kept->values[(first + k) * kept->cout + column];
    else
        for (uint32_t k = 0; k < n; k++)
            out[k] = (float)kept->codes[(first + k) * kept->cout + column] * kept->scales[column];
}

#define AT_ONCE 4u /* terms of a sum, so that it is read and written less often */

/* y (n,) += the terms factors[k] * lines[k], in the order of k. */
static void add_terms(float *y, const float *factors, float lines[][TT_BLOCK], uint32_t terms,
                      uint32_t n)
{
    if (terms == AT_ONCE) {
        float a = factors[0], b = factors[1], c = factors[2], d = factors[3];
        for (uint32_t j = 0; j < n; j++)
            y[j] = tt_fused(d, lines[3][j], tt_fused(c, lines[2][j], tt_fused(b, lines[1][j], tt_fused(a, lines[0][j], y[j]))));
        return;
    }
    for (uint32_t k = 0; k < terms; k++)
        for (uint32_t j = 0; j < n; j++)
            y[j] = tt_fused(factors[k], lines[k][j], y[j]);
}

/* y (down * across, cout) = x (down * across, lines * terms) times the weights, summed in the order of terms. */
void tt_multiply_windows(float *y, const float *x, tt_layer layer, tt_windows s)
{
    uint32_t cout = layer.kept->cout;
    float lines[AT_ONCE][TT_BLOCK];

    tt_clear(y, s.down * s.across * cout);
    for (uint32_t first = 0; first < cout; first += TT_BLOCK) {
        uint32_t n = cout - first < TT_BLOCK ? cout - first : TT_BLOCK;
        for (uint32_t l = 0; l < s.lines; l++)
            for (uint32_t k = 0; k < s.terms; k += AT_ONCE) {
                uint32_t terms = s.terms - k < AT_ONCE ? s.terms - k : AT_ONCE;
                const float *from = x + l * s.line_step + k;
                float *out = y + first;
                for (uint32_t t = 0; t < terms; t++)
                    tt_weight_row(lines[t], layer, l * s.terms + k + t, first, n);
                for (uint32_t i = 0; i < s.down; i++)
                    for (uint32_t j = 0; j < s.across; j++, out += cout)
                        add_terms(out, from + i * s.down_step + j * s.across_step, lines, terms, n);
            }
    }
}

/* Likewise of x (rows, fan_in). */
void tt_multiply(float *y, const float *x, tt_layer layer, uint32_t rows)
{
    uint32_t fan_in = layer.kept->fan_in;

    tt_multiply_windows(y, x, layer, (tt_windows){1, rows, 1, fan_in, 0, fan_in, 0});
}

/* gx (rows, fan_in) = g (rows, cout) times the transposed weights, summed in the order of cout. */
void tt_multiply_back(float *gx, const float *g, tt_layer layer, uint32_t rows)
{
    uint32_t fan_in = layer.kept->fan_in, cout = layer.kept->cout;
    const tt_change *change = layer.change;
    float lines[AT_ONCE][TT_BLOCK];

    tt_clear(gx, rows * fan_in);
    for (uint32_t first = 0; first < fan_in; first += TT_BLOCK) {
        uint32_t n = fan_in - first < TT_BLOCK ? fan_in - first : TT_BLOCK, next = 0;
        for (uint32_t c = 0; c < cout; c += AT_ONCE) {
            uint32_t terms = cout - c < AT_ONCE ? cout - c : AT_ONCE;
            for (uint32_t t = 0; t < terms; t++) {
                int32_t trained = -1;
                if (change && next < change->count && (uint32_t)change->channels[next] == c + t)
                    trained = (int32_t)next++;
                weight_column(lines[t], layer, c + t, trained, first, n);
            }
            for (uint32_t i = 0; i < rows; i++)
                add_terms(gx + i * fan_in + first, g + i * cout + c, lines, terms, n);
        }
    }
}

/* y (columns, n) += x^T g, of x (rows, columns) and g (rows, n). */
void tt_add_transposed(float *y, const float *x, const float *g, uint32_t rows, uint32_t columns, uint32_t n)
{
    for (uint32_t p = 0; p < rows; p++, x += columns, g += n)
        for (uint32_t i = 0; i < columns; i++)
            for (uint32_t j = 0; j < n; j++)
                y[i * n + j] = tt_fused(x[i], g[j], y[i * n + j]);
}

/* y (rows, cout) += bias. */
void tt_add_bias(float *y, tt_layer layer, uint32_t rows)
{
    const float *bias = tt_bias(layer);

    for (uint32_t i = 0; i < rows; i++, y += layer.kept->cout)
        for (uint32_t c = 0; c < layer.kept->cout; c++)
            y[c] += bias[c];
}

/* y = min(max(y + bias, 0), 6). */
void tt_add_bias_relu6(float *y, tt_layer layer, uint32_t rows)
{
    const float *bias = tt_bias(layer);

    for (uint32_t i = 0; i < rows; i++, y += layer.kept->cout)
        for (uint32_t c = 0; c < layer.kept->cout; c++)
            y[c] = tt_relu6(y[c] + bias[c]);
}

/* y += bias + skip. */
void tt_add_bias_residual(float *y, tt_layer layer, const float *skip, uint32_t rows)
{
    const float *bias = tt_bias(layer);

    for (uint32_t i = 0; i < rows; i++, y += layer.kept->cout, skip += layer.kept->cout)
        for (uint32_t c = 0; c < layer.kept->cout; c++)
            y[c] += bias[c] + skip[c];
}

/* y (fan_in, count) = the named columns of the weights in flash: what training starts from. */
void tt_gather_weights(float *y, tt_layer layer, const int32_t *columns, uint32_t count)
{
    for (uint32_t i = 0; i < layer.kept->fan_in; i++)
        for (uint32_t k = 0; k < count; k++)
            y[i * count + k] = tt_weight(layer, i, (uint32_t)columns[k]);
}

/* y (fan_in, cout) = all weights in flash. */
void tt_copy_weights(float *y, tt_layer layer)
{
    for (uint32_t i = 0; i < layer.kept->fan_in; i++)
        for (uint32_t c = 0; c < layer.kept->cout; c++)
            *y++ = tt_weight(layer, i, c);
}

/* Bit k of byte i says whether 0 < y[k * bytes + i] < 6: only there ReLU6 lets a gradient pass. */
void tt_pack_mask(uint8_t *bits, const float *y, uint32_t n)
{
    uint32_t bytes = (n + 7u) / 8u;

    for (uint32_t i = 0; i < bytes; i++)
        bits[i] = 0;
    for (uint32_t k = 0; k < 8; k++)
        for (uint32_t i = 0; i < bytes && k * bytes + i < n; i++)
            if (y[k * bytes + i] > 0.0f && y[k * bytes + i] < 6.0f)
                bits[i] = (uint8_t)(bits[i] | 1u << k);
}

/* y (n,) = the mean of x (positions, n) over positions. */
void tt_pool(float *y, const float *x, uint32_t positions, uint32_t n)
{
    float inverse = 1.0f / (float)positions;

    tt_clear(y, n);
    for (uint32_t i = 0; i < positions; i++, x += n)
        tt_accumulate(y, x, n);
    for (uint32_t c = 0; c < n; c++)
        y[c] *= inverse;
}

/* total (n,) += half of the squared sum over rows of a * g, (rows, n) each; dots (n,) is overwritten. */
void tt_add_fisher(float *total, float *dots, const float *a, const float *g, uint32_t rows, uint32_t n)
{
    tt_clear(dots, n);
    for (uint32_t i = 0; i < rows; i++, a += n, g += n)
        for (uint32_t c = 0; c < n; c++)
            dots[c] = tt_fused(a[c], g[c], dots[c]);
    for (uint32_t c = 0; c < n; c++)
        total[c] = tt_fused(0.5f * dots[c], dots[c], total[c]);
}
