/* Sound as it comes: rows of a log-mel spectrum, tinytrain/episode/logmel.py line by line, and changes of it. */
#include "internal.h"

TABLES
static float re[TT_FFT], im[TT_FFT];
static int16_t frame[TT_FRAME]; /* the latest samples */
static uint32_t filled;         /* of them */
static uint8_t codes[TT_HEIGHT][TT_WIDTH]; /* the latest rows: row r at r % TT_HEIGHT */
static float loudest[TT_HEIGHT];           /* the largest value of each of them */
static uint32_t rows;                      /* so far; a multiple of TT_HEIGHT is taken off again */

static uint8_t code_of(float value)
{
    return tt_byte_of((value - TT_LOW) * TT_CODES_PER_UNIT + 0.5f);
}

/* A row (TT_WIDTH,) of codes of the frame. Returns the largest value. */
static float find_row(uint8_t *row)
{
    float most = -tt_infinity();

    for (uint32_t i = 0; i < TT_FFT; i++) {
        re[i] = i < TT_FRAME ? (float)frame[i] * (1.0f / 32768.0f) * window[i] : 0.0f;
        im[i] = 0.0f;
    }
    tt_transform(re, im, TT_FFT, cosines, sines);
    for (uint32_t i = 0; i <= TT_FFT / 2; i++) {
        float power = re[i] * re[i] + im[i] * im[i];
        re[i] = TT_MAGNITUDE ? tt_sqrt(power) : power;
    }
    for (uint32_t b = 0, at = 0; b < TT_WIDTH; b++) {
        float total = 0.0f;
        for (uint32_t i = 0; i < count_of[b]; i++)
            total += weights[at++] * re[first_of[b] + i];
#if TT_DECIBELS
        total = 10.0f * tt_log10(total < TT_MIN_POWER ? TT_MIN_POWER : total);
#else
        total = tt_log(total + TT_MIN_POWER);
#endif
        most = total > most ? total : most;
        row[b] = code_of(total);
    }
    return most;
}

void tt_sound_start(void)
{
    filled = rows = 0;
}

uint32_t tt_sound_add(const int16_t *samples, uint32_t n)
{
    uint32_t added = 0;

    for (; n; n--) {
        frame[filled++] = *samples++;
        if (filled < TT_FRAME)
            continue;
        loudest[rows % TT_HEIGHT] = find_row(codes[rows % TT_HEIGHT]);
        rows = rows + 1 < 2 * TT_HEIGHT ? rows + 1 : TT_HEIGHT;
        added++;
        filled = TT_FRAME - TT_HOP;
        memmove(frame, frame + TT_HOP, sizeof *frame * filled);
    }
    return added;
}

int tt_sound_row(void *unused, uint32_t row, uint8_t *pixels)
{
    (void)unused;
    if (rows < TT_HEIGHT)
        return 1;
    memcpy(pixels, codes[(rows + row) % TT_HEIGHT], TT_WIDTH);
#if TT_DECIBELS
    float most = loudest[0];
    for (uint32_t i = 1; i < TT_HEIGHT; i++)
        most = loudest[i] > most ? loudest[i] : most;
    for (uint32_t b = 0, least = code_of(most - TT_TOP); b < TT_WIDTH; b++)
        pixels[b] = pixels[b] < least ? (uint8_t)least : pixels[b];
#endif
    return 0;
}

/* y (rows, width) = rows of a spectrum that begins `how->down` rows later and is louder, in noise that is `contrast`
 * codes above what is softest in it, which is `softest`. */
void tt_augment(uint8_t *y, tt_row_of row, const tt_augmentation *how, int32_t softest, tt_part_of part)
{
    float floor = (float)softest + how->contrast;

    for (int i = part.first; i < part.first + part.rows; i++) {
        const uint8_t *x = row((i - how->down + part.height) % part.height);
        for (int k = 0; k < part.width; k++) {
            float code = (float)x[k];
            *y++ = tt_byte_of((code < floor ? floor : code) + how->brightness + 0.5f);
        }
    }
}
