/* Products in int8 by CMSIS-NN, with -DTT_CMSIS_NN: the same codes. The library is yours to bring, and must be compiled
 * with -DCMSIS_NN_USE_SINGLE_ROUNDING as well. */
#include "kernels_int8.h"

#ifdef TT_CMSIS_NN
#ifndef CMSIS_NN_USE_SINGLE_ROUNDING
#error "compile this file and CMSIS-NN with -DCMSIS_NN_USE_SINGLE_ROUNDING: it rounds twice without"
#endif
#include "arm_nnsupportfunctions.h"
#include "internal.h"
#undef tt_product_codes

void tt_product_by_cmsis(int8_t *y, const int8_t *x, tt_layer layer, uint32_t rows)
{
    static int32_t shifts[TT_WIDEST]; /* to the left, of a product whose 31 lower bits fall away */
    const tt_weights *kept = layer.kept;
    int32_t fan_in = kept->fan_in, cout = kept->cout;

    if (layer.change) { /* its weights do not lie in one piece */
        tt_product_codes(y, x, layer, rows);
        return;
    }
    for (int32_t c = 0; c < cout; c++)
        shifts[c] = 31 - kept->shift[c];
    arm_nn_mat_mult_nt_t_s8(x, kept->codes, kept->start, y, kept->factor, shifts, (int32_t)rows, cout, fan_in, 0,
                            kept->zero, -128, 127, cout, fan_in);
}
#endif
