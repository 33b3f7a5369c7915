/* The counter of cycles of the processor, if it has one that is known here. Its low 32 bits are read:
 * a prediction must take less than 4.3 G cycles.
 *
 * Another one: -DTT_CYCLES=function, of a function without arguments that is declared before. */
#ifndef TT_CYCLES_H
#define TT_CYCLES_H

#include <stdint.h>

#if defined(TT_CYCLES)
#define TT_COUNTER "TT_CYCLES"
#define tt_start_cycles() ((void)0)
#define tt_cycles() ((uint32_t)TT_CYCLES())
#elif defined(ESP_PLATFORM)
#include "esp_cpu.h"
#define TT_COUNTER "esp_cpu"
#define tt_start_cycles() ((void)0)
#define tt_cycles() ((uint32_t)esp_cpu_get_cycle_count())
#elif defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M' && __ARM_ARCH >= 7
#define TT_COUNTER "DWT"
#define TT_REGISTER(address) (*(volatile uint32_t *)(address))
static void tt_start_cycles(void)
{
    TT_REGISTER(0xE000EDFCu) |= 1u << 24;      /* DEMCR: trace on */
    TT_REGISTER(0xE0001FB0u) = 0xC5ACCE55u;    /* DWT_LAR: a Cortex-M7 locks it */
    TT_REGISTER(0xE0001000u) |= 1u;            /* DWT_CTRL: count cycles */
}
#define tt_cycles() TT_REGISTER(0xE0001004u)
#elif defined(__riscv) && !defined(__linux__)
#define TT_COUNTER "mcycle"
#define tt_start_cycles() ((void)0)
static uint32_t tt_cycles(void)
{
    unsigned long found;

    __asm__ volatile("csrr %0, mcycle" : "=r"(found));
    return (uint32_t)found;
}
#else
#define TT_COUNTER "none"
#define tt_start_cycles() ((void)0)
#define tt_cycles() 0u
#endif

#endif
