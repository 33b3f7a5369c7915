/* Arithmetic of the library: outputs first, then inputs, then sizes.
 *
 * All arrays are rows of numbers without gaps. Every sum is added in the order that the loops show, which is
 * that of the Python kernels with TINYTRAIN_PORTABLE=1: the same bits come out. No kernel keeps state or takes
 * memory; the largest frame holds TT_BLOCK numbers and a few counters.
 *
 * Compile with -ffp-contract=off: a fused product and sum would round once instead of twice. */
#ifndef TT_KERNELS_H
#define TT_KERNELS_H

#include <float.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0
#error "float must be computed as float: on a PC compile for SSE, not for x87"
#endif

#define TT_BLOCK 64u /* numbers of a weight row that are widened at a time */

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

/* A convolution's geometry. */
typedef struct {
    uint16_t height, width, channels; /* of the input */
    uint16_t out_height, out_width;
    uint8_t kernel, stride;
} tt_shape;

/* How an image is changed at random: see kernels_image.c. */
typedef struct {
    float cosine, sine, brightness, saturation, contrast;
    int16_t down, right;
    uint8_t flip;
} tt_augmentation;

/* A float and its bits. */
static inline float tt_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t tt_bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* x between 0 and 6. */
static inline float tt_relu6(float x)
{
    x = 0.0f > x ? 0.0f : x;
    return 6.0f < x ? 6.0f : x;
}

/* kernels_math.c */
float tt_exp(float x);
float tt_log(float x);
float tt_sqrt(float x);
float tt_infinity(void);
int tt_is_finite(float x);

/* kernels_sums.c */
float tt_sum(const float *x, uint32_t n, uint32_t step);
double tt_dot(const float *x, const float *y, uint32_t n);

/* kernels_dense.c */
const float *tt_bias(tt_layer layer);
float tt_weight(tt_layer layer, uint32_t row, uint32_t column);
void tt_weight_row(float *out, tt_layer layer, uint32_t row, uint32_t first, uint32_t n);
void tt_multiply(float *y, const float *x, tt_layer layer, uint32_t rows);
void tt_multiply_back(float *gx, const float *g, tt_layer layer, uint32_t rows);
void tt_multiply_transposed(float *y, const float *x, const float *g, uint32_t rows, uint32_t columns,
                            uint32_t x_step, uint32_t n);
void tt_add_bias(float *y, tt_layer layer, uint32_t rows);
void tt_add_bias_relu6(float *y, tt_layer layer, uint32_t rows);
void tt_add_bias_residual(float *y, tt_layer layer, const float *skip, uint32_t rows);
void tt_add_column_sums(float *total, const float *x, uint32_t rows, uint32_t n);
void tt_accumulate(float *total, const float *x, uint32_t n);
void tt_gather_columns(float *y, const float *x, const int32_t *columns, uint32_t rows, uint32_t n,
                       uint32_t count);
void tt_gather_weights(float *y, tt_layer layer, const int32_t *columns, uint32_t count);
void tt_copy_weights(float *y, tt_layer layer);
void tt_pack_mask(uint8_t *bits, const float *y, uint32_t n);
void tt_apply_mask(float *g, const uint8_t *bits, uint32_t n);
void tt_copy(float *y, const float *x, uint32_t n);
void tt_clear(float *y, uint32_t n);
void tt_transpose(float *y, const float *x, uint32_t rows, uint32_t n);
void tt_divide_rows(float *y, const float *x, const float *divisors, uint32_t rows, uint32_t n);
void tt_pool(float *y, const float *x, uint32_t positions, uint32_t n);
void tt_pool_grad(float *gx, const float *g, uint32_t positions, uint32_t n);
void tt_add_fisher(float *total, float *dots, const float *a, const float *g, uint32_t rows, uint32_t n);

/* kernels_depthwise.c */
void tt_depthwise(float *y, const float *x, tt_layer layer, tt_shape shape, int top, int relu6);
void tt_depthwise_grad_input(float *gx, const float *g, tt_layer layer, tt_shape shape);

/* kernels_image.c */
void tt_unfold(float *y, const uint8_t *image, tt_shape shape, uint32_t first, uint32_t rows, int rotated,
               const float *mean, const float *scale);
void tt_augment(uint8_t *y, const uint8_t *x, const tt_augmentation *how, int height, int width,
                int channels);
void tt_quantize(uint8_t *codes, float *span, const float *x, uint32_t n);
void tt_dequantize(float *x, const uint8_t *codes, const float *span, uint32_t n);

/* kernels_head.c */
float tt_length(const float *x, uint32_t n);
void tt_normalize_rows(float *x, uint32_t rows, uint32_t n);
void tt_class_sums(float *sums, float *counts, const float *f, const int32_t *labels, uint32_t rows,
                   uint32_t n);
void tt_mix_prototypes(float *prototypes, float *sums, const float *counts, uint32_t ways, uint32_t n,
                       uint32_t shots);
void tt_prototype_loss(float *loss, float *residual, float *cosine, const float *f, const int32_t *labels,
                       const float *p, uint32_t rows, uint32_t ways, uint32_t n, float temperature);
void tt_prototype_loss_grad(float *gf, const float *residual, const float *cosine, const float *f,
                            const float *p, uint32_t rows, uint32_t ways, uint32_t n, float temperature);
int tt_cholesky(float *a, uint32_t n);
void tt_cholesky_solve(float *x, const float *factor, uint32_t rows, uint32_t n);
void tt_inverse_diagonal(float *diagonal, const float *factor, uint32_t n);
void tt_add_outer(float *a, const float *x, float scale, uint32_t rows, uint32_t n);
void tt_hardest(uint16_t *rows, float *residual, const float *loss, uint32_t queries, uint32_t keep,
                uint32_t ways);
void tt_most(int32_t *channels, const float *scores, uint32_t n, uint32_t count);
void tt_rows_of_labels(float *y, const float *x, const int32_t *labels, uint32_t rows, uint32_t n);

/* kernels_optimizer.c */
void tt_sgd(float *w, const float *g, const int32_t *starts, const float *rates, uint32_t slices);
void tt_momentum(float *w, const float *g, uint16_t *m, const int32_t *starts, const float *rates,
                 uint32_t slices, float beta);
void tt_adam(float *w, const float *g, uint16_t *m, uint16_t *v, const int32_t *starts, const float *rates,
             uint32_t slices, float beta1, float beta2, uint32_t step);

#endif
