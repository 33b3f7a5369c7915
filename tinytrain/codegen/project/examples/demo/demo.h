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

#ifdef __cplusplus
}
#endif

#endif
