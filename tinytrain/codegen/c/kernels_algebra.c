/* Linear algebra of the LDA head: symmetric matrices by their lower triangles, in place. */
#include "kernels.h"

/* a (n, n), positive definite, becomes its lower Cholesky factor. Returns 1 if a pivot is not positive. */
int tt_cholesky(float *a, uint32_t n)
{
    for (uint32_t j = 0; j < n; j++) {
        float total = a[j * n + j];
        for (uint32_t k = 0; k < j; k++)
            total -= a[j * n + k] * a[j * n + k];
        if (!(total > 0.0f))
            return 1;
        a[j * n + j] = tt_sqrt(total);
        for (uint32_t i = j + 1; i < n; i++) {
            total = a[i * n + j];
            for (uint32_t k = 0; k < j; k++)
                total -= a[i * n + k] * a[j * n + k];
            a[i * n + j] = total / a[j * n + j];
        }
    }
    return 0;
}

/* Each row of x (rows, n) becomes A^-1 row, with A = L L^T and L = `factor` (n, n). */
void tt_cholesky_solve(float *x, const float *factor, uint32_t rows, uint32_t n)
{
    for (; rows; rows--, x += n) {
        for (uint32_t i = 0; i < n; i++) {
            float total = x[i];
            for (uint32_t k = 0; k < i; k++)
                total -= factor[i * n + k] * x[k];
            x[i] = total / factor[i * n + i];
        }
        for (uint32_t i = n; i-- > 0;) {
            float total = x[i];
            for (uint32_t k = i + 1; k < n; k++)
                total -= factor[k * n + i] * x[k];
            x[i] = total / factor[i * n + i];
        }
    }
}

/* diagonal (n,) = that of A^-1. */
void tt_inverse_diagonal(float *diagonal, const float *factor, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        /* Column i of L^-1, from row i on, lies in the part of the result that is still free. */
        float total;
        diagonal[i] = 1.0f / factor[i * n + i];
        total = diagonal[i] * diagonal[i];
        for (uint32_t row = i + 1; row < n; row++) {
            float value = 0.0f;
            for (uint32_t k = i; k < row; k++)
                value -= factor[row * n + k] * diagonal[k];
            diagonal[row] = value / factor[row * n + row];
            total += diagonal[row] * diagonal[row];
        }
        diagonal[i] = total;
    }
}
