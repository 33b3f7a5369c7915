/* What was learnt, to storage: a safetensors file, which tinytrain on a PC reads as a delta.
 *
 * Its header is known but for the SHA-256 of the file, with zeros in place of this text itself, and for what is known
 * of the head. */
#include "internal.h"

#include <string.h>

#define NUMBER_BYTES 13u /* [-]d.dddddde+dd */

/* Numbers that are not in memory: indices of all channels, and counts of embeddings. */
int32_t tt_without_memory(const tt_part *part, uint32_t i)
{
    return part->limit ? (int32_t)i : (int32_t)(TT_FITTED / TT_WAYS);
}

tt_number tt_number_of(double x)
{
    double size = x < 0.0 ? -x : x;
    tt_number found = {0, 0};

    for (; size >= 10.0; found.exponent++)
        size /= 10.0;
    for (; size > 0.0 && size < 1.0; found.exponent--)
        size *= 10.0;
    found.digits = (int32_t)(size * 1e6 + 0.5);
    if (found.digits == 10000000) {
        found.digits = 1000000;
        found.exponent++;
    }
    found.digits = x < 0.0 ? -found.digits : found.digits;
    return found;
}

double tt_value_of(tt_number x)
{
    double value = (double)x.digits / 1e6;

    for (; x.exponent > 0; x.exponent--)
        value *= 10.0;
    for (; x.exponent < 0; x.exponent++)
        value /= 10.0;
    return value;
}

/* The last `n` bytes of its text. */
static int write_number(tt_write write, void *context, tt_number x, uint32_t n)
{
    uint8_t bytes[NUMBER_BYTES], *text = bytes + 1;
    int exponent = x.exponent < 0 ? -x.exponent : x.exponent;
    int32_t digits = x.digits < 0 ? -x.digits : x.digits;

    bytes[0] = x.digits < 0 ? '-' : ' ';
    for (uint32_t i = 7; i > 1; i--, digits /= 10)
        text[i] = (uint8_t)('0' + digits % 10);
    text[0] = (uint8_t)('0' + digits);
    text[1] = '.';
    text[8] = 'e';
    text[9] = x.exponent < 0 ? '-' : '+';
    text[10] = (uint8_t)('0' + exponent / 10);
    text[11] = (uint8_t)('0' + exponent % 10);
    return write(context, bytes + NUMBER_BYTES - n, n);
}

/* The header, with `sum`; spaces stand in place of a limit that the head has not. */
static int produce_header(tt_write write, void *context, const uint8_t *sum)
{
    uint32_t at = tt_delta_sum_at + TT_SUM_BYTES;
    int failed = write(context, tt_delta_header, tt_delta_sum_at) || write(context, sum, TT_SUM_BYTES);

    for (uint32_t k = 0; k < TT_FACTS && !failed; k++) {
        if (k == TT_ACCURACY && TT_SHOTS < 2)
            continue; /* without another image of its class none is left out */
        if (k == TT_SCALE && tt_known.number[k].digits == 0) {
            failed = write(context, tt_delta_header + at, tt_delta_limit_at - at);
            for (at = tt_delta_limit_at; at < tt_delta_limit_end && !failed; at++)
                failed = write(context, " ", 1);
            break;
        }
        failed = write(context, tt_delta_header + at, tt_delta_facts_at[k] - at) ||
                 write_number(write, context, tt_known.number[k], tt_delta_facts_end[k] - tt_delta_facts_at[k]);
        at = tt_delta_facts_end[k];
    }
    return failed || write(context, tt_delta_header + at, tt_delta_header_bytes - at);
}

/* The file, piece by piece. */
static int produce(tt_write write, void *context, const uint8_t *sum)
{
    int failed = produce_header(write, context, sum);

    for (const tt_part *part = tt_delta_parts; part < tt_delta_parts + TT_PARTS && !failed; part++)
        if (part->memory)
            failed = write(context, part->memory, part->bytes * part->count);
        else
            for (uint32_t i = 0; i < part->count && !failed; i++) {
                int32_t number = tt_without_memory(part, i);
                failed = write(context, &number, 4);
            }
    return failed ? TT_STORAGE : TT_OK;
}

/* Whether all numbers that are no indices and no codes are finite. */
int tt_delta_is_finite(void)
{
    for (const tt_part *part = tt_delta_parts; part < tt_delta_parts + TT_PARTS; part++)
        if (part->memory && !part->limit && part->bytes == 4)
            for (uint32_t i = 0; i < part->count; i++)
                if (!tt_is_finite(((const float *)part->memory)[i]))
                    return 0;
    return 1;
}

static int add(void *sha, const void *bytes, uint32_t n)
{
    tt_sha256_add(sha, bytes, n);
    return 0;
}

int tt_write_delta(tt_write write, void *context)
{
    uint8_t sum[TT_SUM_BYTES];
    tt_sha256 sha;

    memset(sum, '0', sizeof sum);
    tt_sha256_begin(&sha);
    produce(add, &sha, sum);
    tt_sha256_end(&sha, sum);
    return produce(write, context, sum);
}
