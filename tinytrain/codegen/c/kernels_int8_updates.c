/* How int8 weights take a step: by one of the rules that tinytrain/kernels/int8_updates.py has. */
#include "kernels_int8.h"

#define WHOLE 8388608.0f /* from here on floats are whole numbers */
#define HIGHEST 127.0f

enum { NEAREST, TRUNCATED, STOCHASTIC, CARRIED };

static float truncated(float x)
{
    return x > -WHOLE && x < WHOLE ? (float)(int32_t)x : x;
}

static float floor_of(float x)
{
    float whole = truncated(x);

    return whole > x ? whole - 1.0f : whole;
}

/* The nearest whole number, halves to even. */
static float nearest(float x)
{
    if (!(x > -WHOLE && x < WHOLE))
        return x;
    return x < 0.0f ? (x - WHOLE) + WHOLE : (x + WHOLE) - WHOLE;
}

static float between(float x, float low, float high)
{
    return x > high ? high : x > low ? x : low; /* NaN becomes the lowest */
}

/* The multiple of `unit` that is nearest to a value, as an int32. */
int32_t tt_in_units(float value, float unit)
{
    return (int32_t)between(nearest(value / unit), -1073741824.0f, 1073741824.0f);
}

/* From 0 up to 1: a hash of a place and of what is drawn. */
static float uniform(uint32_t place, uint32_t drawn)
{
    uint32_t h = place * 0x9E3779B1u + drawn;

    h = (h ^ h >> 16) * 0x7FEB352Du;
    h = (h ^ h >> 15) * 0x846CA68Bu;
    h ^= h >> 16;
    return (float)(int32_t)(h >> 8) * (1.0f / 16777216.0f);
}

/* y (rows, count) = the named columns of the weights in flash, of the named inputs (NULL: the first `rows`): what
 * training starts from. */
void tt_gather_weight_codes(int8_t *y, tt_layer layer, const int32_t *inputs, uint32_t rows, const int32_t *columns,
                            uint32_t count)
{
    const tt_weights *kept = layer.kept;

    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t k = 0; k < count; k++) {
            uint32_t column = (uint32_t)columns[k], i = inputs ? (uint32_t)inputs[r] : r;
            *y++ = kept->codes[kept->depthwise ? i * kept->cout + column : column * kept->fan_in + i];
        }
}

void tt_widen_codes(float *y, const int8_t *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        y[i] = (float)x[i];
}

/* Codes in a change of a weight by 1, or, if steps are not scaled, in one of its code by 1. */
static float codes_in(tt_layer layer, int scaled, int32_t column)
{
    return scaled ? layer.kept->steps[column] : layer.kept->scales[column];
}

/* w (rows, count) minus steps, rounded by `rule` and kept from -127 to 127. `rest` (rows, count) is what
 * rounding lost, in 1/256 of a code: CARRIED alone uses it, for the next step. */
void tt_round_codes(int8_t *w, int8_t *rest, const float *steps, tt_layer layer, int scaled, uint32_t rows,
                    const int32_t *columns, uint32_t count, uint32_t drawn, int rule)
{
    for (uint32_t i = 0; i < rows * count; i++) {
        float target = (float)w[i] - steps[i] * codes_in(layer, scaled, columns[i % count]), found, left;
        if (rule == NEAREST)
            found = nearest(target);
        else if (rule == TRUNCATED)
            found = truncated(target);
        else if (rule == STOCHASTIC)
            found = floor_of(target + uniform(i, drawn));
        else {
            target = target + (float)rest[i] / 256.0f;
            found = between(nearest(target), -HIGHEST, HIGHEST);
            left = floor_of((target - found) * 256.0f + uniform(i, drawn));
            if (left > 127.0f && found < HIGHEST) { /* a half: the next code, and minus a half */
                found = found + 1.0f;
                left = left - 256.0f;
            }
            rest[i] = (int8_t)(int32_t)between(left, -128.0f, 127.0f);
        }
        w[i] = (int8_t)(int32_t)between(found, -HIGHEST, HIGHEST);
    }
}

/* masters (rows, count), in codes, minus steps; w (rows, count) the nearest codes. */
void tt_round_masters(int8_t *w, float *masters, const float *steps, tt_layer layer, int scaled, uint32_t rows,
                      const int32_t *columns, uint32_t count)
{
    for (uint32_t i = 0; i < rows * count; i++) {
        masters[i] -= steps[i] * codes_in(layer, scaled, columns[i % count]);
        w[i] = (int8_t)(int32_t)between(nearest(masters[i]), -HIGHEST, HIGHEST);
    }
}
