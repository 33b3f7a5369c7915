/* A program that writes where it must not: below its stack (DEEP), or through NULL. */
#include <stdint.h>

#ifdef DEEP
static uint32_t deeper(volatile const uint32_t *above, uint32_t depth)
{
    volatile uint32_t here[16];

    for (uint32_t i = 0; i < 16; i++)
        here[i] = above[i] + depth;
    return depth ? deeper(here, depth - 1u) + here[depth & 15u] : 0u;
}
#endif

int demo(void)
{
#ifdef DEEP
    volatile uint32_t first[16] = {0};
    return (int)(deeper(first, 100) & 1u);
#else
    volatile uint32_t *volatile nowhere = 0;
    *nowhere = 1;
    return 0;
#endif
}
