/* Exponential, logarithm, hyperbolic tangent and square root, so that no C library decides a bit.
 *
 * The first two are tinytrain/kernels/exp_log.py, line by line. The root is rounded correctly, as every
 * processor with a float unit rounds its own: compile with -DTT_SQRT=__builtin_sqrtf to use that. */
#include "kernels.h"

#define LN2_HIGH 0.693145751953125f /* 16 bits: its products with whole numbers below 256 are exact */
#define LN2_LOW 1.4286068203094172e-06f
#define PER_LN2 1.4426950408889634f

float tt_infinity(void)
{
    return tt_from_bits(0x7F800000u);
}

int tt_is_finite(float x)
{
    return (tt_bits_of(x) & 0x7F800000u) != 0x7F800000u;
}

/* Whether this compiler and the float unit compute what is written. Macros do not tell all: clang says nothing of
 * -ffp-contract=fast, no compiler of -fassociative-math, and only the register of the unit that it flushes. */
int tt_rounds_as_written(void)
{
    volatile float given[] = {1.0f + 1.0f / 4096.0f,
                              1.0f,
                              33554432.0f,
                              3.0f,
                              1e-40f,
                              0x1.bed97p-75f,
                              0x1.255326p-76f,
                              0x1.61949p-128f};
    const float near_one = given[0], one = given[1], large = given[2], three = given[3];
    float thirds = 0.0f;

    for (int i = 2; i < 6; i++) /* 5 thirds are not the product of 5 and a rounded third */
        thirds += (float)i * one / three;
    return near_one * near_one - (one + 1.0f / 2048.0f) == 0.0f /* a fused product leaves 2^-24 */
           && (one + large) - large == 0.0f && thirds == 4.6666665f && given[4] * one > 0.0f
           && tt_fused(near_one, near_one, -(one + 1.0f / 2048.0f)) == 1.0f / 16777216.0f
           && tt_fused(given[5], given[6], given[7]) == 0x1.619498p-128f;
}

#ifndef TT_FUSES
/* In double the product is exact. If the sum was rounded to an even number, it is moved by one unit to the side of what
 * was lost: an odd one is not in the middle of two floats, so that it is rounded as the exact sum is. */
float tt_fused(float a, float b, float c)
{
    double product = (double)a * (double)b, wide = (double)c, sum = product + wide, part, lost;
    uint64_t bits;

    memcpy(&bits, &sum, sizeof bits);
    if ((bits & 1u) || (bits & 0x7FF0000000000000u) == 0x7FF0000000000000u)
        return (float)sum;
    part = sum - product;
    lost = (product - (sum - part)) + (wide - part);
    if (lost != 0.0)
        bits = (lost > 0.0) == (sum > 0.0) ? bits + 1u : bits - 1u;
    memcpy(&sum, &bits, sizeof sum);
    return (float)sum;
}
#endif

/* e to the power of x, within 2 units in the last place. NaN stays NaN. */
float tt_exp(float x)
{
    float turns, whole, r, y;
    int32_t k;

    if (!(x >= -104.0f))
        return x < -104.0f ? 0.0f : x;
    if (x > 88.72284f)
        return tt_infinity();
    turns = x * PER_LN2;
    k = turns > 0.0f ? (int32_t)(turns + 0.5f) : (int32_t)(turns - 0.5f);
    whole = (float)k;
    r = (x - whole * LN2_HIGH) - whole * LN2_LOW;
    y = (float)(1.0 / 5040) * r + (float)(1.0 / 720);
    y = y * r + (float)(1.0 / 120);
    y = y * r + (float)(1.0 / 24);
    y = y * r + (float)(1.0 / 6);
    y = y * r + 0.5f;
    y = (y * r * r + r) + 1.0f;
    for (; k >= 16; k -= 16)
        y *= 65536.0f;
    for (; k > 0; k--)
        y *= 2.0f;
    for (; k <= -16; k += 16)
        y *= 1.0f / 65536.0f;
    for (; k < 0; k++)
        y *= 0.5f;
    return y;
}

/* The natural logarithm, within 2 units in the last place; -infinity of 0 and less. */
float tt_log(float x)
{
    float s, q, y, whole;
    int32_t k = 0;

    if (!(x <= FLT_MAX))
        return x;
    if (!(x > 0.0f))
        return -tt_infinity();
    for (; x >= 1.4142135623730951f; k++)
        x *= 0.5f;
    for (; x < 0.7071067811865476f; k--)
        x *= 2.0f;
    s = (x - 1.0f) / (x + 1.0f);
    q = s * s;
    y = (float)(1.0 / 9) * q + (float)(1.0 / 7);
    y = y * q + (float)(1.0 / 5);
    y = y * q + (float)(1.0 / 3);
    y = y * q;
    y = 2.0f * (s + s * y);
    whole = (float)k;
    return whole * LN2_HIGH + (whole * LN2_LOW + y);
}

float tt_log10(float x)
{
    return tt_log(x) * 0.4342944819032518f;
}

/* 1 - 2 / (e^2x + 1), within 2e-7. NaN stays NaN. */
float tt_tanh(float x)
{
    x = x < -9.0f ? -9.0f : x > 9.0f ? 9.0f : x;
    return 1.0f - 2.0f / (tt_exp(2.0f * x) + 1.0f);
}

/* The square root of x, rounded to nearest; NaN of less than 0, NaN and infinity stay. */
float tt_sqrt(float x)
{
#ifdef TT_SQRT
    return TT_SQRT(x);
#else
    uint32_t bits = tt_bits_of(x), mantissa, root = 0, rest = 0;
    int32_t exponent = (int32_t)(bits >> 23);

    if (bits == 0x80000000u || bits == 0 || (bits < 0x80000000u && exponent == 0xFF))
        return x;
    if (bits > 0x80000000u)
        return tt_from_bits(0x7FC00000u);
    mantissa = bits & 0x7FFFFFu;
    if (exponent == 0) /* not normalised */
        for (exponent = 1; !(mantissa & 0x800000u); exponent--)
            mantissa <<= 1;
    mantissa |= 0x800000u;
    exponent -= 127;
    if (exponent & 1) {
        mantissa <<= 1;
        exponent -= 1;
    }
    /* 25 bits of the root, two bits of the operand at a time: one bit more than fits, for rounding. */
    for (int i = 0; i < 25; i++) {
        uint32_t trial = 4u * root + 1u;
        rest = 4u * rest + (i < 12 ? mantissa >> (23 - 2 * i) & 3u : i == 12 ? (mantissa & 1u) << 1 : 0u);
        root *= 2u;
        if (rest >= trial) {
            rest -= trial;
            root += 1u;
        }
    }
    /* A root is never halfway between two floats, so the last bit alone says where to round. */
    root = (root >> 1) + (root & 1u);
    return tt_from_bits(root + ((uint32_t)(exponent / 2 + 126) << 23));
#endif
}

