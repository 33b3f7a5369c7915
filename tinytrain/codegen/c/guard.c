/* Whether an adaptation is kept: the tests of tinytrain/guard/guard.py, with the measures of
 * tinytrain/heads/leave_one_out.py. They see the images that were learnt, and nothing else. */
#include "internal.h"

#define COLUMN(k) (F(tt_arena.bytes, AT_LEFT_OUT_BEFORE) + (k) * TT_SUPPORT)
#define ALONG COLUMN(0)   /* by place: products with the centre of all images */
#define LENGTHS COLUMN(1) /* by place: distances from the centre */
#define PAIRS COLUMN(2)   /* by place: similarities to one image */
#define MARGINS COLUMN(3) /* by image: how much closer it is to its own class than to any other */
#define CHANCES COLUMN(4) /* by image: mean square of its similarities to the others */
#define CENTRED F(tt_arena.bytes, AT_PROTOTYPES)
#define ROOM(k) (F(tt_arena.bytes, AT_ROOM_OF_THE_GUARD) + (k) * TT_EMBEDDING)
#define CENTRE ROOM(0)
#define TINY 1e-6f

static float dot(const float *a, const float *b)
{
    return (float)tt_dot(a, b, TT_EMBEDDING);
}

static float at_least_tiny(float x)
{
    return tt_sqrt(x > TINY ? x : TINY);
}

static float cosine(const float *a, const float *b)
{
    return dot(a, b) / (at_least_tiny(dot(a, a)) * at_least_tiny(dot(b, b)));
}

/* The mean of all embeddings, and how class means lie around it. */
static void find_centre(const float *means)
{
    tt_clear(CENTRE, TT_EMBEDDING);
    for (uint32_t k = 0; k < TT_WAYS; k++)
        for (uint32_t d = 0; d < TT_EMBEDDING; d++)
            CENTRE[d] += means[k * TT_EMBEDDING + d] * (float)TT_SHOTS;
    for (uint32_t d = 0; d < TT_EMBEDDING; d++)
        CENTRE[d] /= (float)TT_SUPPORT;
    for (uint32_t k = 0; k < TT_WAYS; k++)
        for (uint32_t d = 0; d < TT_EMBEDDING; d++)
            CENTRED[k * TT_EMBEDDING + d] = means[k * TT_EMBEDDING + d] - CENTRE[d];
}

/* The similarity of the image at place p to the closest other class. */
static float similar_class(uint32_t p, int32_t label)
{
    const float *e = TT_ROWS + p * TT_EMBEDDING;
    float best = -tt_infinity();

    for (uint32_t k = 0; k < TT_WAYS; k++) {
        const float *mean = CENTRED + k * TT_EMBEDDING;
        float found;
        if ((int32_t)k == label)
            continue;
        found = (dot(mean, e) - dot(mean, CENTRE)) / (at_least_tiny(dot(mean, mean)) * LENGTHS[p]);
        best = found > best ? found : best;
    }
    return best;
}

/* The similarity of the image at place p to its class, of which it is taken out. */
static float similar_own(uint32_t p, const float *mean)
{
    const float *e = TT_ROWS + p * TT_EMBEDDING, count = (float)TT_SHOTS;
    float *own = ROOM(1), *others = ROOM(2);

    for (uint32_t d = 0; d < TT_EMBEDDING; d++) {
        own[d] = e[d] - CENTRE[d];
        others[d] = (mean[d] * count - e[d]) / (count - 1.0f) - CENTRE[d];
    }
    return cosine(own, others);
}

/* The mean square of the similarities of the image at place p to the others. */
static float chance_of(uint32_t p, float square)
{
    for (uint32_t k = 0; k < TT_SUPPORT; k++) {
        float found = dot(TT_ROWS + k * TT_EMBEDDING, TT_ROWS + p * TT_EMBEDDING);
        PAIRS[k] = (found - ALONG[k] - ALONG[p] + square) / (LENGTHS[k] * LENGTHS[p]);
    }
    return ((float)tt_dot(PAIRS, PAIRS, TT_SUPPORT) - PAIRS[p] * PAIRS[p]) / (float)(TT_SUPPORT - 1u);
}

tt_left_out tt_leave_one_out(const float *means)
{
    tt_left_out found = {0, 0};
    float square;

    find_centre(means);
    square = dot(CENTRE, CENTRE);
    for (uint32_t p = 0; p < TT_SUPPORT; p++) {
        ALONG[p] = dot(TT_ROWS + p * TT_EMBEDDING, CENTRE);
        LENGTHS[p] = at_least_tiny(1.0f - 2.0f * ALONG[p] + square);
    }
    for (uint32_t p = 0; p < TT_SUPPORT; p++) {
        uint32_t image = tt_image_at(p);
        int32_t label = tt_label_of(image);
        CHANCES[image] = chance_of(p, square);
        if (TT_SHOTS < 2)
            continue;
        MARGINS[image] = similar_own(p, means + (uint32_t)label * TT_EMBEDDING) - similar_class(p, label);
        found.known += MARGINS[image] == MARGINS[image];
        found.right += MARGINS[image] > 0.0f;
    }
    tt_trace("margins", MARGINS, TT_SHOTS < 2 ? 0 : 4u * TT_SUPPORT);
    tt_trace("chances", CHANCES, 4u * TT_SUPPORT);
    return found;
}

/* The margins that are known, in rising order: they become the first `known` ones. */
static void sort_margins(void)
{
    uint32_t known = 0;

    for (uint32_t i = 0; i < TT_SUPPORT; i++) {
        float margin = MARGINS[i];
        uint32_t k = known;
        if (margin != margin)
            continue;
        for (; k > 0 && MARGINS[k - 1] > margin; k--)
            MARGINS[k] = MARGINS[k - 1];
        MARGINS[k] = margin;
        known++;
    }
}

double tt_label_fit(uint32_t known)
{
    double exact = TT_WORST_FRACTION * (double)known, worst, chance = 0.001;
    uint32_t count = (uint32_t)exact;
    float median, mean = tt_sum(CHANCES, TT_SUPPORT, 1) / (float)TT_SUPPORT;

    if (mean > 1e-6f)
        chance = (double)tt_sqrt(mean);
    sort_margins();
    count += (double)count < exact;
    worst = (double)(tt_sum(MARGINS, count, 1) / (float)count);
    median = known % 2u ? MARGINS[known / 2u] : (MARGINS[known / 2u - 1u] + MARGINS[known / 2u]) / 2.0f;
    return (worst - TT_MEDIAN_FRACTION * (median > 0.0f ? (double)median : 0.0)) / chance;
}

/* Whether the loss rose by more than views differ: by a part of what lies between the first one and a guess's. */
static int has_risen(double first, double last)
{
    double allowed = TT_RISE_FRACTION * (TT_GUESS - first);

    return last > first + (allowed > TT_LEAST_RISE ? allowed : TT_LEAST_RISE);
}

int tt_judge(const tt_evidence *found)
{
    if (!found->finite)
        return TT_NO_NUMBER;
    if (has_risen(found->first, found->last))
        return TT_LOSS_ROSE;
    if (found->before.known == 0)
        return TT_OK;
    if (found->label_fit < TT_LEAST_FIT)
        return TT_LABELS;
    /* Fractions of those that are known; as many as guessing gives are too few. */
    if (found->after.right * found->before.known < found->before.right * found->after.known ||
        found->after.right * TT_WAYS <= found->after.known)
        return TT_LEFT_OUT;
    return TT_OK;
}
