/* What was learnt, to storage and back: a safetensors file, which tinytrain on a PC reads as a delta.
 *
 * Its header is known but for three texts: the SHA-256 of the file with zeros in place of this text itself, the
 * temperature of the head, and its accuracy for images that it has not seen. */
#include "internal.h"

#include <string.h>

#define SUM_BYTES 64u
#define NUMBER_BYTES 12u /* d.dddddde+dd */
#define TEXTS 3u

static uint8_t temperature[NUMBER_BYTES], left_out[NUMBER_BYTES];

/* A text of the header, and its place there. */
typedef struct {
    uint32_t at, bytes;
    uint8_t *text;
} text_of_header;

/* The texts in the order of the header, with `sum` as the first. */
static void texts_of_header(text_of_header *texts, uint8_t *sum)
{
    texts[0].at = tt_delta_sum_at;
    texts[0].bytes = SUM_BYTES;
    texts[0].text = sum;
    texts[1].at = tt_delta_temperature_at;
    texts[1].bytes = NUMBER_BYTES;
    texts[1].text = temperature;
    texts[2].at = tt_delta_left_out_at;
    texts[2].bytes = TT_SHOTS > 1 ? NUMBER_BYTES : 0; /* without another image of its class none is left out */
    texts[2].text = left_out;
}

/* Numbers that are not in memory: indices of all channels, and counts of embeddings. */
static int32_t without_memory(const tt_part *part, uint32_t i)
{
    return part->limit ? (int32_t)i : (int32_t)(TT_FITTED / TT_WAYS);
}

/* x >= 0, with 7 digits. */
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

static int is_number(const uint8_t *text)
{
    for (uint32_t i = 0; i < NUMBER_BYTES; i++) {
        int right = text[i] >= '0' && text[i] <= '9';
        if (i == 1)
            right = text[i] == '.';
        else if (i == 8)
            right = text[i] == 'e';
        else if (i == 9)
            right = text[i] == '+' || text[i] == '-';
        if (!right)
            return 0;
    }
    return 1;
}

void tt_describe_head(double given_temperature, double given_left_out)
{
    write_number(temperature, given_temperature);
    write_number(left_out, given_left_out);
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
                int32_t number = without_memory(part, i);
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
    uint8_t sum[SUM_BYTES];
    tt_sha256 sha;

    memset(sum, '0', sizeof sum);
    tt_sha256_begin(&sha);
    produce(add, &sha, sum);
    tt_sha256_end(&sha, sum);
    return produce(write, context, sum);
}

/* A file that is read, and the SHA-256 of what was read. */
typedef struct {
    tt_read read;
    void *context;
    tt_sha256 sha;
} reader;

static int read_bytes(reader *from, void *bytes, uint32_t n)
{
    if (from->read(from->context, bytes, n))
        return TT_STORAGE;
    tt_sha256_add(&from->sha, bytes, n);
    return TT_OK;
}

/* Bytes of the header that must be ours, from `at` up to `end`. */
static int read_known(reader *from, uint32_t at, uint32_t end)
{
    while (at < end) {
        uint8_t bytes[32];
        uint32_t n = end - at < sizeof bytes ? end - at : (uint32_t)sizeof bytes;
        int result = read_bytes(from, bytes, n);
        if (result != TT_OK)
            return result;
        if (memcmp(bytes, tt_delta_header + at, n))
            return TT_BAD_DELTA;
        at += n;
    }
    return TT_OK;
}

/* The header; `sum` gets the SHA-256 that it states. */
static int read_header(reader *from, uint8_t *sum)
{
    uint8_t zeros[SUM_BYTES];
    text_of_header texts[TEXTS];
    uint32_t at = 0;
    int result = TT_OK;

    memset(zeros, '0', sizeof zeros);
    texts_of_header(texts, sum);
    for (uint32_t k = 0; k < TEXTS && result == TT_OK; k++) {
        result = read_known(from, at, texts[k].at);
        if (result == TT_OK && from->read(from->context, texts[k].text, texts[k].bytes))
            result = TT_STORAGE;
        tt_sha256_add(&from->sha, k ? texts[k].text : zeros, texts[k].bytes);
        at = texts[k].at + texts[k].bytes;
    }
    if (result == TT_OK)
        result = read_known(from, at, tt_delta_header_bytes);
    if (result == TT_OK && (!is_number(temperature) || (TT_SHOTS > 1 && !is_number(left_out))))
        result = TT_BAD_DELTA;
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
        else if (number != without_memory(part, i))
            return TT_BAD_DELTA;
    }
    return TT_OK;
}

int tt_read_delta(tt_read read, void *context)
{
    uint8_t stated[SUM_BYTES], sum[SUM_BYTES];
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
