// A stand-in for an Arduino core on an emulated board: what the example sketch uses, and nothing else.
#include <stdint.h>

extern "C" void board_say(const char *text);

struct Console {
    void begin(uint32_t) {}
    operator bool() const { return true; }
    void print(const char *text) { board_say(text); }
};

static Console Serial;

static inline uint32_t millis() { return 0; }
