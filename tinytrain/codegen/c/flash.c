/* Two slots for deltas and two records in flash. A record says which slot is in use; it is valid if its checksum is
 * right, and the newer of two valid ones counts. The order of writes is what keeps a delta whole. */
#include "flash.h"
#include "internal.h"

#include <string.h>

#define NONE 2u /* in place of a slot */
#define FACTS 12u
#define PIECE 64u   /* bytes that are written at once: whole words of any flash */
#define RECORD 128u /* bytes; the rest stays erased */

typedef struct {
    uint32_t sequence; /* 0: there was no record */
    uint8_t current, previous, confirmed, starts;
} record;

static uint32_t slot_bytes(uint32_t sector)
{
    return ((TT_DELTA_BYTES - 1u) / sector + 1u) * sector;
}

uint32_t tt_flash_bytes(uint32_t sector)
{
    if (sector < RECORD || sector % PIECE || (TT_DELTA_BYTES - 1u) / sector + 2u > UINT32_MAX / 2u / sector)
        return UINT32_MAX;
    return 2u * sector + 2u * slot_bytes(sector);
}

static uint32_t slot_at(const tt_flash *flash, uint32_t slot)
{
    return 2u * flash->sector + slot * slot_bytes(flash->sector);
}

static int is_usable(const tt_flash *flash)
{
    uint32_t least = tt_flash_bytes(flash->sector);

    return least != UINT32_MAX && flash->bytes >= least;
}

/* ---- Records ---- */

static void encode(uint8_t *bytes, const record *r)
{
    tt_sha256 sha;

    memset(bytes, 0xFF, RECORD);
    memcpy(bytes, "ttr1", 4);
    for (int i = 0; i < 4; i++)
        bytes[4 + i] = (uint8_t)(r->sequence >> 8 * i);
    bytes[8] = r->current;
    bytes[9] = r->previous;
    bytes[10] = r->confirmed;
    bytes[11] = r->starts;
    tt_sha256_begin(&sha);
    tt_sha256_add(&sha, bytes, FACTS);
    tt_sha256_end(&sha, bytes + FACTS);
}

/* The record in a sector; sequence 0 if none is whole there. */
static int read_record(const tt_flash *flash, uint32_t k, record *r)
{
    uint8_t bytes[RECORD], expected[RECORD];

    r->sequence = 0;
    if (flash->read(flash->context, k * flash->sector, bytes, RECORD))
        return TT_STORAGE;
    r->current = bytes[8];
    r->previous = bytes[9];
    r->confirmed = bytes[10];
    r->starts = bytes[11];
    for (int i = 0; i < 4; i++)
        r->sequence |= (uint32_t)bytes[4 + i] << 8 * i;
    encode(expected, r);
    if (memcmp(bytes, expected, RECORD) || r->current > NONE || r->previous > NONE)
        r->sequence = 0;
    return TT_OK;
}

static int newest(const tt_flash *flash, record *r)
{
    record other;

    if (!is_usable(flash) || read_record(flash, 0, r) || read_record(flash, 1, &other))
        return TT_STORAGE;
    if (other.sequence > r->sequence)
        *r = other;
    if (r->sequence == 0) {
        r->current = r->previous = NONE;
        r->confirmed = 1;
        r->starts = 0;
    }
    return TT_OK;
}

/* The next record, where the older one was. */
static int write_record(const tt_flash *flash, record *r)
{
    uint8_t bytes[RECORD];
    record found;
    uint32_t k = ++r->sequence % 2u;

    encode(bytes, r);
    if (flash->erase(flash->context, k * flash->sector) ||
        flash->write(flash->context, k * flash->sector, bytes, RECORD) || read_record(flash, k, &found) ||
        found.sequence != r->sequence)
        return TT_STORAGE;
    return TT_OK;
}

/* The delta before is in use, and confirmed. */
static void drop_current(record *r)
{
    r->current = r->previous;
    r->previous = NONE;
    r->confirmed = 1;
    r->starts = 0;
}

/* ---- Deltas ---- */

/* A delta on its way, byte by byte of the part of flash. */
typedef struct {
    const tt_flash *flash;
    uint32_t at, filled;
    uint8_t piece[PIECE];
} stream;

static int get(void *context, void *bytes, uint32_t n)
{
    stream *s = context;
    int failed = s->flash->read(s->flash->context, s->at, bytes, n);

    s->at += n;
    return failed;
}

static int flush(stream *s)
{
    int failed = s->flash->write(s->flash->context, s->at, s->piece, PIECE);

    s->at += PIECE;
    s->filled = 0;
    return failed;
}

static int put(void *context, const void *bytes, uint32_t n)
{
    stream *s = context;

    for (const uint8_t *byte = bytes; n; n--) {
        s->piece[s->filled++] = *byte++;
        if (s->filled == PIECE && flush(s))
            return 1;
    }
    return 0;
}

/* Whether the bytes are there. */
static int compare(void *context, const void *bytes, uint32_t n)
{
    const uint8_t *expected = bytes;
    uint8_t found[PIECE];

    for (uint32_t part; n; n -= part, expected += part) {
        part = n < sizeof found ? n : (uint32_t)sizeof found;
        if (get(context, found, part) || memcmp(found, expected, part))
            return 1;
    }
    return 0;
}

static int load(const tt_flash *flash, uint32_t slot)
{
    stream s;

    if (slot == NONE) {
        tt_reset();
        return TT_NOT_READY;
    }
    s.flash = flash;
    s.at = slot_at(flash, slot);
    return tt_load(get, &s);
}

/* Write what was learnt to a slot, and read it back. */
static int write_slot(const tt_flash *flash, uint32_t slot)
{
    stream s;
    uint32_t first = slot_at(flash, slot);

    for (uint32_t at = first; at < first + slot_bytes(flash->sector); at += flash->sector)
        if (flash->erase(flash->context, at))
            return TT_STORAGE;
    s.flash = flash;
    s.at = first;
    s.filled = 0;
    if (tt_save(put, &s))
        return TT_STORAGE;
    if (s.filled) {
        memset(s.piece + s.filled, 0xFF, PIECE - s.filled);
        if (flush(&s))
            return TT_STORAGE;
    }
    s.at = first;
    return tt_save(compare, &s) ? TT_STORAGE : TT_OK;
}

/* ---- Interface ---- */

int tt_flash_start(const tt_flash *flash)
{
    record r;
    int result;

    if (newest(flash, &r))
        return TT_STORAGE;
    if (!r.confirmed && r.starts >= TT_TRIAL_STARTS) {
        drop_current(&r);
        write_record(flash, &r); /* if that fails, the next start finds the same */
    } else if (!r.confirmed) {
        r.starts++;
        if (write_record(flash, &r))
            return load(flash, r.previous);
    }
    result = load(flash, r.current);
    if (result == TT_BAD_DELTA && r.previous != NONE)
        result = load(flash, r.previous);
    return result;
}

int tt_flash_save(const tt_flash *flash)
{
    record r;

    if (!tt_has_learnt())
        return TT_NOT_READY;
    if (newest(flash, &r))
        return TT_STORAGE;
    if (!r.confirmed)
        return TT_ON_TRIAL;
    if (r.previous != NONE) { /* its slot is needed */
        r.previous = NONE;
        if (write_record(flash, &r))
            return TT_STORAGE;
    }
    r.previous = r.current;
    r.current = r.current == 0 ? 1 : 0;
    r.confirmed = r.starts = 0;
    if (write_slot(flash, r.current))
        return TT_STORAGE;
    return write_record(flash, &r);
}

int tt_flash_confirm(const tt_flash *flash)
{
    record r;

    if (newest(flash, &r))
        return TT_STORAGE;
    if (r.current == NONE)
        return TT_NOT_READY;
    if (r.confirmed)
        return TT_OK;
    r.confirmed = 1;
    r.starts = 0;
    return write_record(flash, &r);
}

int tt_flash_roll_back(const tt_flash *flash)
{
    record r;

    if (newest(flash, &r))
        return TT_STORAGE;
    if (r.current == NONE || (r.confirmed && r.previous == NONE))
        return TT_NOT_READY;
    drop_current(&r);
    if (write_record(flash, &r))
        return TT_STORAGE;
    return load(flash, r.current);
}
