/* What int8 layers compute with: four codes at a time, and codes of sums.
 *
 * Sums of codes are integers, so that every order gives the same one. On processors with the DSP extension of Arm two
 * products are added by one instruction; elsewhere the same lines are plain C. */
#ifndef TT_KERNELS_INT8_ARITHMETIC_H
#define TT_KERNELS_INT8_ARITHMETIC_H

#include "kernels_int8.h"

#if defined(__ARM_FEATURE_DSP) && defined(__GNUC__)
#define TT_PAIRS 1
#include <arm_acle.h>
#else
#define TT_PAIRS 0
#endif

/* A function that is not made a part of others: its inner loop then has all registers. */
#if defined(__GNUC__)
#define TT_APART __attribute__((noinline))
#else
#define TT_APART
#endif

/* floor(x / 2^shift), whatever a compiler makes of a negative number that is shifted */
static inline int32_t tt_shifted(int32_t x, int shift)
{
    int32_t sign = x < 0 ? -1 : 0;

    return ((x ^ sign) >> shift) ^ sign;
}

/* From -128 to 127. */
static inline int32_t tt_limited(int32_t code)
{
#if TT_PAIRS
    return __ssat(code, 8);
#else
    return code < -128 ? -128 : code > 127 ? 127 : code;
#endif
}

static inline int32_t tt_as_code(int32_t sum, const tt_scaling *how)
{
    uint32_t half = (uint32_t)((uint64_t)((int64_t)sum * how->factor) >> 32);

    if (how->right == 0)
        return tt_large_code(sum, how);
    return tt_limited((int32_t)((half + how->bias) >> how->right) + how->offset);
}

#if TT_PAIRS
/* Four bytes from anywhere. */
static inline uint32_t tt_word(const void *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

/* The first and the third of four codes as 16 bits each; the second and the fourth. */
static inline int16x2_t tt_even(uint32_t codes)
{
    return __sxtb16((int8x4_t)codes);
}

static inline int16x2_t tt_odd(uint32_t codes)
{
    int16x2_t found; /* one instruction, which no intrinsic of every compiler gives */
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(found) : "r"(codes));
    return found;
}
#endif

#endif
