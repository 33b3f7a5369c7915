/* Gradients of the inputs of matrix products in int8: floats times the values of codes.
 *
 * Every sum adds output channels in rising order. Sixteen sums that do not depend on each other are made at a time, so
 * that a weight becomes a float once for four rows. */
#include "kernels_int8_arithmetic.h"

#define TILE 4u /* rows and columns */

/* Four neighbouring columns of a row. */
typedef struct {
    float a, b, c, d;
} four;

/* A product: gx (., width) from g (., channels), by the weights of `count` output channels from `from` on. Column 0 of
 * gx is input `first`, that of g output `from`. `more`: gx has the sums over the channels before. */
typedef struct {
    tt_layer layer;
    uint32_t width, channels, first, from, count;
    int more;
} product_of;

/* Output channels in rising order, and of the changed ones the next. */
typedef struct {
    const tt_change *change;
    uint32_t next, count;
} walk_of;

static walk_of begin(const product_of *p)
{
    walk_of walk = {p->layer.change, 0, p->layer.change ? p->layer.change->count : 0u};

    while (walk.next < walk.count && (uint32_t)walk.change->channels[walk.next] < p->from)
        walk.next++;
    return walk;
}

/* The weights of a channel that training changed, the next one, for four inputs from k on; w: those in flash. */
TT_APART static four changed(walk_of *walk, const int8_t *w, uint32_t k)
{
    const tt_change *change = walk->change;
    const int8_t *over = change->weights + walk->next++;
    uint32_t step = change->count;
    float values[TILE] = {(float)w[0], (float)w[1], (float)w[2], (float)w[3]};

    if (!change->inputs) {
        over += k * step;
        return (four){(float)over[0], (float)over[step], (float)over[2u * step], (float)over[3u * step]};
    }
    for (uint32_t r = 0; r < change->rows; r++)
        if ((uint32_t)change->inputs[r] - k < TILE)
            values[(uint32_t)change->inputs[r] - k] = (float)over[r * step];
    return (four){values[0], values[1], values[2], values[3]};
}

/* The weights of output channel j for four inputs from k on, as whole numbers. */
static inline four weights(const int8_t *w, walk_of *walk, uint32_t j, uint32_t k)
{
    if (walk->next < walk->count && (uint32_t)walk->change->channels[walk->next] == j)
        return changed(walk, w, k);
    return (four){(float)w[0], (float)w[1], (float)w[2], (float)w[3]};
}

static inline four plus(four sum, float factor, four w)
{
    sum.a = tt_fused(factor, w.a, sum.a);
    sum.b = tt_fused(factor, w.b, sum.b);
    sum.c = tt_fused(factor, w.c, sum.c);
    sum.d = tt_fused(factor, w.d, sum.d);
    return sum;
}

static inline four sums_before(const float *gx, int more)
{
    return more ? (four){gx[0], gx[1], gx[2], gx[3]} : (four){0.0f, 0.0f, 0.0f, 0.0f};
}

static inline void keep(float *gx, four sum)
{
    gx[0] = sum.a;
    gx[1] = sum.b;
    gx[2] = sum.c;
    gx[3] = sum.d;
}

/* Four columns of four rows, at gx and g; k is the input of the first. */
TT_APART static void four_rows(float *gx, const float *g, const product_of *p, uint32_t k)
{
    const tt_weights *kept = p->layer.kept;
    const float *scale = kept->scales + p->from, *third = g + 2u * p->channels;
    float *low = gx + 2u * p->width;
    four s0 = sums_before(gx, p->more), s1 = sums_before(gx + p->width, p->more);
    four s2 = sums_before(low, p->more), s3 = sums_before(low + p->width, p->more);
    const int8_t *codes = kept->codes + p->from * kept->fan_in + k;
    walk_of walk = begin(p);

    for (uint32_t j = 0; j < p->count; j++, codes += kept->fan_in) {
        four w = weights(codes, &walk, p->from + j, k);
        float own = scale[j];
        s0 = plus(s0, g[j] * own, w);
        s1 = plus(s1, g[p->channels + j] * own, w);
        s2 = plus(s2, third[j] * own, w);
        s3 = plus(s3, third[p->channels + j] * own, w);
    }
    keep(gx, s0);
    keep(gx + p->width, s1);
    keep(low, s2);
    keep(low + p->width, s3);
}

/* Four columns of one row. */
TT_APART static void one_row(float *gx, const float *g, const product_of *p, uint32_t k)
{
    const tt_weights *kept = p->layer.kept;
    const float *scale = kept->scales + p->from;
    const int8_t *codes = kept->codes + p->from * kept->fan_in + k;
    four sum = sums_before(gx, p->more);
    walk_of walk = begin(p);

    for (uint32_t j = 0; j < p->count; j++, codes += kept->fan_in)
        sum = plus(sum, g[j] * scale[j], weights(codes, &walk, p->from + j, k));
    keep(gx, sum);
}

/* One column of one row. */
static void one(float *gx, const float *g, const product_of *p, uint32_t k)
{
    float sum = p->more ? *gx : 0.0f;

    for (uint32_t j = 0; j < p->count; j++) {
        tt_channel w = tt_channel_of(p->layer, p->from + j);
        int8_t code = w.codes[k * w.step];
        for (uint32_t r = 0; r < w.rows; r++)
            if ((uint32_t)w.inputs[r] == k)
                code = w.over[r * w.over_step];
        sum = tt_fused(g[j] * p->layer.kept->scales[p->from + j], (float)code, sum);
    }
    *gx = sum;
}

static void multiply(float *gx, const float *g, const product_of *p, uint32_t rows)
{
    uint32_t c = 0, i;

    for (; c + TILE <= p->width; c += TILE) {
        for (i = 0; i + TILE <= rows; i += TILE)
            four_rows(gx + i * p->width + c, g + i * p->channels, p, p->first + c);
        for (; i < rows; i++)
            one_row(gx + i * p->width + c, g + i * p->channels, p, p->first + c);
    }
    for (; c < p->width; c++)
        for (i = 0; i < rows; i++)
            one(gx + i * p->width + c, g + i * p->channels, p, p->first + c);
}

/* gx (rows, fan_in) = g (rows, cout) times the values of the transposed weights. */
void tt_grad_input_codes(float *gx, const float *g, tt_layer layer, uint32_t rows)
{
    tt_grad_input_columns(gx, g, layer, rows, 0, layer.kept->fan_in);
}

/* gx (rows, n) = the same for n inputs from `first` on. */
void tt_grad_input_columns(float *gx, const float *g, tt_layer layer, uint32_t rows, uint32_t first, uint32_t n)
{
    uint32_t cout = layer.kept->cout;
    product_of p = {layer, n, cout, first, 0, cout, 0};

    multiply(gx, g, &p, rows);
}

/* gx (rows, fan_in) += g (rows, n) times the values of the weights of n outputs; the first ones start it at 0. */
void tt_grad_input_rows(float *gx, const float *g, tt_layer layer, uint32_t rows, uint32_t first, uint32_t n)
{
    product_of p = {layer, layer.kept->fan_in, n, 0, first, n, first > 0};

    multiply(gx, g, &p, rows);
}

/* gx (height, width, channels) += the gradients g (rows, out_width, kernel * kernel * channels) of the patches of output
 * rows from `first` on; the first row starts it at 0. */
void tt_add_patches(float *gx, const float *g, tt_shape s, uint32_t first, uint32_t rows)
{
    int pad = (s.kernel - 1) / 2;

    if (first == 0)
        tt_clear(gx, (uint32_t)s.height * s.width * s.channels);
    for (uint32_t i = 0; i < rows; i++)
        for (int j = 0; j < s.out_width; j++)
            for (int dy = 0; dy < s.kernel; dy++) {
                int r = (int)(first + i) * s.stride + dy - pad, q = j * s.stride - pad;
                for (int end = q + s.kernel; q < end; q++, g += s.channels)
                    if (r >= 0 && r < s.height && q >= 0 && q < s.width)
                        tt_accumulate(gx + (uint32_t)(r * s.width + q) * s.channels, g, s.channels);
            }
}
