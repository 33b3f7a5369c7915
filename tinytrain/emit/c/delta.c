/* What was learnt, to storage: a safetensors file, which tinytrain on a PC reads as a delta.
 *
 * Its header is known but for three texts: the SHA-256 of the file with zeros in place of this text itself, the
 * temperature of the head, and its accuracy for images that it has not seen. */
#include "internal.h"

#include <string.h>

#define TEXTS 3u

uint8_t tt_delta_temperature[TT_NUMBER_BYTES], tt_delta_left_out[TT_NUMBER_BYTES];

/* A text of the header, and its place there. */
typedef struct {
    uint32_t at, bytes;
    uint8_t *text;
} text_of_header;

/* The texts in the order of the header, with `sum` as the first. */
static void texts_of_header(text_of_header *texts, uint8_t *sum)
{
    texts[0].at = tt_delta_sum_at;
    texts[0].bytes = TT_SUM_BYTES;
    texts[0].text = sum;
    texts[1].at = tt_delta_temperature_at;
    texts[1].bytes = TT_NUMBER_BYTES;
    texts[1].text = tt_delta_temperature;
    texts[2].at = tt_delta_left_out_at;
    texts[2].bytes = TT_SHOTS > 1 ? TT_NUMBER_BYTES : 0; /* without another image of its class none is left out */
    texts[2].text = tt_delta_left_out;
}

/* Numbers that are not in memory: indices of all channels, and counts of embeddings. */
int32_t tt_without_memory(const tt_part *part, uint32_t i)
{
    return part->limit ? (int32_t)i : (int32_t)(TT_FITTED / TT_WAYS);
}

/* 7 digits and the exponent of the first of them. */
void tt_write_digits(uint8_t *text, uint32_t digits, int exponent)
{
    for (uint32_t i = 7; i > 1; i--, digits /= 10u)
        text[i] = (uint8_t)('0' + digits % 10u);
    text[0] = (uint8_t)('0' + digits % 10u);
    text[1] = '.';
    text[8] = 'e';
    text[9] = exponent < 0 ? '-' : '+';
    exponent = exponent < 0 ? -exponent : exponent;
    text[10] = (uint8_t)('0' + exponent / 10);
    text[11] = (uint8_t)('0' + exponent % 10);
}

/* x >= 0. */
static void write_number(uint8_t *text, double x)
{
    int exponent = 0;
    uint32_t digits;

    for (; x >= 10.0; exponent++)
        x /= 10.0;
    for (; x > 0.0 && x < 1.0; exponent--)
        x *= 10.0;
    digits = (uint32_t)(x * 1e6 + 0.5);
    if (digits == 10000000u) {
        digits = 1000000u;
        exponent++;
    }
    tt_write_digits(text, digits, exponent);
}

void tt_describe_head(double given_temperature, double given_left_out)
{
    write_number(tt_delta_temperature, given_temperature);
    write_number(tt_delta_left_out, given_left_out);
}

/* The file, piece by piece. */
static int produce(tt_write write, void *context, uint8_t *sum)
{
    text_of_header texts[TEXTS];
    uint32_t at = 0;
    int failed = 0;

    texts_of_header(texts, sum);
    for (uint32_t k = 0; k < TEXTS && !failed; k++) {
        failed = write(context, tt_delta_header + at, texts[k].at - at);
        if (!failed && texts[k].bytes)
            failed = write(context, texts[k].text, texts[k].bytes);
        at = texts[k].at + texts[k].bytes;
    }
    failed = failed || write(context, tt_delta_header + at, tt_delta_header_bytes - at);
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
