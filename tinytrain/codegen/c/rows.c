/* Rows of images, from the functions that bring them. A pass reads one image at a time; the last TT_HELD_ROWS rows are
 * held, so that no row of an image as it is, or of one that is only moved, is asked for twice in a pass. */
#include "internal.h"

#include <string.h>

int tt_row_failed;

static const tt_image *shown;          /* what a pass reads */
static const tt_augmentation *changed; /* how; NULL: as it is */
static uint8_t *held;                  /* (TT_HELD_ROWS, TT_ROW_BYTES): row r at r % TT_HELD_ROWS */
static int held_row[TT_HELD_ROWS];     /* the row at each place, -1: none */

/* A row of the image, until TT_HELD_ROWS others were asked for. After a failure nothing more is asked for. */
static const uint8_t *row_of_image(int row)
{
    uint32_t place = (uint32_t)row % TT_HELD_ROWS;
    uint8_t *pixels = held + place * TT_ROW_BYTES;

    if (held_row[place] != row && !tt_row_failed)
        tt_row_failed = shown->rows(shown->from, (uint32_t)row, pixels) != 0;
    held_row[place] = row;
    return pixels;
}

void tt_show(const tt_image *image, const tt_augmentation *how, uint8_t *rows)
{
    shown = image;
    changed = how;
    held = rows;
    for (uint32_t k = 0; k < TT_HELD_ROWS; k++)
        held_row[k] = -1;
}

void tt_show_rows(uint8_t *y, int first, int rows)
{
    if (changed) {
        tt_augment(y, row_of_image, changed, shown->total,
                   (tt_part_of){TT_HEIGHT, TT_WIDTH, TT_CHANNELS, first, rows});
        return;
    }
    for (int k = 0; k < rows; k++) {
        int i = TT_LAST_ROW_FIRST ? rows - 1 - k : k;
        memcpy(y + (uint32_t)i * TT_ROW_BYTES, row_of_image(first + i), TT_ROW_BYTES);
    }
}

int tt_measure_images(uint8_t *rows)
{
    for (tt_image *image = tt_images; image < tt_images + TT_SUPPORT; image++) {
        tt_show(image, NULL, rows);
        image->total = TT_SOUND ? 255 : 0;
        for (int i = 0; i < (int)TT_HEIGHT; i++) {
            const uint8_t *pixels = row_of_image(i);
            if (tt_row_failed)
                return TT_NO_ROW;
            for (uint32_t k = 0; k < TT_ROW_BYTES; k++)
                if (!TT_SOUND)
                    image->total += pixels[k];
                else if (pixels[k] < image->total)
                    image->total = pixels[k];
        }
    }
    return TT_OK;
}
