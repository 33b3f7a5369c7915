/* The head of the adapted network: LDA with a covariance S that is shrunk towards a multiple of the identity.
 *
 * The sums are those of tinytrain/heads/lda.py, number by number. Of few embeddings there is a matrix of their
 * products, (n, n); of many sums of products, from which their scatter follows. */
#include "internal.h"

#include <string.h>

#define ROOM F(tt_arena.bytes, AT_CLASS_SUMS) /* for one embedding */
#define RIDGE 1e-7 /* added to the diagonal, for embeddings that do not vary */
#define LEAST_LEFT 0.02 /* of an image that its own deviation explains, when that is taken out of S */
#define MEANS F(tt_arena.bytes, AT_HEAD_RESULT_MEANS)

static double ridge; /* on the diagonal of S */

/* What is on the diagonal of S if the covariance has this trace. */
static double ridge_of(double trace)
{
    double found = TT_SHRINKAGE * trace / TT_EMBEDDING;

    return (found > TT_LEAST_RIDGE ? found : TT_LEAST_RIDGE) + RIDGE;
}

#if TT_FEW
#define ROWS F(tt_arena.bytes, AT_HEAD_RESULT_EMBEDDINGS) /* (TT_FITTED, TT_EMBEDDING) */
#define MATRIX F(tt_arena.bytes, AT_GRAM_4)              /* (TT_FITTED, TT_FITTED) */
#define SCALE ((1.0 - TT_SHRINKAGE) / TT_FITTED)

#define ALONG F(tt_arena.bytes, AT_HEAD_RESULT_LABELS) /* room for (TT_FITTED,), until the labels are written */
#define MEAN_OF(i) (MEANS + (uint32_t)label_of(i) * TT_EMBEDDING)

static double added;

static int32_t label_of(uint32_t row)
{
    return tt_label_of(tt_image_at(row % TT_SUPPORT));
}

static void keep(uint32_t batch)
{
    float *rows = ROWS + batch * TT_SUPPORT * TT_EMBEDDING;

    for (uint32_t i = 0; i < TT_SUPPORT * TT_EMBEDDING; i++)
        rows[i] = tt_on_grid(TT_ROWS[i]);
}

/* Deviations from class means, and the factor of their products. */
static void measure(const tt_head *head)
{
    double trace = 0.0;

    tt_class_means(head->means, 1, TT_FIRST_VIEW, keep);
    for (uint32_t i = 0; i < TT_FITTED; i++)
        for (uint32_t d = 0; d < TT_EMBEDDING; d++)
            ROWS[i * TT_EMBEDDING + d] -= MEAN_OF(i)[d];
    for (uint32_t i = 0; i < TT_FITTED; i++)
        trace += tt_dot(ROWS + i * TT_EMBEDDING, ROWS + i * TT_EMBEDDING, TT_EMBEDDING);
    ridge = ridge_of(trace / TT_FITTED);
    added = ridge / SCALE;
    tt_clear(MATRIX, TT_FITTED * TT_FITTED);
    for (uint32_t d = 0; d < TT_EMBEDDING; d++)
        for (uint32_t i = 0; i < TT_FITTED; i++)
            for (uint32_t j = 0; j <= i; j++)
                MATRIX[i * TT_FITTED + j] =
                    tt_fused(ROWS[i * TT_EMBEDDING + d], ROWS[j * TT_EMBEDDING + d], MATRIX[i * TT_FITTED + j]);
    for (uint32_t i = 0; i < TT_FITTED; i++)
        MATRIX[i * TT_FITTED + i] += (float)added;
    tt_cholesky(MATRIX, TT_FITTED);
}

/* x (TT_EMBEDDING,) = S^-1 x, by the identity of Woodbury. */
static void solve(float *x)
{
    float *along = ALONG;

    for (uint32_t i = 0; i < TT_FITTED; i++)
        along[i] = (float)tt_dot(ROWS + i * TT_EMBEDDING, x, TT_EMBEDDING);
    tt_cholesky_solve(along, MATRIX, 1, TT_FITTED);
    for (uint32_t i = 0; i < TT_FITTED; i++)
        for (uint32_t d = 0; d < TT_EMBEDDING; d++)
            x[d] -= along[i] * ROWS[i * TT_EMBEDDING + d];
    for (uint32_t d = 0; d < TT_EMBEDDING; d++)
        x[d] /= (float)ridge;
}

/* trace(S^-1 C) with the covariance C of the rows. */
static double measured_excess(void)
{
    double degrees;

    tt_inverse_diagonal(ALONG, MATRIX, TT_FITTED);
    degrees = TT_FITTED - added * (double)tt_sum(ALONG, TT_FITTED, 1);
    return (degrees > 0.0 ? degrees : 0.0) / (SCALE * TT_FITTED);
}
#else
#define MATRIX F(tt_arena.bytes, AT_SCATTER_MATRIX_4) /* its packed lower triangle */
#define SUMS I32(tt_arena.bytes, AT_HEAD_RESULT_SUMS) /* (TT_WAYS, TT_EMBEDDING), and of products as MATRIX */
#define PRODUCTS I32(tt_arena.bytes, AT_HEAD_RESULT_PRODUCTS)
#define NUMBERS (TT_EMBEDDING * (TT_EMBEDDING + 1u) / 2u)

static void keep(uint32_t batch)
{
    if (batch == 0) {
        memset(PRODUCTS, 0, NUMBERS * sizeof *PRODUCTS);
        memset(SUMS, 0, TT_WAYS * TT_EMBEDDING * sizeof *SUMS);
    }
    tt_add_products(PRODUCTS, TT_ROWS, TT_SUPPORT, TT_EMBEDDING);
    for (uint32_t p = 0; p < TT_SUPPORT; p++)
        tt_add_rounded(SUMS + (uint32_t)tt_label_of(tt_image_at(p)) * TT_EMBEDDING, TT_ROWS + p * TT_EMBEDDING,
                       TT_EMBEDDING);
}

/* The scatter around class means, shrunk, and its factor. A mean that is no number stays so. */
static void measure(const tt_head *head)
{
    tt_class_means(head->means, 1, TT_FIRST_VIEW, keep);
    for (uint32_t i = 0; i < TT_WAYS * TT_EMBEDDING; i++) {
        head->means[i] -= head->means[i];
        head->means[i] += (float)SUMS[i] / (TT_COUNTS[i / TT_EMBEDDING] * TT_GRID);
    }
    for (uint32_t i = 0; i < NUMBERS; i++)
        MATRIX[i] = (float)PRODUCTS[i] * (1.0f / TT_GRID);
    for (uint32_t k = 0; k < TT_WAYS; k++)
        tt_add_outer_packed(MATRIX, head->means + k * TT_EMBEDDING, -TT_COUNTS[k], 1, TT_EMBEDDING);
    for (uint32_t i = 0; i < TT_EMBEDDING; i++)
        ROOM[i] = MATRIX[i * (i + 3) / 2];
    ridge = ridge_of((double)tt_sum(ROOM, TT_EMBEDDING, 1) / TT_FITTED);
    for (uint32_t i = 0; i < NUMBERS; i++)
        MATRIX[i] *= (float)((1.0 - TT_SHRINKAGE) / TT_FITTED);
    for (uint32_t i = 0; i < TT_EMBEDDING; i++)
        MATRIX[i * (i + 3) / 2] += (float)ridge;
    tt_cholesky_packed(MATRIX, TT_EMBEDDING);
}

static void solve(float *x)
{
    tt_cholesky_solve_packed(x, MATRIX, 1, TT_EMBEDDING);
}

static double measured_excess(void)
{
    double found;

    tt_inverse_diagonal_packed(ROOM, MATRIX, TT_EMBEDDING);
    found = (TT_EMBEDDING - ridge * (double)tt_sum(ROOM, TT_EMBEDDING, 1)) / (1.0 - TT_SHRINKAGE);
    return found > 0.0 ? found : 0.0;
}
#endif

static double excess; /* of the head that was fitted */

/* The offset of a class with this mean of so many images, whose weights are S^-1 mean. */
static float offset_of(const float *weights, const float *mean, uint32_t images)
{
    float *products = ROOM;

    for (uint32_t d = 0; d < TT_EMBEDDING; d++)
        products[d] = weights[d] * mean[d];
    return -0.5f * (tt_sum(products, TT_EMBEDDING, 1) - (float)excess / (float)images);
}

void tt_fit_result(const tt_head *head)
{
    measure(head);
    tt_copy(head->weights, head->means, TT_WAYS * TT_EMBEDDING);
    for (uint32_t k = 0; k < TT_WAYS; k++)
        solve(head->weights + k * TT_EMBEDDING);
    excess = measured_excess();
    for (uint32_t k = 0; k < TT_WAYS; k++)
        head->offsets[k] = offset_of(head->weights + k * TT_EMBEDDING, head->means + k * TT_EMBEDDING, TT_SHOTS);
}

float tt_own_logit(const float *mean, const float *e, uint32_t images)
{
    float *weights = F(tt_arena.bytes, AT_PROTOTYPES);

    tt_copy(weights, mean, TT_EMBEDDING);
    solve(weights);
    return (float)tt_dot(weights, e, TT_EMBEDDING) + offset_of(weights, mean, images);
}

/* Without share * x x^T, where x is the deviation of the image, the inverse of S is S^-1 + gain * u u^T, with
 * u = S^-1 x. */
void tt_as_unseen(const tt_head *head, float *logits, const float *e, int32_t label)
{
    const double share = TT_SHOTS / (TT_SHOTS - 1.0) / (TT_FITTED / (1.0 - TT_SHRINKAGE));
    float *deviation = ROOM, *solved = F(tt_arena.bytes, AT_PROTOTYPES);
    double squared, left;
    float gain, along_e;

    for (uint32_t d = 0; d < TT_EMBEDDING; d++)
        deviation[d] = e[d] - head->means[(uint32_t)label * TT_EMBEDDING + d];
    tt_copy(solved, deviation, TT_EMBEDDING);
    solve(solved);
    squared = (double)(float)tt_dot(solved, deviation, TT_EMBEDDING);
    left = 1.0 - share * squared;
    gain = (float)(share / (left > LEAST_LEFT ? left : LEAST_LEFT));
    along_e = (float)tt_dot(solved, e, TT_EMBEDDING);
    for (uint32_t k = 0; k < TT_WAYS; k++) {
        float along = (float)tt_dot(solved, head->means + k * TT_EMBEDDING, TT_EMBEDDING);
        along -= (int32_t)k == label ? (float)(squared / (TT_SHOTS - 1.0)) : 0.0f;
        logits[k] += gain * (along_e * along - along * along / 2.0f);
    }
}

/* Of few embeddings a delta has these themselves, to the last bit as they were rounded. */
void tt_keep_result(void)
{
#if TT_FEW
    for (uint32_t i = 0; i < TT_FITTED; i++) {
        float *row = ROWS + i * TT_EMBEDDING;
        for (uint32_t d = 0; d < TT_EMBEDDING; d++)
            row[d] = tt_on_grid(row[d] + MEAN_OF(i)[d]);
        I32(tt_arena.bytes, AT_HEAD_RESULT_LABELS)[i] = label_of(i);
    }
#endif
}
