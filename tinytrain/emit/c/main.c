/* An example: learn the images of examples.c, then recognise others. Needs nothing but a way to write text. */
#include "examples.h"
#include "say.h"

/* A number from 0 on, with three decimals. */
static void say_thousandths(float x)
{
    uint32_t n = x > 0.0f && x < 1e6f ? (uint32_t)(x * 1000.0f + 0.5f) : 0u;

    say_number(n / 1000u);
    say(n % 1000u < 10u ? ".00" : n % 1000u < 100u ? ".0" : ".");
    say_number(n % 1000u);
}

static void progress(const char *stage, uint32_t done, uint32_t total, float loss)
{
    say(stage);
    say(" ");
    say_number(done);
    say("/");
    say_number(total);
    if (loss > 0.0f) {
        say(", loss ");
        say_thousandths(loss);
    }
    say("\n");
}

int main(void)
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
    for (uint32_t i = 0; i < tt_example_queries; i++) {
        int label = tt_predict(tt_example_query[i], 0);
        say(tt_example_names[tt_example_label[i]]);
        say(" -> ");
        say(label < 0 ? "?" : tt_example_names[label]);
        say("\n");
        right += label == (int)tt_example_label[i];
    }
    say_number(right);
    say(" of ");
    say_number(tt_example_queries);
    say(" right\n");
    return 0;
}
