/* Loads deltas that were written elsewhere: a file of queries, then the deltas. Of each it prints what tt_load returned;
 * if that is 0, labels, bits of logits, confidence and state follow, and, in hexadecimal, the bytes that tt_save
 * writes. Then every byte of the first delta is changed in turn, and it is cut off at every length: it prints how often
 * that was not refused. */
#include <stdio.h>
#include <string.h>

#include "tinytrain.h"

#define MOST (1u << 20)
static unsigned char delta[MOST], query[TT_HEIGHT * TT_ROW_BYTES];
static uint32_t place, size;

static int get(void *context, void *bytes, uint32_t n)
{
    (void)context;
    if (n > size - place)
        return 1;
    memcpy(bytes, delta + place, n);
    place += n;
    return 0;
}

static int put(void *context, const void *bytes, uint32_t n)
{
    (void)context;
    for (uint32_t i = 0; i < n; i++)
        printf("%02x", ((const unsigned char *)bytes)[i]);
    return 0;
}

static int load(void)
{
    place = 0;
    return tt_load(get, NULL);
}

static uint32_t read_file(const char *name, unsigned char *bytes, uint32_t most)
{
    FILE *file = fopen(name, "rb");
    uint32_t n = file ? (uint32_t)fread(bytes, 1, most, file) : 0;

    if (file)
        fclose(file);
    return n;
}

int main(int count, char **files)
{
    uint32_t wrong = 0, whole;

    for (int k = 2; k < count; k++) {
        FILE *queries = fopen(files[1], "rb");
        int result;
        tt_init();
        size = read_file(files[k], delta, MOST);
        result = load();
        printf("%d", result);
        while (result == TT_OK && queries && fread(query, sizeof query, 1, queries) == 1) {
            float logits[TT_WAYS];
            uint32_t bits;
            tt_verdict verdict;
            printf(" %d", tt_predict(query, logits));
            for (uint32_t w = 0; w < TT_WAYS; w++) {
                memcpy(&bits, &logits[w], sizeof bits);
                printf(":%08x", (unsigned)bits);
            }
            if (tt_verdict_of(logits, &verdict) == TT_OK)
                printf(":%.9g:%d", (double)verdict.confidence, verdict.state);
        }
        printf(" ");
        if (result == TT_OK)
            result = tt_save(put, NULL);
        printf("\n");
        if (queries)
            fclose(queries);
    }
    whole = size = read_file(files[2], delta, MOST);
    for (uint32_t i = 0; i < whole; i++) {
        delta[i] ^= (unsigned char)(1u << i % 7u);
        wrong += load() == TT_OK;
        delta[i] ^= (unsigned char)(1u << i % 7u);
    }
    for (size = 0; size < whole; size++)
        wrong += load() == TT_OK;
    printf("%u\n", (unsigned)wrong);
    return 0;
}
