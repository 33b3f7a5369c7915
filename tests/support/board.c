/* The same on a microcontroller: images in flash, and a hash (FNV-1a) of all that is traced. */
#include "examples.h"
#include "internal.h"
#include "demo.h"

void tt_trace(const char *name, const void *values, uint32_t nbytes)
{
    const uint8_t *bytes = values;
    uint32_t hash = 2166136261u;
    char text[10];
    for (uint32_t i = 0; i < nbytes; i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    for (int i = 0; i < 8; i++)
        text[i] = "0123456789abcdef"[hash >> (28 - 4 * i) & 15u];
    text[8] = 10; /* a new line */
    text[9] = 0;
    say(name);
    say("=");
    say(text);
}

int demo(void)
{
    tt_init();
    for (uint32_t i = 0; i < TT_SUPPORT; i++)
        tt_add_image(i / TT_SHOTS, tt_example_support[i]);
    if (tt_adapt(NULL) < 0)
        return 1;
    TRAINED
    return 0;
}
