/* Rows of numbers: sums, copies, masks and divisors. */
#include "kernels.h"

/* total (n,) += sum of the rows of x (rows, n), four at a time. */
void tt_add_column_sums(float *total, const float *x, uint32_t rows, uint32_t n)
{
    uint32_t i = 0;

    for (; i + 4 <= rows; i += 4, x += 4 * n)
        for (uint32_t c = 0; c < n; c++)
            total[c] += (x[c] + x[n + c]) + (x[2 * n + c] + x[3 * n + c]);
    for (; i < rows; i++, x += n)
        for (uint32_t c = 0; c < n; c++)
            total[c] += x[c];
}

void tt_accumulate(float *total, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        total[i] += x[i];
}

/* y (rows, count) = the named columns of x (rows, n). */
void tt_gather_columns(float *y, const float *x, const int32_t *columns, uint32_t rows, uint32_t n,
                       uint32_t count)
{
    for (uint32_t i = 0; i < rows; i++, y += count, x += n)
        for (uint32_t k = 0; k < count; k++)
            y[k] = x[columns[k]];
}

void tt_apply_mask(float *g, const uint8_t *bits, uint32_t n)
{
    uint32_t bytes = (n + 7u) / 8u;

    for (uint32_t k = 0; k < 8; k++)
        for (uint32_t i = 0; i < bytes && k * bytes + i < n; i++)
            if (!(bits[i] >> k & 1u))
                g[k * bytes + i] = 0.0f;
}

/* y = x in rising order; x may overlap y from above. */
void tt_copy(float *y, const float *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = x[i];
}

void tt_clear(float *y, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = 0.0f;
}

/* y (n, rows) = x (rows, n) transposed. */
void tt_transpose(float *y, const float *x, uint32_t rows, uint32_t n)
{
    for (uint32_t j = 0; j < n; j++)
        for (uint32_t i = 0; i < rows; i++)
            y[j * rows + i] = x[i * n + j];
}

/* y (rows, n) = x, each row divided by a number of its own. */
void tt_divide_rows(float *y, const float *x, const float *divisors, uint32_t rows, uint32_t n)
{
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t j = 0; j < n; j++)
            y[i * n + j] = x[i * n + j] / divisors[i];
}

/* gx (positions, n) = g (n,) / positions. */
void tt_pool_grad(float *gx, const float *g, uint32_t positions, uint32_t n)
{
    float inverse = 1.0f / (float)positions;

    for (uint32_t i = 0; i < positions; i++, gx += n)
        for (uint32_t c = 0; c < n; c++)
            gx[c] = g[c] * inverse;
}
