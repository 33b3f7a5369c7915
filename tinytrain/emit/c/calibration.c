/* The temperature of a head, as in tinytrain/heads/calibration.py, from support images that are each left out of
 * their class in turn. The embeddings are those that fitting the head has left behind, of length 1. */
#include "internal.h"

#define NO_LEAD 1e-4 /* of the largest logit: a smaller lead is rounding */
#define ROUNDING 1e-4 /* so much more confidence than accuracy is none */
#define MEAN F(tt_arena.bytes, AT_CLASS_SUMS)

/* Add the probability of the likeliest class at every temperature. */
static void add_confidence(double *confidence, const float *logits)
{
    float top = logits[0];

    for (uint32_t k = 1; k < TT_WAYS; k++)
        top = logits[k] > top ? logits[k] : top;
    for (uint32_t t = 0; t < TT_TEMPERATURES; t++) {
        float total = 0.0f;
        for (uint32_t k = 0; k < TT_WAYS; k++)
            total += tt_exp(logits[k] / tt_temperatures[t] - top / tt_temperatures[t]);
        confidence[t] += (double)(1.0f / total);
    }
}

/* The logit of its own class for an embedding that is not in the mean of this class. */
static float logit_without(const tt_head *head, const float *e, int32_t label)
{
    const float scale = (float)TT_SHOTS / ((float)TT_SHOTS - 1.0f);
    float *mean = MEAN;

    for (uint32_t d = 0; d < TT_EMBEDDING; d++)
        mean[d] = head->means[(uint32_t)label * TT_EMBEDDING + d] * scale - e[d] * (scale - 1.0f);
    return tt_own_logit(mean, e, TT_SHOTS - 1u);
}

/* The least temperature at which the mean confidence in left-out images is not above their accuracy. */
static double modest(const double *confidence, uint32_t right)
{
    double most = (double)TT_SUPPORT / (double)TT_WAYS; /* that of guessing */

    most = (double)right > most ? (double)right : most;
    for (uint32_t t = 0; t < TT_TEMPERATURES; t++)
        if (confidence[t] <= (1.0 + ROUNDING) * most)
            return (double)tt_temperatures[t];
    return (double)tt_temperatures[TT_TEMPERATURES - 1u];
}

void tt_calibrate(const tt_head *head)
{
    double lead = 0.0, largest = 0.0, confidence[TT_TEMPERATURES] = {0.0}, found, least = 0.0;
    uint32_t right = 0;

    for (uint32_t p = 0; p < TT_SUPPORT; p++) {
        const float *e = TT_ROWS + p * TT_EMBEDDING;
        int32_t label = tt_label_of(tt_image_at(p));
        float logits[TT_WAYS];
        double others;
        uint32_t best = 0;
        for (uint32_t k = 0; k < TT_WAYS; k++) {
            double size;
            logits[k] = (float)tt_dot(head->weights + k * TT_EMBEDDING, e, TT_EMBEDDING) + head->offsets[k];
            size = logits[k] < 0.0f ? -(double)logits[k] : (double)logits[k];
            largest = size > largest ? size : largest;
        }
        others = (double)tt_sum(logits, TT_WAYS, 1) - (double)logits[label];
        lead += (double)logits[label] - others / (double)(TT_WAYS - 1u);
        if (TT_SHOTS < 2)
            continue;
        logits[label] = logit_without(head, e, label);
        for (uint32_t k = 1; k < TT_WAYS; k++)
            best = logits[k] > logits[best] ? k : best;
        right += (int32_t)best == label;
        add_confidence(confidence, logits);
    }
    lead /= (double)TT_SUPPORT;
    found = (double)tt_temperatures[TT_TEMPERATURES - 1u];
    if (lead > NO_LEAD * largest) { /* the classes can be told apart */
        found = tt_lead_fraction * lead;
        if (TT_SHOTS > 1)
            least = modest(confidence, right);
        found = least > found ? least : found;
    }
    tt_describe_head(found, (double)right / (double)TT_SUPPORT);
}
