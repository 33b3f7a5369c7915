/* Text goes to standard output. */
#include "say.h"

#include <stdio.h>

void say(const char *text)
{
    fputs(text, stdout);
    fflush(stdout);
}
