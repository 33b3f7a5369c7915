/* An echo state network (Jaeger 2001). What is drawn at random was drawn when this was emitted. */
#include "kernels.h"
#include "plan.h"

TABLES
/* state (TT_NEURONS,) after one more row of values (TT_AXES,); `room` is as large as it. */
void tt_reservoir_step(float *state, float *room, const float *values)
{
    for (uint32_t i = 0; i < TT_NEURONS; i++) {
        float drive = bias[i];
        for (uint32_t k = 0; k < TT_AXES; k++)
            drive += inputs[k * TT_NEURONS + i] * values[k];
        for (uint32_t k = 0; k < TT_READ; k++)
            drive += recurrent[k * TT_NEURONS + i] * state[places[k * TT_NEURONS + i]];
        room[i] = TT_KEPT * state[i] + TT_LEAK * tt_tanh(drive);
    }
    memcpy(state, room, sizeof *state * TT_NEURONS);
}
