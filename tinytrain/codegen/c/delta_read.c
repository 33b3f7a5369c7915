/* What was learnt, from storage: the file that delta.c writes, or one of Python.
 *
 * In a file from Python the numbers of the header may be longer, and a report says more than here: it is read and
 * forgotten. */
#include "internal.h"

#include <string.h>

/* A file that is read, the SHA-256 of what was read, and how much of its header is left. */
typedef struct {
    tt_read read;
    void *context;
    tt_sha256 sha;
    uint32_t header;
} reader;

static int read_bytes(reader *from, void *bytes, uint32_t n)
{
    if (from->read(from->context, bytes, n))
        return TT_STORAGE;
    tt_sha256_add(&from->sha, bytes, n);
    return TT_OK;
}

/* The next byte of the header. */
static int read_character(reader *from, uint8_t *c)
{
    if (from->header == 0)
        return TT_BAD_DELTA;
    from->header--;
    return read_bytes(from, c, 1);
}

/* Bytes of the header that must be ours, from `at` up to `end`; the first was read already if `next` is not NULL. */
static int read_known(reader *from, uint32_t at, uint32_t end, const uint8_t *next)
{
    for (; at < end; at++, next = NULL) {
        uint8_t c = next ? *next : 0;
        int result = next ? TT_OK : read_character(from, &c);
        if (result != TT_OK)
            return result;
        if (c != tt_delta_header[at])
            return TT_BAD_DELTA;
    }
    return TT_OK;
}

/* A text up to the quote that ends it. */
static int skip_text(reader *from)
{
    uint8_t c = 0;

    while (c != '"') {
        int result = read_character(from, &c);
        if (result == TT_OK && c == '\\') {
            result = read_character(from, &c);
            c = 0;
        }
        if (result != TT_OK)
            return result;
    }
    return TT_OK;
}

/* A number of JSON as 7 digits, in decimals alone; `next` gets the character behind it. */
static int read_number(reader *from, tt_number *number, uint8_t *next)
{
    uint32_t known = 0, any = 0;
    int32_t digits = 0;
    int exponent = -1, power = 0, point = 0, up = 0, negative = 0;
    int power_sign = 0; /* 1: an e was read, 2: with a plus, -1: with a minus */

    for (;;) {
        int result = read_character(from, next);
        uint8_t c = *next;
        if (result != TT_OK)
            return result;
        if (!any && (c == ' ' || c == '-') && !negative) {
            negative = c == '-';
            continue;
        }
        if (c >= '0' && c <= '9' && power_sign) {
            power = power * 10 + (c - '0');
            if (power > 99)
                return TT_BAD_DELTA;
        } else if (c >= '0' && c <= '9') {
            any = 1;
            if (known == 0 && c == '0') {
                exponent -= point;
                continue;
            }
            digits = known < 7 ? digits * 10 + (c - '0') : digits;
            up = known == 7 ? c >= '5' : up;
            known++;
            exponent += !point;
        } else if (c == '.' && any && !point && !power_sign) {
            point = 1;
        } else if (c == 'e' && any && !power_sign) {
            power_sign = 1;
        } else if ((c == '-' || c == '+') && power_sign == 1 && power == 0) {
            power_sign = c == '-' ? -1 : 2;
        } else {
            break;
        }
    }
    if (!any)
        return TT_BAD_DELTA;
    for (; known && known < 7; known++)
        digits *= 10;
    digits += up;
    if (digits == 10000000) {
        digits = 1000000;
        exponent++;
    }
    exponent = known ? exponent + (power_sign < 0 ? -power : power) : 0;
    if (exponent < -99 || exponent > 99)
        return TT_BAD_DELTA;
    number->digits = negative ? -digits : digits;
    number->exponent = exponent;
    return TT_OK;
}

/* What is known of the head, up to the report. */
static int read_facts(reader *from)
{
    tt_number *facts = tt_known.number;
    uint32_t at = tt_delta_sum_at + TT_SUM_BYTES;
    uint8_t next = 0, *read = NULL; /* what was read already, if anything */
    int result = TT_OK;

    for (uint32_t k = 0; k < TT_FACTS && result == TT_OK; k++) {
        if (k == TT_ACCURACY && TT_SHOTS < 2)
            continue;
        if (k == TT_SCALE) {
            result = read_known(from, at, tt_delta_limit_at, read);
            for (next = ' '; result == TT_OK && next == ' ';)
                result = read_character(from, &next);
            read = &next;
            at = next == ',' ? tt_delta_limit_at : tt_delta_limit_end;
            facts[k].digits = 0;
            if (next != ',')
                break; /* the head has no limit */
        }
        if (result == TT_OK)
            result = read_known(from, at, tt_delta_facts_at[k], read);
        if (result == TT_OK)
            result = read_number(from, &facts[k], &next);
        if (result == TT_OK && k != TT_LEAST && facts[k].digits < (k == TT_ACCURACY ? 0 : 1))
            return TT_BAD_DELTA;
        read = &next;
        at = tt_delta_facts_end[k];
    }
    return result == TT_OK ? read_known(from, at, tt_delta_report_at, read) : result;
}

/* The header; `sum` gets the SHA-256 that it states. */
static int read_header(reader *from, uint8_t *sum)
{
    uint8_t zeros[TT_SUM_BYTES], size[8], c;
    int result = read_bytes(from, size, sizeof size);

    memset(zeros, '0', sizeof zeros);
    if (result != TT_OK)
        return result;
    from->header = (uint32_t)size[0] | (uint32_t)size[1] << 8 | (uint32_t)size[2] << 16;
    if (size[3] || size[4] || size[5] || size[6] || size[7])
        return TT_BAD_DELTA;
    result = read_known(from, 8, tt_delta_sum_at, NULL);
    if (result != TT_OK)
        return result;
    if (from->header < TT_SUM_BYTES)
        return TT_BAD_DELTA;
    if (from->read(from->context, sum, TT_SUM_BYTES))
        return TT_STORAGE;
    from->header -= TT_SUM_BYTES;
    tt_sha256_add(&from->sha, zeros, TT_SUM_BYTES);
    result = read_facts(from);
    if (result == TT_OK)
        result = skip_text(from);
    if (result == TT_OK)
        result = read_known(from, tt_delta_behind_report, tt_delta_header_end, NULL);
    while (result == TT_OK && from->header) {
        result = read_character(from, &c);
        if (result == TT_OK && c != ' ')
            result = TT_BAD_DELTA;
    }
    return result;
}

/* An array of the delta; indices must rise and be below the limit. */
static int read_part(reader *from, const tt_part *part)
{
    int32_t last = -1, number;

    for (uint32_t i = 0; i < part->count; i++) {
        int result = read_bytes(from, &number, part->bytes);
        if (result != TT_OK)
            return result;
        if (part->limit && (number <= last || number >= part->limit))
            return TT_BAD_DELTA;
        last = number;
        if (part->memory)
            memcpy((uint8_t *)part->memory + part->bytes * i, &number, part->bytes);
        else if (number != tt_without_memory(part, i))
            return TT_BAD_DELTA;
    }
    return TT_OK;
}

int tt_read_delta(tt_read read, void *context)
{
    uint8_t stated[TT_SUM_BYTES], sum[TT_SUM_BYTES];
    reader from;
    int result;

    from.read = read;
    from.context = context;
    tt_sha256_begin(&from.sha);
    result = read_header(&from, stated);
    for (uint32_t k = 0; k < TT_PARTS && result == TT_OK; k++)
        result = read_part(&from, &tt_delta_parts[k]);
    if (result != TT_OK)
        return result;
    tt_sha256_end(&from.sha, sum);
    return memcmp(stated, sum, sizeof sum) ? TT_BAD_DELTA : TT_OK;
}
