/* Layers in float32: weights are 8-bit codes or floats in flash, values between layers are floats. */
#ifndef TT_KERNELS_FLOAT32_H
#define TT_KERNELS_FLOAT32_H

#include "kernels.h"

#define TT_BLOCK 64u /* numbers of a weight row that are widened at a time: the largest frame holds four such rows */

/* Weights of one layer in flash: (fan_in, cout) 8-bit codes with a scale per column, or float values. */
typedef struct {
    const int8_t *codes;
    const float *scales;
    const float *values; /* in place of codes */
    const float *bias;   /* (cout,) */
    uint16_t fan_in, cout;
} tt_weights;

/* What training changed of one layer, in RAM: `count` columns of its weights, in rising order, and its bias. */
typedef struct {
    const float *weights;    /* (fan_in, count) */
    const int32_t *channels; /* (count,) */
    const float *bias;       /* (cout,), or NULL: as in flash */
    uint16_t count;
} tt_change;

/* A layer as it is now: what is in flash, and over it what training changed (NULL: nothing). */
typedef struct {
    const tt_weights *kept;
    const tt_change *change;
} tt_layer;

/* What filters read of a plane: a matrix with a row for each of `down` rows of `across` filters, and in it `terms`
 * neighbouring numbers of each of `lines` rows of the plane. Steps are from one of them to the next. */
typedef struct {
    uint32_t down, across, lines, terms, down_step, across_step, line_step;
} tt_windows;

/* x between 0 and 6. */
static inline float tt_relu6(float x)
{
    x = 0.0f > x ? 0.0f : x;
    return 6.0f < x ? 6.0f : x;
}

/* kernels_dense.c */
const float *tt_bias(tt_layer layer);
float tt_weight(tt_layer layer, uint32_t row, uint32_t column);
void tt_weight_row(float *out, tt_layer layer, uint32_t row, uint32_t first, uint32_t n);
void tt_multiply(float *y, const float *x, tt_layer layer, uint32_t rows);
void tt_multiply_windows(float *y, const float *x, tt_layer layer, tt_windows windows);
void tt_multiply_back(float *gx, const float *g, tt_layer layer, uint32_t rows);
void tt_add_transposed(float *y, const float *x, const float *g, uint32_t rows, uint32_t columns, uint32_t n);
void tt_add_bias(float *y, tt_layer layer, uint32_t rows);
void tt_add_bias_relu6(float *y, tt_layer layer, uint32_t rows);
void tt_add_bias_residual(float *y, tt_layer layer, const float *skip, uint32_t rows);
void tt_gather_weights(float *y, tt_layer layer, const int32_t *columns, uint32_t count);
void tt_copy_weights(float *y, tt_layer layer);
void tt_pack_mask(uint8_t *bits, const float *y, uint32_t n);
void tt_pool(float *y, const float *x, uint32_t positions, uint32_t n);
void tt_add_fisher(float *total, float *dots, const float *a, const float *g, uint32_t rows, uint32_t n);

/* kernels_depthwise.c */
void tt_depthwise(float *y, const float *x, tt_layer layer, tt_shape shape, int top, int relu6);
void tt_depthwise_grad_input(float *gx, const float *g, tt_layer layer, tt_shape shape);

/* kernels_features.c */
void tt_enter_rows(float *y, const uint8_t *image, tt_shape shape, int first, int side, int rotated, const float *mean,
                   const float *scale);
void tt_enter(float *y, const float *x, uint32_t n, const float *mean, const float *scale);
void tt_quantize(uint8_t *codes, float *span, const float *x, uint32_t n);
void tt_dequantize(float *x, const uint8_t *codes, const float *span, uint32_t n);

#endif
