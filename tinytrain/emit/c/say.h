/* Where text goes: say_stdio.c on a PC, qemu/start.c on an emulated microcontroller, a UART on yours. */
#ifndef TT_SAY_H
#define TT_SAY_H

#include <stdint.h>

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

#endif
