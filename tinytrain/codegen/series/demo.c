/* An example: learn the first three quarters of the series of examples.c, then foretell the rest of it. */
#include "demo.h"

#include "tinytrain.h"

extern const uint32_t tt_example_rows;
extern const float tt_example_row[][TT_AXES];

/* A number from 0 on, with six decimals. */
static void say_millionths(float x)
{
    uint32_t n = x > 0.0f && x < 4000.0f ? (uint32_t)(x * 1e6f + 0.5f) : 0u;

    say_number(n / 1000000u);
    say(".");
    for (uint32_t unit = 100000u; unit; unit /= 10u)
        say_number(n / unit % 10u);
}

/* Every processor and every compiler must say the same: what is foretold has the same bits. */
static uint32_t hashed(uint32_t hash, const float *row)
{
    const uint8_t *byte = (const uint8_t *)row;

    for (uint32_t i = 0; i < sizeof *row * TT_AXES; i++)
        hash = (hash ^ byte[i]) * 16777619u;
    return hash;
}

int demo(void)
{
    uint32_t fitted = tt_example_rows - tt_example_rows / 4, judged = 0, hash = 2166136261u;
    float next[TT_AXES], off = 0.0f, naive = 0.0f;
    char digit[2] = {0, 0};
    int result;

    tt_series_start();
    for (uint32_t k = 0; k < fitted; k++)
        if ((result = tt_series_add(tt_example_row[k])) != TT_OK)
            return 10 - result;
    if ((result = tt_series_learn()) != TT_OK)
        return 10 - result;
    for (uint32_t k = fitted; k + TT_AHEAD < tt_example_rows; k++, judged++) {
        const float *later = tt_example_row[k + TT_AHEAD];
        float wrong, still = later[TT_TARGET] - tt_example_row[k][TT_TARGET];
        tt_series_add(tt_example_row[k]);
        tt_series_next(next);
        hash = hashed(hash, next);
        wrong = later[TT_TARGET] - next[TT_TARGET];
        off += wrong * wrong;
        naive += still * still;
    }
    say("foretold: ");
    for (int i = 28; i >= 0; i -= 4) {
        digit[0] = "0123456789abcdef"[hash >> i & 15u];
        say(digit);
    }
    say("\n");
    say_number(judged);
    say(" rows, error ");
    say_millionths(off / naive);
    say(" of that of the last value said again, both squared\n");
    return 0;
}
