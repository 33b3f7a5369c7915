/* Layers in int8: weights and values between layers are 8-bit codes, sums are int32, gradients are floats.
 *
 * A code q of a value stands for scale * (q - zero), with one scale and one zero for a layer. A code of a weight is
 * from -127 to 127, with a scale for every output channel. A sum becomes a code in integers alone, so that every
 * processor gives the same one. */
#ifndef TT_KERNELS_INT8_H
#define TT_KERNELS_INT8_H

#include "kernels.h"

/* One layer in flash. What only training reads is NULL in layers that stay as they are. */
typedef struct {
    const int8_t *codes;   /* (cout, fan_in), of depthwise layers (fan_in, cout) */
    const int32_t *start;  /* (cout,): a sum starts with its bias, and what the zero of the input adds up to */
    const int32_t *factor; /* (cout,) */
    const uint8_t *shift;  /* (cout,): the code of a sum is sum * factor / 2^shift + zero, rounded */
    const float *scales;   /* (cout,) of the weights */
    const float *bias;     /* (cout,) */
    const float *unit;     /* (cout,): what 1 in a sum stands for */
    const float *steps;    /* (cout,): codes in a change of a weight by 1; 0 of channels that stay */
    uint16_t fan_in, cout;
    int8_t given, zero; /* codes of 0 in the input and in the output */
    uint8_t depthwise;
} tt_weights;

/* What training changed of one layer, in RAM: `count` columns of its weights, in rising order, of them the weights
 * of `rows` inputs, in rising order, and its bias. */
typedef struct {
    const int8_t *weights;   /* (rows, count) */
    const int32_t *channels; /* (count,) */
    const float *bias;       /* (cout,), or NULL: as in flash */
    const int32_t *inputs;   /* (rows,), or NULL: all of them */
    uint16_t count, rows;
} tt_change;

/* A layer as it is now: what is in flash, and over it what training changed (NULL: nothing). */
typedef struct {
    const tt_weights *kept;
    const tt_change *change;
} tt_layer;

/* The weights of an output channel: codes[k * step] for input k, but over[r * over_step] for input inputs[r]. */
typedef struct {
    const int8_t *codes, *over;
    const int32_t *inputs; /* (rows,), in rising order */
    uint32_t step, over_step, rows;
} tt_channel;

/* How the codes of two values become that of their sum. */
typedef struct {
    int32_t x_factor, skip_factor, shift, x_zero, skip_zero, zero;
} tt_sum_of;

/* How sums of an output channel become codes: sum * factor / 2^shift + zero, the nearest, halves up. If `shift` is more
 * than 32, and it hardly ever is not, the upper half of the product decides: (half + bias) / 2^right + offset, where
 * the bias has a half of the last place, and what makes the sum positive. */
typedef struct {
    int32_t factor, offset;
    uint32_t bias;
    int8_t zero;
    uint8_t shift, right; /* right: shift - 32, or 0 */
} tt_scaling;

/* kernels_int8_channels.c */
tt_channel tt_channel_of(tt_layer layer, uint32_t channel);
int32_t tt_change_of(tt_channel w, uint32_t r);
int32_t tt_start_of(tt_layer layer, uint32_t channel, tt_channel w);
tt_scaling tt_scaling_of(const tt_weights *kept, uint32_t channel);
int32_t tt_large_code(int32_t sum, const tt_scaling *how); /* if `shift` is at most 32 */

/* kernels_int8_products.c */
void tt_product_codes(int8_t *y, const int8_t *x, tt_layer layer, uint32_t rows);
void tt_product_wide(int8_t *y, const int16_t *x, tt_layer layer, uint32_t rows);

/* kernels_int8_depthwise.c */
void tt_depthwise_codes(int8_t *y, const int8_t *x, tt_layer layer, tt_shape shape, int top);

/* kernels_int8_layers.c */
void tt_unfold_codes(int16_t *y, const uint8_t *image, tt_shape shape, uint32_t first, uint32_t rows, int rotated,
                     const int16_t *codes);
void tt_unfold_plane_codes(int8_t *y, const int8_t *x, tt_shape shape, uint32_t first, uint32_t rows, int top, int fill);
void tt_add_codes(int8_t *y, const int8_t *x, const int8_t *skip, uint32_t n, tt_sum_of how);
void tt_pool_codes(float *y, const int8_t *x, uint32_t positions, uint32_t n, float scale, int zero);
void tt_copy_codes(int8_t *y, const int8_t *x, uint32_t n);
void tt_gather_codes(int8_t *y, const int8_t *x, const int32_t *columns, uint32_t rows, uint32_t n, uint32_t count);

/* kernels_int8_gradients.c */
void tt_pack_inside(uint8_t *bits, const int8_t *y, uint32_t n);
void tt_grad_weight_codes(float *gw, const int8_t *x, const float *g, float scale, int zero, uint32_t rows,
                          uint32_t fan_in, uint32_t n);
void tt_depthwise_grad_weight_codes(float *gw, const int8_t *x, const float *g, float scale, int zero, tt_shape shape);
void tt_depthwise_grad_codes(float *gx, float *work, const float *g, tt_layer layer, tt_shape shape);
void tt_depthwise_grad_in_place(float *g, float *work, tt_layer layer, tt_shape shape);

/* kernels_int8_back.c */
void tt_grad_input_codes(float *gx, const float *g, tt_layer layer, uint32_t rows);
void tt_grad_input_columns(float *gx, const float *g, tt_layer layer, uint32_t rows, uint32_t first, uint32_t n);
void tt_grad_input_rows(float *gx, const float *g, tt_layer layer, uint32_t rows, uint32_t first, uint32_t n);
void tt_add_patches(float *gx, const float *g, tt_shape shape, uint32_t first, uint32_t rows);

/* kernels_int8_columns.c: of some channels from `first` on */
void tt_grad_weight_columns(float *gw, const int8_t *x, const float *g, float scale, int zero, uint32_t rows,
                            uint32_t fan_in, uint32_t n, uint32_t first, uint32_t columns);
void tt_mask_columns(float *g, const uint8_t *bits, uint32_t rows, uint32_t first, uint32_t n, uint32_t channels);
void tt_widen_columns(float *y, tt_layer layer, uint32_t first, uint32_t n);
void tt_gather_some(float *y, const float *x, const int32_t *columns, uint32_t rows, uint32_t count, uint32_t first,
                    uint32_t n);
void tt_add_fisher_columns(float *total, float *dots, const int8_t *a, const float *g, float scale, int zero,
                           uint32_t rows, uint32_t first, uint32_t n, uint32_t channels);

/* kernels_int8_updates.c */
int32_t tt_in_units(float value, float unit);
void tt_gather_weight_codes(int8_t *y, tt_layer layer, const int32_t *inputs, uint32_t rows, const int32_t *columns,
                            uint32_t count);
void tt_widen_codes(float *y, const int8_t *x, uint32_t n);
void tt_round_codes(int8_t *w, int8_t *rest, const float *steps, tt_layer layer, int scaled, uint32_t rows,
                    const int32_t *columns, uint32_t count, uint32_t drawn, int rule);
void tt_round_masters(int8_t *w, float *masters, const float *steps, tt_layer layer, int scaled, uint32_t rows,
                      const int32_t *columns, uint32_t count);

#endif
