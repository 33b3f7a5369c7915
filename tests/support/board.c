/* The same on a microcontroller: images in flash, and a hash of all that is traced. */
#include "examples.h"
#include "internal.h"
#include "demo.h"

void tt_trace(const char *name, const void *values, uint32_t nbytes)
{
    say(name);
    say("=");
    say_hash(hashed(NOTHING_HASHED, values, nbytes));
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
