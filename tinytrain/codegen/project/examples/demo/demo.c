#include "demo.h"

#include "cycles.h"
#include "examples.h"

static void progress(const char *stage, uint32_t done, uint32_t total, float loss)
{
    say(stage);
    say(" ");
    say_number(done);
    say("/");
    say_number(total);
    if (loss > 0.0f) {
        say(", loss ");
        say_decimals(loss, 1000u);
    }
    say("\n");
}

/* Storage that keeps a hash alone. */
static int hash(void *context, const void *bytes, uint32_t n)
{
    uint32_t *found = context;

    *found = hashed(*found, bytes, n);
    return 0;
}

static void say_learnt(void)
{
    uint32_t found = NOTHING_HASHED;

    if (tt_save(hash, &found) != TT_OK)
        return;
    say("learnt: ");
    say_hash(found);
}

/* What the network says of a query; 1 if it names the right class. */
static uint32_t say_answer(uint32_t query)
{
    static const char *const states[] = {"", ", uncertain", ", unknown"};
    float logits[TT_WAYS];
    tt_verdict found;

    if (tt_predict(tt_example_query[query], logits) < 0 || tt_verdict_of(logits, &found) != TT_OK)
        return 0;
    say(tt_example_names[tt_example_label[query]]);
    say(" -> ");
    say(tt_example_names[found.label]);
    say(", ");
    say_number((uint32_t)(found.confidence * 100.0f + 0.5f));
    say(" %");
    say(states[found.state]);
    say("\n");
    return found.label == tt_example_label[query];
}

/* Cycles of a prediction, for 'tinytrain simulate --calibrate'. A counter that stands still is none. */
static void say_cycles(void)
{
    float logits[TT_WAYS];
    uint32_t cycles;

    tt_start_cycles();
    cycles = tt_cycles();
    if (tt_predict(tt_example_support[0], logits) < 0)
        return;
    cycles = tt_cycles() - cycles;
    say("cycles: ");
    if (cycles == 0) {
        say("none, no counter of this processor counts: see cycles.h\n");
        return;
    }
    say_number(cycles);
    say(" for ");
    say_number(TT_MACS);
    say(TT_INT8 ? " MACs in int8, by " : " MACs in float32, by ");
#ifdef TT_EMULATED
    say(TT_COUNTER ", emulated\n");
#else
    say(TT_COUNTER "\n");
#endif
}

int demo(void)
{
    uint32_t right = 0;
    int result;

    tt_init();
    for (uint32_t i = 0; i < TT_SUPPORT; i++)
        if ((result = tt_add_image(i / TT_SHOTS, tt_example_support[i])) != TT_OK)
            return 10 - result;
    result = tt_adapt(progress);
    say(result == TT_OK ? "adapted\n" : result > 0 ? "refused: the network as it was answers\n" : "failed\n");
    if (result < 0)
        return 10 - result;
    say_learnt();
    for (uint32_t i = 0; i < tt_example_queries; i++)
        right += say_answer(i);
    say_number(right);
    say(" of ");
    say_number(tt_example_queries);
    say(" right\n");
    say_cycles();
    return 0;
}
