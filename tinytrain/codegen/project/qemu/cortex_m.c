/* Reset, faults, memory protection and semihosting of a Cortex-M. */
#include "board.h"

extern uint32_t stack_top[], ram_start[];

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define CPACR REGISTER(0xE000ED88u)
#define MPU_CTRL REGISTER(0xE000ED94u)
#define MPU_RNR REGISTER(0xE000ED98u)
#define MPU_RBAR REGISTER(0xE000ED9Cu)
#define MPU_RASR REGISTER(0xE000EDA0u) /* Armv7-M */
#define MPU_RLAR REGISTER(0xE000EDA0u) /* Armv8-M */
#define MPU_MAIR0 REGISTER(0xE000EDC0u)

uint32_t semihosting(uint32_t operation, const void *argument)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;

    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

/* Region 0 of the memory protection unit is read-only: from address 0 to where RAM begins, a power of two. */
void protect_below_ram(void)
{
    uint32_t end = (uint32_t)ram_start;

    MPU_RNR = 0;
#if __ARM_ARCH >= 8
    MPU_MAIR0 = 0xFF; /* ordinary memory */
    MPU_RBAR = 2u << 1;
    MPU_RLAR = (end - 32u) | 1u;
#else
    MPU_RBAR = 0;
    MPU_RASR = 0x06000000u | (uint32_t)(__builtin_ctz(end) - 1) << 1 | 1u;
#endif
    MPU_CTRL = 5; /* on, with the usual rights elsewhere; off in faults */
    __asm__ volatile("dsb\n isb" ::: "memory");
}

static void reset(void)
{
    CPACR |= 0xF00000u; /* the float unit, before any code that uses it */
    __asm__ volatile("dsb\n isb" ::: "memory");
    start();
}

/* The stack may be what the fault is about. */
__attribute__((naked)) static void faulted(void)
{
    __asm__ volatile("ldr r0, =stack_top\n mov sp, r0\n b fault");
}

/* What the processor reads first. */
__attribute__((section(".first"), used)) static const struct {
    uint32_t *stack;
    void (*handlers[15])(void);
} vectors = {stack_top, {reset, faulted, faulted, faulted, faulted, faulted, faulted}};
