/* Adapts to images of a file, and traces it: the library is compiled with TT_TRACE. TRAINED stands for a line for
 * each array that training changed. */
#include <stdio.h>
#include <stdlib.h>
#include "internal.h"

static FILE *traced;

void tt_trace(const char *name, const void *values, uint32_t nbytes)
{
    fprintf(traced, "%s\n%u\n", name, (unsigned)nbytes);
    fwrite(values, 1, nbytes, traced);
}

#define PIXELS (TT_HEIGHT * TT_ROW_BYTES)
static unsigned char support[TT_SUPPORT][PIXELS], query[PIXELS];

static unsigned char file[1 << 20];
static uint32_t place, size;

static int put(void *context, const void *bytes, uint32_t n)
{
    (void)context;
    for (uint32_t i = 0; i < n; i++)
        file[place++] = ((const unsigned char *)bytes)[i];
    return 0;
}

static int get(void *context, void *bytes, uint32_t n)
{
    (void)context;
    for (uint32_t i = 0; i < n; i++)
        ((unsigned char *)bytes)[i] = file[place++];
    return place > size;
}

static int32_t load(void)
{
    place = 0;
    return tt_load(get, NULL);
}

/* What is known of the head that answers, and what it says of an image. */
static void trace_facts(void)
{
    double facts[TT_FACTS];
    for (uint32_t k = 0; k < TT_FACTS; k++)
        facts[k] = tt_value_of(tt_known.number[k]);
    tt_trace("facts", facts, sizeof facts);
}

static void trace_verdict(void)
{
    float logits[TT_WAYS];
    int32_t label = tt_predict(query, logits);
    tt_verdict verdict;
    if (tt_verdict_of(logits, &verdict) != TT_OK || (int32_t)verdict.label != label)
        exit(97);
    tt_trace("label", &label, sizeof label);
    tt_trace("confidence", &verdict.confidence, sizeof verdict.confidence);
    tt_trace("state", &verdict.state, sizeof verdict.state);
}

/* What was learnt is written, refused if a byte is damaged or missing, read into memory that is empty, and
 * written once more. */
static void save_and_load(void)
{
    int32_t results[3];
    if (tt_save(put, NULL) != TT_OK)
        return;
    size = place;
    tt_trace("delta", file, size);
    for (uint32_t i = 0; i < size; i += i < tt_delta_header_bytes ? 1 : 997) {
        int32_t damaged;
        file[i] ^= 1;
        damaged = load();
        file[i] ^= 1;
        tt_trace("damaged", &damaged, sizeof damaged);
    }
    size--;
    results[0] = load();
    size++;
    for (uint32_t i = 0; i < TT_ARENA_BYTES; i++)
        tt_arena.bytes[i] = 0xA5;
    results[1] = load();
    place = 0;
    results[2] = tt_save(put, NULL);
    tt_trace("loading", results, sizeof results);
    tt_trace("saved again", file, place);
}

int main(int count, char **files)
{
    FILE *images = fopen(files[1], "rb");
    int result;
    traced = fopen(files[2], "wb");
    if (count != 3 || !images || !traced || fread(support, sizeof support, 1, images) != 1)
        return 99;
    tt_init();
    for (uint32_t i = 0; i < TT_SUPPORT; i++)
        if (tt_add_image(i / TT_SHOTS, support[i]) != TT_OK)
            return 98;
    result = tt_adapt(NULL);
    tt_trace("result", &result, sizeof result);
    TRAINED
    trace_facts();
    save_and_load();
    trace_facts(); /* the same */
    while (fread(query, sizeof query, 1, images) == 1)
        trace_verdict();
    return fclose(traced) || fclose(images);
}
