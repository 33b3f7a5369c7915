/* What the start-up code of a processor and that of all boards say to each other, under QEMU. */
#ifndef TT_BOARD_H
#define TT_BOARD_H

#include <stdint.h>

/* cortex_m.c, riscv.c */
uint32_t semihosting(uint32_t operation, const void *argument); /* asks the emulator */
void protect_below_ram(void); /* from then on, a write below RAM is a fault */

/* start.c */
void start(void); /* from reset on, with a stack and a float unit: does not return */
void fault(void); /* with an empty stack: does not return */

#endif
