/* A network that learns new classes from a few images each, in one static block of memory.
 *
 *     tt_init();
 *     for every image of every class: tt_add_image(label, pixels);
 *     tt_adapt(progress);
 *     label = tt_predict(pixels, logits);
 *     tt_verdict_of(logits, &verdict);
 *
 * Images that do not lie in memory come row by row: tt_add_rows, tt_predict_rows.
 *
 * Sizes (classes, images of each, height and width) are fixed when the library is emitted: see plan.h.
 * Nothing here takes memory, calls itself, or needs more of the C library than memcpy, memmove, memset and memcmp.
 * One task may use it at a time. */
#include "plan.h"

enum {
    TT_OK = 0,
    /* The adaptation would do harm; the network as it was answers: */
    TT_NO_NUMBER = 1,   /* it ended in NaN or infinity */
    TT_LOSS_ROSE = 2,   /* the loss of training rose */
    TT_LABELS = 3,      /* images do not fit their labels */
    TT_LEFT_OUT = 4,    /* fewer images are recognised without themselves than before, or no more than by guessing */
    /* Nothing was done: */
    TT_BAD_LABEL = -1,  /* a label is not below TT_WAYS */
    TT_FULL = -2,       /* the class has all its TT_SHOTS images */
    TT_INCOMPLETE = -3, /* a class lacks images */
    TT_NOT_READY = -4,  /* nothing was learnt or loaded yet */
    TT_NOT_FINITE = -5, /* the network as it is gives NaN or infinity for the images, or logits hold them */
    TT_BAD_DELTA = -6,  /* not a delta of this network and plan, or a damaged one */
    TT_STORAGE = -7,    /* a callback for storage failed, or there is too little of it */
    TT_ON_TRIAL = -8,   /* what is in use in flash is on trial: see flash.h */
    TT_NO_ROW = -9,     /* a callback for rows failed */
    TT_ARITHMETIC = -10 /* options of the compiler, or flushed subnormal numbers, change sums: see README.md */
};

/* Called after every piece of work: "scores", "features", "training" (then `loss` is its mean), "head". */
typedef void (*tt_progress)(const char *stage, uint32_t done, uint32_t total, float loss);

/* Begin: no images, no classes. */
void tt_init(void);

/* Callback for images: one row, TT_ROW_BYTES into `pixels`; 0 if that went well. `image` is what came with it. It
 * calls nothing of the library. */
typedef int (*tt_rows)(void *image, uint32_t row, uint8_t *pixels);

/* The next image of a class: TT_HEIGHT rows of TT_ROW_BYTES, each pixel TT_CHANNELS bytes. tt_adapt asks for the rows
 * of one image after another, for each image many times, and must get the same bytes each time. Within a pass over an
 * image rows rise, but in int8 those of a turned view go back some rows now and then. Returns TT_OK, TT_BAD_LABEL
 * or TT_FULL. */
int tt_add_rows(uint32_t label, tt_rows rows, void *image);

/* The same of an image in memory, row by row. It is not copied, and must be readable until tt_adapt returns. */
int tt_add_image(uint32_t label, const uint8_t *pixels);

#if TT_MOTION
/* An image is here the TT_CHANNELS features of a recording: tt_add_image(label, (const uint8_t *)features). `values`
 * (rows, TT_AXES) are what the sensor gave, in any unit, 64 rows to TT_MOST_ROWS. Returns TT_OK, TT_NO_ROW for another
 * number of rows, or TT_NOT_FINITE. */
int tt_motion(float *features, const float *values, uint32_t rows);
#endif

#if TT_SOUND
/* An image is here the spectrum of a clip: TT_HEIGHT rows, TT_HOP samples apart, of TT_WIDTH codes. Samples come in
 * pieces of any length, TT_RATE of them a second, after tt_sound_start as the first ones; tt_sound_add returns how many
 * rows became known. The latest TT_HEIGHT rows are kept: tt_predict_rows(tt_sound_row, NULL, logits) names what was
 * just heard, and returns TT_NO_ROW for too short a time. To learn from them, copy each of them by tt_sound_row, which
 * returns 0 if it is there, into memory of yours, and give that to tt_add_image. */
void tt_sound_start(void);
uint32_t tt_sound_add(const int16_t *samples, uint32_t n);
int tt_sound_row(void *unused, uint32_t row, uint8_t *codes);
#endif

/* Learn the classes; `progress` may be NULL. Returns TT_OK, a number above 0 if the adaptation is refused,
 * TT_INCOMPLETE, TT_NOT_FINITE, TT_NO_ROW or TT_ARITHMETIC. It begins with a pass over all images: if a row does not
 * come then, nothing has changed. If one does not come later, what was learnt before is gone and tt_predict returns
 * TT_NOT_READY until tt_adapt, which may be called again with the same images, tt_load or tt_flash_start. */
int tt_adapt(tt_progress progress);

/* The class of an image, from 0 on, or TT_NOT_READY, or TT_NO_ROW, which changes nothing. `logits`, if not NULL, gets
 * TT_WAYS numbers. Each row is asked for once at most, from the first to the last, as a camera gives them; with
 * TT_LAST_ROW_FIRST of plan.h from the last to the first. */
int tt_predict_rows(tt_rows rows, void *image, float *logits);

/* The same of an image in memory. */
int tt_predict(const uint8_t *pixels, float *logits);

enum {
    TT_IDENTIFIED, /* an image of the class that is named, as far as the images of tt_adapt say */
    TT_UNCERTAIN,  /* of one of the classes, but another one than is named more likely than not */
    TT_UNKNOWN     /* of none of the classes */
};

typedef struct {
    uint32_t label;   /* the likeliest class */
    float confidence; /* in it, from 0 to 1: about how often such an answer is right */
    int state;        /* if classes cannot be told from anything else, TT_IDENTIFIED */
} tt_verdict;

/* What TT_WAYS logits of the last tt_adapt, tt_load or tt_flash_start mean. Returns TT_OK, TT_NOT_READY, or
 * TT_NOT_FINITE if they hold NaN or infinity; then `verdict` is as it was. */
int tt_verdict_of(const float *logits, tt_verdict *verdict);

/* Callbacks for storage: `n` bytes one after another, 0 if that went well. */
typedef int (*tt_write)(void *context, const void *bytes, uint32_t n);
typedef int (*tt_read)(void *context, void *bytes, uint32_t n);

/* Write what was learnt: a file that tinytrain on a PC reads as a delta. Returns TT_OK, TT_NOT_READY if no
 * adaptation was kept, or TT_STORAGE. */
int tt_save(tt_write write, void *context);

/* Read what tt_save wrote, or tinytrain adapt, with this network, plan and classes; then tt_predict answers. Returns
 * TT_OK, TT_BAD_DELTA, TT_STORAGE or TT_ARITHMETIC: then nothing is known. */
int tt_load(tt_read read, void *context);

/* Forget images and classes: as after tt_init. */
void tt_reset(void);
