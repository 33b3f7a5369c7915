// Calls a sketch as the main program of an Arduino core does, once.
void setup();
void loop();

extern "C" int run_sketch(void)
{
    setup();
    loop();
    return 0;
}
