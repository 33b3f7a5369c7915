/* Images for demo.c, in flash: those that the library was emitted with. */
#ifndef TT_EXAMPLES_H
#define TT_EXAMPLES_H

#include "tinytrain.h"

extern const char *const tt_example_names[TT_WAYS];
extern const uint8_t tt_example_support[TT_SUPPORT][TT_HEIGHT * TT_ROW_BYTES]; /* class by class */
extern const uint32_t tt_example_queries;
extern const uint8_t tt_example_query[][TT_HEIGHT * TT_ROW_BYTES];
extern const uint8_t tt_example_label[];

#endif
