/* The sums of a ridge regression of later rows on states and rows, and what becomes of them. */
#include "kernels.h"
#include "tinytrain.h"

#define SIZE (TT_NEURONS + TT_AXES) /* numbers that the map reads */

/* Sums of products are of differences from the means so far (Chan et al. 1983). When the map is fitted, `xx` becomes
 * its own Cholesky factor, and `xy` the weights. */
static struct {
    float xx[SIZE * (SIZE + 1) / 2], xy[TT_AXES][SIZE]; /* the first is a triangle, row by row */
    float x[SIZE], y[TT_AXES];                          /* means */
    uint32_t count;
} sums;
typedef char tt_sums_have_no_gaps[sizeof sums == TT_SUMS_BYTES ? 1 : -1];

static float x[SIZE], room[SIZE];           /* state and row */
static float waiting[TT_AHEAD][TT_AXES];    /* the last rows, which have no later row yet */
static uint32_t rows;                       /* added so far */
static int ready;
static const float mean[TT_AXES] = TT_MEANS, deviation[TT_AXES] = TT_DEVIATIONS;

void tt_series_start(void)
{
    memset(&sums, 0, sizeof sums);
    memset(x, 0, sizeof x);
    rows = 0;
    ready = 0;
}

static void read(const float *row)
{
    tt_reservoir_step(x, room, row);
    memcpy(x + TT_NEURONS, row, sizeof *row * TT_AXES);
}

/* `later` comes TT_AHEAD rows after x. */
static void learn(const float *later)
{
    float count = (float)++sums.count, share = (float)(sums.count - 1) / count, *line = sums.xx;

    for (uint32_t i = 0; i < SIZE; i++)
        room[i] = x[i] - sums.x[i];
    for (uint32_t i = 0; i < SIZE; line += ++i) {
        float factor = share * room[i];
        for (uint32_t j = 0; j <= i; j++)
            line[j] += factor * room[j];
        for (uint32_t c = 0; c < TT_AXES; c++)
            sums.xy[c][i] += factor * (later[c] - sums.y[c]);
        sums.x[i] += room[i] / count;
    }
    for (uint32_t c = 0; c < TT_AXES; c++)
        sums.y[c] += (later[c] - sums.y[c]) / count;
}

int tt_series_add(const float *row)
{
    float scaled[TT_AXES], *oldest = waiting[rows % TT_AHEAD];

    for (uint32_t c = 0; c < TT_AXES; c++) {
        if (!tt_is_finite(row[c]))
            return TT_NOT_FINITE;
        scaled[c] = (row[c] - mean[c]) / deviation[c];
    }
    if (ready) {
        read(scaled);
        return TT_OK;
    }
    if (rows >= TT_AHEAD) {
        read(oldest);
        if (rows >= TT_AHEAD + TT_WASHOUT)
            learn(scaled);
    }
    memcpy(oldest, scaled, sizeof scaled);
    rows++;
    return TT_OK;
}

int tt_series_learn(void)
{
    int failed;

    if (!tt_rounds_as_written())
        return TT_ARITHMETIC;
    if (ready)
        return TT_OK;
    if (sums.count < TT_LEAST)
        return TT_FEW;
    for (uint32_t i = 0; i < SIZE; i++)
        sums.xx[i * (i + 3) / 2] += TT_RIDGE;
    failed = tt_cholesky_packed(sums.xx, SIZE);
    if (!failed)
        tt_cholesky_solve_packed(sums.xy[0], sums.xx, TT_AXES, SIZE);
    for (uint32_t i = 0; i < TT_AXES * SIZE; i++)
        failed = failed || !tt_is_finite(sums.xy[i / SIZE][i % SIZE]);
    if (failed) {
        tt_series_start();
        return TT_SINGULAR;
    }
    for (uint32_t k = 0; k < TT_AHEAD; k++)
        read(waiting[(rows + k) % TT_AHEAD]);
    ready = 1;
    return TT_OK;
}

int tt_series_next(float *row)
{
    if (!ready)
        return TT_NOT_READY;
    for (uint32_t c = 0; c < TT_AXES; c++) {
        float total = sums.y[c];
        for (uint32_t i = 0; i < SIZE; i++)
            total += sums.xy[c][i] * (x[i] - sums.x[i]);
        row[c] = total * deviation[c] + mean[c];
    }
    return TT_OK;
}
