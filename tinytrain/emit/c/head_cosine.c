/* The head of the adapted network: cosine prototypes. */
#include "internal.h"

void tt_fit_result(const tt_head *head)
{
    tt_fit_cosine(head, 1);
}
