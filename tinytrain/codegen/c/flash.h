/* What was learnt, in flash: two slots, a trial, and always one whole delta, wherever the power goes.
 *
 *     tt_init();
 *     tt_flash_start(&flash);        // once in every start of the device: load what is in use
 *     ...
 *     tt_adapt(NULL);
 *     tt_flash_save(&flash);         // on trial: without tt_flash_confirm it is dropped after two starts
 *     tt_flash_confirm(&flash);      // keep it,
 *     tt_flash_roll_back(&flash);    // or go back to the one before
 *
 * A part of flash holds two records, a sector each, and two slots of TT_DELTA_BYTES, rounded up to sectors. Records
 * take turns, and so do slots: nothing that is in use is ever erased. After an error, what is in use is as before. */
#include "tinytrain.h"

#define TT_TRIAL_STARTS 2u

/* The part of flash, from byte 0 on, through functions that return 0 if all went well. */
typedef struct {
    int (*read)(void *context, uint32_t at, void *bytes, uint32_t n);
    int (*write)(void *context, uint32_t at, const void *bytes, uint32_t n); /* to erased bytes, 64 or 128 at once */
    int (*erase)(void *context, uint32_t at);                                /* the sector that begins there */
    void *context;
    uint32_t bytes;  /* of the part */
    uint32_t sector; /* bytes that are erased at once, a multiple of 64 from 128 on */
} tt_flash;

/* Bytes that the part must have; UINT32_MAX if no part with such sectors can be used. */
uint32_t tt_flash_bytes(uint32_t sector);

/* Load what is in use, and count the start if it is on trial. A trial that has had its starts is over: then the
 * delta before it is in use. So it is in this start if the start cannot be counted, or if what is on trial is
 * damaged. Returns TT_OK, TT_NOT_READY if there is none, TT_BAD_DELTA if none is whole, TT_STORAGE or TT_ARITHMETIC. */
int tt_flash_start(const tt_flash *flash);

/* Put what was learnt on trial. Returns TT_OK, TT_NOT_READY, TT_ON_TRIAL if the one in use is on trial (confirm it
 * or roll back first), or TT_STORAGE. */
int tt_flash_save(const tt_flash *flash);

/* Keep what is on trial. Returns TT_OK, TT_NOT_READY if there is none in use, or TT_STORAGE. */
int tt_flash_confirm(const tt_flash *flash);

/* Go back to the delta before and load it. Returns as tt_flash_start, and TT_NOT_READY, changing nothing, if there
 * is none before a confirmed one. */
int tt_flash_roll_back(const tt_flash *flash);
