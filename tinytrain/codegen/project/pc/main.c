/* The example on a PC: text goes to standard output. */
#include "demo.h"

#include <stdio.h>

void say(const char *text)
{
    fputs(text, stdout);
    fflush(stdout);
}

int main(void)
{
    return demo();
}
