/* The Fourier transform of what a microphone or a sensor gives: tinytrain/episode/portable.py, line by line. */
#include "kernels.h"

/* re (n,) and im (n,), real and imaginary parts, become their transform. n is a power of two; cosines and sines (n / 2,)
 * are those of the first half of a turn. */
void tt_transform(float *re, float *im, uint32_t n, const float *cosines, const float *sines)
{
    for (uint32_t i = 1, j = 0; i < n; i++) { /* j has the bits of i from the last to the first */
        uint32_t bit = n / 2;
        for (; j & bit; bit /= 2)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            float r = re[i], s = im[i];
            re[i] = re[j];
            im[i] = im[j];
            re[j] = r;
            im[j] = s;
        }
    }
    for (uint32_t half = 1; half < n; half *= 2)
        for (uint32_t k = 0; k < half; k++) {
            float c = cosines[k * (n / 2 / half)], s = sines[k * (n / 2 / half)];
            for (uint32_t i = k; i < n; i += 2 * half) {
                float right = re[i + half] * c + im[i + half] * s, up = im[i + half] * c - re[i + half] * s;
                re[i + half] = re[i] - right;
                im[i + half] = im[i] - up;
                re[i] += right;
                im[i] += up;
            }
        }
}
