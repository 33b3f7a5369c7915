/* Where text goes: say_stdio.c on a PC, qemu/start.c on an emulated microcontroller, a UART on yours. */
#ifndef TT_SAY_H
#define TT_SAY_H

void say(const char *text);

#endif
