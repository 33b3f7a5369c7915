/* Images that come row by row, of a library whose images also lie in memory: a file of support images and queries,
 * and of how many calls of the callback one fails. Prints the line of what is wrong; else how many rows were asked
 * for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tinytrain.h"

#define QUERIES 4u
#define PIXELS (TT_HEIGHT * TT_ROW_BYTES)
#define NEVER 0xFFFFFFFFu
#define CHECK(holds) \
    if (!(holds)) \
        return printf("line %d, call %u of the callback\n", __LINE__, (unsigned)fail_at), 1

typedef struct {
    unsigned char learnt[TT_DELTA_BYTES];
    float logits[QUERIES][TT_WAYS];
} knowledge;

static unsigned char images[TT_SUPPORT + QUERIES][PIXELS];
static uint32_t calls, fail_at = NEVER, outside, repeated, last_row, first_row;
static void *last_image;

static int rows(void *image, uint32_t row, uint8_t *pixels)
{
    if (row >= TT_HEIGHT) {
        outside++;
        return 1;
    }
    if (calls++ >= fail_at)
        return -3; /* any number but 0 */
    if (image != last_image)
        first_row = row;
    else
        repeated += TT_LAST_ROW_FIRST ? row >= last_row : row <= last_row;
    last_image = image;
    last_row = row;
    memcpy(pixels, (unsigned char *)image + row * TT_ROW_BYTES, TT_ROW_BYTES);
    return 0;
}

static void begin(uint32_t fails)
{
    calls = outside = repeated = 0;
    last_image = NULL;
    fail_at = fails;
}

static unsigned char *at;

static int put(void *end, const void *bytes, uint32_t n)
{
    if (n > (uint32_t)((unsigned char *)end - at))
        return 1;
    memcpy(at, bytes, n);
    at += n;
    return 0;
}

static int get(void *end, void *bytes, uint32_t n)
{
    if (n > (uint32_t)((unsigned char *)end - at))
        return 1;
    memcpy(bytes, at, n);
    at += n;
    return 0;
}

static int save(unsigned char *delta)
{
    at = delta;
    return tt_save(put, delta + TT_DELTA_BYTES);
}

static int load(unsigned char *delta)
{
    at = delta;
    return tt_load(get, delta + TT_DELTA_BYTES);
}

static void add(uint32_t from)
{
    for (uint32_t i = 0; i < TT_SUPPORT; i++) {
        uint32_t k = (i + from) % TT_SHOTS + i / TT_SHOTS * TT_SHOTS; /* another order of the images of a class */
        tt_add_rows(i / TT_SHOTS, rows, images[k]);
    }
}

/* What the library knows, read row by row. */
static int look(knowledge *found)
{
    begin(NEVER);
    CHECK(save(found->learnt) == TT_OK);
    for (uint32_t i = 0; i < QUERIES; i++)
        CHECK(tt_predict_rows(rows, images[TT_SUPPORT + i], found->logits[i]) >= 0);
    CHECK(!outside && !repeated);
    return 0;
}

static int same(const knowledge *a, const knowledge *b)
{
    return !memcmp(a, b, sizeof *a);
}

/* Pointers and rows give the same bits, and rows of a query come once, in order. */
static int compare(knowledge *first, knowledge *second)
{
    float logits[TT_WAYS];

    tt_init();
    for (uint32_t i = 0; i < TT_SUPPORT; i++)
        CHECK(tt_add_image(i / TT_SHOTS, images[i]) == TT_OK);
    CHECK(tt_adapt(NULL) == TT_OK && !look(first));
    for (uint32_t i = 0; i < QUERIES; i++) {
        begin(NEVER);
        CHECK(tt_predict_rows(rows, images[TT_SUPPORT + i], NULL) == tt_predict(images[TT_SUPPORT + i], logits));
        CHECK(!memcmp(logits, first->logits[i], sizeof logits));
        CHECK(calls == TT_HEIGHT && !repeated && first_row == (TT_LAST_ROW_FIRST ? TT_HEIGHT - 1u : 0u));
    }
    tt_init();
    add(0);
    begin(NEVER);
    CHECK(tt_adapt(NULL) == TT_OK && !outside && !look(second) && same(first, second));
    tt_init();
    add(1);
    CHECK(tt_adapt(NULL) == TT_OK && !look(first) && memcmp(first->learnt, second->learnt, TT_DELTA_BYTES));
    return 0;
}

/* The callback fails in call k: what `known` says was learnt before; `wanted` will be. */
static int fail(uint32_t k, knowledge *known, const knowledge *wanted)
{
    static knowledge found;

    CHECK(load(known->learnt) == TT_OK);
    add(0);
    begin(k);
    CHECK(tt_adapt(NULL) == TT_NO_ROW && calls == k + 1 && !outside);
    if (k < TT_SUPPORT * TT_HEIGHT) { /* the pass over all images that comes first */
        CHECK(!look(&found) && same(&found, known));
    } else {
        CHECK(tt_predict(images[0], NULL) == TT_NOT_READY && save(found.learnt) == TT_NOT_READY);
        CHECK(load(known->learnt) == TT_OK && !look(&found) && same(&found, known));
        add(0);
    }
    begin(NEVER);
    CHECK(tt_adapt(NULL) == TT_OK && !look(&found) && same(&found, wanted));
    return 0;
}

int main(int count, char **files)
{
    static knowledge first, second, found;
    FILE *file = fopen(files[1], "rb");
    uint32_t all;

    CHECK(count == 3 && file && fread(images, sizeof images, 1, file) == 1 && !fclose(file));
    if (compare(&first, &second))
        return 1;
    tt_init();
    add(0);
    begin(NEVER);
    CHECK(tt_adapt(NULL) == TT_OK);
    all = calls;
    for (uint32_t k = 0; k < all; k += (uint32_t)atoi(files[2]))
        if (fail(k, &first, &second))
            return 1;
    for (uint32_t k = 0; k < TT_HEIGHT; k++) {
        begin(k);
        CHECK(tt_predict_rows(rows, images[0], NULL) == TT_NO_ROW && calls == k + 1);
        CHECK(!look(&found) && same(&found, &second));
    }
    printf("%u\n", (unsigned)all);
    return 0;
}
