/* What CMSIS-NN makes of sums. */
#include "arm_nnsupportfunctions.h"

void requantize(int32_t *y, const int32_t *sums, const int32_t *factors, const int32_t *shifts, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = arm_nn_requantize(sums[i], factors[i], shifts[i]);
}
