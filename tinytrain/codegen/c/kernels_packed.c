/* Linear algebra of a symmetric matrix whose lower triangle lies packed, row by row: half the bytes. Entry (i, j) is
 * number i * (i + 1) / 2 + j. */
#include "kernels.h"

static int64_t fixed(float x)
{
    return x >= -2.0f && x <= 2.0f ? (int64_t)(int32_t)(x * TT_GRID + (x >= 0.0f ? 0.5f : -0.5f)) : 0;
}

/* The nearest multiple of 1 / TT_GRID. */
float tt_on_grid(float x)
{
    return (float)fixed(x) / TT_GRID;
}

/* a (n * (n + 1) / 2,) += the products of the values of each row of x (rows, n), of at most 1. Values and products are
 * rounded to multiples of 1 / TT_GRID, and counted in these: the order of rows is free. */
void tt_add_products(int32_t *a, const float *x, uint32_t rows, uint32_t n)
{
    for (; rows; rows--, x += n) {
        int32_t *line = a;
        for (uint32_t i = 0; i < n; line += ++i) {
            int64_t factor = fixed(x[i]);
            for (uint32_t j = 0; j <= i; j++)
                line[j] += (int32_t)((factor * fixed(x[j]) + 524288) >> 20);
        }
    }
}

/* sums (n,) += x (n,), rounded likewise. */
void tt_add_rounded(int32_t *sums, const float *x, uint32_t n)
{
    for (uint32_t d = 0; d < n; d++)
        sums[d] += (int32_t)fixed(x[d]);
}

/* a (n * (n + 1) / 2,) += scale * the sum of row row^T over the rows of x (rows, n). */
void tt_add_outer_packed(float *a, const float *x, float scale, uint32_t rows, uint32_t n)
{
    for (; rows; rows--, x += n) {
        float *line = a;
        for (uint32_t i = 0; i < n; line += ++i) {
            float factor = scale * x[i];
            for (uint32_t j = 0; j <= i; j++)
                line[j] = tt_fused(factor, x[j], line[j]);
        }
    }
}

/* a (n * (n + 1) / 2,), positive definite, becomes its lower Cholesky factor. Returns 1 if a pivot is not positive. */
int tt_cholesky_packed(float *a, uint32_t n)
{
    float *line = a;

    for (uint32_t i = 0; i < n; line += ++i) {
        const float *other = a;
        for (uint32_t j = 0; j <= i; other += ++j) {
            float total = line[j];
            for (uint32_t k = 0; k < j; k++)
                total -= line[k] * other[k];
            if (j < i)
                line[j] = total / other[j];
            else if (total > 0.0f)
                line[i] = tt_sqrt(total);
            else
                return 1;
        }
    }
    return 0;
}

/* Each row of x (rows, n) becomes A^-1 row, with A = L L^T and L = `factor`, packed. */
void tt_cholesky_solve_packed(float *x, const float *factor, uint32_t rows, uint32_t n)
{
    for (; rows; rows--, x += n) {
        const float *line = factor;
        for (uint32_t i = 0; i < n; line += ++i) {
            float total = x[i];
            for (uint32_t k = 0; k < i; k++)
                total -= line[k] * x[k];
            x[i] = total / line[i];
        }
        for (uint32_t i = n; i-- > 0;) {
            line -= i + 1;
            x[i] /= line[i];
            for (uint32_t k = 0; k < i; k++)
                x[k] = tt_fused(-x[i], line[k], x[k]);
        }
    }
}

/* diagonal (n,) = that of A^-1. */
void tt_inverse_diagonal_packed(float *diagonal, const float *factor, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        /* Column i of L^-1, from row i on, lies in the part of the result that is still free. */
        const float *line = factor + (i + 1) * (i + 2) / 2;
        float total;
        diagonal[i] = 1.0f / factor[i * (i + 3) / 2];
        total = diagonal[i] * diagonal[i];
        for (uint32_t row = i + 1; row < n; line += ++row) {
            float value = 0.0f;
            for (uint32_t k = i; k < row; k++)
                value -= line[k] * diagonal[k];
            diagonal[row] = value / line[row];
            total += diagonal[row] * diagonal[row];
        }
        diagonal[i] = total;
    }
}
