/* An output channel of an int8 layer: its weights as they are now, and how its sums become codes. */
#include "kernels_int8.h"

/* The weights of a channel: those in flash, or what training changed. */
tt_channel tt_channel_of(tt_layer layer, uint32_t channel)
{
    const tt_weights *kept = layer.kept;
    uint32_t low = 0, high = layer.change ? layer.change->count : 0;
    tt_channel found = {NULL, NULL, NULL, 1u, 0, 0};

    while (low < high) { /* among the changed ones, which rise */
        uint32_t middle = (low + high) / 2u, other = (uint32_t)layer.change->channels[middle];
        if (other == channel && layer.change->inputs) {
            found.over = layer.change->weights + middle;
            found.over_step = layer.change->count;
            found.inputs = layer.change->inputs;
            found.rows = layer.change->rows;
            break;
        }
        if (other == channel) {
            found.codes = layer.change->weights + middle;
            found.step = layer.change->count;
            return found;
        }
        if (other < channel)
            low = middle + 1u;
        else
            high = middle;
    }
    found.codes = kept->codes + (kept->depthwise ? channel : channel * kept->fan_in);
    found.step = kept->depthwise ? kept->cout : 1u;
    return found;
}

/* What training added to the code of input inputs[r] of a channel. */
int32_t tt_change_of(tt_channel w, uint32_t r)
{
    return w.over[r * w.over_step] - w.codes[(uint32_t)w.inputs[r] * w.step];
}

/* What the sums of an output channel start with, as its weights and its bias are now. */
int32_t tt_start_of(tt_layer layer, uint32_t channel, tt_channel w)
{
    const tt_weights *kept = layer.kept;
    const float *bias = layer.change && layer.change->bias ? layer.change->bias : kept->bias;
    int32_t total = 0;

    if (!layer.change)
        return kept->start[channel];
    for (uint32_t k = 0; k < kept->fan_in; k++)
        total += w.codes[k * w.step];
    for (uint32_t r = 0; r < w.rows; r++)
        total += tt_change_of(w, r);
    return tt_in_units(bias[channel], kept->unit[channel]) - kept->given * total;
}

tt_scaling tt_scaling_of(const tt_weights *kept, uint32_t channel)
{
    tt_scaling how = {kept->factor[channel], 0, 0, kept->zero, kept->shift[channel], 0};

    if (how.shift > 32) {
        how.right = (uint8_t)(how.shift - 32);
        how.bias = 0x80000000u + (1u << (how.right - 1));
        how.offset = how.zero - ((int32_t)1 << (31 - how.right));
    }
    return how;
}

int32_t tt_large_code(int32_t sum, const tt_scaling *how)
{
    int64_t value = (int64_t)sum * how->factor + ((int64_t)1 << (how->shift - 1)), sign = value < 0 ? -1 : 0;

    value = (((value ^ sign) >> how->shift) ^ sign) + how->zero;
    return (int32_t)(value < -128 ? -128 : value > 127 ? 127 : value);
}
