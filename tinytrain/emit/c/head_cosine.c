/* The head of the adapted network: cosine prototypes. */
#include "internal.h"

void tt_fit_result(const tt_head *head)
{
    tt_fit_cosine(head, 1);
}

float tt_own_logit(const float *mean, const float *e, uint32_t images)
{
    (void)images; /* a direction has none */
    return (float)tt_dot(mean, e, TT_EMBEDDING) / tt_sqrt((float)tt_dot(mean, mean, TT_EMBEDDING) + 1e-12f);
}

void tt_keep_result(void)
{
}
