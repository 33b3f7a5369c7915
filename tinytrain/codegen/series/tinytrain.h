/* How a series goes on, learnt on the device: an echo state network reads its rows, and a linear map of the states is
 * fitted in closed form to sums that are added up row by row. No row is kept but the last TT_AHEAD ones.
 *
 *     tt_series_start();
 *     for every row: tt_series_add(row);
 *     if (tt_series_learn() == TT_OK)
 *         for every further row: tt_series_add(row), tt_series_next(row);
 *
 * Rows are TT_AXES numbers in the units of the series that the library was emitted for, evenly spaced in time. */
#include "plan.h"

enum {
    TT_OK = 0,
    TT_NOT_READY = -1,  /* tt_series_learn was not called, or failed */
    TT_NOT_FINITE = -2, /* the row holds NaN or infinity: it is passed over */
    TT_FEW = -3,        /* too few rows: go on, and call tt_series_learn again */
    TT_SINGULAR = -4,   /* the sums have no Cholesky factor: all is forgotten, as after tt_series_start */
    TT_ARITHMETIC = -5  /* options of the compiler, or flushed subnormal numbers, change sums: see README.md */
};

/* Begin, from nothing. */
void tt_series_start(void);

/* One more row. Until tt_series_learn it is learnt from. Returns TT_OK or TT_NOT_FINITE. */
int tt_series_add(const float *row);

/* Fit the map to all rows so far. Later calls do nothing. Returns TT_OK, TT_FEW, TT_SINGULAR or TT_ARITHMETIC. */
int tt_series_learn(void);

/* `row` becomes what will come TT_AHEAD rows after the last one. Returns TT_OK or TT_NOT_READY. */
int tt_series_next(float *row);
