/* The interface, and the order of an adaptation. */
#include "internal.h"

#include <string.h>

tt_memory tt_arena;
tt_image tt_images[TT_SUPPORT];
uint32_t tt_step;
float tt_rates[TT_SLICES];
int32_t tt_channels[TT_CHOSEN];

/* Of the network as it was, and of the adapted one. */
static const tt_head before = {
    F(tt_arena.bytes, AT_HEAD_BEFORE_COSINE_WEIGHTS),
    F(tt_arena.bytes, AT_HEAD_BEFORE_COSINE_OFFSETS),
    F(tt_arena.bytes, AT_CLASS_SUMS), /* until training; behind it those of the clean images */
};
static const tt_head after = {
    F(tt_arena.bytes, AT_HEAD_RESULT_WEIGHTS),
    F(tt_arena.bytes, AT_HEAD_RESULT_OFFSETS),
    F(tt_arena.bytes, AT_HEAD_RESULT_MEANS),
};

static uint16_t given[TT_WAYS]; /* images of each class */
tt_facts tt_known;
static enum { NOTHING, AS_IT_WAS, ADAPTED } state;

void tt_init(void)
{
    tt_reset();
}

void tt_reset(void)
{
    memset(given, 0, sizeof given);
    tt_use_changes(0);
    state = NOTHING;
}

int tt_add_rows(uint32_t label, tt_rows rows, void *image)
{
    if (label >= TT_WAYS)
        return TT_BAD_LABEL;
    if (given[label] == TT_SHOTS)
        return TT_FULL;
    tt_images[label * TT_SHOTS + given[label]++] = (tt_image){rows, image, 0};
    return TT_OK;
}

static int row_in_memory(void *image, uint32_t row, uint8_t *pixels)
{
    memcpy(pixels, (const uint8_t *)image + row * TT_ROW_BYTES, TT_ROW_BYTES);
    return 0;
}

int tt_add_image(uint32_t label, const uint8_t *pixels)
{
    return tt_add_rows(label, row_in_memory, (void *)pixels);
}

static void tell(tt_progress progress, const char *stage, uint32_t done, uint32_t total, float loss)
{
    if (progress)
        progress(stage, done, total, loss);
}

/* All steps, up to the first loss that is no number, or the first row that does not come. */
static void train(tt_progress progress, tt_evidence *found)
{
    tt_train_stage_start();
    tt_use_changes(1);
#if TT_SINGLE_PASS || TT_SHOWN < TT_SUPPORT
    tt_train_stage_first_prototypes();
    if (tt_row_failed)
        return;
#endif
    found->last = 0.0;
    for (tt_step = 1; tt_step <= TT_STEPS; tt_step++) {
        float loss;
        for (uint32_t s = 0; s < TT_SLICES; s++)
            tt_rates[s] = tt_full_rates[s] * tt_rate_factors[tt_step - 1];
#if !TT_SINGLE_PASS
        tt_train_stage_loss();
        if (tt_row_failed)
            return;
#endif
        tt_train_stage_gradients();
        if (tt_row_failed)
            return;
#if TT_SINGLE_PASS
        loss = tt_mean_loss(F(tt_arena.bytes, AT_LATEST_LOSSES));
#else
        loss = tt_sum(F(tt_arena.bytes, AT_LOSS), TT_SHOWN, 1) / (float)TT_SHOWN;
#endif
        tt_trace("loss", &loss, sizeof loss);
        tt_train_stage_update();
        tell(progress, "training", tt_step, TT_STEPS, loss);
        found->finite = tt_is_finite(loss);
        if (!found->finite)
            return;
        if (tt_step == 1)
            found->first = (double)loss;
        if (tt_step > TT_STEPS - TT_LAST_STEPS)
            found->last += (double)loss;
    }
    found->last /= (double)TT_LAST_STEPS;
}

/* Choose channels and cache features. Returns TT_OK, or TT_NO_ROW: the rest would compute with what is not there. */
static int prepare(tt_progress progress)
{
#if TT_MEASURED
    tt_probe_stage_prototypes();
    if (tt_row_failed)
        return TT_NO_ROW;
    tell(progress, "scores", 1, 2, 0.0f);
    tt_probe_stage_fisher();
    if (tt_row_failed)
        return TT_NO_ROW;
    tell(progress, "scores", 2, 2, 0.0f);
#endif
    tt_choose_channels();
#if TT_SETS
    tt_train_stage_cache();
    if (tt_row_failed)
        return TT_NO_ROW;
#endif
    tell(progress, "features", 1, 1, 0.0f);
    return TT_OK;
}

/* Train, fit the head of the adapted network, and decide; what is known of the head that answers then. */
static int learn(tt_progress progress)
{
    tt_evidence found;
    tt_facts adapted = {{{0, 0}}};
    int result;

    tt_fit_cosine(&before, 0);
    if (tt_row_failed)
        return TT_NO_ROW;
    tt_trace("weights before", before.weights, 4u * TT_WAYS * TT_EMBEDDING);
    tell(progress, "head", 1, 2, 0.0f);
    if (!tt_head_is_finite(&before))
        return TT_NOT_FINITE;
    tt_known = tt_calibrate(&before, 0);
    found.before = tt_leave_one_out(before.means);
    found.label_fit = found.before.known ? tt_label_fit(found.before.known) : 0.0;
    train(progress, &found);
    if (tt_row_failed)
        return TT_NO_ROW;
    if (found.finite) {
        tt_fit_result(&after);
        if (tt_row_failed)
            return TT_NO_ROW;
        tt_trace("weights after", after.weights, 4u * TT_WAYS * TT_EMBEDDING);
        tt_trace("offsets after", after.offsets, 4u * TT_WAYS);
        adapted = tt_calibrate(&after, 1);
        tt_clean_means(before.means);
        found.after = tt_leave_one_out(before.means);
        tt_keep_result();
        found.finite = tt_delta_is_finite();
        tell(progress, "head", 2, 2, 0.0f);
    }
    result = tt_judge(&found);
    if (result == TT_OK)
        tt_known = adapted;
    return result;
}

int tt_adapt(tt_progress progress)
{
    int result;

    if (!tt_rounds_as_written())
        return TT_ARITHMETIC;
    for (uint32_t k = 0; k < TT_WAYS; k++)
        if (given[k] < TT_SHOTS)
            return TT_INCOMPLETE;
    tt_row_failed = 0;
    if (tt_measure_images(U8(tt_arena.bytes, AT_WORKSPACE_QUERIES_WORKER_0)) != TT_OK)
        return TT_NO_ROW; /* nothing has changed yet */
    tt_use_changes(0);
    state = NOTHING;
    result = prepare(progress);
    if (result == TT_OK)
        result = learn(progress);
    if (result != TT_OK)
        tt_use_changes(0);
    if (result >= TT_OK)
        state = result == TT_OK ? ADAPTED : AS_IT_WAS;
    return result;
}

int tt_has_learnt(void)
{
    return state == ADAPTED;
}

int tt_save(tt_write write, void *context)
{
    return state == ADAPTED ? tt_write_delta(write, context) : TT_NOT_READY;
}

int tt_load(tt_read read, void *context)
{
    int result;

    tt_reset();
    if (!tt_rounds_as_written())
        return TT_ARITHMETIC;
    result = tt_read_delta(read, context);
    if (result == TT_OK) {
        tt_use_changes(1);
        state = ADAPTED;
    }
    return result;
}

int tt_predict_rows(tt_rows rows, void *image, float *logits)
{
    tt_image asked;
    float own[TT_WAYS];
    const float *embedding;

    if (state == NOTHING)
        return TT_NOT_READY;
    asked = (tt_image){rows, image, 0};
    tt_row_failed = 0;
    embedding = tt_embed_image(&asked);
    if (tt_row_failed)
        return TT_NO_ROW;
    logits = logits ? logits : own;
    tt_logits(state == ADAPTED ? &after : &before, embedding, tt_length(embedding, TT_EMBEDDING), logits);
    return (int)tt_likeliest(logits);
}

int tt_predict(const uint8_t *pixels, float *logits)
{
    return tt_predict_rows(row_in_memory, (void *)pixels, logits);
}

int tt_verdict_of(const float *logits, tt_verdict *verdict)
{
    double values[TT_FACTS], confidence;

    if (state == NOTHING)
        return TT_NOT_READY;
    for (uint32_t k = 0; k < TT_FACTS; k++)
        values[k] = tt_value_of(tt_known.number[k]);
    confidence = tt_confidence(logits, values[TT_TEMPERATURE]);
    if (!(confidence > 0.0))
        return TT_NOT_FINITE;
    verdict->label = tt_likeliest(logits);
    verdict->confidence = (float)confidence;
    verdict->state = TT_IDENTIFIED;
    if (values[TT_SCALE] > 0.0 && !(tt_energy(logits, values[TT_SCALE]) >= values[TT_LEAST]))
        verdict->state = TT_UNKNOWN;
    else if (values[TT_SCALE] > 0.0 && confidence < TT_UNSURE)
        verdict->state = TT_UNCERTAIN;
    return TT_OK;
}
