/* Cosine prototypes: a logit is the cosine of an embedding and the mean direction of a class. */
#include "internal.h"

#define ROWS F(tt_arena.bytes, AT_EMBEDDINGS_OF_SUPPORT)
#define COUNTS F(tt_arena.bytes, AT_CLASS_COUNTS)

static float *weights_of(int after)
{
    return after ? F(tt_arena.bytes, AT_HEAD_RESULT_WEIGHTS) : F(tt_arena.bytes, AT_HEAD_BEFORE_COSINE_WEIGHTS);
}

static float *means_of(int after)
{
    return after ? F(tt_arena.bytes, AT_HEAD_RESULT_MEANS) : F(tt_arena.bytes, AT_CLASS_SUMS);
}

/* Fit to the support images as the network is now. */
void tt_fit_head(int after)
{
    float *means = means_of(after), *weights = weights_of(after);

    tt_clear(means, TT_WAYS * TT_EMBEDDING);
    tt_clear(COUNTS, TT_WAYS);
    tt_embed(ROWS, 0, after);
    tt_trace(after ? "embeddings after" : "embeddings before", ROWS, 4u * TT_SUPPORT * TT_EMBEDDING);
    for (uint32_t p = 0; p < TT_SUPPORT; p++) {
        int32_t label = tt_label_of(tt_image_at(p));
        tt_normalize_rows(ROWS + p * TT_EMBEDDING, 1, TT_EMBEDDING);
        tt_class_sums(means, COUNTS, ROWS + p * TT_EMBEDDING, &label, 1, TT_EMBEDDING);
    }
    tt_divide_rows(means, means, COUNTS, TT_WAYS, TT_EMBEDDING);
    tt_copy(weights, means, TT_WAYS * TT_EMBEDDING);
    tt_normalize_rows(weights, TT_WAYS, TT_EMBEDDING);
    tt_trace(after ? "weights after" : "weights before", weights, 4u * TT_WAYS * TT_EMBEDDING);
}

int tt_head_is_finite(int after)
{
    const float *weights = weights_of(after);

    for (uint32_t i = 0; i < TT_WAYS * TT_EMBEDDING; i++)
        if (!tt_is_finite(weights[i]))
            return 0;
    return 1;
}

/* The class of an embedding, and the logits (TT_WAYS,) that say so. */
uint32_t tt_answer(const float *embedding, float *logits, int after)
{
    const float *weights = weights_of(after);
    float total = 0.0f, length;
    uint32_t best = 0;

    for (uint32_t d = 0; d < TT_EMBEDDING; d++)
        total += embedding[d] * embedding[d];
    length = tt_sqrt(total + 1e-12f);
    for (uint32_t k = 0; k < TT_WAYS; k++, weights += TT_EMBEDDING) {
        logits[k] = 0.0f;
        for (uint32_t d = 0; d < TT_EMBEDDING; d++)
            logits[k] += embedding[d] / length * weights[d];
        if (logits[k] > logits[best])
            best = k;
    }
    return best;
}
