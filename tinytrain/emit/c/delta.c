/* What was learnt, to storage and back: a safetensors file, which tinytrain on a PC reads as a delta. */
#include "internal.h"

#include <string.h>

#define TEMPERATURE_BYTES 12u /* d.dddddde+dd */
#define CRC_BYTES 8u

static float temperature;

/* CRC-32 of IEEE 802.3, bit by bit. */
static uint32_t crc(uint32_t found, const uint8_t *bytes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        found ^= bytes[i];
        for (int k = 0; k < 8; k++)
            found = found >> 1 ^ (found & 1u ? 0xEDB88320u : 0u);
    }
    return found;
}

/* Numbers that are not in memory: indices of all channels, and counts of embeddings. */
static int32_t without_memory(const tt_part *part, uint32_t i)
{
    return part->limit ? (int32_t)i : (int32_t)(TT_FITTED / TT_WAYS);
}

/* The mean lead of the own class of the support images over the others, times a fraction: as sure as a support
 * image may make its head at the most. */
void tt_measure_temperature(const tt_head *head)
{
    float logits[TT_WAYS], lead = 0.0f;

    tt_embed(TT_ROWS, 0, 1);
    for (uint32_t p = 0; p < TT_SUPPORT; p++) {
        int32_t label = tt_label_of(tt_image_at(p));
        float others = 0.0f;
        tt_answer(head, TT_ROWS + p * TT_EMBEDDING, logits);
        for (uint32_t k = 0; k < TT_WAYS; k++)
            others += (int32_t)k == label ? 0.0f : logits[k];
        lead += logits[label] - others / (float)(TT_WAYS - 1u);
    }
    temperature = tt_lead_fraction * lead / (float)TT_SUPPORT;
    if (!(temperature > 1e-30f && temperature < 1e30f))
        temperature = 1e30f; /* the classes cannot be told apart */
}

/* x > 0 as d.dddddde+dd. */
static void write_number(uint8_t *text, float x)
{
    int exponent = 0;
    uint32_t digits;

    for (; x >= 10.0f; exponent++)
        x /= 10.0f;
    for (; x < 1.0f; exponent--)
        x *= 10.0f;
    digits = (uint32_t)(x * 1e6f);
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

/* All arrays through `write`, or only their checksum into `found` if that is NULL. */
static int each_part(tt_write write, void *context, uint32_t *found)
{
    for (uint32_t k = 0; k < TT_PARTS; k++) {
        const tt_part *part = &tt_delta_parts[k];
        for (uint32_t i = 0; i < part->count; i++) {
            int32_t number = part->memory ? 0 : without_memory(part, i);
            const void *bytes = part->memory ? (const uint8_t *)part->memory + 4u * i : (const void *)&number;
            if (!write)
                *found = crc(*found, bytes, 4);
            else if (write(context, bytes, 4))
                return TT_STORAGE;
        }
    }
    return TT_OK;
}

int tt_write_delta(tt_write write, void *context)
{
    uint8_t number[TEMPERATURE_BYTES], sum[CRC_BYTES];
    uint32_t found = 0xFFFFFFFFu;

    each_part(NULL, NULL, &found);
    for (uint32_t i = 0; i < CRC_BYTES; i++)
        sum[i] = (uint8_t) "0123456789abcdef"[~found >> (28u - 4u * i) & 15u];
    write_number(number, temperature);
    for (uint32_t at = 0; at < tt_delta_header_bytes; at++) {
        const uint8_t *byte = &tt_delta_header[at];
        if (at - tt_delta_temperature_at < TEMPERATURE_BYTES)
            byte = &number[at - tt_delta_temperature_at];
        if (at - tt_delta_crc_at < CRC_BYTES)
            byte = &sum[at - tt_delta_crc_at];
        if (write(context, byte, 1))
            return TT_STORAGE;
    }
    return each_part(write, context, NULL);
}

/* The header must be ours but for the two fields; returns the checksum that it states in `sum`. */
static int read_header(tt_read read, void *context, uint8_t *sum)
{
    for (uint32_t at = 0; at < tt_delta_header_bytes; at++) {
        uint8_t byte;
        if (read(context, &byte, 1))
            return TT_STORAGE;
        if (at - tt_delta_crc_at < CRC_BYTES)
            sum[at - tt_delta_crc_at] = byte;
        else if (at - tt_delta_temperature_at >= TEMPERATURE_BYTES && byte != tt_delta_header[at])
            return TT_BAD_DELTA;
    }
    return TT_OK;
}

int tt_read_delta(tt_read read, void *context)
{
    uint8_t sum[CRC_BYTES];
    uint32_t found = 0xFFFFFFFFu;
    int result = read_header(read, context, sum);

    if (result != TT_OK)
        return result;
    for (uint32_t k = 0; k < TT_PARTS; k++) {
        const tt_part *part = &tt_delta_parts[k];
        int32_t last = -1, number;
        for (uint32_t i = 0; i < part->count; i++) {
            if (read(context, &number, 4))
                return TT_STORAGE;
            found = crc(found, (const uint8_t *)&number, 4);
            if (part->limit && (number <= last || number >= part->limit))
                return TT_BAD_DELTA;
            last = number;
            if (part->memory)
                memcpy((uint8_t *)part->memory + 4u * i, &number, 4);
            else if (number != without_memory(part, i))
                return TT_BAD_DELTA;
        }
    }
    for (uint32_t i = 0; i < CRC_BYTES; i++)
        if (sum[i] != (uint8_t) "0123456789abcdef"[~found >> (28u - 4u * i) & 15u])
            return TT_BAD_DELTA;
    return TT_OK;
}
