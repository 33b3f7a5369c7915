/* Features of a recording, or codes of a clip, that whole numbers give: a hash of them, for a board. */
#include "demo.h"
#include "internal.h"

#define VALUES 3000

/* Numbers from -32768 to 32767, the same everywhere. */
static int16_t drawn(uint32_t k)
{
    uint32_t x = k * 2654435761u;
    x ^= x >> 15;
    return (int16_t)((x * 2246822519u) >> 16);
}

int demo(void)
{
#if TT_MOTION
    static float values[VALUES], found[TT_CHANNELS];
    for (uint32_t k = 0; k < VALUES; k++)
        values[k] = (float)drawn(k);
    if (tt_motion(found, values, VALUES / TT_AXES) != TT_OK)
        return 1;
#else
    static uint8_t found[TT_HEIGHT][TT_WIDTH];
    tt_sound_start();
    for (uint32_t k = 0; k < VALUES; k++) {
        int16_t sample = drawn(k);
        tt_sound_add(&sample, 1);
    }
    for (uint32_t row = 0; row < TT_HEIGHT; row++)
        if (tt_sound_row(NULL, row, found[row]) != 0)
            return 1;
#endif
    say("found=");
    say_hash(hashed(NOTHING_HASHED, found, sizeof found));
    return 0;
}
