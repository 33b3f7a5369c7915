/* Steps of the trained parameters, one flat row of numbers, in the place of their gradients g.
 *
 * `starts` (slices + 1,) divides it into slices with learning rates of their own. Moments are the upper 16 bits
 * of a float, rounded to nearest even. */
#include "kernels.h"

static float from_bfloat16(uint16_t bits)
{
    return tt_from_bits((uint32_t)bits << 16);
}

static uint16_t to_bfloat16(float x)
{
    uint32_t wide = tt_bits_of(x);
    return (uint16_t)((wide + 0x7FFFu + (wide >> 16 & 1u)) >> 16);
}

/* g *= rate. */
void tt_sgd_step(float *g, const int32_t *starts, const float *rates, uint32_t slices)
{
    for (uint32_t s = 0; s < slices; s++)
        for (int32_t i = starts[s]; i < starts[s + 1]; i++)
            g[i] *= rates[s];
}

/* Heavy-ball momentum: m = beta * m + g, g = rate * m. */
void tt_momentum_step(float *g, uint16_t *m, const int32_t *starts, const float *rates, uint32_t slices, float beta)
{
    for (uint32_t s = 0; s < slices; s++)
        for (int32_t i = starts[s]; i < starts[s + 1]; i++) {
            float moment = tt_fused(beta, from_bfloat16(m[i]), g[i]);
            g[i] = rates[s] * moment;
            m[i] = to_bfloat16(moment);
        }
}

/* x to the power of n, by squares. */
static float power(float x, uint32_t n)
{
    float y = 1.0f;

    for (; n; n >>= 1) {
        if (n & 1u)
            y *= x;
        x *= x;
    }
    return y;
}

/* Adam (Kingma and Ba, 2015) with bias correction, epsilon 1e-8; `step` counts from 1. */
void tt_adam_step(float *g, uint16_t *m, uint16_t *v, const int32_t *starts, const float *rates, uint32_t slices,
                  float beta1, float beta2, uint32_t step)
{
    float correct1 = 1.0f / (1.0f - power(beta1, step)), correct2 = 1.0f / (1.0f - power(beta2, step));

    for (uint32_t s = 0; s < slices; s++)
        for (int32_t i = starts[s]; i < starts[s + 1]; i++) {
            float x = g[i];
            float first = tt_fused(1.0f - beta1, x, beta1 * from_bfloat16(m[i]));
            float second = tt_fused((1.0f - beta2) * x, x, beta2 * from_bfloat16(v[i]));
            g[i] = rates[s] * first * correct1 / (tt_sqrt(second * correct2) + 1e-8f);
            m[i] = to_bfloat16(first);
            v[i] = to_bfloat16(second);
        }
}

/* w (n,) -= steps. */
void tt_take_step(float *w, const float *steps, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        w[i] -= steps[i];
}
