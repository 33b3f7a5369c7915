// The example on an Arduino board: text goes to the serial monitor, at 115200 baud.
#include <tinytrain.h>

#include "demo.h"

extern "C" void say(const char *text)
{
    Serial.print(text);
}

void setup()
{
    Serial.begin(115200);
    while (!Serial && millis() < 5000)
        ;
    if (demo() != 0)
        say("failed\n");
}

void loop() {}
