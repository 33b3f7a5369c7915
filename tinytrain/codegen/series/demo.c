/* An example: learn the first three quarters of the series of examples.c, then foretell the rest of it. */
#include "demo.h"

#include "tinytrain.h"

extern const uint32_t tt_example_rows;
extern const float tt_example_row[][TT_AXES];

int demo(void)
{
    uint32_t fitted = tt_example_rows - tt_example_rows / 4, judged = 0, hash = NOTHING_HASHED;
    float next[TT_AXES], off = 0.0f, naive = 0.0f;
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
        hash = hashed(hash, next, sizeof next);
        wrong = later[TT_TARGET] - next[TT_TARGET];
        off += wrong * wrong;
        naive += still * still;
    }
    say("foretold: ");
    say_hash(hash);
    say_number(judged);
    say(" rows, error ");
    say_decimals(off / naive, 1000000u);
    say(" of that of the last value said again, both squared\n");
    return 0;
}
