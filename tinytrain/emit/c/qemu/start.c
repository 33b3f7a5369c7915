/* Start-up for Cortex-M under QEMU: vectors, float unit, memory protection, stack measurement, text and exit.
 *
 * Text and the exit code go to the emulator by semihosting. The code is read-only and a guard lies below the
 * stack, so that a write through NULL or a stack that is too small ends in a fault, exit code 99. */
#include "../say.h"

#include <stdint.h>

int main(void);

extern uint32_t stack_guard[], stack_bottom[], stack_top[], data_load[], data_start[], data_end[], bss_start[],
    bss_end[];

#define PAINT 0xC0FFEE11u
#define REGISTER(address) (*(volatile uint32_t *)(address))
#define CPACR REGISTER(0xE000ED88u)
#define MPU_CTRL REGISTER(0xE000ED94u)
#define MPU_RNR REGISTER(0xE000ED98u)
#define MPU_RBAR REGISTER(0xE000ED9Cu)
#define MPU_RASR REGISTER(0xE000EDA0u)
#define READ_ONLY 0x06000000u
#define NO_ACCESS 0x10000000u

static uint32_t semihosting(uint32_t operation, const void *argument)
{
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;

    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

/* To standard output, which is the file ":tt" opened for writing. */
void say(const char *text)
{
    static uint32_t output;
    uintptr_t words[3] = {(uintptr_t) ":tt", 4, 3};

    if (!output)
        output = semihosting(0x01, words);
    words[0] = output;
    words[1] = (uintptr_t)text;
    for (words[2] = 0; text[words[2]]; words[2]++)
        ;
    semihosting(0x05, words);
}

static void leave(uint32_t code)
{
    uint32_t reason[2];

    reason[0] = 0x20026;
    reason[1] = code;
    semihosting(0x20, reason);
    for (;;)
        ;
}

static void fault(void)
{
    say("FAULT\n");
    leave(99);
}

static void protect(uint32_t region, uint32_t base, uint32_t bits, uint32_t rights)
{
    MPU_RNR = region;
    MPU_RBAR = base;
    MPU_RASR = rights | (bits - 1u) << 1 | 1u;
}

static void say_bytes(const char *what, uint32_t n)
{
    say(what);
    say_number(n);
    say(" bytes\n");
}

void reset(void)
{
    uint32_t *word, *here, code;

    CPACR |= 0xF00000u; /* the float unit, before any code that uses it */
    __asm__ volatile("dsb\n isb");
    for (word = bss_start; word < bss_end; word++)
        *word = 0;
    for (uint32_t i = 0; data_start + i < data_end; i++)
        data_start[i] = data_load[i];
    __asm__ volatile("mov %0, sp" : "=r"(here));
    for (word = stack_bottom; word < here; word++)
        *word = PAINT;
    protect(0, 0, 22, READ_ONLY);                       /* 4 MB of code */
    protect(1, (uint32_t)stack_guard, 5, NO_ACCESS); /* 32 bytes */
    MPU_CTRL = 5;
    __asm__ volatile("dsb\n isb");
    code = (uint32_t)main();
    for (word = stack_bottom; *word == PAINT; word++)
        ;
    say_bytes("stack: ", (uint32_t)(stack_top - word) * 4u);
    say_bytes("data:  ", (uint32_t)(bss_end - data_start) * 4u);
    leave(code);
}

/* What the processor reads first. */
__attribute__((section(".vectors"), used)) static const struct {
    uint32_t *stack;
    void (*handlers[15])(void);
} vectors = {stack_top, {reset, fault, fault, fault, fault, fault}};
