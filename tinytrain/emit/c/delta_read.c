/* What was learnt, from storage: the file that delta.c writes, or one of Python.
 *
 * In a file from Python the numbers of the header may be longer, and two texts say more than here: what the head knows
 * of images of no class, and a report. They are read and forgotten. */
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

/* A number >= 0 of JSON as 7 digits, in decimals alone; `next` gets the character behind it. */
static int read_number(reader *from, uint8_t *text, uint8_t *next)
{
    uint32_t digits = 0, known = 0, any = 0;
    int exponent = -1, power = 0, point = 0, up = 0;
    int power_sign = 0; /* 1: an e was read, 2: with a plus, -1: with a minus */

    for (;; any = 1) {
        int result = read_character(from, next);
        uint8_t c = *next;
        if (result != TT_OK)
            return result;
        if (c >= '0' && c <= '9' && power_sign) {
            power = power * 10 + (c - '0');
            if (power > 99)
                return TT_BAD_DELTA;
        } else if (c >= '0' && c <= '9') {
            if (known == 0 && c == '0') {
                exponent -= point;
                continue;
            }
            digits = known < 7 ? digits * 10u + (uint32_t)(c - '0') : digits;
            up = known == 7 ? c >= '5' : up;
            known++;
            exponent += !point;
        } else if (c == '.' && !point && !power_sign) {
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
        digits *= 10u;
    digits += (uint32_t)up;
    if (digits == 10000000u) {
        digits = 1000000u;
        exponent++;
    }
    exponent = known ? exponent + (power_sign < 0 ? -power : power) : 0;
    if (exponent < -99 || exponent > 99)
        return TT_BAD_DELTA;
    tt_write_digits(text, digits, exponent);
    return TT_OK;
}

/* The texts of the head: its temperature, its accuracy, and the views of each image, which are known. */
static int read_head(reader *from)
{
    uint8_t next;
    uint32_t at = tt_delta_temperature_at + TT_NUMBER_BYTES;
    int result = read_number(from, tt_delta_temperature, &next);

    if (result == TT_OK)
        result = read_known(from, at, tt_delta_left_out_at, &next);
    if (TT_SHOTS < 2)
        return result == TT_OK ? read_known(from, tt_delta_left_out_at, tt_delta_limit_at, NULL) : result;
    if (result == TT_OK)
        result = read_number(from, tt_delta_left_out, &next);
    if (result == TT_OK)
        result = read_known(from, tt_delta_left_out_at + TT_NUMBER_BYTES, tt_delta_limit_at, &next);
    return result;
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
    result = read_known(from, tt_delta_sum_at + TT_SUM_BYTES, tt_delta_temperature_at, NULL);
    if (result == TT_OK)
        result = read_head(from);
    if (result == TT_OK)
        result = skip_text(from);
    if (result == TT_OK)
        result = read_known(from, tt_delta_behind_head, tt_delta_report_at, NULL);
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
