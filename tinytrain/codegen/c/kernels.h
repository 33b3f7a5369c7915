/* Arithmetic of the library: outputs first, then inputs, then sizes. Layers are in a header for each precision.
 *
 * All arrays are rows of numbers without gaps. Every sum is added in the order that the loops show, which is
 * that of the Python kernels: the same bits come out. No kernel keeps state or takes
 * memory. */
#ifndef TT_KERNELS_H
#define TT_KERNELS_H

#include <float.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16 /* 16: only half floats are narrower */
#error "float must be computed as float: on a PC compile for SSE, not for x87"
#endif
#ifdef __FAST_MATH__
#error "compile without -ffast-math: it changes the order of sums"
#endif
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2)
#error "compile with -mcpu=...+nomve.fp: this vector unit takes subnormal numbers as 0"
#endif

/* Products and sums are fused where tt_fused says so, and nowhere else. The option -ffp-contract=off forbids it, and
 * these lines do where a build system gives a library no options of its own. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#ifdef __FMA__ /* -ffp-contract=fast passes over that line; nothing is fused without the instructions, up to end.h */
#pragma clang attribute push(__attribute__((target("no-fma"))), apply_to = function)
#endif
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#ifdef ARDUINO /* it compiles for size, with a third more instructions */
#pragma GCC optimize("O2")
#endif
#endif

/* The guard and tt_fused compute in double, with 64 bits. */
typedef char tt_double_has_64_bits[sizeof(1.0) == 8 ? 1 : -1];

/* A convolution's geometry. */
typedef struct {
    uint16_t height, width, channels; /* of the input */
    uint16_t out_height, out_width;
    uint8_t kernel, stride;
} tt_shape;

/* How an image is changed at random: see kernels_image.c; a recording or a clip: see motion.c and sound.c. */
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

/* a * b + c, rounded once: by an instruction where the processor has one for it. Without an operating system clang takes
 * one with -fno-math-errno only; otherwise it would call the C library. */
#if (defined(__FP_FAST_FMAF) || defined(__ARM_FEATURE_FMA) || defined(__riscv_f)) && \
    (!defined(__clang__) || (!defined(__FMA__) && (defined(__NO_MATH_ERRNO__) || defined(__linux__))))
#define TT_FUSES
static inline float tt_fused(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}
#else
float tt_fused(float a, float b, float c);
#endif

/* The whole part of x, limited to 0 to 255. */
static inline uint8_t tt_byte_of(float x)
{
    x = 0.0f > x ? 0.0f : x;
    return (uint8_t)(255.0f < x ? 255.0f : x);
}

/* Some rows of an image, from `first` on. */
typedef struct {
    int height, width, channels; /* of the image */
    int first, rows;
} tt_part_of;

/* A row of an image, which stays until two others were asked for. */
typedef const uint8_t *(*tt_row_of)(int row);

/* The pixel (row, column) of an image, turned by 180 degrees if it is to be `rotated`; NULL outside of it. */
static inline const uint8_t *tt_pixel_at(const uint8_t *image, tt_shape s, int row, int column, int rotated)
{
    if (row < 0 || row >= s.height || column < 0 || column >= s.width)
        return NULL;
    if (rotated) {
        row = s.height - 1 - row;
        column = s.width - 1 - column;
    }
    return image + (uint32_t)(row * s.width + column) * s.channels;
}

/* kernels_math.c */
int tt_rounds_as_written(void);
float tt_exp(float x);
float tt_log(float x);
float tt_log10(float x);
float tt_sqrt(float x);
float tt_tanh(float x);
float tt_infinity(void);
int tt_is_finite(float x);

/* reservoir.c */
void tt_reservoir_step(float *state, float *room, const float *values);

/* kernels_fft.c */
void tt_transform(float *re, float *im, uint32_t n, const float *cosines, const float *sines);

/* kernels_sums.c */
float tt_sum(const float *x, uint32_t n, uint32_t step);
double tt_dot(const float *x, const float *y, uint32_t n);

/* kernels_rows.c */
void tt_add_column_sums(float *total, const float *x, uint32_t rows, uint32_t n);
void tt_accumulate(float *total, const float *x, uint32_t n);
void tt_gather_columns(float *y, const float *x, const int32_t *columns, uint32_t rows, uint32_t n,
                       uint32_t count);
void tt_apply_mask(float *g, const uint8_t *bits, uint32_t n);
void tt_copy(float *y, const float *x, uint32_t n);
void tt_clear(float *y, uint32_t n);
void tt_transpose(float *y, const float *x, uint32_t rows, uint32_t n);
void tt_divide_rows(float *y, const float *x, const float *divisors, uint32_t rows, uint32_t n);
void tt_pool_grad(float *gx, const float *g, uint32_t positions, uint32_t n);

/* kernels_depthwise_grad.c */
void tt_depthwise_grad_some(float *gx, const float *g, const float *taps, uint32_t step, tt_shape shape, uint32_t n);

/* kernels_image.c, motion.c or sound.c */
void tt_augment(uint8_t *y, tt_row_of row, const tt_augmentation *how, int32_t total, tt_part_of part);

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
void tt_hardest(uint16_t *rows, float *residual, const float *loss, uint32_t queries, uint32_t keep,
                uint32_t ways);
void tt_most(int32_t *channels, const float *scores, uint32_t n, uint32_t count);
void tt_rows_of_labels(float *y, const float *x, const int32_t *labels, uint32_t rows, uint32_t n);

/* kernels_algebra.c */
int tt_cholesky(float *a, uint32_t n);
void tt_cholesky_solve(float *x, const float *factor, uint32_t rows, uint32_t n);
void tt_inverse_diagonal(float *diagonal, const float *factor, uint32_t n);

/* kernels_packed.c */
#define TT_GRID 1048576.0f
float tt_on_grid(float x);
void tt_add_products(int32_t *a, const float *x, uint32_t rows, uint32_t n);
void tt_add_rounded(int32_t *sums, const float *x, uint32_t n);
void tt_add_outer_packed(float *a, const float *x, float scale, uint32_t rows, uint32_t n);
int tt_cholesky_packed(float *a, uint32_t n);
void tt_cholesky_solve_packed(float *x, const float *factor, uint32_t rows, uint32_t n);
void tt_inverse_diagonal_packed(float *diagonal, const float *factor, uint32_t n);

/* kernels_optimizer.c */
void tt_sgd_step(float *g, const int32_t *starts, const float *rates, uint32_t slices);
void tt_momentum_step(float *g, uint16_t *m, const int32_t *starts, const float *rates, uint32_t slices, float beta);
void tt_adam_step(float *g, uint16_t *m, uint16_t *v, const int32_t *starts, const float *rates, uint32_t slices,
                  float beta1, float beta2, uint32_t step);
void tt_take_step(float *w, const float *steps, uint32_t n);

#endif
