/* What a head says beside its logits: the temperature, as in tinytrain/heads/calibration.py, and the limit of energies,
 * as in tinytrain/heads/out_of_distribution.py, from support images that are each left out of their class in
 * turn. The embeddings are those that fitting the head has left behind, of length 1. */
#include "internal.h"

#define NO_LEAD 1e-4 /* of the largest logit: a smaller lead is rounding */
#define ROUNDING 1e-4 /* so much more confidence than accuracy is none */
#define MEAN (F(tt_arena.bytes, AT_PROTOTYPES) + TT_EMBEDDING) /* behind what tt_own_logit takes */
#define KEPT ((uint32_t)(TT_LOST * (TT_SUPPORT - 1u)) + 2u)
#define LOWEST ((double *)(void *)U8(tt_arena.bytes, AT_LEFT_OUT_BEFORE)) /* (KEPT,) rising, until the guard measures */

/* The sum of exp((logit - top) / scale) over all classes. */
static double sum_of_powers(const float *logits, float top, double scale)
{
    double total = 0.0;

    for (uint32_t k = 0; k < TT_WAYS; k++) {
        double x = ((double)logits[k] - (double)top) / scale;
        total += x < -104.0 ? 0.0 : (double)tt_exp((float)x);
    }
    return total;
}

double tt_confidence(const float *logits, double temperature)
{
    return 1.0 / sum_of_powers(logits, logits[tt_likeliest(logits)], temperature);
}

double tt_energy(const float *logits, double scale)
{
    float top = logits[tt_likeliest(logits)];

    return (double)top + scale * (double)tt_log((float)sum_of_powers(logits, top, scale));
}

/* Add the probability of the likeliest class at every temperature. */
static void add_confidence(double *confidence, const float *logits)
{
    float top = logits[tt_likeliest(logits)];

    for (uint32_t t = 0; t < TT_TEMPERATURES; t++) {
        float total = 0.0f;
        for (uint32_t k = 0; k < TT_WAYS; k++)
            total += tt_exp(logits[k] / tt_temperatures[t] - top / tt_temperatures[t]);
        confidence[t] += (double)(1.0f / total);
    }
}

/* The logit of its own class for an embedding that is not in the mean of this class. */
static float logit_without(const tt_head *head, int after, const float *e, int32_t label)
{
    const float scale = (float)TT_SHOTS / ((float)TT_SHOTS - 1.0f);
    float *mean = MEAN;

    for (uint32_t d = 0; d < TT_EMBEDDING; d++)
        mean[d] = head->means[(uint32_t)label * TT_EMBEDDING + d] * scale - e[d] * (scale - 1.0f);
    return after ? tt_own_logit(mean, e, TT_SHOTS - 1u) : tt_cosine_logit(mean, e);
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

/* Logits of an embedding; `largest` is that of any so far, without its sign. */
static void find_logits(const tt_head *head, const float *e, float *logits, double *largest)
{
    for (uint32_t k = 0; k < TT_WAYS; k++) {
        double size;
        logits[k] = (float)tt_dot(head->weights + k * TT_EMBEDDING, e, TT_EMBEDDING) + head->offsets[k];
        size = logits[k] < 0.0f ? -(double)logits[k] : (double)logits[k];
        *largest = size > *largest ? size : *largest;
    }
}

/* How far the logit of its own class is above the mean of the others. */
static double lead_of(const float *logits, double sum, uint32_t label)
{
    return (double)logits[label] - (sum - (double)logits[label]) / (double)(TT_WAYS - 1u);
}

/* The lead at class means, 0 if it is rounding; `typical` gets the mean energy there. */
static double lead_at_means(const tt_head *head, double *typical)
{
    double lead = 0.0, largest = 0.0;
    float logits[TT_WAYS];

    for (uint32_t k = 0; k < TT_WAYS; k++) {
        double sum = 0.0;
        find_logits(head, head->means + k * TT_EMBEDDING, logits, &largest);
        for (uint32_t j = 0; j < TT_WAYS; j++)
            sum += (double)logits[j];
        lead += lead_of(logits, sum, k) / (double)TT_WAYS;
    }
    if (!(lead > NO_LEAD * largest))
        return 0.0;
    for (uint32_t k = 0; k < TT_WAYS; k++) {
        find_logits(head, head->means + k * TT_EMBEDDING, logits, &largest);
        *typical += tt_energy(logits, TT_ENERGY_SCALE * lead) / (double)TT_WAYS;
    }
    return lead;
}

/* `energy` is one of the lowest, of which `count` are known, or none. */
static void keep_lowest(double energy, uint32_t count)
{
    uint32_t k = count < KEPT ? count : KEPT;

    for (; k > 0 && energy < LOWEST[k - 1u]; k--)
        if (k < KEPT)
            LOWEST[k] = LOWEST[k - 1u];
    if (k < KEPT)
        LOWEST[k] = energy;
}

/* The quantile TT_LOST of all energies. */
static double low_energy(void)
{
    double place = TT_LOST * (TT_SUPPORT - 1u);
    uint32_t k = (uint32_t)place;

    return LOWEST[k] + (place - (double)k) * (LOWEST[k + 1u] - LOWEST[k]);
}

tt_facts tt_calibrate(const tt_head *head, int after)
{
    double lead = 0.0, largest = 0.0, confidence[TT_TEMPERATURES] = {0.0}, least = 0.0, low = 0.0;
    double at_means = lead_at_means(head, &low), temperature = (double)tt_temperatures[TT_TEMPERATURES - 1u];
    uint32_t right = 0;
    tt_facts found = {{{0, 0}}};

    for (uint32_t p = 0; p < TT_SUPPORT; p++) {
        const float *e = TT_ROWS + p * TT_EMBEDDING;
        int32_t label = tt_label_of(tt_image_at(p));
        float logits[TT_WAYS];
        find_logits(head, e, logits, &largest);
        lead += lead_of(logits, (double)tt_sum(logits, TT_WAYS, 1), (uint32_t)label);
        if (TT_SHOTS < 2)
            continue;
        logits[label] = logit_without(head, after, e, label);
        right += (int32_t)tt_likeliest(logits) == label;
        add_confidence(confidence, logits);
        if (at_means > 0.0) {
            if (after)
                tt_as_unseen(head, logits, e, label);
            keep_lowest(tt_energy(logits, TT_ENERGY_SCALE * at_means), p);
        }
    }
    lead /= (double)TT_SUPPORT;
    if (lead > NO_LEAD * largest) { /* the classes can be told apart */
        temperature = tt_lead_fractions[after] * lead;
        if (TT_SHOTS > 1)
            least = modest(confidence, right);
        temperature = least > temperature ? least : temperature;
    }
    found.number[TT_TEMPERATURE] = tt_number_of(temperature);
    found.number[TT_ACCURACY] = tt_number_of((double)right / (double)TT_SUPPORT);
    if (at_means > 0.0) {
        low = (TT_SHOTS > 1 ? low_energy() : low) - tt_margins[after] * at_means;
        if (tt_is_finite((float)low)) {
            found.number[TT_SCALE] = tt_number_of(TT_ENERGY_SCALE * at_means);
            found.number[TT_LEAST] = tt_number_of(low);
        }
    }
    return found;
}
