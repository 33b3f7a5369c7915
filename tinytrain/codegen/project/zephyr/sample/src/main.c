/* The example under Zephyr: text goes to the console. */
#include "demo.h"

#include <stdio.h>

void say(const char *text)
{
    printf("%s", text);
}

int main(void)
{
    return demo();
}
