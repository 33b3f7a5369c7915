/* What the files of the library share. */
#ifndef TT_INTERNAL_H
#define TT_INTERNAL_H

#include <stddef.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "numbers of a delta are little-endian, as they lie in memory"
#endif

#include "tinytrain.h"

#if TT_INT8
#include "kernels_int8.h"
typedef int8_t tt_feature;
typedef int8_t tt_parameter;
#else
#include "kernels_float32.h"
typedef float tt_feature;
typedef float tt_parameter;
#endif

/* The one block of memory; offsets into it are the macros AT_... of plan.h. */
typedef union {
    uint8_t bytes[TT_ARENA_BYTES];
    uint64_t aligned;
} tt_memory;

/* Pointers into memory from `base`, `at` bytes on. */
#define F(base, at) ((float *)(void *)((base) + (at)))
#define I8(base, at) ((int8_t *)(void *)((base) + (at)))
#define I16(base, at) ((int16_t *)(void *)((base) + (at)))
#define I32(base, at) ((int32_t *)(void *)((base) + (at)))
#define U16(base, at) ((uint16_t *)(void *)((base) + (at)))
#define U8(base, at) ((base) + (at))

/* An image: what brings its rows, and the sum of its values, of a clip the least of them: see tt_measure_images. */
typedef struct {
    tt_rows rows;
    void *from;
    int32_t total;
} tt_image;

#if TT_INT8 && defined(TT_CMSIS_NN) /* kernels_int8_cmsis.c */
void tt_product_by_cmsis(int8_t *y, const int8_t *x, tt_layer layer, uint32_t rows);
#define tt_product_codes tt_product_by_cmsis
#endif

/* One view of one image: 0 is the image itself, others are changed at random. */
typedef struct {
    int16_t view;
    uint16_t image;
} tt_item;

/* Where one pass has its memory. */
typedef struct {
    uint8_t *work;        /* values inside of a pass */
    tt_feature *features; /* input of its first layer */
    uint8_t *image;       /* in float32 what a pass reads: an image as it is or changed */
    uint8_t *rows;        /* (TT_HELD_ROWS, TT_ROW_BYTES) of the caller's image */
    float *gradient;      /* of the embedding */
    int32_t *label;       /* of the image, for Fisher information */
} tt_unit;

/* tinytrain.c */
extern tt_memory tt_arena;
extern tt_image tt_images[TT_SUPPORT]; /* class by class */
extern uint32_t tt_step;               /* from 1 */
extern float tt_rates[TT_SLICES];      /* learning rates of the step */
int tt_has_learnt(void);               /* something that can be saved */
extern int32_t tt_channels[TT_CHOSEN]; /* trained columns, layer by layer */

/* rows.c; `rows` is room for those that are held */
extern int tt_row_failed;                                                       /* since the call began */
void tt_show(const tt_image *image, const tt_augmentation *how, uint8_t *rows); /* let a pass read it */
void tt_show_rows(uint8_t *y, int first, int rows);                             /* of what is shown */
int tt_measure_images(uint8_t *rows); /* read all of them once, for their totals: TT_OK or TT_NO_ROW */

/* network.c */
extern const tt_weights tt_kept[TT_LAYERS];
#if TT_INT8
extern const int16_t tt_pixel_codes[256 * TT_CHANNELS];
#else
extern const float tt_mean[TT_CHANNELS], tt_scale[TT_CHANNELS];
#endif

/* draws.c */
#if TT_MEASURED
extern const tt_augmentation tt_probe_views[TT_SUPPORT];
#endif
#if TT_MOTION
extern const float tt_noise[][TT_CHANNELS];
#endif
extern const tt_augmentation tt_views[TT_VIEWS][TT_SUPPORT];
extern const tt_augmentation tt_head_views[TT_HEAD_VIEWS][TT_SUPPORT];
extern const uint16_t tt_shown[TT_STEPS][TT_SHOWN];
extern const uint16_t tt_shown_views[TT_STEPS][TT_SHOWN];
extern const uint16_t tt_sampled[TT_STEPS][TT_SAMPLED];
extern const float tt_divisors[TT_STEPS][TT_WAYS];
#if TT_INT8
extern const uint32_t tt_rounding_seed;
#endif
extern const float tt_rate_factors[TT_STEPS];
extern const float tt_full_rates[TT_SLICES];
extern const int32_t tt_starts[TT_SLICES + 1];

/* adapt.c: the stages of the program */
#if TT_MEASURED
void tt_probe_stage_prototypes(void);
void tt_probe_stage_fisher(void);
#endif
void tt_choose_channels(void);
void tt_train_stage_cache(void);
void tt_train_stage_start(void);
void tt_train_stage_first_prototypes(void);
void tt_train_stage_loss(void);
void tt_train_stage_gradients(void);
void tt_train_stage_update(void);
void tt_use_changes(int on);                        /* trained parameters lie over those in flash */
void tt_embed(int16_t view, int after);             /* into TT_ROWS, in turn of classes */
const float *tt_embed_image(const tt_image *image); /* (TT_EMBEDDING,) until the next call */

/* A linear head: logits are weights times the embedding of length 1, plus offsets. */
typedef struct {
    float *weights, *offsets, *means; /* (TT_WAYS, TT_EMBEDDING), (TT_WAYS,), (TT_WAYS, TT_EMBEDDING) */
} tt_head;
typedef void (*tt_keep)(uint32_t batch);

#define TT_ROWS F(tt_arena.bytes, AT_EMBEDDINGS_OF_SUPPORT) /* (TT_SUPPORT, TT_EMBEDDING) */
#define TT_COUNTS F(tt_arena.bytes, AT_CLASS_COUNTS)        /* (TT_WAYS,) */

/* head.c */
void tt_class_means(float *means, int after, int first, tt_keep keep);
void tt_clean_means(float *means); /* of the embeddings in TT_ROWS */
void tt_fit_cosine(const tt_head *head, int after);
int tt_head_is_finite(const tt_head *head);
float tt_cosine_logit(const float *mean, const float *e); /* of e for a class with this mean */
void tt_logits(const tt_head *head, const float *embedding, float length, float *logits);
uint32_t tt_likeliest(const float *logits);

/* head_result.c: the head of the adapted network. After it is fitted, TT_ROWS has the embeddings of the images
 * as they are, of length 1. */
void tt_fit_result(const tt_head *head);
float tt_own_logit(const float *mean, const float *e, uint32_t images); /* of e for a class with this mean */
/* Logits of e, of which that of its class is by tt_own_logit, become those of a head that has not seen e at all. */
void tt_as_unseen(const tt_head *head, float *logits, const float *e, int32_t label);
void tt_keep_result(void); /* for the delta; it takes the bytes of the cache */

/* queries.c: latest losses of the images */
void tt_start_losses(float *losses);
void tt_choose_queries(uint16_t *rows, const float *losses, uint32_t keep);
void tt_remember_losses(float *losses, const uint16_t *rows, const float *loss, uint32_t count);
float tt_mean_loss(const float *losses);

/* What is known of a head beside its values, in the order of a delta. A number is digits / 10^6 * 10^exponent, with 7
 * digits: as a delta has it, so that loading what was saved changes no verdict. */
typedef struct {
    int32_t digits, exponent;
} tt_number;
enum {
    TT_TEMPERATURE,
    TT_ACCURACY, /* for images that it has not seen */
    TT_SCALE,    /* of energies; 0 if the head has no limit */
    TT_LEAST,    /* energy of an image of the classes */
    TT_FACTS
};
typedef struct {
    tt_number number[TT_FACTS];
} tt_facts;

extern tt_facts tt_known; /* of the head that answers */

/* calibration.c */
tt_facts tt_calibrate(const tt_head *head, int after);
double tt_confidence(const float *logits, double temperature); /* in the likeliest class */
double tt_energy(const float *logits, double scale);

/* guard.c: images that are right, of those that can be left out of their classes */
typedef struct {
    uint32_t right, known;
} tt_left_out;
typedef struct {
    int finite;         /* all values of the result, and all losses */
    double first, last; /* losses */
    double label_fit;
    tt_left_out before, after;
} tt_evidence;
tt_left_out tt_leave_one_out(const float *means); /* of the embeddings in TT_ROWS, of length 1 */
double tt_label_fit(uint32_t known);              /* of the images that were left out last */
int tt_judge(const tt_evidence *found);           /* TT_OK, or why not */

/* sha256.c */
typedef struct {
    uint32_t state[8], bytes;
    uint8_t block[64];
} tt_sha256;
void tt_sha256_begin(tt_sha256 *sha);
void tt_sha256_add(tt_sha256 *sha, const void *bytes, uint32_t n);
void tt_sha256_end(tt_sha256 *sha, uint8_t *text);

/* delta.c, delta_read.c, and delta_table.c: an array of a delta, and the limit of the indices that it holds, 0 for
 * values */
typedef struct {
    void *memory; /* NULL: known without it */
    uint32_t count;
    int32_t limit;
    uint8_t bytes; /* of a number: 4, or 1 of codes */
} tt_part;
extern const uint8_t tt_delta_header[];
extern const uint32_t tt_delta_header_bytes, tt_delta_header_end; /* with and without spaces at its end */
extern const uint32_t tt_delta_sum_at, tt_delta_facts_at[TT_FACTS], tt_delta_facts_end[TT_FACTS],
    tt_delta_limit_at, tt_delta_limit_end, tt_delta_report_at, tt_delta_behind_report;
extern const double tt_lead_fractions[2], tt_margins[2]; /* of the head before and after training */
extern const float tt_temperatures[TT_TEMPERATURES];
extern const tt_part tt_delta_parts[TT_PARTS];
#define TT_SUM_BYTES 64u
tt_number tt_number_of(double x);
double tt_value_of(tt_number x);
int32_t tt_without_memory(const tt_part *part, uint32_t i);
int tt_write_delta(tt_write write, void *context);
int tt_read_delta(tt_read read, void *context);
int tt_delta_is_finite(void);

/* The class of an image. */
static inline int32_t tt_label_of(uint32_t image)
{
    return (int32_t)(image / TT_SHOTS);
}

/* The image at a place if classes take turns. */
static inline uint16_t tt_image_at(uint32_t place)
{
    return (uint16_t)(place % TT_WAYS * TT_SHOTS + place / TT_WAYS);
}

/* The place of an image if classes take turns. */
static inline uint32_t tt_turn_of(uint32_t image)
{
    return image % TT_SHOTS * TT_WAYS + image / TT_SHOTS;
}

/* For tests: what an adaptation computes on the way. */
#ifdef TT_TRACE
void tt_trace(const char *name, const void *values, uint32_t nbytes);
#else
#define tt_trace(name, values, nbytes) ((void)0)
#endif

#endif
