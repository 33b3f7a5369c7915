/* Embeddings: prototypes of classes, the loss and its gradients, and what chooses rows and channels. */
#include "kernels.h"

float tt_length(const float *x, uint32_t n)
{
    float total = 0.0f;

    for (uint32_t d = 0; d < n; d++)
        total += x[d] * x[d];
    return tt_sqrt(total + 1e-12f);
}

/* Every row of x (rows, n) gets length 1. */
void tt_normalize_rows(float *x, uint32_t rows, uint32_t n)
{
    for (uint32_t i = 0; i < rows; i++, x += n) {
        float inverse = 1.0f / tt_length(x, n);
        for (uint32_t d = 0; d < n; d++)
            x[d] *= inverse;
    }
}

/* sums (ways, n) += the rows of f (rows, n) of each class, counts (ways,) += their number. */
void tt_class_sums(float *sums, float *counts, const float *f, const int32_t *labels, uint32_t rows,
                   uint32_t n)
{
    for (uint32_t i = 0; i < rows; i++, f += n) {
        tt_accumulate(sums + (uint32_t)labels[i] * n, f, n);
        counts[labels[i]] += 1.0f;
    }
}

/* Embeddings of a step, of which there are counts (ways,) with sums (ways, n), replace the fraction of each prototype
 * (ways, n), of `shots` images, that the step has seen. The rest stays; sums are overwritten. */
void tt_mix_prototypes(float *prototypes, float *sums, const float *counts, uint32_t ways, uint32_t n,
                       uint32_t shots)
{
    for (uint32_t k = 0; k < ways; k++, prototypes += n, sums += n) {
        float rest = 1.0f - counts[k] / (float)shots;
        for (uint32_t d = 0; d < n; d++) {
            sums[d] /= (float)shots;
            prototypes[d] *= rest;
            prototypes[d] += sums[d];
        }
    }
}

/* Cross-entropy of temperature * cos(f_i, p_k): loss (rows,), cosine (rows, ways), and residual (rows, ways),
 * softmax minus one-hot; f (rows, n) are embeddings, p (ways, n) prototypes. */
void tt_prototype_loss(float *loss, float *residual, float *cosine, const float *f, const int32_t *labels,
                       const float *p, uint32_t rows, uint32_t ways, uint32_t n, float temperature)
{
    for (uint32_t k = 0; k < ways; k++) {
        float norm = tt_length(p + k * n, n);
        for (uint32_t i = 0; i < rows; i++) {
            float dot = 0.0f;
            for (uint32_t d = 0; d < n; d++)
                dot += f[i * n + d] * p[k * n + d];
            cosine[i * ways + k] = dot / norm;
        }
    }
    for (uint32_t i = 0; i < rows; i++, residual += ways, cosine += ways) {
        float norm = tt_length(f + i * n, n), top = -tt_infinity(), total = 0.0f;
        for (uint32_t k = 0; k < ways; k++) {
            float logit;
            cosine[k] /= norm;
            logit = temperature * cosine[k];
            top = logit > top ? logit : top;
        }
        for (uint32_t k = 0; k < ways; k++) {
            residual[k] = tt_exp(tt_fused(temperature, cosine[k], -top));
            total += residual[k];
        }
        for (uint32_t k = 0; k < ways; k++)
            residual[k] /= total;
        loss[i] = tt_fused(-temperature, cosine[labels[i]], tt_log(total) + top);
        residual[labels[i]] -= 1.0f;
    }
}

/* gf (rows, n) = gradient of the summed loss in the embeddings f, prototypes held constant. */
void tt_prototype_loss_grad(float *gf, const float *residual, const float *cosine, const float *f,
                            const float *p, uint32_t rows, uint32_t ways, uint32_t n, float temperature)
{
    for (uint32_t i = 0; i < rows; i++) {
        float norm = tt_length(f + i * n, n), along = 0.0f;
        for (uint32_t k = 0; k < ways; k++)
            along += residual[i * ways + k] * cosine[i * ways + k];
        for (uint32_t d = 0; d < n; d++)
            gf[i * n + d] = -along * f[i * n + d] / norm;
    }
    for (uint32_t k = 0; k < ways; k++) {
        float inverse = 1.0f / tt_length(p + k * n, n);
        for (uint32_t i = 0; i < rows; i++) {
            float r = residual[i * ways + k] * inverse;
            for (uint32_t d = 0; d < n; d++)
                gf[i * n + d] = tt_fused(r, p[k * n + d], gf[i * n + d]);
        }
    }
    for (uint32_t i = 0; i < rows; i++) {
        float scale = temperature / tt_length(f + i * n, n);
        for (uint32_t d = 0; d < n; d++)
            gf[i * n + d] *= scale;
    }
}

/* Whether place k comes before place i if high numbers come first: numbers before NaN, of equals the first. */
static int comes_before(const float *x, uint32_t k, uint32_t i)
{
    int known_k = x[k] == x[k], known_i = x[i] == x[i];

    if (known_k != known_i)
        return known_k;
    if (known_k && x[k] != x[i])
        return x[k] > x[i];
    return k < i;
}

/* Whether x[i] is among the `count` highest of x (n,). */
static int is_high(const float *x, uint32_t i, uint32_t n, uint32_t count)
{
    uint32_t before = 0;

    for (uint32_t k = 0; k < n; k++)
        before += (uint32_t)comes_before(x, k, i);
    return before < count;
}

/* rows (keep,) = the places of the highest losses, in rising order; the other rows of residual (queries, ways)
 * become 0. */
void tt_hardest(uint16_t *rows, float *residual, const float *loss, uint32_t queries, uint32_t keep,
                uint32_t ways)
{
    for (uint32_t i = 0; i < queries; i++)
        if (is_high(loss, i, queries, keep))
            *rows++ = (uint16_t)i;
        else
            tt_clear(residual + i * ways, ways);
}

/* channels (count,) = the places of the highest of scores (n,), in rising order. */
void tt_most(int32_t *channels, const float *scores, uint32_t n, uint32_t count)
{
    for (uint32_t i = 0; i < n; i++)
        if (is_high(scores, i, n, count))
            *channels++ = (int32_t)i;
}

/* Row i of y (rows, n) = row labels[i] of x. */
void tt_rows_of_labels(float *y, const float *x, const int32_t *labels, uint32_t rows, uint32_t n)
{
    for (uint32_t i = 0; i < rows; i++, y += n)
        tt_copy(y, x + (uint32_t)labels[i] * n, n);
}
