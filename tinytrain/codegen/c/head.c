/* Heads: class means, cosine prototypes of the network as it was, and answers. head_*.c has the head that is
 * fitted to the adapted network. */
#include "internal.h"

#include <string.h>

static void add_rows(float *sums)
{
    for (uint32_t p = 0; p < TT_SUPPORT; p++) {
        int32_t label = tt_label_of(tt_image_at(p));
        tt_class_sums(sums, TT_COUNTS, TT_ROWS + p * TT_EMBEDDING, &label, 1, TT_EMBEDDING);
    }
}

/* Means (TT_WAYS, TT_EMBEDDING) of the embeddings of length 1 of each class, in views from `first` down or up to
 * 0, the images as they are, and how many they are. `keep` gets every batch of them. */
void tt_class_means(float *means, int after, int first, tt_keep keep)
{
    int turn = first > 0 ? -1 : 1;

    tt_clear(means, TT_WAYS * TT_EMBEDDING);
    tt_clear(TT_COUNTS, TT_WAYS);
    for (int view = first;; view += turn) {
        tt_embed((int16_t)view, after);
        if (view == 0)
            tt_trace(after ? "embeddings after" : "embeddings before", TT_ROWS, 4u * TT_SUPPORT * TT_EMBEDDING);
        tt_normalize_rows(TT_ROWS, TT_SUPPORT, TT_EMBEDDING);
        if (keep)
            keep((uint32_t)((view - first) * turn));
        add_rows(means);
        if (view == 0)
            break;
    }
    tt_divide_rows(means, means, TT_COUNTS, TT_WAYS, TT_EMBEDDING);
}

void tt_clean_means(float *means)
{
    tt_clear(means, TT_WAYS * TT_EMBEDDING);
    tt_clear(TT_COUNTS, TT_WAYS);
    add_rows(means);
    tt_divide_rows(means, means, TT_COUNTS, TT_WAYS, TT_EMBEDDING);
}

/* Cosine prototypes: the mean direction of every class. */
void tt_fit_cosine(const tt_head *head, int after)
{
    tt_class_means(head->means, after, 0, NULL);
    tt_copy(head->weights, head->means, TT_WAYS * TT_EMBEDDING);
    tt_normalize_rows(head->weights, TT_WAYS, TT_EMBEDDING);
    tt_clear(head->offsets, TT_WAYS);
}

float tt_cosine_logit(const float *mean, const float *e)
{
    return (float)tt_dot(mean, e, TT_EMBEDDING) / tt_sqrt((float)tt_dot(mean, mean, TT_EMBEDDING) + 1e-12f);
}

int tt_head_is_finite(const tt_head *head)
{
    for (uint32_t i = 0; i < TT_WAYS * TT_EMBEDDING; i++)
        if (!tt_is_finite(head->weights[i]))
            return 0;
    for (uint32_t k = 0; k < TT_WAYS; k++)
        if (!tt_is_finite(head->offsets[k]))
            return 0;
    return 1;
}

/* The class of the highest of logits (TT_WAYS,), of equal ones the first. */
uint32_t tt_likeliest(const float *logits)
{
    uint32_t best = 0;

    for (uint32_t k = 1; k < TT_WAYS; k++)
        best = logits[k] > logits[best] ? k : best;
    return best;
}

/* Logits (TT_WAYS,) of an embedding of this length. */
void tt_logits(const tt_head *head, const float *embedding, float length, float *logits)
{
    const float *weights = head->weights;

    for (uint32_t k = 0; k < TT_WAYS; k++, weights += TT_EMBEDDING) {
        logits[k] = 0.0f;
        for (uint32_t d = 0; d < TT_EMBEDDING; d++)
            logits[k] += embedding[d] / length * weights[d];
        logits[k] += head->offsets[k];
    }
}
