/* Start-up for all boards under QEMU: memory, protection, stack measurement, text and exit.
 *
 * Text and the exit code go to the emulator by semihosting. The stack lies lowest in RAM, and nothing below RAM can be
 * written: a write through NULL, or a stack that is too small, ends in a fault, exit code 99. */
#include "board.h"

#include "demo.h"

extern uint32_t stack_bottom[], stack_top[], data_load[], data_start[], data_end[], bss_start[], bss_end[];

#define PAINT 0xC0FFEE11u

__extension__ register uint32_t *stack_pointer __asm__("sp");

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

void fault(void)
{
    say("FAULT\n");
    leave(99);
}

static void say_bytes(const char *what, uint32_t n)
{
    say(what);
    say_number(n);
    say(" bytes\n");
}

void start(void)
{
    uint32_t *word, code;

    for (word = bss_start; word < bss_end; word++)
        *word = 0;
    for (uint32_t i = 0; data_start + i < data_end; i++)
        data_start[i] = data_load[i];
    for (word = stack_bottom; word < stack_pointer; word++)
        *word = PAINT;
    protect_below_ram();
    code = (uint32_t)demo();
    for (word = stack_bottom; *word == PAINT; word++)
        ;
    say_bytes("stack: ", (uint32_t)(stack_top - word) * 4u);
    say_bytes("data:  ", (uint32_t)(bss_end - data_start) * 4u);
    leave(code);
}
