/* Recordings of motion: their features, tinytrain/episode/motion_features.py line by line, and noise in them. */
#include "internal.h"

#define WINDOW 64u
#define MOST_WINDOWS 256u
#define PARTS 4u
#define BANDS 8u
#define GROUP 3u /* axes of a sensor */
#define SENSORS ((TT_AXES + GROUP - 1) / GROUP)
#define FLOOR 1e-3f

TABLES
static const float *values; /* (rows, TT_AXES) */
static float length[SENSORS]; /* the root mean square of its vectors */
static float re[WINDOW], im[WINDOW];

static float scaled(uint32_t row, uint32_t axis)
{
    return values[row * TT_AXES + axis] / length[axis / GROUP];
}

static void find_length(uint32_t sensor, uint32_t rows)
{
    uint32_t first = sensor * GROUP, behind = first + GROUP < TT_AXES ? first + GROUP : TT_AXES;
    double total = 0.0;

    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t axis = first; axis < behind; axis++) {
            double x = (double)values[row * TT_AXES + axis];
            total += x * x;
        }
    length[sensor] = tt_sqrt((float)(total / (double)rows));
}

/* The mean of an axis in rows from `first` to `behind`, and if asked for its deviation from it. */
static float mean_of(uint32_t axis, uint32_t first, uint32_t behind, float *deviation)
{
    double total = 0.0, squares = 0.0;
    float mean;

    for (uint32_t row = first; row < behind; row++)
        total += (double)scaled(row, axis);
    mean = (float)(total / (double)(behind - first));
    for (uint32_t row = first; deviation && row < behind; row++) {
        double away = (double)(scaled(row, axis) - mean);
        squares += away * away;
    }
    if (deviation)
        *deviation = tt_sqrt((float)(squares / (double)(behind - first)));
    return mean;
}

/* Logarithms (BANDS,) of the roots of the energies of an axis. */
static void find_bands(float *bands, uint32_t axis, uint32_t rows)
{
    uint32_t rest = rows - WINDOW, count = 1 + (2 * rest + WINDOW - 1) / WINDOW;
    double energies[BANDS] = {0.0};

    count = count < MOST_WINDOWS ? count : MOST_WINDOWS;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t start = k * rest / (count > 1 ? count - 1 : 1);
        float mean = mean_of(axis, start, start + WINDOW, NULL);
        for (uint32_t i = 0; i < WINDOW; i++) {
            re[i] = (scaled(start + i, axis) - mean) * hann[i];
            im[i] = 0.0f;
        }
        tt_transform(re, im, WINDOW, cosines, sines);
        for (uint32_t i = 0; i <= WINDOW / 2; i++)
            energies[band_of[i]] += (double)(re[i] * re[i] + im[i] * im[i]);
    }
    for (uint32_t b = 0; b < BANDS; b++)
        bands[b] = tt_log10(tt_sqrt((float)(energies[b] / (double)(count * WINDOW * WINDOW))) + FLOOR);
}

#if TT_NEURONS
/* Mean states (TT_NEURONS,) of the echo state network. */
static void find_states(float *means, uint32_t rows)
{
    static float state[TT_NEURONS], room[TT_NEURONS];
    static double totals[TT_NEURONS];
    uint32_t skipped = TT_WASHOUT < rows / 2 ? TT_WASHOUT : rows / 2;
    float row_of[TT_AXES];

    memset(state, 0, sizeof state);
    memset(totals, 0, sizeof totals);
    for (uint32_t row = 0; row < rows; row++) {
        for (uint32_t axis = 0; axis < TT_AXES; axis++)
            row_of[axis] = scaled(row, axis);
        tt_reservoir_step(state, room, row_of);
        for (uint32_t i = 0; row >= skipped && i < TT_NEURONS; i++)
            totals[i] += (double)state[i];
    }
    for (uint32_t i = 0; i < TT_NEURONS; i++)
        means[i] = (float)(totals[i] / (double)(rows - skipped));
}
#endif

int tt_motion(float *features, const float *recording, uint32_t rows)
{
    if (rows < WINDOW || rows > TT_MOST_ROWS)
        return TT_NO_ROW;
    values = recording;
    for (uint32_t s = 0; s < SENSORS; s++) {
        find_length(s, rows);
        *features++ = tt_log10(length[s] + 1e-6f);
        length[s] = length[s] > 0.0f ? length[s] : 1.0f;
    }
    for (uint32_t part = 0; part < PARTS; part++)
        for (uint32_t axis = 0; axis < TT_AXES; axis++, features++) {
            float deviation;
            *features = mean_of(axis, part * rows / PARTS, (part + 1) * rows / PARTS, &deviation);
            features[PARTS * TT_AXES] = tt_log10(deviation + FLOOR);
        }
    features += PARTS * TT_AXES;
    for (uint32_t axis = 0; axis < TT_AXES; axis++, features += BANDS)
        find_bands(features, axis, rows);
#if TT_NEURONS
    find_states(features, rows);
    features += TT_NEURONS;
#endif
    for (uint32_t k = 1; k <= TT_CHANNELS; k++)
        if (!tt_is_finite(*(features - k)))
            return TT_NOT_FINITE;
    return TT_OK;
}

/* y = the features of a recording in noise, number `how->down` of those that were drawn. */
void tt_augment(uint8_t *y, tt_row_of row, const tt_augmentation *how, int32_t total, tt_part_of part)
{
    const float *x = (const float *)(const void *)row(0);

    (void)total;
    for (int k = 0; k < part.channels; k++)
        F(y, 0)[k] = x[k] + tt_noise[how->down][k];
}
