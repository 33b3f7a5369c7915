/* Reset, faults, memory protection and semihosting of a RISC-V with 32 bits, in machine mode. */
#include "board.h"

extern uint32_t ram_start[];

/* The three instructions that an emulator knows, in one block of 16 bytes. */
__attribute__((naked, aligned(16))) uint32_t semihosting(uint32_t operation, const void *argument)
{
    (void)operation, (void)argument;
    __asm__ volatile(".option push\n .option norvc\n"
                     "slli zero, zero, 0x1f\n ebreak\n srai zero, zero, 7\n ret\n"
                     ".option pop");
}

/* Entry 0 of the memory protection: from address 0 to where RAM begins, reading and executing alone, for machine
 * mode too. */
void protect_below_ram(void)
{
    __asm__ volatile("csrw pmpaddr0, %0\n csrw pmpcfg0, %1" ::"r"((uint32_t)ram_start >> 2), "r"(0x8Du) : "memory");
}

/* The stack may be what the fault is about. */
__attribute__((naked, used, aligned(4))) static void faulted(void)
{
    __asm__ volatile("la sp, stack_top\n j fault");
}

/* Where the processor begins: a stack, the handler of faults, the float unit with rounding to nearest. */
__attribute__((naked, used, section(".first"))) static void reset(void)
{
    __asm__ volatile("la sp, stack_top\n la t0, faulted\n csrw mtvec, t0\n"
                     "li t0, 0x2000\n csrs mstatus, t0\n csrw fcsr, zero\n j start");
}
