/* Steps that compute a part of the images: their losses in earlier steps choose the pseudo-queries. */
#include "internal.h"

/* No image of losses (TT_SUPPORT,) has been a pseudo-query yet. */
void tt_start_losses(float *losses)
{
    for (uint32_t i = 0; i < TT_SUPPORT; i++)
        losses[i] = tt_infinity();
}

/* Whether image a comes before image b: higher losses first, of equals the first one if classes take turns. */
static int is_harder(const float *losses, uint32_t a, uint32_t b)
{
    if (losses[a] != losses[b])
        return losses[a] > losses[b];
    return tt_turn_of(a) < tt_turn_of(b);
}

/* rows (keep,) = the places of those images of the step that have the highest latest losses, in rising order. */
void tt_choose_queries(uint16_t *rows, const float *losses, uint32_t keep)
{
    const uint16_t *shown = tt_shown[tt_step - 1];

    for (uint32_t i = 0; i < TT_SHOWN; i++) {
        uint32_t before = 0;
        for (uint32_t k = 0; k < TT_SHOWN; k++)
            before += (uint32_t)is_harder(losses, shown[k], shown[i]);
        if (before < keep)
            *rows++ = (uint16_t)i;
    }
}

/* loss (count,) of the images at the places `rows` are their latest. */
void tt_remember_losses(float *losses, const uint16_t *rows, const float *loss, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++)
        losses[tt_shown[tt_step - 1][rows[k]]] = loss[k];
}

/* Mean of the losses that are known. */
float tt_mean_loss(const float *losses)
{
    double total = 0.0;
    uint32_t known = 0;

    for (uint32_t i = 0; i < TT_SUPPORT; i++)
        if (losses[i] != tt_infinity()) {
            total += (double)losses[i];
            known++;
        }
    return (float)(total / (double)known);
}
