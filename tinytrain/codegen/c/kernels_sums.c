/* Sums as numpy adds them: halves of long rows apart, and blocks of up to 128 numbers in eight sums. */
#include "kernels.h"

#define WHOLE 128u
#define DEPTH 16 /* halves of halves: enough for 2^20 numbers */

/* Numbers to be added: x[i * step], or with `y` the products x[i] * y[i] in double. */
typedef struct {
    const float *x, *y;
    uint32_t step;
} terms;

static double term(const terms *t, uint32_t i)
{
    return t->y ? (double)t->x[i] * (double)t->y[i] : (double)t->x[i * t->step];
}

/* a + b in the precision of the sum. A sum of two floats that is rounded to double and then to float is
 * rounded correctly. */
static double plus(const terms *t, double a, double b)
{
    return t->y ? a + b : (double)(float)(a + b);
}

static double block(const terms *t, uint32_t first, uint32_t n)
{
    double r[8], total = 0.0;
    uint32_t i;

    if (n < 8) {
        for (i = 0; i < n; i++)
            total = i ? plus(t, total, term(t, first + i)) : term(t, first);
        return total;
    }
    for (i = 0; i < 8; i++)
        r[i] = term(t, first + i);
    for (; i < n - n % 8; i++)
        r[i % 8] = plus(t, r[i % 8], term(t, first + i));
    total = plus(t, plus(t, plus(t, r[0], r[1]), plus(t, r[2], r[3])),
                 plus(t, plus(t, r[4], r[5]), plus(t, r[6], r[7])));
    for (; i < n; i++)
        total = plus(t, total, term(t, first + i));
    return total;
}

/* Parts that are still to be added lie on a stack of their own; a part that is done waits for its other half. */
static double pairwise(const terms *t, uint32_t n)
{
    uint32_t sizes[DEPTH], first = 0;
    double sums[DEPTH], total;
    int done[DEPTH], top = 0;

    sizes[0] = n;
    done[0] = 1; /* nothing comes after it */
    for (;;) {
        while (sizes[top] > WHOLE) { /* the first half first */
            uint32_t half = sizes[top] / 2u;
            half -= half % 8u;
            sizes[top + 1] = half;
            done[top + 1] = 0;
            sizes[top] -= half; /* what is left for the second half */
            top++;
        }
        total = block(t, first, sizes[top]);
        first += sizes[top];
        while (done[top]) { /* a second half: its first one waits below */
            if (top == 0)
                return total;
            top--;
            total = plus(t, sums[top], total);
        }
        if (top == 0)
            return total;
        top--;
        sums[top] = total;
        sizes[top + 1] = sizes[top];
        done[top + 1] = 1;
        top++;
    }
}

/* The sum of n numbers, `step` apart. */
float tt_sum(const float *x, uint32_t n, uint32_t step)
{
    terms t;

    t.x = x;
    t.y = NULL;
    t.step = step;
    return (float)pairwise(&t, n);
}

/* The sum of the products of x (n,) and y (n,), in double. */
double tt_dot(const float *x, const float *y, uint32_t n)
{
    terms t;

    t.x = x;
    t.y = y;
    t.step = 1;
    return pairwise(&t, n);
}
