/* An example: learn the images of examples.c, then recognise others. It needs nothing but a way to write text. */
#ifndef TT_DEMO_H
#define TT_DEMO_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns 0 if all calls went well. */
int demo(void);

/* Where its text goes is yours to say: standard output, a UART. */
void say(const char *text);

static inline void say_number(uint32_t n)
{
    char text[11], *digit = text + 10;

    *digit = 0;
    do
        *--digit = (char)('0' + n % 10u);
    while (n /= 10u);
    say(digit);
}

/* A number from 0 on, with as many decimals as `unit`, a power of ten, has zeros. */
static inline void say_decimals(float x, uint32_t unit)
{
    float scaled = x * (float)unit + 0.5f;
    uint32_t n = scaled > 0.0f && scaled < 4e9f ? (uint32_t)scaled : 0u;

    say_number(n / unit);
    say(".");
    while (unit /= 10u)
        say_number(n / unit % 10u);
}

#define NOTHING_HASHED 2166136261u

/* FNV-1a of what `hash` is of and `n` more bytes. */
static inline uint32_t hashed(uint32_t hash, const void *bytes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 16777619u;
    return hash;
}

/* Every processor and every compiler must say the same. */
static inline void say_hash(uint32_t hash)
{
    char digit[2] = {0, 0};

    for (int i = 28; i >= 0; i -= 4) {
        digit[0] = "0123456789abcdef"[hash >> i & 15u];
        say(digit);
    }
    say("\n");
}

#ifdef __cplusplus
}
#endif

#endif
