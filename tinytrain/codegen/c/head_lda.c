/* The head of the adapted network: LDA with a covariance S that is shrunk towards a multiple of the identity.
 *
 * The sums are those of tinytrain/heads/lda.py, number by number. Of few embeddings there is a matrix of their
 * products, (n, n); of many their scatter, (d, d). */
#include "internal.h"

#define ROOM F(tt_arena.bytes, AT_CLASS_SUMS) /* for one embedding */
#define RIDGE 1e-7 /* added to the diagonal, for embeddings that do not vary */
#define LEAST_LEFT 0.02 /* of an image that its own deviation explains, when that is taken out of S */

#if TT_FEW
#define ROWS F(tt_arena.bytes, AT_HEAD_RESULT_DEVIATIONS) /* (TT_FITTED, TT_EMBEDDING) */
#define MATRIX F(tt_arena.bytes, AT_GRAM_4)               /* (TT_FITTED, TT_FITTED) */
#define SCALE ((1.0 - TT_SHRINKAGE) / TT_FITTED)

#define ALONG F(tt_arena.bytes, AT_LABELS_OF_ROWS_4)      /* room for (TT_FITTED,) */

static float ridge;
static double added;

static void keep(uint32_t batch)
{
    tt_copy(ROWS + batch * TT_SUPPORT * TT_EMBEDDING, TT_ROWS, TT_SUPPORT * TT_EMBEDDING);
}

/* Deviations from class means, and the factor of their products. */
static void measure(const tt_head *head)
{
    double trace = 0.0, wide;

    tt_class_means(head->means, 1, TT_FIRST_VIEW, keep);
    for (uint32_t i = 0; i < TT_FITTED; i++) {
        float *row = ROWS + i * TT_EMBEDDING;
        const float *mean = head->means + (uint32_t)tt_label_of(tt_image_at(i % TT_SUPPORT)) * TT_EMBEDDING;
        for (uint32_t d = 0; d < TT_EMBEDDING; d++)
            row[d] -= mean[d];
    }
    for (uint32_t i = 0; i < TT_FITTED; i++)
        trace += tt_dot(ROWS + i * TT_EMBEDDING, ROWS + i * TT_EMBEDDING, TT_EMBEDDING);
    wide = TT_SHRINKAGE * (trace / TT_FITTED) / TT_EMBEDDING + RIDGE;
    ridge = (float)wide;
    added = wide / SCALE;
    tt_clear(MATRIX, TT_FITTED * TT_FITTED);
    for (uint32_t d = 0; d < TT_EMBEDDING; d++)
        for (uint32_t i = 0; i < TT_FITTED; i++)
            for (uint32_t j = 0; j <= i; j++)
                MATRIX[i * TT_FITTED + j] =
                    ROWS[i * TT_EMBEDDING + d] * ROWS[j * TT_EMBEDDING + d] + MATRIX[i * TT_FITTED + j];
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
        x[d] /= ridge;
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
#define MATRIX F(tt_arena.bytes, AT_SCATTER_MATRIX_4) /* its lower triangle: packed, or in (TT_EMBEDDING, TT_EMBEDDING) */
#if TT_INT8
#define LINE(i) (MATRIX + (i) * ((i) + 1u) / 2u)
#define NUMBERS (TT_EMBEDDING * (TT_EMBEDDING + 1u) / 2u)
#define ADD_OUTER tt_add_outer_packed
#define CHOLESKY tt_cholesky_packed
#define CHOLESKY_SOLVE tt_cholesky_solve_packed
#define INVERSE_DIAGONAL tt_inverse_diagonal_packed
#else
#define LINE(i) (MATRIX + (i) * TT_EMBEDDING)
#define NUMBERS (TT_EMBEDDING * TT_EMBEDDING)
#define ADD_OUTER tt_add_outer
#define CHOLESKY tt_cholesky
#define CHOLESKY_SOLVE tt_cholesky_solve
#define INVERSE_DIAGONAL tt_inverse_diagonal
#endif

static void keep(uint32_t batch)
{
    if (batch == 0)
        tt_clear(MATRIX, NUMBERS);
    ADD_OUTER(MATRIX, TT_ROWS, 1.0f, TT_SUPPORT, TT_EMBEDDING);
}

/* The scatter around class means, shrunk, and its factor. */
static void measure(const tt_head *head)
{
    double ridge;

    tt_class_means(head->means, 1, TT_FIRST_VIEW, keep);
    for (uint32_t k = 0; k < TT_WAYS; k++)
        ADD_OUTER(MATRIX, head->means + k * TT_EMBEDDING, -TT_COUNTS[k], 1, TT_EMBEDDING);
    for (uint32_t i = 0; i < TT_EMBEDDING; i++)
        ROOM[i] = LINE(i)[i];
    ridge = TT_SHRINKAGE * (double)tt_sum(ROOM, TT_EMBEDDING, 1) / TT_FITTED / TT_EMBEDDING + RIDGE;
    for (uint32_t i = 0; i < NUMBERS; i++)
        MATRIX[i] *= (float)((1.0 - TT_SHRINKAGE) / TT_FITTED);
    for (uint32_t i = 0; i < TT_EMBEDDING; i++)
        LINE(i)[i] += (float)ridge;
    CHOLESKY(MATRIX, TT_EMBEDDING);
}

static void solve(float *x)
{
    CHOLESKY_SOLVE(x, MATRIX, 1, TT_EMBEDDING);
}

static double measured_excess(void)
{
    double trace = 0.0, ridge, found;

    for (uint32_t i = 0; i < TT_EMBEDDING; i++)
        trace += tt_dot(LINE(i), LINE(i), i + 1);
    INVERSE_DIAGONAL(ROOM, MATRIX, TT_EMBEDDING);
    ridge = TT_SHRINKAGE * (trace / TT_EMBEDDING - RIDGE) + RIDGE;
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

/* The factor as a delta keeps it, row by row. */
void tt_keep_result(void)
{
#if !TT_FEW
    float *packed = F(tt_arena.bytes, AT_HEAD_RESULT_FACTOR);

    for (uint32_t i = 0; i < TT_EMBEDDING; i++)
        for (uint32_t j = 0; j <= i; j++)
            *packed++ = LINE(i)[j];
#endif
}
